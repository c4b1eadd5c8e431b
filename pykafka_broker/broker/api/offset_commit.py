"""OffsetCommit v0-v10.

Behaviour: each partition is answered by itself; generation -1 without a member id is for clients outside the group
protocol, and makes a simple group where there is none.
Versions: 0 is ZooKeeper's, 1 a commit time, 2 to 4 a retention time, 6 leader epochs (KIP-320), 7 static members
(KIP-345), 9 the consumer protocol with GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-848), 10 topic ids instead of
names.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.broker.api.consumer_group_heartbeat import may_lack_groups
from pykafka_broker.broker.api.zookeeper_offsets import make_room
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import then
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from pykafka_broker.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_FROM = 10
_READ_GROUP = (AclOperation.READ, AclResourceType.GROUP)
_READ_TOPIC = (AclOperation.READ, AclResourceType.TOPIC)
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@handles(ApiKey.OFFSET_COMMIT)
def offset_commit(services: Services, context: RequestContext, request: OffsetCommitRequest) -> Any:
    asked = request.topics
    try:
        services.authorise(context, *_READ_GROUP, request.group_id)
        make_room(services, context)
        request.topics = allowed = _readable(services, context, asked)
        reply = services.groups.commit_offsets(request, context)
    except ApiError as error:
        return OffsetCommitResponse(topics=[_failed(topic, error.code) for topic in asked])
    if may_lack_groups(services):
        reply = then(reply, _to_join_again)
    return reply if len(allowed) == len(asked) else _beside(asked, allowed, reply)


def _readable(
    services: Services, context: RequestContext, topics: list[OffsetCommitRequestTopic]
) -> list[OffsetCommitRequestTopic]:
    """The topics that the client may read; an id that there is not is not for the authorizer."""
    allows, by_id = services.authorizer.allows, services.image.topics_by_id
    principal, host = context.connection.principal, context.connection.client_host
    by_ids = context.api_version >= TOPIC_IDS_FROM
    found = []
    for topic in topics:
        image = by_id.get(topic.topic_id)
        name = topic.name if image is None else image.name
        if (by_ids and image is None) or allows(principal, host, *_READ_TOPIC, name):
            found.append(topic)
    return found


def _to_join_again(response: OffsetCommitResponse) -> OffsetCommitResponse:
    """As heartbeats tell the members of a lost group."""
    for topic in response.topics:
        for one in topic.partitions:
            if one.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                one.error_code = ErrorCode.UNKNOWN_MEMBER_ID
    return response


def _beside(asked: list[OffsetCommitRequestTopic], allowed: list[OffsetCommitRequestTopic], reply: Any) -> Any:
    """The answer with the topics in it that were kept from the group, in the order of the request."""

    def merged(response: OffsetCommitResponse) -> OffsetCommitResponse:
        answered = iter(response.topics)
        taken = set(map(id, allowed))
        return OffsetCommitResponse(
            topics=[next(answered) if id(topic) in taken else _failed(topic, _DENIED) for topic in asked]
        )

    return then(reply, merged)


def _failed(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    partitions = [OffsetCommitResponsePartition(one.partition_index, code) for one in topic.partitions]
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions)
