"""ListOffsets v0-v11.

Behaviour: a timestamp finds the first record at or after it; negative ones are names: -1 the end (the last stable
offset for readers of committed records), -2 the start, -3 the record with the greatest timestamp (KIP-734, v7), -4 the
earliest local offset (KIP-405, v8), -5 the latest tiered one (KIP-1005, v9) and -6 the earliest that waits to be tiered
(KIP-1023, v11); with nothing tiered these last two answer -1 without an error.
Versions: 0 answers a list of offsets by segment, 2 isolation level, 4 leader epochs, 10 a time limit for remote
storage, which does not arise here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.partition_reader import Isolation
from pykafka_broker.broker.reply import Reply
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.slices import Steps, are_many, shares
from pykafka_broker.cluster.authorizer import Operation, Resource
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.timestamps import learn_times, segment_starts
from pykafka_broker.protocol.api_keys import ApiKey
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

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_NAMED_SINCE = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_LEADER_EPOCHS_FROM = 4
_NEVER = 1 << 15
_ISOLATION_LEVELS = frozenset(Isolation)
_NONE = -1
_NO_OFFSETS: list[int] = []  # shared by all answers; nobody changes it
_DESCRIBE_TOPIC = (Operation.DESCRIBE, Resource.TOPIC)


@handles(ApiKey.LIST_OFFSETS)
def list_offsets(
    services: Services, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Reply:
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


class _Asked(NamedTuple):
    """What is asked about one topic."""

    topic: str
    partitions: Sequence[ListOffsetsPartition]
    repeated: Collection[int]
    allowed: bool


class _LongOne(NamedTuple):
    """A look-up that takes long, and where its answer belongs."""

    log: PartitionLog
    wanted: ListOffsetsPartition
    end: int
    answers: list[ListOffsetsPartitionResponse]
    place: int


class _Search:
    """One request."""

    __slots__ = ("_committed", "_context", "_known", "_services", "long_ones")

    def __init__(self, services: Services, context: RequestContext, request: ListOffsetsRequest) -> None:
        self._services = services
        self._context = context
        self._known = request.isolation_level in _ISOLATION_LEVELS
        self._committed = request.isolation_level == Isolation.READ_COMMITTED
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
        for wanted in some:
            index = wanted.partition_index
            try:
                if not allowed:
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if repeated and index in repeated:
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                if wanted.timestamp < EARLIEST and version < _NAMED_SINCE.get(wanted.timestamp, _NEVER):
                    raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
                if not self._known:
                    raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)  # which is what a real broker calls it
                log = leader(topic, index, wanted.current_leader_epoch).log
                end = log.last_stable_offset if self._committed else log.high_watermark
                if log.segments.untimed and _needs_times(wanted.timestamp, version):
                    self.long_ones.append(_LongOne(log, wanted, end, answers, len(answers)))
                    answers.append(_failure(index, ErrorCode.UNKNOWN_SERVER_ERROR))  # until it is known
                else:
                    answers.append(_answer(log, wanted, end, version))
            except ApiError as error:
                answers.append(_failure(index, error.code))
            except OSError:
                answers.append(_failure(index, ErrorCode.KAFKA_STORAGE_ERROR))

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
        for log, wanted, end, answers, place in self.long_ones:
            try:
                yield from learn_times(log)
                answers[place] = _answer(log, wanted, end, self._context.api_version)
            except ApiError as error:
                answers[place] = _failure(wanted.partition_index, error.code)
            except OSError:
                answers[place] = _failure(wanted.partition_index, ErrorCode.KAFKA_STORAGE_ERROR)
        return response


def _needs_times(timestamp: int, version: int) -> bool:
    """Whether what the segments' indexes say of times is looked at."""
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP or (version == 0 and timestamp != EARLIEST)


def _repeated(topic: ListOffsetsTopic) -> set[int]:
    """The partitions that a request names more than once."""
    times = Counter(wanted.partition_index for wanted in topic.partitions)
    return {index for index, count in times.items() if count > 1}


def _failure(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(index, code)


def _answer(log: PartitionLog, wanted: ListOffsetsPartition, end: int, version: int) -> ListOffsetsPartitionResponse:
    index, timestamp = wanted.partition_index, wanted.timestamp
    if version == 0:
        return ListOffsetsPartitionResponse(index, 0, _old_style_offsets(log, wanted, end))
    if timestamp == LATEST:
        offset, found_timestamp, leader_epoch = end, _NONE, log.leader_epoch
    else:
        offset, found_timestamp, leader_epoch = _lookup(log, timestamp, end)
    if version < _LEADER_EPOCHS_FROM:
        leader_epoch = _NONE
    return ListOffsetsPartitionResponse(index, 0, _NO_OFFSETS, found_timestamp, offset, leader_epoch)


def _lookup(log: PartitionLog, timestamp: int, end: int) -> tuple[int, int, int]:
    """Offset, timestamp and leader epoch of the record that `timestamp` names, which is not the end; -1 each where
    there is none.
    """
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return start, _NONE, log.leader_epoch if start == log.log_end_offset else log.epoch_at(start)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NONE, _NONE, _NONE
    found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= end:
        return _NONE, _NONE, _NONE
    # The record may stand before the log's start, in a batch that is still there; its epoch is not in the cache then.
    return found.offset, found.timestamp, log.epoch_at(max(found.offset, log.log_start_offset))


def _old_style_offsets(log: PartitionLog, wanted: ListOffsetsPartition, end: int) -> list[int]:
    """v0: the start offsets of segments older than the timestamp, newest first, at most as many as asked for."""
    if wanted.timestamp == LATEST:
        offsets = [end, *(base for base, _ in reversed(segment_starts(log)) if base < end)]
    elif wanted.timestamp == EARLIEST:
        offsets = [log.log_start_offset]
    else:
        offsets = [
            max(base, log.log_start_offset)
            for base, modified_ms in reversed(segment_starts(log))
            if modified_ms <= wanted.timestamp
        ]
    return offsets[: max(0, wanted.max_num_offsets)]
