"""Offsets of logs: ListOffsets v0-v11, OffsetForLeaderEpoch v0-v4 (KIP-101, KIP-320), DeleteRecords v0-v2 (KIP-107,
KIP-204).

ListOffsets: a timestamp finds the first record at or after it; negative ones are names: -1 the end (the last stable
offset for readers of committed records), -2 the start, -3 the record with the greatest timestamp (KIP-734, v7), -4 the
earliest local offset (KIP-405, v8), -5 the latest tiered one (KIP-1005, v9) and -6 the earliest that waits to be tiered
(KIP-1023, v11); with nothing tiered the last two answer -1 without an error. Followers are told the end of the log.
Versions: 0 answers a list of offsets by segment, 2 isolation level, 4 leader epochs, 10 a time limit for remote
storage, which does not arise here.

OffsetForLeaderEpoch: the end of the records of a leader epoch. A client or follower compares the end with its own
records, and so finds out whether they have diverged from the leader's log. An epoch that the log has never had is
answered with -1, without an error. Versions: 1 answers the epoch found, 2 carries the client's idea of the current
leader epoch, 3 a replica id, 4 is flexible.

DeleteRecords: moves the log start offset; -1 means the high watermark. Kafka Streams empties its repartition topics
with this request. With other replicas on live brokers, the answer waits until none of them has the deleted records, or
for `timeout_ms`; a node that ceases to lead meanwhile answers NOT_LEADER_OR_FOLLOWER. An offset beyond the high
watermark is OFFSET_OUT_OF_RANGE, a topic that is only compacted is POLICY_VIOLATION. A topic with an empty
cleanup.policy allows the request, and keeps all other records for ever (KIP-1161). Versions: 2 is the flexible
encoding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Sequence
from struct import Struct
from typing import Any, NamedTuple, TypeVar

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.partitions.replicas import Replicas
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply
from pykafka_broker.broker.requests.router import handles, handles_in_steps
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Parked, Steps, are_many, shares
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    AclOperation,
    AclResourceType,
    IsolationLevel,
)
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_records_request import DeleteRecordsRequest, DeleteRecordsTopic
from pykafka_broker.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pykafka_broker.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from pykafka_broker.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

_NAMED_SINCE = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_LEADER_EPOCHS_FROM = 4
_NOT_AVAILABLE_FROM = 5
_NEVER = 1 << 15
_MOST_BEGUN = 8  # long look-ups under way at once
_ISOLATION_LEVELS = frozenset(IsolationLevel)
_NONE = -1
_NO_OFFSETS: list[int] = []  # shared by all answers, never changed
_STARTS_AND_ENDS = (LATEST, EARLIEST)
_MARKED = 0x7F010203 << 32  # an offset in the place of one that is filled in later; no name of a topic has such bytes
_OFFSET_AND_EPOCH_BYTES = 12
_DESCRIBE_TOPIC = (AclOperation.DESCRIBE, AclResourceType.TOPIC)
_HIGH_WATERMARK = -1  # DeleteRecords
_INVALID_LOW_WATERMARK = -1
_T = TypeVar("_T", ListOffsetsTopic, DeleteRecordsTopic)


@handles(ApiKey.LIST_OFFSETS)
def list_offsets(
    services: Services, context: RequestContext, request: ListOffsetsRequest
) -> Answer[ListOffsetsResponse | EncodedReply]:
    request.topics = _by_name(request.topics)
    search = _Search(services, context, request)
    if are_many([topic.partitions for topic in request.topics]):
        return services.slices.reply(search.in_slices(request))
    topics = []
    for topic in request.topics:
        asked, answers = search.asked(topic), list[ListOffsetsPartitionResponse]()
        search.answer(asked, asked.partitions, answers)
        topics.append(ListOffsetsTopicResponse(topic.name, answers))
    response = ListOffsetsResponse(topics=topics)
    if search.long_ones:
        return services.slices.reply(search.complete(response))
    if search.has_lasting_form(request, response):
        return StartsAndEnds(services.replicas, request, response, context.api_version)
    return response


class StartsAndEnds(EncodedReply):
    """An answer to a client that tells of starts and ends of logs alone, in a version with leader epochs.

    The answer is encoded once, when the same request comes again; from then on only the offsets are filled in.
    """

    __slots__ = ("_committed", "_pack", "_parts", "_rest", "_unprepared")

    def __init__(
        self, replicas: Replicas, request: ListOffsetsRequest, response: ListOffsetsResponse, version: int
    ) -> None:
        super().__init__(response.encode(version))
        self._committed = request.isolation_level == IsolationLevel.READ_COMMITTED
        self._unprepared: tuple[Replicas, ListOffsetsRequest, ListOffsetsResponse, int] | None
        self._unprepared = replicas, request, response, version
        # the bytes in front of an offset, the partition, and whether its end is asked for, else its start
        self._parts: list[tuple[bytes, Partition | None, bool]] = []

    def current(self) -> EncodedReply | None:
        """Return the answer with the offsets of now; None where a partition is not led, or its end is not known."""
        if self._unprepared is not None:
            self._prepare(*self._unprepared)
        committed, values = self._committed, list[Any]()
        for before, partition, is_end in self._parts:
            if partition is None or not partition.is_leader:
                return None
            log = partition.log
            if not is_end:
                values += (before, *_start(log))
            elif partition.knows_committed:
                values += (before, log.last_stable_offset if committed else log.high_watermark, log.epochs.current)
            else:
                return None
        self.body = self._pack(*values, self._rest)
        return self

    def _prepare(
        self, replicas: Replicas, request: ListOffsetsRequest, response: ListOffsetsResponse, version: int
    ) -> None:
        """Take the answer apart where offsets stand, each of which is followed by a leader epoch."""
        answers = [answer for topic in response.topics for answer in topic.partitions]
        for position, answer in enumerate(answers):
            answer.offset = _MARKED + position
        body, start = response.encode(version), 0
        wanted = ((topic.name, each) for topic in request.topics for each in topic.partitions)
        for position, (topic, each) in enumerate(wanted):
            at = body.index((_MARKED + position).to_bytes(8, "big"), start)
            partition = replicas.open_leader(topic, each.partition_index)
            self._parts.append((body[start:at], partition, each.timestamp == LATEST))
            start = at + _OFFSET_AND_EPOCH_BYTES
        self._rest, self._unprepared = body[start:], None
        self._pack = Struct(
            ">" + "".join(f"{len(before)}sqi" for before, _, _ in self._parts) + f"{len(self._rest)}s"
        ).pack


_AnswerSteps = Generator[None, None, ListOffsetsPartitionResponse]


class _Asked(NamedTuple):
    """The questions about a topic: each partition once, and the partitions that were named more than once."""

    topic: str
    partitions: Sequence[ListOffsetsPartition]
    repeated: Collection[int]
    allowed: bool


class _LongLookUp(NamedTuple):
    """A look-up that did not end at once. Its answer belongs into `answers[position]`."""

    steps: _AnswerSteps
    answers: list[ListOffsetsPartitionResponse]
    position: int


class _Search:
    """The look-ups of a request."""

    __slots__ = ("_committed", "_context", "_is_follower", "_is_level_known", "_services", "long_ones")

    def __init__(self, services: Services, context: RequestContext, request: ListOffsetsRequest) -> None:
        self._services = services
        self._context = context
        self._is_level_known = request.isolation_level in _ISOLATION_LEVELS
        self._committed = request.isolation_level == IsolationLevel.READ_COMMITTED
        self._is_follower = request.replica_id >= 0
        self.long_ones: list[_LongLookUp] = []

    def asked(self, topic: ListOffsetsTopic) -> _Asked:
        """Return the questions about a topic; a partition named twice is refused, once."""
        allowed = self._services.allows(self._context, *_DESCRIBE_TOPIC, topic.name)
        if not (allowed and self._is_level_known):
            return _Asked(topic.name, topic.partitions, (), allowed)
        asked = {wanted.partition_index: wanted for wanted in topic.partitions}
        repeated = _repeated(topic) if len(asked) < len(topic.partitions) else ()
        return _Asked(topic.name, list(asked.values()), repeated, True)

    def answer(
        self, asked: _Asked, some: Iterable[ListOffsetsPartition], answers: list[ListOffsetsPartitionResponse]
    ) -> None:
        """Answer questions about some partitions of a topic."""
        topic, _, repeated, allowed = asked
        version, leader = self._context.api_version, self._services.replicas.leader
        is_level_known, committed, is_follower = self._is_level_known, self._committed, self._is_follower
        for wanted in some:
            index, timestamp = wanted.partition_index, wanted.timestamp
            try:
                if not allowed:
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if repeated and index in repeated:
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                if timestamp < EARLIEST and version < _NAMED_SINCE.get(timestamp, _NEVER):
                    raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
                if not is_level_known:
                    raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)  # as with Kafka
                partition = leader(topic, index, wanted.current_leader_epoch)
                log = partition.log
                if is_follower:
                    end, unknown = log.log_end_offset, None
                else:
                    end = log.last_stable_offset if committed else log.high_watermark
                    unknown = None if partition.knows_committed else self._unknown_end()
                if timestamp == LATEST and unknown is not None:
                    raise ApiError(unknown)
                if timestamp >= 0 or timestamp == MAX_TIMESTAMP or (version == 0 and timestamp != EARLIEST):
                    self._begin(_timed_answer(log, wanted, end, version, unknown), index, answers)
                elif timestamp == LATEST:
                    epoch = log.epochs.current if version >= _LEADER_EPOCHS_FROM else _NONE
                    answers.append(ListOffsetsPartitionResponse(index, 0, _NO_OFFSETS, _NONE, end, epoch))
                else:
                    answers.append(_answer(log, wanted, version))
            except ApiError as error:
                answers.append(ListOffsetsPartitionResponse(index, error.code))

    def has_lasting_form(self, request: ListOffsetsRequest, response: ListOffsetsResponse) -> bool:
        """Return whether the answer is one of `StartsAndEnds`."""
        return (
            self._context.api_version >= _LEADER_EPOCHS_FROM
            and not self._is_follower
            and all(each.timestamp in _STARTS_AND_ENDS for topic in request.topics for each in topic.partitions)
            and not any(each.error_code for topic in response.topics for each in topic.partitions)
        )

    def _unknown_end(self) -> ErrorCode:
        """Return the error for a question about the end while a new leader can't know the committed end."""
        knows_error = self._context.api_version >= _NOT_AVAILABLE_FROM
        return ErrorCode.OFFSET_NOT_AVAILABLE if knows_error else ErrorCode.LEADER_NOT_AVAILABLE

    def _begin(self, steps: _AnswerSteps, index: int, answers: list[ListOffsetsPartitionResponse]) -> None:
        """Begin a look-up, which nearly always ends at once.

        An unfinished look-up keeps a batch in memory, so only `_MOST_BEGUN` of them are begun before `complete`.
        """
        look_up = _LongLookUp(steps, answers, len(answers))
        if len(self.long_ones) < _MOST_BEGUN:
            try:
                next(steps)
            except StopIteration as found:
                answers.append(found.value)
                return
        answers.append(ListOffsetsPartitionResponse(index, ErrorCode.UNKNOWN_SERVER_ERROR))  # until the look-up ends
        self.long_ones.append(look_up)

    def in_slices(self, request: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
        """Answer a request with many partitions, a share of them at a time."""
        response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(topic.name, []) for topic in request.topics])
        groups = []
        for topic, answer in zip(request.topics, response.topics, strict=True):
            asked = self.asked(topic)
            groups.append(((asked, answer.partitions), asked.partitions))
        for share in shares(groups):
            for (asked, answers), some in share:
                self.answer(asked, some, answers)
            yield None
        return (yield from self.complete(response))

    def complete(self, response: ListOffsetsResponse) -> Steps[ListOffsetsResponse]:
        """Finish the long look-ups, and return the response."""
        for steps, answers, position in self.long_ones:
            try:
                answers[position] = yield from steps
            except ApiError as error:
                answers[position].error_code = error.code
            yield None
        return response


def _by_name(topics: list[_T]) -> list[_T]:
    """Return each topic once with all of its partitions, and no topic without partitions."""
    if len({topic.name for topic in topics if topic.partitions}) == len(topics):
        return topics
    found: dict[str, _T] = {}
    for topic in topics:
        known = found.get(topic.name)
        if known is not None:
            known.partitions += topic.partitions
        elif topic.partitions:
            found[topic.name] = topic
    return list(found.values())


def _repeated(topic: ListOffsetsTopic) -> set[int]:
    """Return the partitions that are named more than once."""
    times = Counter(wanted.partition_index for wanted in topic.partitions)
    return {index for index, count in times.items() if count > 1}


def _answer(log: PartitionLog, wanted: ListOffsetsPartition, version: int) -> ListOffsetsPartitionResponse:
    """Return the answer to the name of an offset that is not the end."""
    timestamp = wanted.timestamp
    if version == 0:
        offsets = [log.log_start_offset] if wanted.max_num_offsets > 0 else []
        return ListOffsetsPartitionResponse(wanted.partition_index, 0, offsets)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset, leader_epoch = _start(log)
    else:
        offset = leader_epoch = _NONE
    return _found(wanted, version, offset, _NONE, leader_epoch)


def _start(log: PartitionLog) -> tuple[int, int]:
    """Return the first offset of a log, and its leader epoch."""
    offset = log.log_start_offset
    return offset, log.epochs.current if offset == log.log_end_offset else log.epochs.epoch_at(offset)


def _timed_answer(
    log: PartitionLog, wanted: ListOffsetsPartition, end: int, version: int, beyond: ErrorCode | None
) -> _AnswerSteps:
    """Find the record for a timestamp in the indexes of segments, in steps of about a millisecond.

    Args:
        end: the offset behind the last record that counts.
        beyond: the error to raise if there is no such record; None: the answer is then offset -1.
    """
    if log.segments.untimed:
        yield from log.learn_times()
    timestamp = wanted.timestamp
    if version == 0:
        return ListOffsetsPartitionResponse(wanted.partition_index, 0, _old_style_offsets(log, wanted, end))
    found = yield from log.offset_for_timestamp(None if timestamp == MAX_TIMESTAMP else timestamp)
    if found is None or found.offset >= end:
        if beyond is not None:
            raise ApiError(beyond)
        return _found(wanted, version, _NONE, _NONE, _NONE)
    # The record may be before the log's start, in a batch that is not deleted yet; its epoch is out of the cache then.
    leader_epoch = log.epochs.epoch_at(max(found.offset, log.log_start_offset))
    return _found(wanted, version, found.offset, found.timestamp, leader_epoch)


def _found(
    wanted: ListOffsetsPartition, version: int, offset: int, timestamp: int, leader_epoch: int
) -> ListOffsetsPartitionResponse:
    if version < _LEADER_EPOCHS_FROM:
        leader_epoch = _NONE
    return ListOffsetsPartitionResponse(wanted.partition_index, 0, _NO_OFFSETS, timestamp, offset, leader_epoch)


def _old_style_offsets(log: PartitionLog, wanted: ListOffsetsPartition, end: int) -> list[int]:
    """Return the start offsets of segments older than the timestamp, newest first, for version 0."""
    if wanted.timestamp == LATEST:
        offsets = [end, *(each.base_offset for each in reversed([*log.segments]) if each.base_offset < end)]
    else:
        offsets = [
            max(base, log.log_start_offset)
            for base, modified_ms in reversed(log.segment_starts())
            if modified_ms <= wanted.timestamp
        ]
    return offsets[: max(0, wanted.max_num_offsets)]


@handles_in_steps(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch(
    services: Services, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Steps[OffsetForLeaderEpochResponse]:
    # Followers may ask about any topic.
    is_follower = services.allows(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, log=False)
    results = [OffsetForLeaderTopicResult(topic.topic, []) for topic in request.topics]
    groups = zip(results, (topic.partitions for topic in request.topics), strict=True)
    for turn, share in enumerate(shares(groups)):
        if turn:
            yield None
        for result, some in share:
            result.partitions += [_end_offset(services, context, is_follower, result.topic, each) for each in some]
    return OffsetForLeaderEpochResponse(topics=results)


def _end_offset(
    services: Services, context: RequestContext, is_follower: bool, topic: str, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        if not is_follower:
            services.authorise(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
        log = services.replicas.leader(topic, wanted.partition, wanted.current_leader_epoch).log
        answer.leader_epoch, answer.end_offset = log.epochs.led_end_offset_for(wanted.leader_epoch, log.log_end_offset)
    except ApiError as error:
        answer.error_code = error.code
    return answer


class _Unfinished(NamedTuple):
    """A deletion before other replicas have followed; the result is REQUEST_TIMED_OUT until then."""

    partition: Partition
    offset: int
    result: DeleteRecordsPartitionResult

    def settle(self) -> bool:
        """Set the result if the other replicas have followed, or the node leads no more; return whether set."""
        if not self.partition.is_leader:
            self.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return True
        low_watermark = self.partition.low_watermark
        if low_watermark < self.offset:
            return False
        self.result.low_watermark, self.result.error_code = low_watermark, ErrorCode.NONE
        return True


@handles_in_steps(ApiKey.DELETE_RECORDS, outlives_client=True)
def delete_records(
    services: Services, context: RequestContext, request: DeleteRecordsRequest
) -> Steps[Answer[DeleteRecordsResponse]]:
    request.topics = _by_name(request.topics)
    response = DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(topic.name, []) for topic in request.topics])
    # A partition that is named twice is answered once, for its last offset.
    offsets = ({each.partition_index: each.offset for each in topic.partitions} for topic in request.topics)
    groups = zip(response.topics, (list(each.items()) for each in offsets), strict=True)
    unfinished: list[_Unfinished] = []
    for turn, share in enumerate(shares(groups)):
        if turn:
            yield None
        for result, some in share:
            result.partitions += [_delete(services, context, result.name, *each, unfinished) for each in some]

    def poll(now: int) -> DeleteRecordsResponse | None:
        unfinished[:] = [each for each in unfinished if not each.settle()]
        return None if unfinished else response

    if poll(services.clock.now) is not None:  # replicas may have followed between two shares, and nobody has looked
        return response
    partitions = [each.partition for each in unfinished]
    deadline = services.clock.now + request.timeout_ms
    return Parked(deadline, keys=partitions, poll=poll, expire=lambda now: response)


def _delete(
    services: Services, context: RequestContext, topic: str, partition: int, offset: int, unfinished: list[_Unfinished]
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=partition, low_watermark=_INVALID_LOW_WATERMARK)
    try:
        services.authorise(context, AclOperation.DELETE, AclResourceType.TOPIC, topic)
        found = services.replicas.leader(topic, partition)
        log = found.log
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if log.config.cleanup_policy == ["compact"]:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        target = log.high_watermark if offset == _HIGH_WATERMARK else offset
        if target < 0 or target > log.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        log.delete_records_before(target)
        found.moved()
        result.error_code = ErrorCode.REQUEST_TIMED_OUT
        deletion = _Unfinished(found, target, result)
        if not deletion.settle():
            unfinished.append(deletion)
    except ApiError as error:
        result.error_code = error.code
    return result
