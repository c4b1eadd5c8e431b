"""DeleteRecords v0-v2 (KIP-107, KIP-204).

Behaviour: moves the log start offset; -1 means the high watermark. Kafka Streams purges its repartition topics so.
Where there are other replicas on brokers that are alive, the answer waits until none of them has what is deleted, or
for `timeout_ms`; a node that ceases to lead meanwhile answers NOT_LEADER_OR_FOLLOWER.
Beyond the high watermark is OFFSET_OUT_OF_RANGE, a topic that is only compacted is POLICY_VIOLATION; one without a
cleanup.policy keeps what nobody deletes so (KIP-1161).
Versions: 2 is the flexible encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Parked, Steps, shares
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_records_request import DeleteRecordsRequest, DeleteRecordsTopic
from pykafka_broker.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_HIGH_WATERMARK = -1
_INVALID_LOW_WATERMARK = -1


class _Unfinished(NamedTuple):
    """Other replicas are still to follow; the answer says so as long as they have not."""

    partition: Partition
    offset: int
    result: DeleteRecordsPartitionResult

    @property
    def is_done(self) -> bool:
        """Whether they have, or this node leads no more and will never know; then the answer says that."""
        if not self.partition.is_leader:
            self.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return True
        low_watermark = self.partition.low_watermark
        if low_watermark < self.offset:
            return False
        self.result.low_watermark, self.result.error_code = low_watermark, ErrorCode.NONE
        return True


@handles(ApiKey.DELETE_RECORDS)
def delete_records(
    services: Services, context: RequestContext, request: DeleteRecordsRequest
) -> Answer[DeleteRecordsResponse]:
    return services.slices.reply(_in_slices(services, context, request))


def _in_slices(
    services: Services, context: RequestContext, request: DeleteRecordsRequest
) -> Steps[Answer[DeleteRecordsResponse]]:
    response = DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(topic.name, []) for topic in request.topics])
    groups = zip(response.topics, map(_once, request.topics), strict=True)
    unfinished: list[_Unfinished] = []
    for number, share in enumerate(shares(groups)):
        if number:
            yield None
        for result, some in share:
            result.partitions += [_delete(services, context, result.name, *one, unfinished) for one in some]
    return _wait(response, unfinished, services.clock.now + request.timeout_ms) if unfinished else response


def _wait(response: DeleteRecordsResponse, unfinished: list[_Unfinished], deadline: int) -> Parked:
    def poll(now: int) -> DeleteRecordsResponse | None:
        unfinished[:] = [one for one in unfinished if not one.is_done]
        return None if unfinished else response

    return Parked(deadline, keys=[one.partition for one in unfinished], poll=poll, expire=lambda now: response)


def _once(topic: DeleteRecordsTopic) -> Sequence[tuple[int, int]]:
    """Partitions and offsets; a partition that is named twice is answered once, for its last offset."""
    return list({one.partition_index: one.offset for one in topic.partitions}.items())


def _delete(
    services: Services,
    context: RequestContext,
    topic: str,
    partition: int,
    offset: int,
    unfinished: list[_Unfinished],
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=partition, low_watermark=_INVALID_LOW_WATERMARK)
    try:
        found = services.partition(context, AclOperation.DELETE, topic, partition)
        log = found.log
        if services.is_internal(topic):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if log.config.cleanup_policy == ["compact"]:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        target = log.high_watermark if offset == _HIGH_WATERMARK else offset
        if target < 0 or target > log.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        log.delete_records_before(target)
        found.moved()
        result.low_watermark = log.log_start_offset
        if found.low_watermark < target:
            result.low_watermark, result.error_code = _INVALID_LOW_WATERMARK, ErrorCode.REQUEST_TIMED_OUT
            unfinished.append(_Unfinished(found, target, result))
    except ApiError as error:
        result.error_code = error.code
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return result
