"""OffsetDelete v0 (KIP-496).

Behaviour: offsets of topics that a live member of the group reads stay (GROUP_SUBSCRIBED_TO_TOPIC); a group that is not
of consumers must be empty (NON_EMPTY_GROUP).
"""

from __future__ import annotations

from functools import partial

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer, then
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.offset_delete_request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from pykafka_broker.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@handles(ApiKey.OFFSET_DELETE)
def offset_delete(
    services: Services, context: RequestContext, request: OffsetDeleteRequest
) -> Answer[OffsetDeleteResponse]:
    group_id = request.group_id
    if not services.allows(context, AclOperation.DELETE, AclResourceType.GROUP, group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    host = services.groups
    if group_id:
        host.require(group_id)
    readable: list[OffsetDeleteRequestTopic] = []
    denied: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        may = services.allows(context, AclOperation.READ, AclResourceType.TOPIC, topic.name)
        (readable if may else denied).append(topic)
    answer = host.answer(group_id, host.coordinator.offset_requests.delete(OffsetDeleteRequest(group_id, readable)))
    return then(answer, partial(_with, denied)) if denied else answer


def _with(denied: list[OffsetDeleteRequestTopic], response: OffsetDeleteResponse) -> OffsetDeleteResponse:
    """The answer on what may be read, and on what may not; an error of the group is all there is to say."""
    if response.error_code == ErrorCode.NONE:
        response.topics += _denials(denied)
    return response


def _denials(topics: list[OffsetDeleteRequestTopic]) -> list[OffsetDeleteResponseTopic]:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [
        OffsetDeleteResponseTopic(
            topic.name, [OffsetDeleteResponsePartition(one.partition_index, code) for one in topic.partitions]
        )
        for topic in topics
    ]
