"""WriteTxnMarkers v0-v2.

Behaviour: from other brokers in Kafka; here from admin clients, who end a hanging transaction with it (KIP-664). Each
partition answers for itself.
Versions: 2 says which transaction version the marker is of: with 2 its epoch must be above the producer's (KIP-1228).
"""

from __future__ import annotations

from typing import NamedTuple

from pykafka_broker.broker.coordinators.transaction_markers import write_marker
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Steps, when_committed
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from pykafka_broker.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from pykafka_broker.steps import Pace

_LIKE_ITEMS = 40  # that a marker takes as long as


class _Outcome(NamedTuple):
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int


@handles(ApiKey.WRITE_TXN_MARKERS)
def write_txn_markers(
    services: Services, context: RequestContext, request: WriteTxnMarkersRequest
) -> Answer[WriteTxnMarkersResponse]:
    if not services.allows(context, AclOperation.ALTER, AclResourceType.CLUSTER, log=False):
        services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    return services.slices.reply(_written(services, request), outlives_client=True)


def _written(services: Services, request: WriteTxnMarkersRequest) -> Steps[Answer[WriteTxnMarkersResponse]]:
    written: list[tuple[Partition, int]] = []
    response = WriteTxnMarkersResponse()
    pace = Pace()
    for marker in request.markers:
        response.markers.append((yield from _result(services, marker, written, pace)))
    return when_committed(response, *(partition.committed(offset) for partition, offset in written))


def _result(
    services: Services, marker: WritableTxnMarker, written: list[tuple[Partition, int]], pace: Pace
) -> Steps[WritableTxnMarkerResult]:
    outcome = _Outcome(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )

    def write(topic: str, partition: int) -> ErrorCode:
        try:
            if outcome.producer_epoch < 0:
                services.replicas.leader(topic, partition)
                return ErrorCode.UNKNOWN_SERVER_ERROR  # no batch can carry it, and Kafka has no better word either
            written.append(write_marker(services.node, topic, partition, outcome, services.offsets_decided))
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    result = WritableTxnMarkerResult(marker.producer_id)
    for topic in marker.topics:
        partitions: list[WritableTxnMarkerPartitionResult] = []
        result.topics.append(WritableTxnMarkerTopicResult(topic.name, partitions))
        for partition in topic.partition_indexes:
            code = write(topic.name, partition)
            partitions.append(WritableTxnMarkerPartitionResult(partition, code))
            if pace.due(_LIKE_ITEMS if not code else 1):
                yield None
    return result
