"""ConsumerGroupDescribe v0-v1 (KIP-848).

Behaviour: a group of another kind is GROUP_ID_NOT_FOUND, which is how an admin client learns to ask DescribeGroups.
Versions: 1 tells members of the classic protocol from others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.api.group_describe import describe_each
from pykafka_broker.broker.api.group_protocols import offers
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from pykafka_broker.protocol.messages.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


@handles(ApiKey.CONSUMER_GROUP_DESCRIBE)
def consumer_group_describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    described = describe_each(
        broker,
        request,
        offers(broker, "consumer"),
        broker.groups.coordinator.describe_consumer,
        DescribedGroup,
        context.now,
    )
    return ConsumerGroupDescribeResponse(groups=described)
