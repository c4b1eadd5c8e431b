"""ShareGroupDescribe v1 (KIP-932).

Behaviour: each group is answered by itself; a group of another kind is as good as missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.api.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.share_host import is_enabled
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from pykafka_broker.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


@handles(ApiKey.SHARE_GROUP_DESCRIBE)
def share_group_describe(
    broker: Broker, context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups = []
    for group_id in request.group_ids:
        try:
            described = _describe(broker, group_id, context.now)
            described.authorized_operations = operations
        except ApiError as error:
            described = DescribedGroup(error.code, error.message, group_id)
        groups.append(described)
    return ShareGroupDescribeResponse(groups=groups)


def _describe(broker: Broker, group_id: str, now: int) -> DescribedGroup:
    if not is_enabled(broker):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    broker.groups.require(group_id, now)
    return broker.groups.coordinator.describe_share(group_id)
