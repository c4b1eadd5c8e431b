"""DeleteShareGroupOffsets v0 (KIP-932).

Behaviour: the group must be there and have no members. It begins with a deleted topic as if it had never read it.
"""

from __future__ import annotations

from pykafka_broker.broker.api.share_group_offsets import NOT_HOSTED, delete_states, empty_group
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Steps, all_of, when_committed
from pykafka_broker.coordinators.share.share_group import ShareGroup
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from pykafka_broker.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from pykafka_broker.protocol.runtime import ZERO_UUID

NOTHING_TO_DELETE = "There is no offset information to delete."


@handles(ApiKey.DELETE_SHARE_GROUP_OFFSETS)
def delete_share_group_offsets(
    services: Services, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Answer[DeleteShareGroupOffsetsResponse]:
    return services.slices.reply(_deleted(services, context, request), outlives_client=True)


def _deleted(
    services: Services, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Steps[Answer[DeleteShareGroupOffsetsResponse]]:
    try:
        group = yield from empty_group(services, context, AclOperation.DELETE, request.group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    except ApiError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    states: list[ShareKey] = []
    topics = []
    for topic in request.topics:
        topics.append((yield from _delete(services, context, group, topic.topic_name, states)))
    committed = services.groups.committed(request.group_id)
    if states:
        committed = all_of(committed, services.shares.committed(states))
    return when_committed(DeleteShareGroupOffsetsResponse(responses=topics), committed)


def _delete(
    services: Services, context: RequestContext, group: ShareGroup, name: str, states: list[ShareKey]
) -> Steps[DeleteShareGroupOffsetsResponseTopic]:
    try:
        services.topic(context, AclOperation.READ, name)
    except ApiError as error:
        return DeleteShareGroupOffsetsResponseTopic(name, ZERO_UUID, error.code, error.message)
    topic = services.image.topics.get(name)
    if topic is None:
        return DeleteShareGroupOffsetsResponseTopic(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED)
    if topic.id not in group.initialized:
        return DeleteShareGroupOffsetsResponseTopic(
            name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOTHING_TO_DELETE
        )
    try:
        states += yield from delete_states(services, group.group_id, {topic.id: group.initialized[topic.id]})
        services.groups.apply(services.groups.coordinator.share.forget_topics(group.group_id, {topic.id}))
    except ApiError as error:
        return DeleteShareGroupOffsetsResponseTopic(name, topic.id, error.code, error.message)
    return DeleteShareGroupOffsetsResponseTopic(name, topic.id)
