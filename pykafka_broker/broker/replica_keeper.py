"""Keeps the metadata and the log directories of this node in line (KIP-858).

Rule: after every start, creation, move and failure the metadata names the directory of each log here, and the broker's
directories that are online; partitions in the others have no leader. So a log that is out of reach is waited for and
never begun anew. If the metadata can't be written the next start does it.
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.image import MetadataDelta, PartitionImage, TopicImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.replicas import (
    LOST,
    Elections,
    assignment,
    directories_change,
    partition_changes,
)
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.errors import ApiError
from pykafka_broker.log.loading import ZERO_ID

if TYPE_CHECKING:
    from pykafka_broker.broker.metadata_publisher import MetadataPublisher
    from pykafka_broker.log.flush import Waiter
    from pykafka_broker.log.log_directory import LogDirectory, TopicPartition

logger = logging.getLogger(__name__)

_RECORDS_PER_BATCH = 5_000


class ReplicaKeeper:
    def __init__(self, publisher: MetadataPublisher) -> None:
        self._publisher = publisher
        self._broker = publisher.broker
        self._started = False
        self._busy = False
        self._outdated = False  # directories went offline since the metadata was told

    # -- start

    def start(self, loaded: MetadataDelta, now: int) -> None:
        """Bring the logs in line with the metadata and the other way round. `loaded` is what the log has told."""
        logs = self._broker.logs
        logs.placement.settle(self._broker.new_uuid, self._assigned, self._publisher.image.topic_id)
        self._match_logs(loaded, now)
        crashed = any(not each.clean for each in logs.partition_directories)
        self._started = True
        self._commit_changes(Elections(leaderless=True, all_partitions=crashed))
        logs.on_moving, logs.on_moved = self.announce_move, self.tell_place
        self._catch_up()

    def _match_logs(self, loaded: MetadataDelta, now: int) -> None:
        """A crash may fall between a record and what follows from it: make the logs that are missing, and take away
        those of topics that were deleted."""
        logs, topics, node_id = self._broker.logs, self._publisher.image.topics, self._broker.node_id
        deleted = {topic.name for topic in loaded.deleted}
        away = [
            f"{topic.name}-{number}"
            for topic in topics.values()
            for number, partition in topic.partitions.items()
            if (topic.name in deleted or not logs.exists(topic.name, number))
            and node_id in partition.replicas
            and not self._make(topic, partition, now, made_again=topic.name in deleted)
        ]
        logs.name_folders()
        if away:
            logger.error("Out of service, since there is no log of them in reach: %s", ", ".join(sorted(away)))
        strays = []
        for name, number in list(logs.partitions()):
            known = name in topics and number in topics[name].partitions
            if known or name == CLUSTER_METADATA:
                continue
            if name in deleted:
                logs.delete(name, number, now)
            else:
                strays.append(f"{name}-{number}")
        if strays:
            logger.warning("Not in the metadata and left alone: %s", ", ".join(sorted(strays)))

    def _make(self, topic: TopicImage, partition: PartitionImage, now: int, *, made_again: bool) -> bool:
        """Whether there is a log now. `made_again`: there was an earlier topic of that name."""
        assigned, number = partition.directory_of(self._broker.node_id), partition.partition
        logs = self._broker.logs
        try:
            if made_again and logs.exists(topic.name, number):
                log = logs.get(topic.name, number)
                if log.topic_id == ZERO_ID and not log.recovery_point:
                    # A synced record has a synced id beside it. This may be what a power cut left of the earlier topic.
                    logs.delete(topic.name, number, now)
            logs.make(topic.name, number, topic.id, now, directory_id=assigned, new=False)
        except ApiError as error:
            logger.debug("%s-%d: %s", topic.name, number, error)
            return False
        return True

    def _assigned(self, key: TopicPartition) -> bytes | None:
        """The directory that the metadata names, None for a partition that it does not know."""
        partition = self._publisher.image.partition(*key)
        node_id = self._broker.node_id
        return None if partition is None or node_id not in partition.replicas else partition.directory_of(node_id)

    # -- changes

    def follow(self, delta: MetadataDelta) -> None:
        """After every commit: tell where the new logs are, and what could not be told while it was going on."""
        if not self._started or self._busy:
            return
        if delta.new_partitions:
            self._tell_places(delta)
        if METADATA_VERSION in delta.features:  # the new one may be the first that knows directories
            self._outdated = True
        self._catch_up()

    def _tell_places(self, delta: MetadataDelta) -> None:
        if not self._publisher.controller.partition_record_version():
            return
        records = []
        where, node_id = self._broker.logs.directory_of, self._broker.node_id
        for topic, partition in delta.new_partitions:
            if topic.id not in self._publisher.image.topics_by_id or node_id not in partition.replicas:
                continue
            directory = where((topic.name, partition.partition))
            if directory is not None and partition.directory_of(node_id) != directory.id:
                records.append(assignment(self._publisher.controller, topic, partition, directory.id))
        self._commit(records)

    def tell_place(self, key: TopicPartition) -> None:
        """The log was moved, or made after all; or it was about to be moved and stays where it is."""
        directory = self._broker.logs.directory_of(key)
        if directory is not None:
            self._assign(key, directory.id)

    def announce_move(self, key: TopicPartition, target: LogDirectory, waiter: Waiter) -> None:
        """The log is going to `target`: known for certain before it is there, it is not begun anew if a crash comes in
        the middle and `target` is away afterwards."""
        if not self._assign(key, target.id):
            waiter(OSError(errno.EIO, "the change of its directory was refused"))
            return
        publisher = self._publisher
        self._broker.logs.flush(publisher.log.log, max(publisher.now, self._broker.logs.now), waiter)

    def _assign(self, key: TopicPartition, directory_id: bytes) -> bool:
        """Whether the metadata, as far as it knows directories, names that one."""
        publisher, node_id = self._publisher, self._broker.node_id
        partition = publisher.image.partition(*key)
        if partition is None or not publisher.controller.partition_record_version():
            return True
        if partition.directory_of(node_id) != directory_id:
            self._commit([assignment(publisher.controller, publisher.image.topics[key[0]], partition, directory_id)])
            self._catch_up()
            partition = publisher.image.partition(*key)
        return partition is not None and partition.directory_of(node_id) == directory_id

    def directories_changed(self) -> None:
        """One more is offline, or others than before are cordoned. This may come in the middle of a commit."""
        self._outdated = True
        if self._started and not self._publisher.committing:
            self._catch_up()

    def _catch_up(self) -> None:
        while self._outdated:
            self._outdated = False
            self._commit_changes(Elections())

    def _commit_changes(self, elections: Elections) -> None:
        publisher, logs = self._publisher, self._broker.logs
        controller = publisher.controller
        online = [directory.id for directory in logs.partition_directories if directory.online]
        cordoned = [directory.id for directory in logs.partition_directories if logs.placement.is_cordoned(directory)]
        records = list(partition_changes(controller, self._locate, elections))
        if controller.partition_record_version():
            records += directories_change(controller, online, cordoned)
        self._commit(records)

    def _locate(self, topic: TopicImage, partition: PartitionImage) -> bytes:
        logs, key = self._broker.logs, (topic.name, partition.partition)
        place = logs.placement.holder(key, partition.directory_of(self._broker.node_id))
        move = logs.moves.get(key)
        return move.target.id if move is not None and move.announced and place > LOST else place

    def _commit(self, records: list[ApiMessageAndVersion]) -> None:
        self._busy = True
        now = max(self._publisher.now, self._broker.logs.now)
        try:
            for start in range(0, len(records), _RECORDS_PER_BATCH):
                self._publisher.commit(records[start : start + _RECORDS_PER_BATCH], now)
        except ApiError as error:
            logger.error("Could not tell the metadata where the logs are: %s", error)
        finally:
            self._busy = False
