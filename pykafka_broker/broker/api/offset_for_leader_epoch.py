"""OffsetForLeaderEpoch v0-v4 (KIP-101, KIP-320).

Behaviour: where the records of a leader epoch end, so that a client can tell whether its history is the log's. An epoch
that the log has never had is answered with -1, without an error.
Versions: 1 answers the epoch that was found, 2 carries the client's idea of the current leader epoch, 3 a replica id, 4
is flexible.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from pykafka_broker.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch(
    services: Services, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    # Followers may ask about any topic.
    is_follower = services.allows(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, log=False)
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end_offset(services, context, is_follower, topic.topic, one) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end_offset(
    services: Services, context: RequestContext, is_follower: bool, topic: str, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        if not is_follower:
            services.authorise(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
        log = services.replicas.leader(topic, wanted.partition, wanted.current_leader_epoch).log
        answer.leader_epoch, answer.end_offset = log.leader_epoch_end(wanted.leader_epoch)
    except ApiError as error:
        answer.error_code = error.code
    return answer
