"""ConsumerGroupDescribe v0-v1 (KIP-848).

Behaviour: a group of another kind is GROUP_ID_NOT_FOUND, which is how an admin client learns to ask DescribeGroups.
Versions: 1 tells members of the classic protocol from others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.api.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from pykafka_broker.broker.api.consumer_group_heartbeat import is_enabled
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
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
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups = []
    for group_id in request.group_ids:
        try:
            described = _describe(broker, group_id, context.now)
            described.authorized_operations = operations
        except ApiError as error:
            described = DescribedGroup(error.code, error.message, group_id)
        groups.append(described)
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(broker: Broker, group_id: str, now: int) -> DescribedGroup:
    if not is_enabled(broker):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    broker.groups.require(group_id, now)
    return broker.groups.coordinator.describe_consumer(group_id)
