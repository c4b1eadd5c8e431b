"""StreamsGroupDescribe v0 (KIP-1071).

Behaviour: a group of another kind is GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.api.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from pykafka_broker.broker.api.streams_group_heartbeat import is_enabled
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
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
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups = []
    for group_id in request.group_ids:
        try:
            described = _describe(broker, group_id, context.now)
            described.authorized_operations = operations
        except ApiError as error:
            described = DescribedGroup(error.code, error.message, group_id)
        groups.append(described)
    return StreamsGroupDescribeResponse(groups=groups)


def _describe(broker: Broker, group_id: str, now: int) -> DescribedGroup:
    if not is_enabled(broker):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    broker.groups.require(group_id, now)
    return broker.groups.coordinator.describe_streams(group_id)
