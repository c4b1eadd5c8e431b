"""OffsetCommit v0-v10.

Behaviour: each partition is answered by itself; generation -1 without a member id is for clients outside the group
protocol, and makes a simple group where there is none.
Versions: 1 a commit time, 2 to 4 a retention time, 6 leader epochs (KIP-320), 7 static members (KIP-345), 9 the
consumer protocol with GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-848), 10 topic ids instead of names.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.offset_commit_request import OffsetCommitRequest
from pykafka_broker.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


@handles(ApiKey.OFFSET_COMMIT)
def offset_commit(services: Services, context: RequestContext, request: OffsetCommitRequest) -> Any:
    host, now = services.groups, context.now
    try:
        host.require(request.group_id)
        effects = host.coordinator.commit_offsets(request, host.caller(context), now)
        return host.answer(request.group_id, effects)
    except ApiError as error:
        return _all(request, error)


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
