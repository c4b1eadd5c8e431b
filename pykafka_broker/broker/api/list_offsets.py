"""ListOffsets v0-v11.

Behaviour: a timestamp finds the first record at or after it; negative ones are names: -1 the end (the last stable
offset for readers of committed records), -2 the start, -3 the record with the greatest timestamp (KIP-734, v7), -4 the
earliest local offset (KIP-405, v8), -5 the latest tiered one (KIP-1005, v9) and -6 the earliest that waits to be tiered
(KIP-1023, v11); with nothing tiered these last two answer -1 without an error. Followers are told the end of the log.
Versions: 0 answers a list of offsets by segment, 2 isolation level, 4 leader epochs, 10 a time limit for remote
storage, which does not arise here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Sequence
from typing import NamedTuple

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Steps, are_many, shares
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
from pykafka_broker.records.errors import CorruptBatch

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
_MOST_BEGUN = 8  # look-ups that take long
_ISOLATION_LEVELS = frozenset(IsolationLevel)
_NONE = -1
_NO_OFFSETS: list[int] = []  # shared by all answers; nobody changes it
_DESCRIBE_TOPIC = (AclOperation.DESCRIBE, AclResourceType.TOPIC)


@handles(ApiKey.LIST_OFFSETS)
def list_offsets(
    services: Services, context: RequestContext, request: ListOffsetsRequest
) -> Answer[ListOffsetsResponse]:
    search = _Search(services, context, request)
    if are_many([topic.partitions for topic in request.topics]):
        return services.slices.reply(search.in_slices(request))
    topics = []
    for topic in request.topics:
        asked, answers = search.asked(topic), list[ListOffsetsPartitionResponse]()
        search.answer(asked, asked.partitions, answers)
        topics.append(ListOffsetsTopicResponse(topic.name, answers))
    response = ListOffsetsResponse(topics=topics)
    return services.slices.reply(search.complete(response)) if search.long_ones else response


_AnswerSteps = Generator[None, None, ListOffsetsPartitionResponse]


class _Asked(NamedTuple):
    """What is asked about one topic."""

    topic: str
    partitions: Sequence[ListOffsetsPartition]
    repeated: Collection[int]
    allowed: bool


class _LongOne(NamedTuple):
    """A look-up that takes long, and where its answer belongs."""

    steps: _AnswerSteps
    number: int
    answers: list[ListOffsetsPartitionResponse]
    place: int


class _Search:
    """One request."""

    __slots__ = ("_committed", "_context", "_is_follower", "_known", "_services", "long_ones")

    def __init__(self, services: Services, context: RequestContext, request: ListOffsetsRequest) -> None:
        self._services = services
        self._context = context
        self._known = request.isolation_level in _ISOLATION_LEVELS
        self._committed = request.isolation_level == IsolationLevel.READ_COMMITTED
        self._is_follower = request.replica_id >= 0
        self.long_ones: list[_LongOne] = []

    def asked(self, topic: ListOffsetsTopic) -> _Asked:
        """One question a partition; one that is asked for twice is refused, once."""
        if not self._services.allows(self._context, *_DESCRIBE_TOPIC, topic.name):
            return _Asked(topic.name, topic.partitions, (), False)
        asked = {wanted.partition_index: wanted for wanted in topic.partitions}
        repeated = _repeated(topic) if len(asked) < len(topic.partitions) else ()
        return _Asked(topic.name, list(asked.values()), repeated, True)

    def answer(
        self, asked: _Asked, some: Iterable[ListOffsetsPartition], answers: list[ListOffsetsPartitionResponse]
    ) -> None:
        """Answer some of the partitions that are asked about."""
        topic, _, repeated, allowed = asked
        version, leader = self._context.api_version, self._services.replicas.leader
        known, committed, is_follower = self._known, self._committed, self._is_follower
        for wanted in some:
            index, timestamp = wanted.partition_index, wanted.timestamp
            try:
                if not allowed:
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if repeated and index in repeated:
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                if timestamp < EARLIEST and version < _NAMED_SINCE.get(timestamp, _NEVER):
                    raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
                if not known:
                    raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)  # which is what a real broker calls it
                partition = leader(topic, index, wanted.current_leader_epoch)
                log = partition.log
                end = log.last_stable_offset if committed else log.high_watermark
                if is_follower:
                    end = log.log_end_offset
                elif timestamp == LATEST and (refusal := self._unknown_end(partition)) is not None:
                    raise refusal
                if timestamp >= 0 or timestamp == MAX_TIMESTAMP or (version == 0 and timestamp != EARLIEST):
                    beyond = None if is_follower else self._unknown_end(partition)
                    steps = _timed_answer(log, wanted, end, version, beyond)
                    self._begin(_LongOne(steps, index, answers, len(answers)))
                else:
                    answers.append(_answer(log, wanted, end, version))
            except ApiError as error:
                answers.append(_failure(index, error.code))
            except OSError:
                answers.append(_failure(index, ErrorCode.KAFKA_STORAGE_ERROR))

    def _unknown_end(self, partition: Partition) -> ApiError | None:
        """Return what a client is told that asks for the end, or for what lies behind it, while a new leader does not
        know yet how much of what it has is committed.
        """
        if partition.knows_committed:
            return None
        knows_error = self._context.api_version >= _NOT_AVAILABLE_FROM
        return ApiError(ErrorCode.OFFSET_NOT_AVAILABLE if knows_error else ErrorCode.LEADER_NOT_AVAILABLE)

    def _begin(self, one: _LongOne) -> None:
        """Most look-ups are done at once; one that is not holds a batch."""
        if len(self.long_ones) < _MOST_BEGUN:
            try:
                next(one.steps)
            except StopIteration as found:
                one.answers.append(found.value)
                return
        one.answers.append(_failure(one.number, ErrorCode.UNKNOWN_SERVER_ERROR))  # until it is known
        self.long_ones.append(one)

    def in_slices(self, request: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
        """The answer, where many partitions are asked for."""
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
        """The response, once the look-ups are done that take long."""
        for steps, number, answers, place in self.long_ones:
            try:
                answers[place] = yield from steps
            except ApiError as error:
                answers[place] = _failure(number, error.code)
            except OSError:
                answers[place] = _failure(number, ErrorCode.KAFKA_STORAGE_ERROR)
            yield None
        return response


def _repeated(topic: ListOffsetsTopic) -> set[int]:
    """The partitions that a request names more than once."""
    times = Counter(wanted.partition_index for wanted in topic.partitions)
    return {index for index, count in times.items() if count > 1}


def _failure(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(index, code)


def _answer(log: PartitionLog, wanted: ListOffsetsPartition, end: int, version: int) -> ListOffsetsPartitionResponse:
    """Where the name of a place is asked for."""
    timestamp = wanted.timestamp
    if version == 0:
        return ListOffsetsPartitionResponse(wanted.partition_index, 0, [log.log_start_offset][: _most(wanted)])
    if timestamp == LATEST:
        offset, leader_epoch = end, log.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset = log.log_start_offset
        leader_epoch = log.leader_epoch if offset == log.log_end_offset else log.epoch_at(offset)
    else:
        offset = leader_epoch = _NONE
    if version < _LEADER_EPOCHS_FROM:
        leader_epoch = _NONE
    return ListOffsetsPartitionResponse(wanted.partition_index, 0, _NO_OFFSETS, _NONE, offset, leader_epoch)


def _timed_answer(
    log: PartitionLog, wanted: ListOffsetsPartition, end: int, version: int, beyond: ApiError | None
) -> _AnswerSteps:
    """Where the times in the segments' indexes are looked at, in steps of about a millisecond: of the record that
    `timestamp` names, which is not the end; where there is none, -1 each, or `beyond` is raised.
    """
    if log.segments.untimed:
        yield from log.learn_times()
    timestamp = wanted.timestamp
    if version == 0:
        return ListOffsetsPartitionResponse(wanted.partition_index, 0, _old_style_offsets(log, wanted, end))
    try:
        if timestamp == MAX_TIMESTAMP:
            found = yield from log.offset_of_max_timestamp()
        else:
            found = yield from log.offset_for_timestamp(timestamp)
    except CorruptBatch as damage:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(damage)) from damage
    if found is None or found.offset >= end:
        if beyond is not None:
            raise beyond
        return _found(wanted, version, _NONE, _NONE, _NONE)
    # The record may stand before the log's start, in a batch that is still there; its epoch is not in the cache then.
    leader_epoch = log.epoch_at(max(found.offset, log.log_start_offset))
    return _found(wanted, version, found.offset, found.timestamp, leader_epoch)


def _found(
    wanted: ListOffsetsPartition, version: int, offset: int, timestamp: int, leader_epoch: int
) -> ListOffsetsPartitionResponse:
    if version < _LEADER_EPOCHS_FROM:
        leader_epoch = _NONE
    return ListOffsetsPartitionResponse(wanted.partition_index, 0, _NO_OFFSETS, timestamp, offset, leader_epoch)


def _most(wanted: ListOffsetsPartition) -> int:
    return max(0, wanted.max_num_offsets)


def _old_style_offsets(log: PartitionLog, wanted: ListOffsetsPartition, end: int) -> list[int]:
    """v0: the start offsets of segments older than the timestamp, newest first, at most as many as asked for."""
    if wanted.timestamp == LATEST:
        offsets = [end, *(base for base, _ in reversed(log.segments.starts()) if base < end)]
    else:
        offsets = [
            max(base, log.log_start_offset)
            for base, modified_ms in reversed(log.segments.starts())
            if modified_ms <= wanted.timestamp
        ]
    return offsets[: _most(wanted)]
