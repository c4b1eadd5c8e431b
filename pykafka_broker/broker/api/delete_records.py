"""DeleteRecords v0-v2 (KIP-107, KIP-204).

Behaviour: moves the log start offset; -1 means the high watermark. Kafka Streams purges its repartition topics so.
Beyond the high watermark is OFFSET_OUT_OF_RANGE, a topic that is only compacted is POLICY_VIOLATION; one without a
cleanup.policy keeps what nobody deletes so (KIP-1161).
Versions: 2 is the flexible encoding.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.reply import Reply
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.slices import Steps, shares
from pykafka_broker.cluster.authorizer import Operation
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_records_request import DeleteRecordsRequest, DeleteRecordsTopic
from pykafka_broker.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_HIGH_WATERMARK = -1
_INVALID_LOW_WATERMARK = -1


@handles(ApiKey.DELETE_RECORDS)
def delete_records(
    services: Services, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Reply:
    return services.slices.reply(_in_slices(services, context, request))


def _in_slices(
    services: Services, context: RequestContext, request: DeleteRecordsRequest
) -> Steps[DeleteRecordsResponse]:
    response = DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(topic.name, []) for topic in request.topics])
    groups = zip(response.topics, map(_once, request.topics), strict=True)
    for number, share in enumerate(shares(groups)):
        if number:
            yield None
        for result, some in share:
            result.partitions += [_delete(services, context, result.name, *one) for one in some]
    return response


def _once(topic: DeleteRecordsTopic) -> Sequence[tuple[int, int]]:
    """Partitions and offsets; a partition that is named twice is answered once, for its last offset."""
    return list({one.partition_index: one.offset for one in topic.partitions}.items())


def _delete(
    services: Services, context: RequestContext, topic: str, partition: int, offset: int
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=partition, low_watermark=_INVALID_LOW_WATERMARK)
    try:
        found = services.partition(context, Operation.DELETE, topic, partition)
        log = found.log
        if services.is_internal(topic):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if log.config.cleanup_policy == ["compact"]:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        target = log.high_watermark if offset == _HIGH_WATERMARK else offset
        if target < 0 or target > log.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        log.delete_records_before(target)
        result.low_watermark = log.log_start_offset
        found.moved()
    except ApiError as error:
        result.error_code = error.code
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return result
