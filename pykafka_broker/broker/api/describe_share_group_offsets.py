"""DescribeShareGroupOffsets v0-v1 (KIP-932).

Behaviour: null topics are all that the group has begun to read. A partition that it has not, or whose first offset is
still to be found, has start offset -1; a group that is none has no topics.
Versions: 1 tells the lag (KIP-1226).
"""

from __future__ import annotations

from pykafka_broker.broker.coordinators.share_host import is_enabled
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Steps, all_of, when_committed
from pykafka_broker.cluster.authorizer import denial
from pykafka_broker.coordinators.share.share_group import ShareGroup
from pykafka_broker.coordinators.share.state import UNINITIALIZED, UNKNOWN_COUNT, ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pykafka_broker.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from pykafka_broker.protocol.runtime import ZERO_UUID

NO_LAG = -1


@handles(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
def describe_share_group_offsets(
    services: Services, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> Answer[DescribeShareGroupOffsetsResponse]:
    return services.slices.reply(_described(services, context, request))


def _described(
    services: Services, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> Steps[Answer[DescribeShareGroupOffsetsResponse]]:
    groups = []
    for wanted in request.groups:
        try:
            if not is_enabled(services.image.features):
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
            services.authorise(context, AclOperation.DESCRIBE, AclResourceType.GROUP, wanted.group_id)
            if wanted.group_id:
                services.groups.require(wanted.group_id)
            topics = yield from _topics(services, context, wanted)
            groups.append(DescribeShareGroupOffsetsResponseGroup(wanted.group_id, topics))
        except ApiError as error:
            groups.append(DescribeShareGroupOffsetsResponseGroup(wanted.group_id, [], error.code, error.message))
    committed = services.groups.committed(*(group.group_id for group in request.groups))
    keys = [
        ShareKey(group.group_id, topic.topic_id, one.partition_index)
        for group in groups
        for topic in group.topics
        for one in topic.partitions
    ]
    if keys:
        committed = all_of(committed, services.shares.committed(keys))
    return when_committed(DescribeShareGroupOffsetsResponse(groups=groups), committed)


def _topics(
    services: Services, context: RequestContext, wanted: DescribeShareGroupOffsetsRequestGroup
) -> Steps[list[DescribeShareGroupOffsetsResponseTopic]]:
    if wanted.topics is not None:
        asked = [(topic.topic_name, list(topic.partitions)) for topic in wanted.topics]
    else:
        group = services.groups.coordinator.groups.get(wanted.group_id)
        known = group.initialized if isinstance(group, ShareGroup) else {}
        asked = [(name, sorted(numbers)) for name, numbers in known.values()]
    topics = []
    for name, numbers in asked:
        if not services.allows(
            context, AclOperation.DESCRIBE, AclResourceType.TOPIC, name, log=wanted.topics is not None
        ):
            if wanted.topics is not None:
                topics.append(_denied(name, numbers))
            continue
        topic = services.image.topics.get(name)
        topic_id = ZERO_UUID if topic is None else topic.id
        partitions = []
        for number in numbers:
            partitions.append((yield from _partition(services, ShareKey(wanted.group_id, topic_id, number), name)))
        topics.append(DescribeShareGroupOffsetsResponseTopic(name, topic_id, partitions))
    return topics


def _denied(name: str, numbers: list[int]) -> DescribeShareGroupOffsetsResponseTopic:
    error = denial(AclResourceType.TOPIC)
    partitions = [
        DescribeShareGroupOffsetsResponsePartition(
            number, UNINITIALIZED, error_code=error.code, error_message=error.message
        )
        for number in numbers
    ]
    return DescribeShareGroupOffsetsResponseTopic(name, ZERO_UUID, partitions)


def _partition(services: Services, key: ShareKey, topic: str) -> Steps[DescribeShareGroupOffsetsResponsePartition]:
    result = DescribeShareGroupOffsetsResponsePartition(key.partition, UNINITIALIZED)
    if services.image.partition(topic, key.partition) is None:
        return result
    state = yield from services.shares.summary(key)
    if state is None:
        return result
    result.leader_epoch = state.leader_epoch
    result.start_offset = state.start_offset
    result.lag = NO_LAG
    if state.start_offset != UNINITIALIZED and state.complete_count != UNKNOWN_COUNT:
        end = yield from services.shares.end_offset(topic, key.partition)
        if end >= 0:
            result.lag = end - state.start_offset - state.complete_count  # below 0 if the start was set behind the end
    return result
