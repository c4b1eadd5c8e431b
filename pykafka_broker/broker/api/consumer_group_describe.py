"""ConsumerGroupDescribe v0-v1 (KIP-848).

Behaviour: a group of another kind is GROUP_ID_NOT_FOUND, which is how an admin client learns to ask DescribeGroups.
Versions: 1 tells members of the classic protocol from others.
"""

from __future__ import annotations

from collections.abc import Iterable

from pykafka_broker.broker.api.consumer_group_heartbeat import offers
from pykafka_broker.broker.api.group_describe import describe_each
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, when_committed
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from pykafka_broker.protocol.messages.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


@handles(ApiKey.CONSUMER_GROUP_DESCRIBE)
def consumer_group_describe(
    services: Services, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Answer[ConsumerGroupDescribeResponse]:
    described = describe_each(
        services,
        context,
        request,
        offers(services, "consumer"),
        services.groups.coordinator.describe_consumer,
        _topics,
        DescribedGroup,
    )
    return when_committed(
        ConsumerGroupDescribeResponse(groups=described), services.groups.committed(*request.group_ids)
    )


def _topics(group: DescribedGroup) -> Iterable[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (one.topic_name for one in assignment.topic_partitions)
