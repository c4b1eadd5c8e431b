"""OffsetCommit v0-v10.

Behaviour: each partition is answered by itself; generation -1 without a member id is for clients outside the group
protocol, and makes a simple group where there is none.
Versions: 1 a commit time, 2 to 4 a retention time, 6 leader epochs (KIP-320), 7 static members (KIP-345), 9 the
consumer protocol with GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-848), 10 topic ids instead of names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.offset_commit_request import OffsetCommitRequest
from pykafka_broker.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


@handles(ApiKey.OFFSET_COMMIT)
def offset_commit(broker: Broker, context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    host, now = broker.groups, context.now
    try:
        host.require(request.group_id, now)
        effects = host.coordinator.commit_offsets(request, host.caller(context), now)
        reply: OffsetCommitResponse = host.answer(effects, now)
    except ApiError as error:
        return _all(request, error)
    return reply


def _all(request: OffsetCommitRequest, error: ApiError) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(one.partition_index, error.code) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )
