"""StreamsGroupDescribe v0 (KIP-1071).

Behaviour: a group of another kind is GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.api.group_describe import describe_each
from pykafka_broker.broker.api.group_protocols import offers
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from pykafka_broker.protocol.messages.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


@handles(ApiKey.STREAMS_GROUP_DESCRIBE)
def streams_group_describe(
    broker: Broker, context: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    described = describe_each(
        broker,
        request,
        offers(broker, "streams"),
        broker.groups.coordinator.describe_streams,
        DescribedGroup,
        context.now,
    )
    return StreamsGroupDescribeResponse(groups=described)
