"""OffsetFetch v0-v10.

Behaviour: a partition without a commit is offset -1, without an error; null topics ask for everything that the group
has. With RequireStable an offset that an open transaction may still change is UNSTABLE_OFFSET_COMMIT (KIP-447).
Versions: 2 an error of the whole, and null topics, 5 leader epochs, 7 RequireStable, 8 many groups (KIP-709), 9 the
member's epoch (KIP-848), 10 topic ids instead of names.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.reply import Reply, resting
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.protocol.api_keys import ApiKey
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
    OffsetFetchResponseTopic,
)

GROUPS_FROM = 8
WHOLE_ERROR_FROM = 2


@handles(ApiKey.OFFSET_FETCH)
def offset_fetch(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Reply:
    if context.api_version >= GROUPS_FROM:
        response = OffsetFetchResponse(groups=[_fetch(services, context, one, request) for one in request.groups])
        return resting(response, services.groups.after(*(one.group_id for one in request.groups)))
    return resting(_of_one_group(services, context, request), services.groups.after(request.group_id))


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
    error = services.groups.refusal(group.group_id)
    if error is not ErrorCode.NONE:
        return OffsetFetchResponseGroup(group.group_id, [], error)
    return services.groups.coordinator.fetch_offsets(group, request.require_stable, context.api_version)


def _failed(topic: OffsetFetchRequestTopic, error: int) -> OffsetFetchResponseTopic:
    partitions = [OffsetFetchResponsePartition(index, -1, -1, "", error) for index in topic.partition_indexes]
    return OffsetFetchResponseTopic(topic.name, partitions)
