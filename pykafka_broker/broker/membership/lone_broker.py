"""The broker of a node alone, as the controller in its process knows it.

Rule: no other node can fence this broker or lead its partitions, so the broker sends no heartbeats and needs no
controlled shutdown. It is registered unfenced, and leads the partitions whose logs are in reach
(`cluster/partition_change.py`). After every start and failure the metadata names the directory of each log and the
online directories; partitions in offline directories have no leader. So a log that is out of reach is waited for, and
no empty log takes its place. If the metadata can't be written, the next start tries again.

Only `Broker` reads this module: a broker of a cluster imports `lifecycle.py` in its place, and no elections.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pykafka_broker.broker.metadata.metadata_source import MetadataLeader
from pykafka_broker.cluster.bootstrap import registration
from pykafka_broker.cluster.image import PartitionImage, TopicImage
from pykafka_broker.cluster.partition_change import Elections, directories_change, partition_changes
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import LOST
from pykafka_broker.log.manager import LogManager

logger = logging.getLogger(__name__)

_RECORDS_PER_BATCH = 5_000


class LoneBroker:
    """The registration, the elections and the log directories of a node alone."""

    def __init__(self, metadata: MetadataLeader, logs: LogManager) -> None:
        self._metadata = metadata
        self._logs = logs
        self._started = False
        self._outdated = False  # whether the metadata has an earlier state of the directories

    def register(self, endpoints: Sequence[tuple[str, str, int, str]], new_uuid: Callable[[], bytes]) -> None:
        """Register the broker, unfenced: (listener, host, port, security protocol) each."""
        metadata = self._metadata
        record = registration(
            metadata.controller,
            epoch=metadata.applied_offset + 1,
            incarnation_id=new_uuid(),
            endpoints=endpoints,
            log_dirs=self._online(),
        )
        metadata.commit([record])

    def start(self) -> None:
        """Become the leader of all partitions on disk, after the logs have followed the metadata."""
        crashed = any(not each.clean for each in self._logs.partition_directories)
        self._started, self._outdated = True, False
        self._commit_changes(Elections(leaderless=True, all_partitions=crashed))
        self._catch_up()

    def directories_changed(self) -> None:
        """Tell the metadata which directories are online and cordoned. May be called in the middle of a change."""
        self._outdated = True
        if self._started:
            self._metadata.soon(self._catch_up)

    def raise_epochs(self, leader_epoch: int, producer_id: int) -> None:
        """Begin with the epochs and ids of the broker before, whose clients stay connected.

        Args:
            leader_epoch: the highest that clients know; they ignore lower epochs.
            producer_id: the first unused producer id.
        """
        from pykafka_broker.cluster.image_records import outrunning_records

        metadata, controller = self._metadata, self._metadata.controller
        version = controller.partition_record_version()
        metadata.commit(outrunning_records(metadata.image, leader_epoch, producer_id, version))
        controller.first_leader_epoch = leader_epoch

    def _online(self) -> list[bytes]:
        return [directory.id for directory in self._logs.partition_directories if directory.online]

    def _catch_up(self) -> None:
        while self._outdated:
            self._outdated = False
            self._commit_changes(Elections())

    def _commit_changes(self, elections: Elections) -> None:
        logs, controller = self._logs, self._metadata.controller
        is_cordoned = logs.directory_map.is_cordoned
        cordoned = [directory.id for directory in logs.partition_directories if is_cordoned(directory)]
        records = list(partition_changes(controller, self._locate, elections))
        if controller.partition_record_version():
            records += directories_change(controller, self._online(), cordoned)
        try:
            for start in range(0, len(records), _RECORDS_PER_BATCH):
                self._metadata.commit(records[start : start + _RECORDS_PER_BATCH])
        except ApiError as error:
            logger.error("Could not tell the metadata where the logs are: %s", error)

    def _locate(self, topic: TopicImage, partition: PartitionImage) -> bytes:
        logs, key = self._logs, (topic.name, partition.partition)
        holder = logs.directory_map.holder(key, partition.directory_of(self._metadata.controller.node_id))
        move = logs.moves.get(key)
        return move.target.id if move is not None and move.announced and holder > LOST else holder
