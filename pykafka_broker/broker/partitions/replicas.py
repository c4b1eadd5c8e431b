"""The partitions of which this node has a replica (Kafka: ReplicaManager).

Rule: partitions and their leaders follow from the metadata alone, through `follow`, which never raises: committed
metadata is a fact, and failed steps are logged and tried again. A `Partition` is made at its first request, so that ten
thousand idle partitions cost nothing; a partition with several replicas is opened without a request. Many partitions
are opened in slices. A request is served only from a log with the topic's id.

Only `ServerNode` makes `Replicas`. All other parts get the object from the node.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from pykafka_broker.broker.partitions.partition import NO_EPOCH, NotLeader, Partition, Replication
from pykafka_broker.broker.waiting.future import PARTITIONS_A_SLICE, Future, Slices, Steps
from pykafka_broker.clock import Clock
from pykafka_broker.cluster.image import NO_LEADER, MetadataDelta, MetadataImage, PartitionImage, TopicImage
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import UNASSIGNED
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.scan import DamagedLog
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import ZERO_UUID
from pykafka_broker.steps import at_once

if TYPE_CHECKING:
    from pykafka_broker.broker.replication.throttles import Throttle

logger = logging.getLogger(__name__)

_DELETED_AT_ONCE = 200  # partitions, in a millisecond or two


class ImageHolder(Protocol):
    """An owner of the current metadata image."""

    @property
    def image(self) -> MetadataImage: ...


class Replicating(Replication, Protocol):
    """The replication of partitions with several replicas."""

    @property
    def leader_throttle(self) -> Throttle:
        """Return the throttle of followers that are to catch up slowly."""

    @property
    def selects_by_rack(self) -> bool:
        """Return whether clients are sent to a replica in their rack."""

    def changed(self, partition: Partition) -> None:
        """Follow a new partition of this node, or a change of its metadata."""

    def gone(self, key: PartitionKey) -> None:
        """Forget a partition that this node does not have any more."""

    def synced(self, partition: Partition) -> None:
        """Note that the log of the partition is synced."""


class Replicas:
    """The replicas of a node.

    touch: wakes the requests that watch a partition. on_made: called for each log that is made at a first request, so
    that the metadata learns the directory of the log.
    """

    def __init__(
        self,
        node_id: int,
        metadata: ImageHolder,
        logs: LogManager,
        clock: Clock,
        touch: Callable[[Partition], None],
        slices: Slices | None = None,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._logs = logs
        self._clock = clock
        self._touch = touch
        self.slices = Slices(None) if slices is None else slices
        self._hosted: dict[PartitionKey, Partition] = {}
        self._going: dict[str, deque[tuple[int, Partition | None]]] = {}  # partitions of deleted topics, to be deleted
        self._given_up = False
        self.on_made: Callable[[PartitionKey], None] | None = None
        self.replication: Replicating | None = None  # a node that is alone has none

    # -- what is here

    def leader(self, topic: str, index: int, epoch: int = NO_EPOCH) -> Partition:
        """Return a partition that this node leads, in leader epoch `epoch` if given (KIP-320).

        Raises UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER or, without
        a usable log, KAFKA_STORAGE_ERROR.
        """
        found = self._hosted.get((topic, index))
        if found is None or not found.is_leader:
            found = self._led(topic, index, epoch)
        if epoch != NO_EPOCH:
            found.check_epoch(epoch)
        return found

    def open_leader(self, topic: str, index: int) -> Partition | None:
        """Return a partition that is open and led by this node, or None where `leader` has to look further."""
        found = self._hosted.get((topic, index))
        return found if found is not None and found.is_leader else None

    def _led(self, topic: str, index: int, epoch: int) -> Partition:
        """Return a partition as `leader` does, and open the partition if needed."""
        partition = self.replica(topic, index)
        partition.check_epoch(epoch)
        if not partition.is_leader:
            raise NotLeader(partition.state.leader, partition.leader_epoch)
        return partition

    def readable(self, topic: str, index: int, epoch: int = NO_EPOCH) -> Partition:
        """Return a partition that this node leads or follows, in leader epoch `epoch`. Raises as `leader` does."""
        found = self.replica(topic, index)
        found.check_epoch(epoch)
        return found

    def replica(self, topic: str, index: int) -> Partition:
        """Return a partition of this node, whatever its leader. Raises as `leader` does."""
        found = self._hosted.get((topic, index))
        return self._open(topic, index) if found is None else found

    def _open(self, topic: str, index: int) -> Partition:
        if self._given_up:
            raise NotLeader(NO_LEADER, NO_EPOCH)
        image = self._metadata.image
        described = image.topics.get(topic)
        state = None if described is None else described.partitions.get(index)
        if described is None or state is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._node_id not in state.replicas:
            raise NotLeader(state.leader, state.leader_epoch)
        log = self._log_of(described, state)
        state = described.partitions[index]  # the log's directory may have been noted meanwhile
        partition = Partition(log, state, self._node_id, self._touch, self._clock.now, self.replication)
        self._hosted[topic, index] = partition
        if self.replication is not None:
            self.replication.changed(partition)
        return partition

    def hosted(self) -> list[Partition]:
        """Return the open partitions: requested so far, or replicated."""
        return list(self._hosted.values())

    def is_replicated(self, key: PartitionKey) -> bool:
        """Return whether the metadata names several replicas of the partition."""
        state = self._metadata.image.partition(*key)
        return state is not None and len(state.replicas) > 1

    def _log_of(self, topic: TopicImage, state: PartitionImage) -> PartitionLog:
        """Return the log of a partition, and make the log now if that failed when the topic was created.

        A log with another topic id belongs to an earlier topic of the name, deleted while the directory was offline.
        """
        logs, index = self._logs, state.partition
        if logs.exists(topic.name, index):
            log = logs.get(topic.name, index)
            if log.topic_id == topic.id:
                return log
        assigned = self._directory_for(topic.name, state)
        log = logs.create(topic.name, index, topic.id, self._clock.now, directory_id=assigned, new=False)
        if self.on_made is not None:
            self.on_made((topic.name, index))
        return log

    def _directory_for(self, topic: str, state: PartitionImage) -> bytes:
        """Return the directory that the metadata names, or UNASSIGNED where any directory will do.

        Any directory will do if this node's directory of that id is gone (another disk has its path), and another
        replica leads and has the records. If another replica leads, the node also gives up an unfinished move between
        directories whose original log is gone.
        """
        assigned, directories = state.directory_of(self._node_id), self._logs.directory_map
        if state.leader in (self._node_id, NO_LEADER):
            return assigned
        directories.awaited.pop((topic, state.partition), None)
        return UNASSIGNED if directories.is_gone(assigned) else assigned

    def _waits_for_a_leader(self, topic: str, state: PartitionImage) -> bool:
        """Return whether the log is gone, and another replica with the records will lead."""
        others = {*state.isr, *state.elr, *state.last_known_elr} - {self._node_id}
        directories = self._logs.directory_map
        is_gone = directories.is_gone(state.directory_of(self._node_id))
        return bool(others) and (is_gone or (topic, state.partition) in directories.awaited)

    # -- start

    def start(self, loaded: MetadataDelta, new_uuid: Callable[[], bytes]) -> Future[None]:
        """Bring the logs in line with the metadata, and return a future of the replicated partitions being open.

        After a crash between a metadata record and its effects, missing logs are made, and logs of deleted topics are
        deleted. loaded: the changes read from the metadata log.
        """
        logs, topics = self._logs, self._metadata.image.topics
        logs.directory_map.resolve_ambiguous(new_uuid, self._assigned, self._metadata.image.topic_id)
        deleted = {topic.name for topic in loaded.deleted}
        without_log: list[tuple[str, PartitionImage]] = []
        for topic in topics.values():
            had_another = topic.name in deleted
            for index, state in topic.partitions.items():
                is_missing = self._node_id in state.replicas and (had_another or not logs.exists(topic.name, index))
                if is_missing and not self._make_again(topic, state, had_another=had_another):
                    without_log.append((topic.name, state))
        waiting = sorted(
            f"{name}-{state.partition}" for name, state in without_log if self._waits_for_a_leader(name, state)
        )
        if waiting:
            logger.warning("Made anew as soon as another replica leads: %s", ", ".join(waiting))
        lost = sorted({f"{name}-{state.partition}" for name, state in without_log}.difference(waiting))
        if lost:
            logger.error("Out of service, since there is no log of them in reach: %s", ", ".join(lost))
        self._clear_up(deleted)
        return self._open_replicated([(topic.name, index) for topic in topics.values() for index in topic.partitions])

    def _open_replicated(self, keys: Sequence[PartitionKey]) -> Future[None]:
        """Open the partitions with several replicas without a request: they follow a leader, or lead followers."""
        return self.slices.unasked(self._opened(keys if self.replication is not None else ()))

    def _opened(self, keys: Sequence[PartitionKey]) -> Steps[None]:
        """Open the partitions that have several replicas when their turn comes, unless a request was first."""
        for count, key in enumerate(keys, 1):
            if self.is_replicated(key):
                self._open_for_replication(key)
            if not count % PARTITIONS_A_SLICE:
                yield None

    def _open_for_replication(self, key: PartitionKey) -> None:
        state = self._metadata.image.partition(*key)
        if self._given_up or state is None or self._node_id not in state.replicas:
            return
        try:
            self.replica(*key)
        except ApiError as error:
            directory = self._logs.directory_of(key)
            told = directory is not None and not directory.online  # the directory's failure is logged
            level = logging.DEBUG if told else logging.WARNING
            logger.log(level, "%s-%d is not replicated here: %s", *key, error)

    def _make_again(self, topic: TopicImage, state: PartitionImage, *, had_another: bool) -> bool:
        """Make a missing log; return whether there is a log now. had_another: an earlier topic had the name."""
        assigned, index = self._directory_for(topic.name, state), state.partition
        logs, now = self._logs, self._clock.now
        try:
            if had_another and logs.exists(topic.name, index):
                log = logs.get(topic.name, index)
                if log.topic_id == ZERO_UUID and not log.recovery_point:
                    # Nothing in the log was synced, since the topic's id would have been synced too: after a power cut
                    # this may be the log of the earlier topic.
                    logs.delete(topic.name, index, now)
            logs.make(topic.name, index, topic.id, now, directory_id=assigned, new=False)
        except ApiError as error:
            logger.debug("%s-%d: %s", topic.name, index, error)
            return False
        return True

    def _clear_up(self, deleted: Collection[str]) -> None:
        """Delete the logs of deleted topics; report other logs that the metadata does not know, and leave them."""
        topics, strays = self._metadata.image.topics, []
        for name, index in list(self._logs.partitions()):
            known = name in topics and index in topics[name].partitions
            if known or name == CLUSTER_METADATA:
                continue
            if name in deleted:
                self._logs.delete(name, index, self._clock.now)
            else:
                strays.append(f"{name}-{index}")
        if strays:
            logger.warning("Not in the metadata and left alone: %s", ", ".join(sorted(strays)))

    def _assigned(self, key: PartitionKey) -> bytes | None:
        """Return the directory that the metadata names, None for an unknown partition."""
        state = self._metadata.image.partition(*key)
        return None if state is None or self._node_id not in state.replicas else state.directory_of(self._node_id)

    # -- the metadata has changed

    def follow(self, delta: MetadataDelta) -> None:
        """Apply changes of the metadata. Never raises."""
        for topic in delta.deleted:
            self._delete(topic)
        if delta.new_partitions:
            for name in self._going.keys() & {topic.name for topic, _ in delta.new_partitions}:
                at_once(self._delete_going(name))  # a new topic has the name: the old folders must be gone
            self._make_logs(delta.new_partitions)
        for topic, state in delta.changed_partitions:
            partition = self._hosted.get((topic.name, state.partition))
            if partition is not None and partition.log.topic_id == topic.id:
                self._update(partition, state)
            elif partition is None and self.replication is not None:
                self._delete_moved(topic, state.partition)
        changed = (*delta.new_partitions, *delta.changed_partitions)
        self._open_replicated([(topic.name, state.partition) for topic, state in changed])

    def _delete(self, topic: TopicImage) -> None:
        """Hide a topic's partitions at once; fail their waiting requests and delete the logs, many in slices."""
        going = self._going.setdefault(topic.name, deque())
        for index in topic.partitions:
            partition = self._hosted.pop((topic.name, index), None)
            if partition is not None:
                partition.is_leader = False
            going.append((index, partition))
        self.slices.unasked(self._delete_going(topic.name))

    def _delete_going(self, name: str) -> Steps[None]:
        going = self._going.get(name, ())
        while going:
            for _ in range(min(_DELETED_AT_ONCE, len(going))):
                index, partition = going.popleft()
                if partition is not None:
                    self._end(partition, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                self._logs.delete(name, index, self._clock.now)
            if going:
                yield None
        if self._going.get(name) is going:  # else a topic of the same name was made and deleted since
            del self._going[name]

    def finish(self) -> None:
        """Delete the rest of deleted topics at once, at the end of the broker."""
        for name in list(self._going):
            at_once(self._delete_going(name))

    def _update(self, partition: Partition, state: PartitionImage) -> None:
        if self._node_id in state.replicas:
            if state.leader == self._node_id and not self._finish_cut(partition.log):
                return
            partition.update(state, self._clock.now)
            self._touch(partition)
            if self.replication is not None:
                self.replication.changed(partition)
        else:
            self._close((partition.topic, partition.index), NotLeader(state.leader, state.leader_epoch))
            self._logs.delete(partition.topic, partition.index, self._clock.now)

    def _finish_cut(self, log: PartitionLog) -> bool:
        """Finish an interrupted cut of a log that is to lead; return False for a log that is out of service now."""
        try:
            log.finish_cut(self._clock.wall)
        except DamagedLog as damage:
            log.keeper.damaged_log(log, damage)
            return False
        except OSError as error:
            log.storage_error(error)
            active = log.segments.active
            log.keeper.damaged_log(log, DamagedLog(active.log.path, active.size, f"its cut was interrupted: {error}"))
            return False
        return True

    def _delete_moved(self, topic: TopicImage, index: int) -> None:
        """Delete the log of a partition that is not open, if the partition has moved to other nodes."""
        state = self._metadata.image.partition(topic.name, index)
        if state is None or self._node_id in state.replicas or not self._logs.exists(topic.name, index):
            return
        with contextlib.suppress(ApiError):  # out of service: the next start looks again
            if self._logs.get(topic.name, index).topic_id == topic.id:
                self._logs.delete(topic.name, index, self._clock.now)

    def _make_logs(self, made: Iterable[tuple[TopicImage, PartitionImage]]) -> None:
        logs, node_id, image = self._logs, self._node_id, self._metadata.image
        for topic, as_created in made:
            # The image may be newer than the change, for a node that reads many changes at once.
            state = image.partition(topic.name, as_created.partition) or as_created
            if topic.id not in image.topics_by_id or node_id not in state.replicas:
                continue
            assigned = self._directory_for(topic.name, state)
            try:
                logs.make(topic.name, state.partition, topic.id, self._clock.now, directory_id=assigned)
            except ApiError as error:  # the first request for the log tries again
                logger.warning("%s-%d has no log yet: %s", topic.name, state.partition, error)

    # -- events of the disk

    def offline(self, lost: Iterable[PartitionKey]) -> None:
        """End the service of partitions in a failed directory."""
        for key in lost:
            self._close(key, ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{key[0]}-{key[1]} is offline"))

    def give_up(self) -> None:
        """End the service of all partitions: another broker has taken over, and clients ask there."""
        self._given_up = True
        # Requests may wait for partitions whose deletion is under way: they are closed with the others.
        for name, going in self._going.items():
            self._hosted.update({(name, index): each for index, each in going if each is not None})
        self._going.clear()
        elsewhere = NotLeader(NO_LEADER, NO_EPOCH)
        for key in list(self._hosted):
            self._close(key, elsewhere)

    def _close(self, key: PartitionKey, error: ApiError) -> None:
        partition = self._hosted.pop(key, None)
        if partition is not None:
            self._end(partition, error)

    def _end(self, partition: Partition, error: ApiError) -> None:
        partition.close(error)
        if self.replication is not None:
            self.replication.gone((partition.topic, partition.index))

    def _partition_of(self, log: PartitionLog) -> Partition | None:
        partition = self._hosted.get((log.topic, log.partition))
        return partition if partition is not None and partition.log is log else None

    def log_synced(self, log: PartitionLog) -> None:
        """Commit the records that are durable now that the log is synced."""
        partition = self._partition_of(log)
        if partition is not None:
            partition.advance()
            if self.replication is not None:
                self.replication.synced(partition)

    def log_lost(self, log: PartitionLog, offset: int, error: OSError) -> None:
        """Refuse the requests that wait for records from `offset` on, which are lost."""
        partition = self._partition_of(log)
        if partition is not None:
            reason = error.strerror or errno.errorcode.get(error.errno or 0, "failed")
            partition.fail(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, reason), offset)
