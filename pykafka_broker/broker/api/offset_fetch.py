"""OffsetFetch v0-v10.

Behaviour: a partition without a commit is offset -1, without an error; null topics ask for everything that the group
has. With RequireStable an offset that an open transaction may still change is UNSTABLE_OFFSET_COMMIT (KIP-447).
Versions: 0 is ZooKeeper's, 2 an error of the whole, and null topics, 5 leader epochs, 7 RequireStable, 8 many groups
(KIP-709), 9 the member's epoch (KIP-848), 10 topic ids instead of names.
"""

from __future__ import annotations

from pykafka_broker.broker.api.zookeeper_offsets import OF_ZOOKEEPER, as_zookeeper_said, make_room
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer, when_committed
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pykafka_broker.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUPS_FROM = 8
TOPIC_IDS_FROM = 10
WHOLE_ERROR_FROM = 2


@handles(ApiKey.OFFSET_FETCH)
def offset_fetch(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> Answer[OffsetFetchResponse]:
    if context.api_version >= GROUPS_FROM:
        response = OffsetFetchResponse(groups=[_fetch(services, context, one, request) for one in request.groups])
        group_ids = [one.group_id for one in request.groups]
    else:
        response = _of_one_group(services, context, request)
        if context.api_version == OF_ZOOKEEPER:
            response = as_zookeeper_said(response)
        group_ids = [request.group_id]
    services.groups.confirm_offsets_by_append(*group_ids)
    return when_committed(response, services.groups.committed(*group_ids))


def _of_one_group(services: Services, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
        ]
    group = _fetch(services, context, OffsetFetchRequestGroup(request.group_id, topics=topics), request)
    if group.error_code and context.api_version < WHOLE_ERROR_FROM:
        return OffsetFetchResponse(topics=[_failed(topic, group.error_code) for topic in request.topics or ()])
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        one.partition_index,
                        one.committed_offset,
                        one.committed_leader_epoch,
                        one.metadata,
                        one.error_code,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _fetch(
    services: Services, context: RequestContext, group: OffsetFetchRequestGroup, request: OffsetFetchRequest
) -> OffsetFetchResponseGroup:
    if not services.allows(context, AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id):
        return OffsetFetchResponseGroup(group.group_id, [], ErrorCode.GROUP_AUTHORIZATION_FAILED)
    make_room(services, context)
    error = services.groups.refusal(group.group_id)
    if error is not ErrorCode.NONE:
        return OffsetFetchResponseGroup(group.group_id, [], error)
    asked = group.topics
    if asked is not None:
        group.topics = [topic for topic in asked if _may_see(services, context, topic)]
    answer = services.groups.coordinator.offset_requests.fetch(group, request.require_stable, context.api_version)
    if answer.error_code:
        return answer
    if asked is None:
        answer.topics = [topic for topic in answer.topics if _may_see(services, context, topic)]
    elif group.topics is not None and len(group.topics) < len(asked):
        answer.topics += [_hidden(topic) for topic in asked if topic not in group.topics]
    return answer


def _may_see(
    services: Services, context: RequestContext, topic: OffsetFetchRequestTopics | OffsetFetchResponseTopics
) -> bool:
    """Whether the client may know of the topic; an id that there is not is not for the authorizer."""
    image = services.image.topics_by_id.get(topic.topic_id)
    name = topic.name if image is None else image.name
    if not name and context.api_version >= TOPIC_IDS_FROM:
        return True
    return services.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, name)


def _hidden(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partitions = [OffsetFetchResponsePartitions(index, -1, -1, "", denied) for index in topic.partition_indexes]
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions)


def _failed(topic: OffsetFetchRequestTopic, error: int) -> OffsetFetchResponseTopic:
    partitions = [OffsetFetchResponsePartition(index, -1, -1, "", error) for index in topic.partition_indexes]
    return OffsetFetchResponseTopic(topic.name, partitions)
