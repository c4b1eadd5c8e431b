"""The only place where a PartitionChangeRecord is made (Kafka: PartitionChangeBuilder).

Rule: a caller says which replicas it wants, which of them in sync, which directories. The leader, the replicas eligible
to lead (KIP-966) and the end of a reassignment (KIP-455) follow from that and are worked out here alone. The record has
only changes, and there is none without a change.

For a node that is its own controller, the logs on disk decide (KIP-858). The metadata learns the directory of each log;
a partition whose directory is offline gets no leader; and the node leads a partition without a leader again if the log
is there. When such a node starts, it takes all other brokers out of every ISR at once. Kafka's controller comes to the
same result by waiting: a broker that sends no heartbeat within `broker.session.timeout.ms` is fenced, and taken out of
every ISR.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from pykafka_broker.cluster.controller import Controller
from pykafka_broker.cluster.features import ELR_VERSION, METADATA_VERSION
from pykafka_broker.cluster.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from pykafka_broker.cluster.placement import directory_of
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.config.topic import TopicConfig, readable_overrides
from pykafka_broker.log.checkpoints import LOST, MIGRATING, is_reserved
from pykafka_broker.protocol.stored.broker_registration_change_record import BrokerRegistrationChangeRecord
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord

RECOVERED, RECOVERING = 0, 1  # leaderRecoveryState; RECOVERING: the leader was elected without being in sync

_ELR_RECORD = 2  # the first version of a PartitionChangeRecord with eligible replicas
# From this metadata.version on, a smaller ISR is no reason for a new leader epoch.
_EPOCH_OUTLIVES_SHRINK_FROM = 12

T = TypeVar("T")
Acceptable = Callable[[int], bool]  # whether a broker may lead, apart from the state of its log


class Election(Enum):
    """The rule for choosing a leader.

    ONLINE keeps the present leader if possible. PREFERRED takes the first replica if possible. UNCLEAN takes a replica
    that is not in sync rather than none.
    """

    ONLINE = 0
    PREFERRED = 1
    UNCLEAN = 2


def active(image: MetadataImage, broker_id: int) -> bool:
    """Return whether the broker is up to stay: not fenced, not about to stop."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def topic_config(controller: Controller, topic: str) -> TopicConfig:
    overrides = readable_overrides(controller.config, controller.image.topic_config(topic))
    return TopicConfig.resolve(controller.config, overrides)


def partition_change(
    controller: Controller,
    topic: TopicImage,
    partition: PartitionImage,
    acceptable: Acceptable,
    *,
    election: Election = Election.ONLINE,
    isr: Sequence[int] | None = None,
    replicas: Sequence[int] | None = None,
    adding: Sequence[int] | None = None,
    removing: Sequence[int] | None = None,
    directories: Mapping[int, bytes] | None = None,
    recovery_state: int | None = None,
    unclean: Collection[int] = (),
) -> ApiMessageAndVersion | None:
    """Return the record giving the partition the named values, or None for no change.

    Args:
        directories: the replicas' directories by broker.
        unclean: brokers that may have lost records, so that they are in sync with nothing.
    """
    change = _Change(controller, topic, partition, acceptable)
    change.isr = [broker for broker in (partition.isr if isr is None else isr) if broker not in unclean]
    if replicas is not None:
        change.replicas = list(replicas)
    if adding is not None:
        change.adding = list(adding)
    if removing is not None:
        change.removing = list(removing)
    if recovery_state is not None:
        change.recovery_state = recovery_state
    change.end_reassignment()
    change.find_eligible(unclean)
    change.elect(election)
    return change.record(directories or {})


def still_eligible(topic: TopicImage, partition: PartitionImage) -> ApiMessageAndVersion:
    """Return the record giving back the replicas taken away by a ClearElrRecord."""
    change = PartitionChangeRecord(partition.partition, topic.id)
    change.eligible_leader_replicas = list(partition.elr)
    change.last_known_elr = list(partition.last_known_elr)
    return ApiMessageAndVersion(change, _ELR_RECORD)


class _Change:
    """The wanted state of a partition; `record` compares wanted and present state."""

    def __init__(
        self, controller: Controller, topic: TopicImage, partition: PartitionImage, acceptable: Acceptable
    ) -> None:
        self.controller = controller
        self.topic = topic
        self.partition = partition
        self.acceptable = acceptable
        self.has_elr = controller.image.features.get(ELR_VERSION, 0) > 0
        self.isr = list(partition.isr)
        self.elr = list(partition.elr) if self.has_elr else []
        self.last_known = list(partition.last_known_elr)
        self.replicas = list(partition.replicas)
        self.adding = list(partition.adding_replicas)
        self.removing = list(partition.removing_replicas)
        self.leader = partition.leader
        self.recovery_state = partition.leader_recovery_state

    def end_reassignment(self) -> None:
        """End the reassignment if every new replica is in sync.

        A replica in both lists was added by a reassignment that has been changed since, and is not wanted any more:
        the end does not wait for such a replica.
        """
        if not (self.adding or self.removing) or not set(self.adding) <= {*self.isr, *self.removing}:
            return
        remaining = [broker for broker in self.isr if broker not in self.removing]
        if not remaining:
            return
        self.isr = remaining
        self.replicas = [broker for broker in self.replicas if broker not in self.removing]
        self.adding, self.removing = [], []

    def find_eligible(self, unclean: Collection[int]) -> None:
        """Find the replicas that may lead without being in sync (KIP-966).

        With fewer replicas in sync than `min.insync.replicas` nothing is committed, so a replica that leaves the ISR
        then still has every committed record.
        """
        if not self.has_elr:
            return
        isr_only_grew = not self.elr and set(self.partition.isr) <= set(self.isr)
        if isr_only_grew or self._enough_in_sync():
            self.elr = []
        else:
            departed = {*self.partition.elr, *self.partition.isr}.difference(self.isr, unclean)
            self.elr = sorted(departed.intersection(self.replicas))

    def _enough_in_sync(self) -> bool:
        wanted = topic_config(self.controller, self.topic.name).min_insync_replicas
        return len(self.isr) >= min(wanted, len(self.replicas))

    def elect(self, election: Election) -> None:
        """Choose the leader: a replica in sync, else an eligible replica, else a replica that may lack records."""
        leader = self._leader_in_sync(election)
        if leader is None:
            leader = next((broker for broker in self.replicas if broker in self.elr and self.acceptable(broker)), None)
            if leader is not None:
                self.isr = [leader]
                self.elr = [] if self._enough_in_sync() else [broker for broker in self.elr if broker != leader]
        if leader is None:
            leader = self._leader_out_of_sync(election)
            if leader is not None:
                self.isr, self.elr, self.recovery_state = [leader], [], RECOVERING
        self.leader = NO_LEADER if leader is None else leader

    def _leader_in_sync(self, election: Election) -> int | None:
        first = self.replicas[0] if election is Election.PREFERRED else self.leader
        for broker in (first, self.leader, *self.replicas):
            if broker in self.isr and self.acceptable(broker):
                return broker
        return None

    def _leader_out_of_sync(self, election: Election) -> int | None:
        """Return the last known leader, which has most records, or in an unclean election any replica, or None."""
        if self.has_elr and not self.isr and not self.elr and len(self.last_known) == 1:
            last = self.last_known[0]
            if last in self.replicas and self.acceptable(last):
                return last
        if election is Election.UNCLEAN:
            return next((broker for broker in self.replicas if self.acceptable(broker)), None)
        return None

    # -- as a record

    def record(self, directories: Mapping[int, bytes]) -> ApiMessageAndVersion | None:
        partition = self.partition
        change = PartitionChangeRecord(partition.partition, self.topic.id)
        if not self.isr and not self.has_elr:
            self.isr = list(partition.isr)  # the last replica in sync stays: no other may lead
        change.isr = _if_other(self.isr, partition.isr)
        if self.has_elr:
            self._find_last_known()
            change.eligible_leader_replicas = _if_other(self.elr, partition.elr)
            change.last_known_elr = _if_other(self.last_known, partition.last_known_elr)
        change.replicas = _if_other(self.replicas, partition.replicas)
        change.adding_replicas = _if_other(self.adding, partition.adding_replicas)
        change.removing_replicas = _if_other(self.removing, partition.removing_replicas)
        if self.recovery_state != partition.leader_recovery_state:
            change.leader_recovery_state = self.recovery_state
        version = self.controller.partition_record_version()
        if version > 0:
            change.directories = self._directories(directories)
        if self.leader != partition.leader or self._begins_epoch():
            change.leader = self.leader
        is_empty = change == PartitionChangeRecord(partition.partition, self.topic.id)
        return None if is_empty else ApiMessageAndVersion(change, version)

    def _find_last_known(self) -> None:
        """Note the last leader; or the last replica in sync, if there was no leader when ELR was switched on."""
        partition = self.partition
        if self.leader != NO_LEADER:
            self.last_known = []
        elif not self.isr and partition.leader != NO_LEADER:
            self.last_known = [partition.leader]
        elif not self.isr and len(partition.isr) == 1:
            self.last_known = list(partition.isr)

    def _begins_epoch(self) -> bool:
        """Return whether the same leader begins a new epoch.

        A new epoch fences replicas that were removed, and nodes of old releases expect one with a smaller ISR.
        """
        if self.leader == NO_LEADER:
            return False
        if not set(self.partition.replicas) <= set(self.replicas):
            return True
        level = self.controller.image.features.get(METADATA_VERSION, 0)
        return level < _EPOCH_OUTLIVES_SHRINK_FROM and not set(self.partition.isr) <= set(self.isr)

    def _directories(self, told: Mapping[int, bytes]) -> list[bytes] | None:
        if not told and tuple(self.replicas) == self.partition.replicas:
            return None
        return _if_other([self._directory(broker, told) for broker in self.replicas], self.partition.directories)

    def _directory(self, broker: int, told: Mapping[int, bytes]) -> bytes:
        if broker in told:
            return told[broker]
        if broker in self.partition.replicas:
            return self.partition.directory_of(broker)
        return directory_of(self.controller.image, broker)


def _if_other(wanted: list[T], present: Sequence[T]) -> list[T] | None:
    """Return the wanted values; None if they are the present values."""
    return None if tuple(wanted) == tuple(present) else wanted


# -- a node alone


# The id of the directory with the log of a partition; LOST if the directory is offline, UNASSIGNED without a log.
Locate = Callable[[TopicImage, PartitionImage], bytes]


class Elections(NamedTuple):
    """The partitions to get a new leader epoch: all after a crash, otherwise only partitions without a leader.

    After a crash a log may have lost its end, and clients must be able to find out (KIP-101, KIP-320).

    leaderless: the node starts. Wherever it is in sync it becomes the leader, also of partitions that another broker
    led, and the only replica in sync.
    """

    leaderless: bool = False
    all_partitions: bool = False


def partition_changes(controller: Controller, locate: Locate, elections: Elections) -> Iterator[ApiMessageAndVersion]:
    """Yield a record for each partition with wrong metadata."""
    node_id = controller.node_id
    version = controller.partition_record_version()
    for topic in controller.image.topics.values():
        for partition in topic.partitions.values():
            if node_id not in partition.replicas:
                continue
            directory = locate(topic, partition)
            leads = partition.leader == node_id
            is_elsewhere = version > 0 and not is_reserved(directory) and partition.directory_of(node_id) != directory
            lost = directory == LOST
            elected = not lost and _elects(partition, node_id, leads, elections)
            alone = elections.leaderless and not lost and (elected or leads) and partition.isr != (node_id,)
            if not (elected or alone or is_elsewhere or (lost and leads)):
                continue
            change = PartitionChangeRecord(partition.partition, topic.id)
            if is_elsewhere:
                change.directories = directories_with(partition, node_id, directory)
            if alone:
                change.isr = [node_id]
                if version >= 2:
                    change.eligible_leader_replicas, change.last_known_elr = [], []
            if elected:
                change.leader = node_id
            elif lost:
                _resign(change, partition, node_id, controller)
            yield ApiMessageAndVersion(change, version)


def _elects(partition: PartitionImage, node_id: int, leads: bool, elections: Elections) -> bool:
    if leads:
        return elections.all_partitions
    return elections.leaderless and (not partition.isr or node_id in partition.isr)


def _resign(change: PartitionChangeRecord, partition: PartitionImage, node_id: int, controller: Controller) -> None:
    """Give up the lead of a partition with an offline log. The last replica in sync stays eligible."""
    change.leader = NO_LEADER
    if partition.isr == (node_id,) and controller.image.features.get(ELR_VERSION, 0):
        change.isr = []
        change.eligible_leader_replicas = [node_id]
        change.last_known_elr = [node_id]


def assignment(
    controller: Controller, topic: TopicImage, partition: PartitionImage, directory: bytes, broker_id: int | None = None
) -> ApiMessageAndVersion:
    """Return the record placing the replica of a broker, by default the node itself, in a directory."""
    change = PartitionChangeRecord(partition.partition, topic.id)
    change.directories = directories_with(partition, controller.node_id if broker_id is None else broker_id, directory)
    return ApiMessageAndVersion(change, controller.partition_record_version())


def directories_with(partition: PartitionImage, node_id: int, directory: bytes) -> list[bytes]:
    """Return the directories of all replicas, with `directory` as the directory of the node."""
    known = len(partition.directories) == len(partition.replicas)
    directories = list(partition.directories) if known else [MIGRATING] * len(partition.replicas)
    directories[partition.replicas.index(node_id)] = directory
    return directories


def directories_change(
    controller: Controller, online: list[bytes], cordoned: list[bytes]
) -> list[ApiMessageAndVersion]:
    """Return a record if the metadata has other directories of the node, online or cordoned (KIP-1066)."""
    broker = controller.image.brokers[controller.node_id]
    record, version = BrokerRegistrationChangeRecord(broker.id, broker.epoch), 2
    if set(broker.log_dirs) != set(online):
        record.log_dirs = online
    if controller.broker_record_version() >= 4 and set(broker.cordoned_log_dirs or ()) != set(cordoned):
        record.cordoned_log_dirs, version = cordoned, 3
    if not record.log_dirs and record.cordoned_log_dirs is None:
        return []
    return [ApiMessageAndVersion(record, version)]
