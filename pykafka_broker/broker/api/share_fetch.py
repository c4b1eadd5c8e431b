"""ShareFetch v1-v2 and ShareAcknowledge v1-v2 (KIP-932).

Sessions: a request belongs to the member's share session and uses up an epoch of the session. Epoch 0 opens the session
(by ShareFetch only). Epoch -1 ends the session, and the records that the member still has become free for others.

Acknowledgements: the acknowledgements of a partition are accepted as a whole or not at all, and each partition has its
own error.

ShareFetch: the request's acknowledgements are accepted first, and take effect after the first look for records. So a
member gets back the records that it releases with the same request only if there are no others and the request waits.
At most `max_records` records are handed out, rounded up to the end of the last log batch, unless the member wants an
exact number. If records are wanted, the answer waits until there are some or `max_wait_ms` is over. A waiting fetch
yields to the next request of its connection.

Reading: records that are read are handed out at once, so no log is read unless the answer is sent. A long log is read
in chunks of about an answer's size. Partitions with records get equal parts of `max_bytes`, and unused parts are not
given to other partitions (Kafka: PartitionMaxBytesStrategy.UNIFORM). Only the first batch of an answer may exceed the
limits.

Versions: 2 renews acquisition locks (KIP-1222) and lets the member choose how records are counted (KIP-1206).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from pykafka_broker.broker.coordinators.share_host import is_enabled
from pykafka_broker.broker.coordinators.share_partitions import Acknowledged, NotYet, SharePartitions, Undecided
from pykafka_broker.broker.partitions.partition import NotLeader
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles_in_steps
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import PARTITIONS_A_SLICE, Answer, Future, Parked, Steps, when_committed
from pykafka_broker.cluster.authorizer import denial
from pykafka_broker.coordinators.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, Member, ShareSession
from pykafka_broker.coordinators.share.share_group import checked_member_id
from pykafka_broker.coordinators.share.share_partition import GAP, REJECT, RENEW, AckBatch, SharePartition
from pykafka_broker.coordinators.share.state import ShareKey, StateRun, coalesced
from pykafka_broker.errors import NOT_HOSTED, ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, TopicIdPartition, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_acknowledge_request import AcknowledgeTopic, ShareAcknowledgeRequest
from pykafka_broker.protocol.messages.share_acknowledge_response import PartitionData as AcknowledgedPartition
from pykafka_broker.protocol.messages.share_acknowledge_response import (
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from pykafka_broker.protocol.messages.share_fetch_request import FetchTopic, ShareFetchRequest
from pykafka_broker.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)

CHUNK_BYTES = 1 << 20
ACQUIRE_MODES = WHOLE_BATCHES, EXACTLY = 0, 1  # share_acquire_mode (KIP-1206)
_NO_BATCHES: list[AckBatch] = []  # shared by all partitions, never changed
_NO_RECORDS: list[AcquiredRecords] = []  # likewise


class AckResult(NamedTuple):
    """The outcome of a partition's acknowledgements."""

    error_code: ErrorCode
    error_message: str | None


_ACCEPTED = AckResult(ErrorCode.NONE, None)
_NOT_LED = AckResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED)


def _member_of(
    services: Services, context: RequestContext, request: ShareFetchRequest | ShareAcknowledgeRequest
) -> Member:
    """Return the asking member. Raises ApiError if the whole request is refused."""
    if not is_enabled(services.image.features):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if request.group_id is None:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    services.authorise(context, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    return request.group_id, checked_member_id(request.member_id)


def _may_read(services: Services, context: RequestContext, topic_id: bytes) -> bool:
    """Return whether the client may read a topic, or the topic is missing, which a later lookup refuses."""
    topic = services.image.topics_by_id.get(topic_id)
    return topic is None or services.allows(context, AclOperation.READ, AclResourceType.TOPIC, topic.name)


def _open_logs(
    services: Services, topics: Iterable[FetchTopic] | Iterable[AcknowledgeTopic]
) -> Generator[None, None, None]:
    """Open the logs of a request, some at a time: the first use of a log takes up to a millisecond."""
    replicas, opened = services.replicas, 0
    for topic in topics:
        known = services.image.topics_by_id.get(bytes(topic.topic_id))
        if known is None:
            continue
        for partition in topic.partitions:
            if replicas.open_leader(known.name, partition.partition_index) is None:
                with suppress(ApiError):
                    replicas.leader(known.name, partition.partition_index)
                opened += 1
                if not opened % PARTITIONS_A_SLICE:
                    yield None


def _acknowledgements(
    topics: Iterable[FetchTopic] | Iterable[AcknowledgeTopic],
) -> dict[TopicIdPartition, list[AckBatch]]:
    """Return the acknowledgements of a request by partition, an empty list for partitions without any."""
    found: dict[TopicIdPartition, list[AckBatch]] = {}
    for topic in topics:
        topic_id = bytes(topic.topic_id)
        for partition in topic.partitions:
            batches, key = partition.acknowledgement_batches, (topic_id, partition.partition_index)
            if batches or key not in found:
                found[key] = [
                    AckBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches
                ] or _NO_BATCHES
    return found


def _acknowledge(
    services: Services,
    context: RequestContext,
    member: Member,
    acks: dict[TopicIdPartition, list[AckBatch]],
    may_renew: bool,
    taken: list[Callable[[], None]],
) -> Steps[dict[TopicIdPartition, AckResult]]:
    """Accept the acknowledgements of a request.

    States of other partitions are written by other nodes. While this node waits for another node, it may lose its own
    log with uncommitted records, and would not notice. So with such a wait it also waits for the commits of the
    records that it has written itself. The end of a session waits until all acknowledgements are decided about.

    Args:
        acks: acknowledgements by partition. A partition with an empty list is in the answer if the partition is
            missing, or if another partition has acknowledgements.
        taken: gets a function for each partition that makes its acknowledgements visible. Before a wait all of them
            are called: the end of a lock or of a session during the wait would free acknowledged records.
    """
    results: dict[TopicIdPartition, AckResult] = {}
    known: dict[AckResult, AckResult] = {}  # equal results share one object
    elsewhere: dict[TopicIdPartition, Acknowledged] = {}  # partitions whose state another node writes
    without: list[TopicIdPartition] = []
    commits: list[Future[None]] = []
    has_acks = False
    undecided: Undecided | None = None  # once a partition has waited
    group_id, member_id = member
    partitions = services.shares.partitions
    try:
        for key, batches in acks.items():
            topic_id, partition = key
            try:
                if topic_id not in services.image.topics_by_id:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
                _check_batches(batches, may_renew)
                if not _may_read(services, context, topic_id):
                    raise denial(AclResourceType.TOPIC)
                share_key = ShareKey(group_id, topic_id, partition)
                partitions.partition_of(share_key)
                if not batches:
                    without.append(key)
                    continue
                has_acks = True
                while (writing := partitions.writing(share_key)) is not None:
                    if undecided is None:
                        left = [ShareKey(group_id, *each) for each in acks if acks[each] and each not in results]
                        undecided = partitions.await_decision(left, member_id)
                    _show(taken)
                    yield writing.settled()
                accepted = partitions.acknowledge(share_key, member_id, batches, services.clock.now)
                results[key] = _ACCEPTED
                if accepted.writing is not None:
                    elsewhere[key] = accepted
                    continue
                taken.append(accepted.show)
                commit = services.shares.committed([share_key])
                if not commit.succeeded:
                    commits.append(commit)
            except NotLeader:  # a leader forgets what was acquired as soon as another node leads
                results[key] = _NOT_LED
            except ApiError as error:
                result = AckResult(error.code, error.message)
                results[key] = known.setdefault(result, result)
    finally:
        if undecided is not None:
            _show(taken)
            partitions.decided(undecided)
    if elsewhere:
        _show(taken)
    for key, accepted in elsewhere.items():
        assert accepted.writing is not None
        yield accepted.writing.settled()
        refusal = accepted.refusal()
        if refusal is not None:
            results[key] = AckResult(refusal.code, refusal.message)
    if undecided is not None or elsewhere:
        for commit in commits:
            yield commit
    if has_acks:
        results.update(dict.fromkeys(without, _ACCEPTED))
    return results


def _show(taken: list[Callable[[], None]]) -> None:
    for show in taken:
        show()
    taken.clear()


def _check_batches(batches: list[AckBatch], may_renew: bool) -> None:
    """Raise INVALID_REQUEST for batches out of order, unknown types, or more or fewer types than offsets."""
    reached = -1
    highest = RENEW if may_renew else REJECT
    for batch in batches:
        is_in_order = reached <= batch.first <= batch.last
        is_complete = len(batch.types) in (1, batch.last - batch.first + 1)
        if not is_in_order or not is_complete or any(not GAP <= kind <= highest for kind in batch.types):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        reached = batch.last


@handles_in_steps(ApiKey.SHARE_ACKNOWLEDGE, outlives_client=True)
def share_acknowledge(
    services: Services, context: RequestContext, request: ShareAcknowledgeRequest
) -> Steps[Answer[ShareAcknowledgeResponse]]:
    host, epoch = services.shares, request.share_session_epoch
    member = _member_of(services, context, request)
    if epoch == INITIAL_EPOCH:
        raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    yield from _open_logs(services, request.topics)
    if epoch != FINAL_EPOCH:
        host.sessions.use_epoch(member, epoch)
    else:
        host.sessions.require(member)
    now = context.now
    acks = _acknowledgements(request.topics)
    taken: list[Callable[[], None]] = []
    try:
        results = yield from _acknowledge(services, context, member, acks, request.is_renew_ack, taken)
    finally:
        _show(taken)
    if epoch == FINAL_EPOCH:
        host.close_session(member, now)
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=host.partitions.limits(member[0]).lock_ms,
        responses=[
            ShareAcknowledgeTopicResponse(
                topic_id, [AcknowledgedPartition(partition, *results[topic_id, partition]) for partition in partitions]
            )
            for topic_id, partitions in by_topic(results).items()
        ],
    )
    return when_committed(response, host.shards.all_committed())


class RefusedPartition(NamedTuple):
    """The error of a partition without records. Partitions with equal errors share an object.

    leader: The id and the epoch of the leader, if the partition is led by another node.
    """

    error_code: int
    error_message: str | None
    leader: tuple[int, ...] = ()

    @property
    def acquired_records(self) -> tuple[AcquiredRecords, ...]:
        return ()


Found = dict[TopicIdPartition, PartitionData | RefusedPartition]


class ShareReader:
    """A reader of share partitions within the limits of a request."""

    def __init__(
        self,
        shares: SharePartitions,
        most_bytes: int,
        member: Member,
        request: ShareFetchRequest,
        known: Mapping[TopicIdPartition, bool],
    ) -> None:
        """`most_bytes`: `fetch.max.bytes`. `known`: the partitions whose topics the session has known."""
        self._shares = shares
        self._known = known
        self._group_id, self._member_id = member
        self._max_bytes = min(request.max_bytes, most_bytes)
        self._max_records = request.max_records if self._max_bytes > 0 else 0
        self._batch_size = request.batch_size
        self._exactly = request.share_acquire_mode == EXACTLY
        self.has_passed = False  # whether records that no member gets were skipped; records may follow them

    def _key(self, partition: TopicIdPartition) -> ShareKey:
        return ShareKey(self._group_id, *partition)

    def watched(self, partitions: Iterable[TopicIdPartition]) -> list[object]:
        """Return the keys to watch for records: growing logs, and share partitions with locks."""
        keys: list[object] = []
        for partition in partitions:
            key = self._key(partition)
            keys.append(key)
            with suppress(ApiError):
                keys.append(self._shares.partition_of(key))
        return keys

    def has(self, partitions: Iterable[TopicIdPartition], min_bytes: int) -> bool:
        """Return whether at least so many bytes, or only errors, can be handed out. Hands out nothing."""
        limits = self._shares.limits(self._group_id)
        wanted = max(1, min(min_bytes, self._max_bytes))
        size = 0
        failed = True
        for topic_partition in partitions:
            key = self._key(topic_partition)
            try:
                partition = self._shares.get(key)
                failed = False
                if partition.can_acquire(limits):
                    size += min(self._shares.size(key, partition), self._max_bytes)
            except NotYet:
                failed = False
            except ApiError:
                continue
            if size >= wanted:
                return True
        return failed

    def _count_open(self, partitions: Collection[TopicIdPartition]) -> int:
        """Count the partitions with room for records to hand out, whether or not the logs have any."""
        if len(partitions) == 1 or self._max_bytes <= 0:
            return 1
        limits = self._shares.limits(self._group_id)
        count = 0
        for topic_partition in partitions:
            with suppress(NotYet, ApiError):
                count += self._shares.get(self._key(topic_partition)).can_acquire(limits)
        return count

    def read(self, partitions: Collection[TopicIdPartition], now: int) -> Found:
        """Hand out records; the result has the partitions with records, and all with an error."""
        left_bytes, left_records = self._max_bytes, self._max_records
        count = self._count_open(partitions)
        part_bytes = max(1, left_bytes // max(1, count))
        found: Found = {}
        is_first = True
        known: dict[RefusedPartition, RefusedPartition] = {}  # equal errors share one object
        for topic_partition in partitions:
            try:
                data = self._read(topic_partition, min(part_bytes, left_bytes), left_records, is_first, now)
            except NotYet:
                continue
            except ApiError as error:
                uninitialized = error.code is ErrorCode.INVALID_REQUEST  # members get new metadata, and try again
                deleted = error.code is ErrorCode.UNKNOWN_TOPIC_ID and self._known.get(topic_partition)
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if uninitialized or deleted else error.code
                leader = (error.leader, error.leader_epoch) if isinstance(error, NotLeader) else ()
                why = RefusedPartition(code, error.message, leader)
                found[topic_partition] = known.setdefault(why, why)
                continue
            if data is not None:
                found[topic_partition] = data
                is_first = False
                left_bytes -= len(data.records)
                left_records -= sum(run.last_offset - run.first_offset + 1 for run in data.acquired_records)
        return found

    def _read(
        self, topic_partition: TopicIdPartition, max_bytes: int, max_records: int, is_first: bool, now: int
    ) -> PartitionData | None:
        """Hand out records of a partition; the first batch may exceed `max_bytes` if `is_first`."""
        key = self._key(topic_partition)
        if max_records <= 0 or max_bytes <= 0:
            self._shares.partition_of(key)  # refuse a missing partition, but not a missing state
            return None
        partition = self._shares.get(key)
        pieces: list[memoryview] = []
        acquired: list[StateRun] = []
        while max_records > 0 and max_bytes > 0:
            before = partition.next_fetch_offset
            got, size = self._step(key, partition, max_bytes, max_records, is_first and not acquired, pieces, now)
            acquired += got
            max_bytes -= size
            max_records -= sum(run.last - run.first + 1 for run in got)
            self.has_passed |= partition.next_fetch_offset > before
            # Go on where the step has read a whole chunk.
            if partition.next_fetch_offset <= before or size < CHUNK_BYTES // 2:
                break
        if not acquired:
            return None
        self._shares.acquired(partition)
        return PartitionData(
            topic_partition[1],
            records=b"".join(pieces) if len(pieces) > 1 else pieces[0],
            acquired_records=[AcquiredRecords(run.first, run.last, run.deliveries) for run in coalesced(acquired)],
        )

    def _step(
        self,
        key: ShareKey,
        partition: SharePartition,
        max_bytes: int,
        max_records: int,
        min_one: bool,
        pieces: list[memoryview],
        now: int,
    ) -> tuple[list[StateRun], int]:
        """Read the log once; return the acquired records, and the bytes acquired, or else the bytes read."""
        limits = self._shares.limits(self._group_id)
        if not partition.can_acquire(limits):
            return [], 0
        found = self._shares.read(key, partition, min(max_bytes, CHUNK_BYTES), min_one)
        if found is None and max_bytes > CHUNK_BYTES:  # a batch larger than a chunk
            found = self._shares.read(key, partition, max_bytes, min_one)
        if found is None:
            return [], 0
        got = partition.acquire(
            self._member_id, found.batches, max_records, self._batch_size, self._exactly, limits, now
        )
        if not got:
            return [], found.size
        pieces.append(found.between(got[0].first, got[-1].last))
        return got, len(pieces[-1])


_EMPTY = RefusedPartition(ErrorCode.NONE, None)
_DENIAL = RefusedPartition(denial(AclResourceType.TOPIC).code, denial(AclResourceType.TOPIC).message)


@handles_in_steps(ApiKey.SHARE_FETCH)
def share_fetch(
    services: Services, context: RequestContext, request: ShareFetchRequest
) -> Steps[Answer[ShareFetchResponse]]:
    """Update the session, accept the acknowledgements, and begin to fetch."""
    acks: dict[TopicIdPartition, list[AckBatch]] = {}
    if any(partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions):
        acks = _acknowledgements(request.topics)
    member = _member_of(services, context, request)
    _check(request, bool(acks))
    yield from _open_logs(services, request.topics)
    session = _session(services, context, member, request)
    if session is not None:
        _update(session, request, services.image.topics_by_id)
    has_unknown_mode = (
        request.share_acquire_mode not in ACQUIRE_MODES and session is not None and _reads(services, context, session)
    )
    taken: list[Callable[[], None]] = []
    attempt = first = None
    try:
        results: dict[TopicIdPartition, AckResult] = {}
        if acks:  # which are decided about even if the client has gone, but then it gets no records
            steps = _acknowledge(services, context, member, acks, request.is_renew_ack, taken)
            acknowledging = services.slices.begin(steps, outlives_client=True)
            results = acknowledging.result() if acknowledging.done else (yield acknowledging)
        if session is not None:
            attempt = ShareFetchAttempt(services, context, member, request, results, session)
            # The look for records comes before the request's acknowledgements take effect.
            first = attempt.at_first_sight() if taken and not has_unknown_mode else None
    finally:
        _show(taken)
    if attempt is None:
        services.shares.close_session(member, context.now)
        response = _response(services, context, member, {}, results)
        return when_committed(response, services.shares.shards.all_committed())
    if has_unknown_mode:
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST, error_message="Unknown acquire mode")
    committed = services.shares.committed(ShareKey(member[0], *partition) for partition in results)
    if first is not None:
        return when_committed(first, committed)
    acknowledged = when_committed(None, committed)
    if acknowledged is not None:
        yield acknowledged
    return attempt.begin()


def _check(request: ShareFetchRequest, has_acks: bool) -> None:
    if request.is_renew_ack and (request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records):
        raise ApiError(ErrorCode.INVALID_REQUEST)  # a request that renews locks may ask for no records
    if has_acks and request.share_session_epoch == INITIAL_EPOCH:
        raise ApiError(ErrorCode.INVALID_REQUEST)


def _session(
    services: Services, context: RequestContext, member: Member, request: ShareFetchRequest
) -> ShareSession | None:
    """Return the member's session after the request, None if the request ends the session."""
    sessions, epoch = services.shares.sessions, request.share_session_epoch
    if epoch == FINAL_EPOCH:
        sessions.require(member)
        return None
    if epoch == INITIAL_EPOCH:
        return services.shares.open_session(member, context.connection.id)
    return sessions.use_epoch(member, epoch)


def _update(session: ShareSession, request: ShareFetchRequest, known: Collection[bytes]) -> None:
    """Add the request's partitions to the session, and remove the forgotten ones. known: the ids of existing topics."""
    for topic in request.topics:
        topic_id = bytes(topic.topic_id)
        for partition in topic.partitions:
            session.add((topic_id, partition.partition_index), topic_id in known)
    for forgotten in request.forgotten_topics_data:
        topic_id = bytes(forgotten.topic_id)
        for index in forgotten.partitions:
            session.forget((topic_id, index))


def _reads(services: Services, context: RequestContext, session: ShareSession) -> bool:
    """Return whether the session has a readable partition, or a partition of a topic that has gone since."""
    topics = services.image.topics_by_id
    return any(
        (was_known if (topic := topics.get(topic_id)) is None else index in topic.partitions)
        and _may_read(services, context, topic_id)
        for (topic_id, index), was_known in session.partitions.items()
    )


class ShareFetchAttempt:
    """A share fetch, repeated whenever something changes in the partitions."""

    def __init__(
        self,
        services: Services,
        context: RequestContext,
        member: Member,
        request: ShareFetchRequest,
        results: dict[TopicIdPartition, AckResult],
        session: ShareSession,
    ) -> None:
        self._services = services
        self._context = context
        self._member = member
        self._results = results
        self._min_bytes = request.min_bytes
        self._partitions: list[TopicIdPartition] = []
        self._denied: dict[TopicIdPartition, RefusedPartition] = {}
        for key in session.in_turn():
            if _may_read(services, context, key[0]):
                self._partitions.append(key)
            else:
                self._denied[key] = _DENIAL
        wanted = request.min_bytes > 0 and request.max_bytes and request.max_records
        self._max_wait_ms = request.max_wait_ms if wanted else 0
        most_bytes, known = services.config.fetch_max_bytes, session.partitions
        self._reader = ShareReader(services.shares.partitions, most_bytes, member, request, known)

    def begin(self) -> ShareFetchResponse | Parked:
        """Return the answer, or a wait for the answer."""
        deadline = self._services.clock.now + self._max_wait_ms
        response = self.at_first_sight()
        if response is not None:
            return response
        watched = self._reader.watched(self._partitions)
        return Parked(deadline, keys=watched, poll=self._poll, expire=self._answer, yields=True)

    def at_first_sight(self) -> ShareFetchResponse | None:
        """Return the answer, or None if waiting may bring more."""
        return self._poll(0) if self._max_wait_ms > 0 else self._answer(0)

    def _poll(self, now: int) -> ShareFetchResponse | None:
        """Return the answer, or None while waiting may bring more."""
        if self._partitions and not self._reader.has(self._partitions, self._min_bytes):
            return None
        data = self._reader.read(self._partitions, self._services.clock.now)
        has_records = any(part.acquired_records for part in data.values())
        all_failed = len(data) == len(self._partitions) and all(part.error_code for part in data.values())
        if self._partitions and not (has_records or all_failed or self._reader.has_passed):
            return None
        return self._response(data)

    def _answer(self, now: int) -> ShareFetchResponse:
        """Return the answer with the available records."""
        return self._response(self._reader.read(self._partitions, self._services.clock.now))

    def _response(self, data: Found) -> ShareFetchResponse:
        data.update(self._denied)
        return _response(self._services, self._context, self._member, data, self._results)


def _response(
    services: Services, context: RequestContext, member: Member, data: Found, results: dict[TopicIdPartition, AckResult]
) -> ShareFetchResponse:
    """Return the answer: partitions with records, with an error, or with acknowledgements in the request."""
    leaders = {part.leader[0] for part in data.values() if isinstance(part, RefusedPartition) and part.leader}
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=services.shares.partitions.limits(member[0]).lock_ms,
        responses=[_topic(data, results, *topic) for topic in by_topic(dict.fromkeys(chain(data, results))).items()],
        node_endpoints=[NodeEndpoint(*node) for node in services.leaders(context, leaders)],
    )


def _topic(
    data: Found, results: dict[TopicIdPartition, AckResult], topic_id: bytes, indexes: list[int]
) -> ShareFetchableTopicResponse:
    topic = ShareFetchableTopicResponse(topic_id)
    for index in indexes:
        part = data.get((topic_id, index), _EMPTY)
        if not isinstance(part, PartitionData):
            code, message, leader = part
            part = PartitionData(index, code, message, 0, None, LeaderIdAndEpoch(*leader), b"", _NO_RECORDS)
        result = results.get((topic_id, index))
        if result is not None:
            part.acknowledge_error_code, part.acknowledge_error_message = result
        topic.partitions.append(part)
    return topic
