"""ListOffsets v0-v11.

Behaviour: a timestamp finds the first record at or after it; negative ones are names: -1 the end (the last stable
offset for readers of committed records), -2 the start, -3 the record with the greatest timestamp (KIP-734, v7), -4 the
earliest local offset (KIP-405, v8), -5 the latest tiered one (KIP-1005, v9) and -6 the earliest that waits to be tiered
(KIP-1023, v11); with nothing tiered these last two answer -1 without an error.
Versions: 0 answers a list of offsets by segment, 2 isolation level, 4 leader epochs, 10 a time limit for remote
storage, which does not arise here.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.partition_reader import Isolation
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.timestamps import segment_starts
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
_ISOLATION_LEVELS = frozenset(Isolation)
_NONE = -1


@handles(ApiKey.LIST_OFFSETS)
def list_offsets(services: Services, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=topic.name, partitions=_partitions(services, context, request, topic))
            for topic in request.topics
        ]
    )


def _partitions(
    services: Services, context: RequestContext, request: ListOffsetsRequest, topic: ListOffsetsTopic
) -> list[ListOffsetsPartitionResponse]:
    """One answer a partition; one that is asked for twice is refused, once."""
    asked = [wanted.partition_index for wanted in topic.partitions]
    answers = {}
    for wanted in topic.partitions:
        index = wanted.partition_index
        try:
            if len(asked) > 1 and asked.count(index) > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            if wanted.timestamp < 0 and context.api_version < _NAMED_SINCE.get(wanted.timestamp, 1 << 15):
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
            answers[index] = _answer(services, topic.name, wanted, request.isolation_level, context.api_version)
        except ApiError as error:
            answers[index] = ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
        except OSError:
            answers[index] = ListOffsetsPartitionResponse(
                partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR
            )
    return list(answers.values())


def _answer(
    services: Services, topic: str, wanted: ListOffsetsPartition, isolation: int, version: int
) -> ListOffsetsPartitionResponse:
    if isolation not in _ISOLATION_LEVELS:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)  # which is what a real broker calls it
    log = services.replicas.leader(topic, wanted.partition_index, wanted.current_leader_epoch).log
    end = log.last_stable_offset if isolation == Isolation.READ_COMMITTED else log.high_watermark
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    if version == 0:
        answer.old_style_offsets = _old_style_offsets(log, wanted, end)
        return answer
    answer.offset, answer.timestamp, leader_epoch = _lookup(log, wanted.timestamp, end)
    if version >= _LEADER_EPOCHS_FROM:
        answer.leader_epoch = leader_epoch
    return answer


def _lookup(log: PartitionLog, timestamp: int, end: int) -> tuple[int, int, int]:
    """Offset, timestamp and leader epoch of the record that `timestamp` names; -1 each where there is none."""
    if timestamp == LATEST:
        return end, _NONE, log.leader_epoch
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
