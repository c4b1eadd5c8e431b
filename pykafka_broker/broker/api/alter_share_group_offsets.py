"""AlterShareGroupOffsets v0 (KIP-932).

Behaviour: the group must have no members; one that is not there comes to be. Partitions begin anew at the given
offsets, whatever was delivered before, and -1 lets share.auto.offset.reset decide again.
"""

from __future__ import annotations

from pykafka_broker.broker.api.share_group_offsets import NOT_HOSTED, empty_group
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, all_of, when_committed
from pykafka_broker.broker.waiting.slices import Steps
from pykafka_broker.coordinators.groups.group import FIRST_GROUP_EPOCH
from pykafka_broker.coordinators.share.share_group import ShareGroup, Topics
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from pykafka_broker.protocol.runtime import ZERO_UUID


@handles(ApiKey.ALTER_SHARE_GROUP_OFFSETS)
def alter_share_group_offsets(
    services: Services, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> Answer[AlterShareGroupOffsetsResponse]:
    return services.slices.reply(_alter_all(services, context, request), outlives_client=True)


def _alter_all(
    services: Services, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> Steps[Answer[AlterShareGroupOffsetsResponse]]:
    try:
        group = yield from empty_group(services, context, AclOperation.READ, request.group_id)
    except ApiError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    denied = {each.topic_name: why for each in request.topics if (why := _denial(services, context, each))}
    allowed = [each for each in request.topics if each.topic_name not in denied]
    done: Topics = {}
    try:
        altered = yield from _alter_allowed(services, request.group_id, group, allowed, done)
    except ApiError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    topics = [
        altered.pop(0) if each.topic_name not in denied else _denied(services, each, denied[each.topic_name])
        for each in request.topics
    ]
    committed = services.groups.committed(request.group_id)
    if done:
        keys = [ShareKey(request.group_id, topic_id, one) for topic_id, (_, ones) in done.items() for one in ones]
        committed = all_of(committed, services.shares.committed(keys))
    return when_committed(AlterShareGroupOffsetsResponse(responses=topics), committed)


def _denial(services: Services, context: RequestContext, wanted: AlterShareGroupOffsetsRequestTopic) -> ApiError | None:
    try:
        services.topic(context, AclOperation.READ, wanted.topic_name)
    except ApiError as error:
        return error
    return None


def _alter_allowed(
    services: Services,
    group_id: str,
    group: ShareGroup | None,
    allowed: list[AlterShareGroupOffsetsRequestTopic],
    done: Topics,
) -> Steps[list[AlterShareGroupOffsetsResponseTopic]]:
    """Alter what is allowed. The group's records say before that the partitions are being initialized, under an epoch
    that fences earlier attempts: one that arrives late would take the new offsets back. Members that join meanwhile
    initialize nothing.
    """
    host, share, topics = services.groups, services.groups.coordinator.share, services.image.topics
    tried: Topics = {
        topics[each.topic_name].id: (
            each.topic_name,
            frozenset(one.partition_index for one in each.partitions) & topics[each.topic_name].partitions.keys(),
        )
        for each in allowed
        if each.topic_name in topics and each.partitions
    }
    epoch = FIRST_GROUP_EPOCH
    if tried:
        fenced = group is not None and host.has_replicas(group_id)
        effects = share.initialize(group_id, tried, fenced=fenced)
        host.apply(effects)
        epoch, group = effects.reply, share.group(group_id)
        group.attempts += 1
    results = []
    try:
        if tried and host.has_replicas(group_id):
            yield host.committed(group_id)
        for each in allowed:
            results.append((yield from _alter(services, group_id, epoch, each, done)))
    finally:
        if tried and group is not None:
            group.attempts -= 1
    if tried:
        host.require(group_id)
        host.apply(share.initialized(group_id, tried, done))
    return results


def _alter(
    services: Services, group_id: str, epoch: int, wanted: AlterShareGroupOffsetsRequestTopic, done: Topics
) -> Steps[AlterShareGroupOffsetsResponseTopic]:
    topic = services.image.topics.get(wanted.topic_name)
    topic_id = ZERO_UUID if topic is None else topic.id
    results, altered = [], set()
    for one in wanted.partitions:
        result = AlterShareGroupOffsetsResponsePartition(one.partition_index)
        try:
            key = ShareKey(group_id, topic_id, one.partition_index)
            yield from services.shares.begin(key, epoch, one.start_offset)
            altered.add(one.partition_index)
        except ApiError as error:
            result.error_code = error.code
            hosted = error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result.error_message = error.message if hosted else NOT_HOSTED
        results.append(result)
    if altered:
        done[topic_id] = (wanted.topic_name, frozenset(altered))
    return AlterShareGroupOffsetsResponseTopic(wanted.topic_name, topic_id, results)


def _denied(
    services: Services, wanted: AlterShareGroupOffsetsRequestTopic, error: ApiError
) -> AlterShareGroupOffsetsResponseTopic:
    """Its id is told all the same, as by Kafka."""
    topic_id = services.image.topic_id(wanted.topic_name) or ZERO_UUID
    results = [
        AlterShareGroupOffsetsResponsePartition(one.partition_index, error.code, error.message)
        for one in wanted.partitions
    ]
    return AlterShareGroupOffsetsResponseTopic(wanted.topic_name, topic_id, results)
