"""AlterShareGroupOffsets v0 (KIP-932).

Behaviour: the group must have no members; one that is not there comes to be. Partitions begin anew at the given
offsets, whatever was delivered before, and -1 lets share.auto.offset.reset decide again.
"""

from __future__ import annotations

from pykafka_broker.broker.api.share_group_offsets import NOT_HOSTED, empty_group
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.slices import Steps
from pykafka_broker.broker.waiting import Answer, all_of, when_committed
from pykafka_broker.cluster.authorizer import Operation
from pykafka_broker.coordinators.groups.epoch_group import FIRST_GROUP_EPOCH
from pykafka_broker.coordinators.share.share_group import Topics
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
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
        group = yield from empty_group(services, context, Operation.READ, request.group_id)
    except ApiError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    epoch = FIRST_GROUP_EPOCH if group is None else group.epoch
    done: Topics = {}
    makes_group = False  # for a topic that there is, whatever becomes of its partitions
    topics = []
    for wanted in request.topics:
        try:
            services.topic(context, Operation.READ, wanted.topic_name)
        except ApiError as error:
            topics.append(_denied(services, wanted, error))
        else:
            makes_group |= group is None and bool(wanted.partitions) and wanted.topic_name in services.image.topics
            topics.append((yield from _alter(services, request.group_id, epoch, wanted, done)))
    if done or makes_group:
        services.groups.apply(services.groups.coordinator.share.initialized(request.group_id, done))
    committed = services.groups.committed(request.group_id)
    if done:
        keys = [ShareKey(request.group_id, topic_id, one) for topic_id, (_, ones) in done.items() for one in ones]
        committed = all_of(committed, services.shares.committed(keys))
    return when_committed(AlterShareGroupOffsetsResponse(responses=topics), committed)


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
