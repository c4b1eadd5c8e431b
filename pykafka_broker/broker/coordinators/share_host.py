"""The share coordinator's service: its logs, states at other nodes, and the share partitions of this node (KIP-932).

Rule: a decision of the share coordinator is appended to the share partition's log in `__share_group_state`, replayed
into the coordinator, and answered when it is committed. Where another node keeps a state, the requests about one share
partition are sent in their order, one after the other. A coordinator that moves or is being loaded is looked up anew
and asked again for some seconds; any other answer is final.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from pykafka_broker.broker.channels import RequestBatcher
from pykafka_broker.broker.coordinators.coordinator_log import ANOTHER_TIME, read_batches, replay_batch
from pykafka_broker.broker.coordinators.shards import CoordinatorShards
from pykafka_broker.broker.coordinators.share_partitions import NotYet, SharePartitions, StateFenced, Stored
from pykafka_broker.broker.node import ServerNode
from pykafka_broker.broker.partitions.partition import NO_EPOCH, Partition
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.waiting.future import PARTITIONS_A_SLICE, Future, Steps, all_of
from pykafka_broker.cluster.features import SHARE_VERSION
from pykafka_broker.cluster.image import NO_LEADER, MetadataDelta
from pykafka_broker.cluster.topic_names import SHARE_GROUP_STATE
from pykafka_broker.config.group import GroupConfig
from pykafka_broker.coordinators.record import CoordinatorResult, R, decode
from pykafka_broker.coordinators.share.sessions import Member, ShareSession, ShareSessions
from pykafka_broker.coordinators.share.share_group import Topics
from pykafka_broker.coordinators.share.share_partition import Change
from pykafka_broker.coordinators.share.state import UNINITIALIZED, ShareCoordinator, ShareKey, ShareState, StateRun
from pykafka_broker.errors import ApiError
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.enums import LATEST, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import delete_share_group_state_request as delete
from pykafka_broker.protocol.messages import initialize_share_group_state_request as initialize
from pykafka_broker.protocol.messages import read_share_group_state_request as read
from pykafka_broker.protocol.messages import read_share_group_state_summary_request as summary
from pykafka_broker.protocol.messages import write_share_group_state_request as write
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsResponse
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.stored_keys import SHARE_RECORDS
from pykafka_broker.records.record import BatchRecord

log = logging.getLogger(__name__)

UNKNOWN = -1
_CONSUMER = -1  # replica id
_NO_LEADER = "There is no leader for this topic-partition as we are in the middle of a leadership election."  # Kafka's
_DISCONNECTED = "The server disconnected before a response was received."  # Kafka's
_TOPIC_WAIT_MS = 15_000
_REFUSED_MS = 200
_AT_ONCE = 200  # share partitions that begin
_RUN = ("first_offset", "last_offset", "delivery_state", "delivery_count")
_MOST_ELEMENTS = 5_000  # of a request to another node: share partitions, and runs of records
_TRIES = 8  # which is 13 seconds, about as long as Kafka tries: a busy cluster makes its topic of states in that time
_RETRY_MS = 100  # doubled each time


class Kind(NamedTuple):
    """A kind of request: the classes of the request, of a topic's part, and of a partition's part."""

    request: Callable[[str, list[Any]], Message]
    topic: Callable[[bytes, list[Any]], Any]
    partition: Callable[..., Any]


INITIALIZE = Kind(initialize.InitializeShareGroupStateRequest, initialize.InitializeStateData, initialize.PartitionData)
READ = Kind(read.ReadShareGroupStateRequest, read.ReadStateData, read.PartitionData)
WRITE = Kind(write.WriteShareGroupStateRequest, write.WriteStateData, write.PartitionData)
DELETE = Kind(delete.DeleteShareGroupStateRequest, delete.DeleteStateData, delete.PartitionData)
SUMMARY = Kind(summary.ReadShareGroupStateSummaryRequest, summary.ReadStateSummaryData, summary.PartitionData)


class StateRequest(Future[Any]):
    """The future of the share coordinator's answer about a share partition."""

    __slots__ = ("asked", "key", "kind", "tries")

    def __init__(self, kind: Kind, key: ShareKey, asked: Any) -> None:
        super().__init__()
        self.kind = kind
        self.key = key
        self.asked = asked
        self.tries = 0


class _Attempt:
    """A request on the way to a broker; given up when another broker turns out to keep the state."""

    __slots__ = ("given_up", "request")

    def __init__(self, request: StateRequest) -> None:
        self.request = request
        self.given_up = False


class StateRequests(RequestBatcher[_Attempt]):
    """The requests of a node for states at other nodes (Kafka: PersisterStateManager).

    find: returns the other node that keeps a state; None if this node does, or nobody.
    """

    client_id = "Persister-client-%d"

    def __init__(self, node: ServerNode, find: Callable[[ShareKey], int | None]) -> None:
        super().__init__(node)
        self._find = find

    def ask(self, kind: Kind, key: ShareKey, *fields: Any) -> StateRequest:
        """Send a request about a share partition. `fields`: the partition's part after the index."""
        request = StateRequest(kind, key, kind.partition(key.partition, *fields))
        self._dispatch(request)
        return request

    def _dispatch(self, request: StateRequest) -> None:
        broker_id = self._find(request.key)
        if broker_id is None:  # this node, maybe, whose host is asked when it is tried the next time
            request.fail(ApiError(ErrorCode.NOT_COORDINATOR))
        else:
            self.send(broker_id, _Attempt(request))

    def _end_moved(self, broker_id: int, wanted: _Attempt) -> bool:
        if wanted.given_up or self._find(wanted.request.key) == broker_id:
            return False
        wanted.given_up = True
        self._failed(wanted.request, ApiError(ErrorCode.NOT_COORDINATOR), is_known=False)
        return True

    def _choose(self, waiting: list[_Attempt]) -> tuple[list[_Attempt], list[_Attempt]]:
        """Choose requests of a kind and group, in the order of each share partition, and not too many together: no
        broker takes a request of very many elements.
        """
        now: list[_Attempt] = []
        later: list[_Attempt] = []
        seen: set[ShareKey] = set()
        left = _MOST_ELEMENTS
        for attempt in waiting:
            if attempt.given_up:
                continue
            request = attempt.request
            first = now[0].request if now else request
            together = request.kind is first.kind and request.key.group_id == first.key.group_id
            count = 1 + len(getattr(request.asked, "state_batches", ()))
            if together and request.key not in seen and (count <= left or not now):
                now.append(attempt)
                left -= count
            else:
                later.append(attempt)
            seen.add(request.key)
        return now, later

    def _request(self, wanted: list[_Attempt]) -> Message:
        first = wanted[0].request
        topics = by_topic((attempt.request.key.topic_id, attempt.request.asked) for attempt in wanted)
        return first.kind.request(first.key.group_id, [first.kind.topic(*each) for each in topics.items()])

    def _complete(self, wanted: list[_Attempt], answer: Message | LinkError) -> None:
        results = {} if isinstance(answer, LinkError) else dict(_results(answer))
        for request in [each.request for each in wanted if not (each.given_up or each.request.done)]:
            found = results.get((request.key.topic_id, request.key.partition))
            if found is None:
                self._failed(request, ApiError(ErrorCode.NETWORK_EXCEPTION), is_known=False)
            elif found.error_code:
                self._failed(request, ApiError(ErrorCode(found.error_code), found.error_message))
            else:
                request.complete(found)

    def _failed(self, request: StateRequest, error: ApiError, *, is_known: bool = True) -> None:
        """Ask again later, or fail the request.

        A request to initialize a state whose outcome is not known is not sent again: the first copy may arrive after
        the second one, and reset what members have accepted in between. The next attempt has an epoch that fences it.
        """
        request.tries += 1
        may_ask_again = is_known or request.kind is not INITIALIZE
        if may_ask_again and error.code in ANOTHER_TIME and request.tries < _TRIES:
            self.retry(self._node.clock.now + (_RETRY_MS << request.tries - 1), partial(self._dispatch, request))
        elif error.code is ErrorCode.NETWORK_EXCEPTION:
            request.fail(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            request.fail(error)


def _results(answer: Any) -> Iterable[tuple[tuple[bytes, int], Any]]:
    for topic in answer.results:
        for result in topic.partitions:
            yield (bytes(topic.topic_id), result.partition), result


class EndOffset(Future[int]):
    """The future high watermark of a partition at the leader; `UNKNOWN`, with the error, if the leader tells none."""

    __slots__ = ("error_code", "partition")

    def __init__(self, partition: tuple[str, int]) -> None:
        super().__init__()
        self.error_code = ErrorCode.NETWORK_EXCEPTION
        self.partition = partition


class EndOffsetRequests(RequestBatcher[EndOffset]):
    """The requests of a node for end offsets at other brokers (ListOffsets)."""

    client_id = "end-offsets-%d"
    versions = (1, 11)

    def ask(self, leader: int, topic: str, index: int) -> EndOffset:
        end = EndOffset((topic, index))
        self.send(leader, end)
        return end

    def _end_moved(self, broker_id: int, wanted: EndOffset) -> bool:
        if wanted.done or self._leads(broker_id, wanted.partition):
            return False
        wanted.complete(UNKNOWN)
        return True

    def _choose(self, waiting: list[EndOffset]) -> tuple[list[EndOffset], list[EndOffset]]:
        return [end for end in waiting if not end.done], []

    def _request(self, wanted: list[EndOffset]) -> Message:
        topics = by_topic(sorted({end.partition for end in wanted}))
        return ListOffsetsRequest(
            _CONSUMER,
            topics=[
                ListOffsetsTopic(name, [ListOffsetsPartition(index, timestamp=LATEST) for index in indexes])
                for name, indexes in topics.items()
            ],
        )

    def _complete(self, wanted: list[EndOffset], answer: Message | LinkError) -> None:
        found: dict[tuple[str, int], ListOffsetsPartitionResponse] = {}
        if isinstance(answer, ListOffsetsResponse):
            found = {(topic.name, each.partition_index): each for topic in answer.topics for each in topic.partitions}
        for end in wanted:
            result = found.get(end.partition)
            if result is not None and result.error_code:
                end.error_code, result = ErrorCode(result.error_code), None
            if not end.done:
                end.complete(UNKNOWN if result is None else result.offset)


def is_enabled(features: Mapping[str, int]) -> bool:
    """Return whether the cluster offers share groups."""
    return features.get(SHARE_VERSION, 0) >= 1


class Summary(NamedTuple):
    """The progress of a group in a partition."""

    leader_epoch: int
    start_offset: int
    complete_count: int


class _RemoteState(NamedTuple):
    """A state that another node keeps."""

    start_offset: int
    runs: list[StateRun]
    state_epoch: int


class _Reading:
    """A read of a state, for a leader epoch. A refusal holds for a while.

    answer: of the node that keeps the state; of this node, the commit of the read.
    """

    def __init__(self, keeper: int | None, epoch: int, answer: Future[Any]) -> None:
        self.keeper = keeper
        self.epoch = epoch
        self.answer = answer
        self.refused_until = 1 << 62


def _warn_of_beginning(key: ShareKey, name: str, error: ApiError) -> None:
    log.warning("share group %s can't begin with %s-%d: %s", key.group_id, name, key.partition, error)


class ShareHost:
    """The share coordinator's shards and the share partitions of the node.

    The members are with the group coordinator.

    settings: returns the settings of a group.
    """

    def __init__(self, node: ServerNode, settings: Callable[[str], GroupConfig]) -> None:
        self._node = node
        config = node.config
        self.coordinator = ShareCoordinator(
            self._exists, config.share_coordinator_snapshot_update_records_per_snapshot, config.is_of_4_4
        )
        self.partitions = SharePartitions(node, self, settings)
        self.sessions = ShareSessions(config.group_share_max_share_sessions)
        self.shards = CoordinatorShards(
            node, SHARE_GROUP_STATE, self, timeout_ms=lambda _: node.config.share_coordinator_write_timeout_ms
        )
        self._topic_waits: list[tuple[int, Future[None]]] = []  # for the topic of states
        self._requests = StateRequests(node, self.other_coordinator)
        self._end_offsets = EndOffsetRequests(node)
        self._reading: dict[ShareKey, _Reading] = {}
        self._closed_connections: list[int] = []  # connections that have closed
        self._tidy_at: int | None = None
        node.subscribe(self._on_metadata)
        self.shards.start()
        if self.shards.count:
            self._tidy_at = node.clock.now + config.share_coordinator_state_topic_prune_interval_ms

    def _exists(self, topic_id: bytes, partition: int) -> bool:
        topic = self._node.image.topics_by_id.get(topic_id)
        return topic is not None and partition in topic.partitions

    # -- shards

    def load(self, index: int, partition: Partition) -> Iterator[int]:
        """Replay batch after batch; yields the size of each."""
        for header, batch in read_batches(partition.log):
            replay_batch(header, batch, partial(self._replay, written=header.max_timestamp))
            yield header.size

    def _replay(self, record: BatchRecord, *, written: int) -> None:
        known_at = min(written, self._node.clock.now)  # the clock may have been set back since
        decoded = decode(record.key or b"", record.value, SHARE_RECORDS)
        if decoded is None:
            return
        key = self.coordinator.replay(decoded, record.offset, known_at)
        if (state := self.coordinator.states.get(key)) is not None:
            state.written = min(state.written, known_at)

    def loaded(self, index: int, epoch: int) -> None:
        """Do nothing: share partitions come up at the first read."""

    def unload(self, indexes: Collection[int]) -> None:
        """Forget the states of shards on other nodes."""
        for key in [key for key in self.coordinator.states if self._index_of(key) in indexes]:
            del self.coordinator.states[key]
            self.partitions.drop(key)

    def _index_of(self, key: ShareKey) -> int:
        return self.shards.index_of(key.coordinator_key())

    def committed(self, keys: Iterable[ShareKey]) -> Future[None]:
        """Return the future of all known records of the share partitions being committed."""
        made = self._node.metadata.committed()  # their topic may have been made a moment ago
        return all_of(made, self.shards.committed(*(key.coordinator_key() for key in keys)))

    def apply(self, effects: CoordinatorResult[R]) -> R:
        """Append and replay; returns the reply. ApiError if the log refuses."""
        if effects.records:
            now, replay = self._node.clock.now, self.coordinator.replay
            index = self.shards.index_of(effects.key)
            self.shards.append(index, effects.records, lambda record, offset: replay(record, offset, now))
            if self._tidy_at is None:
                self._tidy_at = now + self._node.config.share_coordinator_state_topic_prune_interval_ms
        return effects.reply

    def known(self, key: ShareKey) -> ShareCoordinator:
        """Return the coordinator with the whole state of a share partition; creates a missing topic.

        Raises:
            ApiError: COORDINATOR_NOT_AVAILABLE or NOT_COORDINATOR.
        """
        if not self.shards.count:
            self._node.create_missing_topics([SHARE_GROUP_STATE])
        if not self.shards.count:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.shards.read_to_end(self._index_of(key))  # a reader of a state can't be told to ask again
        self.shards.find(key.coordinator_key())
        return self.coordinator

    # -- states that another node may keep

    def other_coordinator(self, key: ShareKey) -> int | None:
        """Return the remote keeper of a state; None without a keeper, or for a local keeper."""
        return self._node.other_leader(SHARE_GROUP_STATE, self._index_of(key)) if self.shards.count else None

    def read(self, key: ShareKey, leader_epoch: int) -> Stored:
        """Return the state, for the leader of the partition. Raises `NotYet`.

        A node that was away may take itself for the keeper still, so its own answer counts once the read is committed.
        """
        now, reading, keeper = self._node.clock.now, self._reading.get(key), self.other_coordinator(key)
        wanted = keeper, leader_epoch
        if reading is None or (reading.keeper, reading.epoch) != wanted or reading.refused_until <= now:
            told: Future[Any]
            if keeper is None:
                self.read_here(key, leader_epoch)
                told = self.committed([key])
            else:
                told = self._requests.ask(READ, key, leader_epoch)
            reading = self._reading[key] = _Reading(keeper, leader_epoch, told)
            if not told.done:
                told.add_done_callback(lambda _: self._node.purgatory.touch(key))
        if not reading.answer.done:
            raise NotYet
        if reading.answer.error is not None:
            reading.refused_until = min(reading.refused_until, now + _REFUSED_MS)
            raise reading.answer.error
        del self._reading[key]
        if keeper is None:
            return self.apply(self.known(key).read(key, leader_epoch))
        answer = reading.answer.result()
        runs = [StateRun(*(getattr(batch, field) for field in _RUN)) for batch in answer.state_batches]
        return _RemoteState(answer.start_offset, runs, answer.state_epoch)

    def read_here(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """Return a state of this node. ApiError if another node keeps the state."""
        coordinator = self.known(key)
        anew = self.shards.has_replicas(self._index_of(key))
        return self.apply(coordinator.read(key, leader_epoch, anew=anew))

    def write(self, key: ShareKey, state_epoch: int, leader_epoch: int, change: Change, now: int) -> Future[Any] | None:
        """Keep a change, or have another node keep the change.

        Raises `StateFenced`, and what `known` and `apply` raise.
        """
        start, count, runs = change
        if self.other_coordinator(key) is not None:
            batches = [write.StateBatch(*run) for run in runs]
            return self._requests.ask(WRITE, key, state_epoch, leader_epoch, start, count, batches)
        coordinator = self.known(key)
        try:
            effects = coordinator.write(key, state_epoch, leader_epoch, start, count, runs, now)
        except ApiError as error:
            raise StateFenced(error.code, error.message) from None
        self.apply(effects)
        return None

    def _topic_made(self) -> Steps[None]:
        """Have a missing topic of states created, and wait."""
        if not self.shards.count:
            self._node.create_missing_topics([SHARE_GROUP_STATE])
            if SHARE_GROUP_STATE not in self._node.image.topics:
                created: Future[None] = Future()
                self._topic_waits.append((self._node.clock.now + _TOPIC_WAIT_MS, created))
                yield created

    def _end_topic_waits(self, now: float) -> None:
        """End the waits for the topic of states with deadlines up to `now`."""
        while self._topic_waits and self._topic_waits[0][0] <= now:
            self._topic_waits.pop(0)[1].complete(None)

    def begin(self, key: ShareKey, state_epoch: int, start_offset: int) -> Steps[None]:
        """Let a group read a partition from an offset on, on any node."""
        yield from self._topic_made()
        if self.other_coordinator(key) is None:
            yield self.initialize(key, state_epoch, start_offset)
        else:
            yield self._requests.ask(INITIALIZE, key, state_epoch, start_offset)
            self.partitions.drop(key)

    def forget(self, key: ShareKey) -> Steps[None]:
        """Forget a group's progress in a partition, on any node."""
        yield from self._topic_made()
        if self.other_coordinator(key) is None:
            yield self.delete(key)
        else:
            yield self._requests.ask(DELETE, key)
            self.partitions.drop(key)

    def summary(self, key: ShareKey) -> Steps[Summary | None]:
        """Return a group's progress in a partition; None without a state."""
        yield from self._topic_made()
        if self.other_coordinator(key) is None:
            state = self.known(key).summary(key)
            return None if state is None else Summary(state.leader_epoch, state.start_offset, state.complete_count)
        answer = yield self._requests.ask(SUMMARY, key, NO_EPOCH)
        if answer.start_offset == UNINITIALIZED and not answer.state_epoch:
            return None
        return Summary(answer.leader_epoch, answer.start_offset, answer.delivery_complete_count)

    def end_offset(self, topic: str, index: int) -> Steps[int]:
        """Return the high watermark of a partition.

        Raises LEADER_NOT_AVAILABLE for a partition without a leader, and the error of a leader on another node:
        NETWORK_EXCEPTION if it does not answer.
        """
        asked: EndOffset | None = None
        leader = NO_LEADER
        while True:
            state = self._node.image.partition(topic, index)
            if state is not None and state.leader == NO_LEADER:
                raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, _NO_LEADER)
            if state is None or state.leader == self._node.id:
                return self._node.replicas.leader(topic, index).high_watermark
            if asked is not None and state.leader == leader:
                is_silent = asked.error_code is ErrorCode.NETWORK_EXCEPTION
                raise ApiError(asked.error_code, _DISCONNECTED if is_silent else None)
            leader = state.leader
            asked = self._end_offsets.ask(leader, topic, index)
            offset = yield asked
            if offset != UNKNOWN:
                return int(offset)

    # -- states that this node keeps

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> Future[None]:
        """Let a group read a partition from an offset on. The next read finds the new state.

        The future of the commit is that of this append: asked for later, after another node has taken the log over
        without the record, it would know of nothing to wait for.
        """
        self.apply(self.known(key).initialize(key, state_epoch, start_offset, self._node.clock.now))
        self.partitions.drop(key)
        return self.committed([key])

    def delete(self, key: ShareKey) -> Future[None]:
        """Forget a group's progress in a partition; the future is that of the commit, as of `initialize`."""
        self.apply(self.known(key).delete(key))
        self.partitions.drop(key)
        return self.committed([key])

    def initialize_topics(
        self, group_id: str, state_epoch: int, topics: Topics, known: Collection[bytes]
    ) -> Steps[Topics]:
        """Initialize new partitions of a group. Returns the committed part; the log names the rest.

        Args:
            known: The topics with other partitions that the group reads. Since Kafka 4.4 their new partitions are read
                from the first record on: what was written before the group has heard of them would be missed.
        """
        begins_at_0 = known if self._node.config.is_of_4_4 else ()
        at_once = sum(len(indexes) for _, indexes in topics.values()) <= _AT_ONCE
        begun: list[tuple[ShareKey, str, StateRequest | Future[None]]] = []
        for topic_id, (name, indexes) in topics.items():
            for index in sorted(indexes):
                key = ShareKey(group_id, topic_id, index)
                try:
                    start = 0 if topic_id in begins_at_0 else UNINITIALIZED
                    begun.append((key, name, self._begin(key, state_epoch, start)))
                except ApiError as error:
                    _warn_of_beginning(key, name, error)
                if not at_once and not len(begun) % PARTITIONS_A_SLICE:
                    yield None
        done: dict[bytes, tuple[str, set[int]]] = {}
        for number, (key, name, request) in enumerate(begun, 1):
            if not at_once and not number % PARTITIONS_A_SLICE:
                yield None
            try:
                yield request
                done.setdefault(key.topic_id, (name, set()))[1].add(key.partition)
            except ApiError as error:
                _warn_of_beginning(key, name, error)
        return {topic_id: (name, frozenset(indexes)) for topic_id, (name, indexes) in done.items()}

    def _begin(self, key: ShareKey, state_epoch: int, start_offset: int) -> StateRequest | Future[None]:
        """Initialize a partition for a group; return what to wait for, here or of another node."""
        if self.other_coordinator(key) is not None:
            return self._requests.ask(INITIALIZE, key, state_epoch, start_offset)
        return self.initialize(key, state_epoch, start_offset)

    def forget_topics(self, group_id: str, topics: Topics) -> Steps[None]:
        """Forget a group's progress in partitions, for good."""
        gone = [
            ShareKey(group_id, topic_id, partition)
            for topic_id, (_, partitions) in topics.items()
            for partition in partitions
            if self._exists(topic_id, partition)
        ]
        for number, key in enumerate(gone, 1):
            yield from self.forget(key)
            if not number % PARTITIONS_A_SLICE:
                yield None

    # -- sessions

    def close_session(self, member: Member, now: int) -> None:
        """Close a session, and free the member's records for others. Raises SHARE_SESSION_NOT_FOUND."""
        session = self.sessions.close(member)
        self.partitions.release(session, now)
        self._forget_remote_states(member[0])

    def open_session(self, member: Member, connection_id: int) -> ShareSession:
        """Begin a member's session, and read the present states of the group.

        The group may have been told to begin elsewhere since the last of its members was here.
        """
        session = self.sessions.open(member, connection_id)
        self._forget_remote_states(member[0])
        return session

    def _forget_remote_states(self, group_id: str) -> None:
        """Forget a group's states that other nodes keep, except under a member's locks: no change is heard of here."""
        is_read = self.sessions.has_group(group_id)
        for key in [key for key in self._reading if key.group_id == group_id]:
            del self._reading[key]
        for key in self.partitions.of_group(group_id):
            if self.other_coordinator(key) is not None and not (is_read and self.partitions.has_locks(key)):
                self.partitions.drop_once_written(key, lambda: self._forget_remote_states(group_id))

    def connection_closed(self, connection: ConnectionContext) -> None:
        """End the sessions of a connection at the next deadline, which is now."""
        if self.sessions.of_connection(connection.id):
            self._closed_connections.append(connection.id)

    # -- metadata

    def _on_metadata(self, delta: MetadataDelta) -> None:
        self.shards.follow(delta)
        if SHARE_GROUP_STATE in self._node.image.topics:
            self._end_topic_waits(math.inf)
        if delta.changed_partitions or delta.deleted:
            self._requests.forget_moved()
            self._end_offsets.forget_moved()
            self.partitions.follow()
            self._reading = {key: reading for key, reading in self._reading.items() if not reading.answer.done}
        lost = {(of.id, each.partition) for of, each in delta.changed_partitions if each.leader != self._node.id}
        if lost:
            self.partitions.drop_lost(lost)
        for topic in delta.deleted:
            self.partitions.drop_topic(topic.id)
        if delta.deleted and self.coordinator.states:
            steps = self._forget_deleted({topic.id for topic in delta.deleted})
            self._node.slices.unasked(steps)

    def _forget_deleted(self, topic_ids: set[bytes]) -> Steps[None]:
        """Forget all groups' progress in deleted topics."""
        keys = [key for key in self.coordinator.states if key.topic_id in topic_ids]
        for number, key in enumerate(keys, 1):
            try:
                self.apply(self.coordinator.forget(key))
            except ApiError as error:  # it stays until the log is pruned
                log.warning("the state of %s is not forgotten: %s", key.coordinator_key(), error)
            if not number % PARTITIONS_A_SLICE:
                yield None

    # -- time

    def next_deadline(self) -> int | None:
        """Return the next deadline; at once with closed connections."""
        if self._closed_connections:
            return 0
        own = [part.next_deadline() for part in (self.shards, self.partitions, self._requests)]
        waits = [self._topic_waits[0][0]] if self._topic_waits else []
        return min([due for due in (*own, *waits, self._tidy_at) if due is not None], default=None)

    def on_deadline(self, now: int) -> None:
        self.shards.on_deadline(now)
        self._end_topic_waits(now)
        while self._closed_connections:
            for member in self.sessions.of_connection(self._closed_connections.pop()):
                self.close_session(member, now)
        self.partitions.on_deadline(now)
        self._requests.on_deadline(now)
        if self._tidy_at is not None and self._tidy_at <= now and not self.shards.loading:
            self._tidy_at = now + self._node.config.share_coordinator_state_topic_prune_interval_ms
            self._node.slices.unasked(self._tidied(now))

    def _tidied(self, now: int) -> Steps[None]:
        """Write snapshots of idle states, and cut each log below the oldest snapshot once all snapshots are committed:
        the next leader may lack what is not, and would need the snapshots before.

        A log that refuses does not keep the others from being tidied.
        """
        cold = now - self._node.config.share_coordinator_cold_partition_snapshot_interval_ms
        refusals: dict[str, None] = {}
        for number, effects in enumerate(self.coordinator.cold_snapshots(cold, now), 1):
            try:
                if self.shards.is_ready(self.shards.index_of(effects.key)):
                    self.apply(effects)
            except ApiError as error:
                refusals[str(error)] = None
            if not number % PARTITIONS_A_SLICE:
                yield None
        for refusal in refusals:
            log.warning("%s is not tidied: %s", SHARE_GROUP_STATE, refusal)
        for index, needed_from in self._needed_from().items():
            self.shards.shards_committed([index]).add_done_callback(partial(self._cut, index, needed_from))

    def _cut(self, index: int, needed_from: int, committed: Future[None]) -> None:
        """Cut the log of a shard below an offset, unless the records that were known then are not committed."""
        try:
            committed.result()
            self.shards.partition(index).log.delete_records_before(needed_from)
        except ApiError as error:
            log.warning("%s-%d is not cut: %s", SHARE_GROUP_STATE, index, error)

    def _needed_from(self) -> dict[int, int]:
        needed: dict[int, int] = {}
        for key, state in self.coordinator.states.items():
            index = self._index_of(key)
            if self.shards.is_ready(index):
                needed[index] = min(needed.get(index, state.snapshot_log_offset), state.snapshot_log_offset)
        return needed
