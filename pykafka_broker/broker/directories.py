"""Keeps the metadata and the log directories of this node in line (KIP-858).

Rule: after every start, creation, move and failure the metadata names the directory of each log here, and the broker's
directories that are online; partitions in the others have no leader. So a log that is out of reach is waited for and
never begun anew. If the metadata can't be written the next start does it.
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

from pykafka_broker.broker.metadata_source import LocalMetadata
from pykafka_broker.broker.replicas import Replicas
from pykafka_broker.clock import Clock
from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.image import MetadataDelta, PartitionImage, TopicImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.replicas import (
    Elections,
    assignment,
    directories_change,
    partition_changes,
)
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import LOST
from pykafka_broker.log.manager import LogManager

if TYPE_CHECKING:
    from pykafka_broker.log.flush import Waiter
    from pykafka_broker.log.log_directory import LogDirectory, TopicPartition

logger = logging.getLogger(__name__)

_RECORDS_PER_BATCH = 5_000


class DirectoryKeeper:
    """Tells the metadata of the directories of one node."""

    def __init__(
        self,
        node_id: int,
        metadata: LocalMetadata,
        logs: LogManager,
        replicas: Replicas,
        clock: Clock,
        *,
        alone: bool = True,
    ) -> None:
        self._alone = alone
        self._node_id = node_id
        self._metadata = metadata
        self._logs = logs
        self._replicas = replicas
        self._clock = clock
        self._started = False
        self._outdated = False  # the directories are others than the metadata was told

    # -- start

    def start(self) -> None:
        """The logs are as the metadata wants them; now tell it where they are. Alone, this node leads all of them."""
        crashed = any(not each.clean for each in self._logs.partition_directories)
        self._started, self._outdated = True, False
        self._commit_changes(Elections(leaderless=self._alone, all_partitions=self._alone and crashed))
        self._replicas.on_made = self.tell_place
        self._catch_up()

    # -- changes

    def follow(self, delta: MetadataDelta) -> None:
        """After every change: tell where the new logs are."""
        if not self._started:
            return
        if delta.new_partitions:
            self._tell_places(delta)
        if METADATA_VERSION in delta.features:  # the new one may be the first that knows directories
            self.changed()

    def _tell_places(self, delta: MetadataDelta) -> None:
        if not self._metadata.controller.partition_record_version():
            return
        records = []
        where, node_id = self._logs.directory_of, self._node_id
        for topic, partition in delta.new_partitions:
            if topic.id not in self._metadata.image.topics_by_id or node_id not in partition.replicas:
                continue
            directory = where((topic.name, partition.partition))
            if directory is not None and partition.directory_of(node_id) != directory.id:
                records.append(assignment(self._metadata.controller, topic, partition, directory.id))
        self._commit(records)

    def tell_place(self, key: TopicPartition) -> None:
        """The log was moved, or made after all; or it was about to be moved and stays where it is."""
        if not self._started:
            return
        directory = self._logs.directory_of(key)
        if directory is not None:
            self._assign(key, directory.id)

    def announce_move(self, key: TopicPartition, target: LogDirectory, waiter: Waiter) -> None:
        """The log is going to `target`: known for certain before it is there, it is not begun anew if a crash comes in
        the middle and `target` is away afterwards."""
        if not self._started:
            waiter(None)
            return
        if not self._assign(key, target.id):
            waiter(OSError(errno.EIO, "the change of its directory was refused"))
            return
        self._logs.flush(self._metadata.log.log, self._clock.now, waiter)

    def _assign(self, key: TopicPartition, directory_id: bytes) -> bool:
        """Whether the metadata, as far as it knows directories, names that one."""
        metadata, node_id = self._metadata, self._node_id
        partition = metadata.image.partition(*key)
        if partition is None or not metadata.controller.partition_record_version():
            return True
        if partition.directory_of(node_id) != directory_id:
            self._commit([assignment(metadata.controller, metadata.image.topics[key[0]], partition, directory_id)])
            partition = metadata.image.partition(*key)
        return partition is not None and partition.directory_of(node_id) == directory_id

    def changed(self) -> None:
        """One more is offline, or others than before are cordoned. This may be noticed in the middle of a change."""
        self._outdated = True
        if self._started:
            self._metadata.soon(self._catch_up)

    def _catch_up(self) -> None:
        while self._outdated:
            self._outdated = False
            self._commit_changes(Elections())

    def _commit_changes(self, elections: Elections) -> None:
        logs, controller = self._logs, self._metadata.controller
        online = [directory.id for directory in logs.partition_directories if directory.online]
        cordoned = [
            directory.id for directory in logs.partition_directories if logs.directory_map.is_cordoned(directory)
        ]
        records = list(partition_changes(controller, self._locate, elections))
        if controller.partition_record_version():
            records += directories_change(controller, online, cordoned)
        self._commit(records)

    def _locate(self, topic: TopicImage, partition: PartitionImage) -> bytes:
        logs, key = self._logs, (topic.name, partition.partition)
        place = logs.directory_map.holder(key, partition.directory_of(self._node_id))
        move = logs.moves.get(key)
        return move.target.id if move is not None and move.announced and place > LOST else place

    def _commit(self, records: list[ApiMessageAndVersion]) -> None:
        try:
            for start in range(0, len(records), _RECORDS_PER_BATCH):
                self._metadata.commit(records[start : start + _RECORDS_PER_BATCH])
        except ApiError as error:
            logger.error("Could not tell the metadata where the logs are: %s", error)
