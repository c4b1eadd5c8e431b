"""OffsetForLeaderEpoch v0-v4 (KIP-101, KIP-320).

Behaviour: where the records of a leader epoch end, so that a client can tell whether its history is the log's. An epoch
that the log has never had is answered with -1, without an error.
Versions: 1 answers the epoch that was found, 2 carries the client's idea of the current leader epoch, 3 a replica id, 4
is flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.partition_reader import NO_LEADER_EPOCH, check_leader_epoch
from pykafka_broker.broker.router import handles
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from pykafka_broker.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_end_offset(broker, topic.topic, one) for one in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _end_offset(broker: Broker, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        log = broker.partition_log(topic, wanted.partition)
        if wanted.current_leader_epoch != NO_LEADER_EPOCH:
            check_leader_epoch(log, wanted.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = log.leader_epoch_end(wanted.leader_epoch)
    except ApiError as error:
        answer.error_code = error.code
    return answer
