"""DescribeGroups v0-v6.

Behaviour: shows groups of the classic protocol. A missing one is "Dead" without an error before version 6 and
GROUP_ID_NOT_FOUND from then on; one of another kind counts as missing (KIP-1043).
Versions: 3 authorized operations (KIP-430), 4 static members, 6 errors with a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.api.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker

NOT_FOUND_FROM = 6


@handles(ApiKey.DESCRIBE_GROUPS)
def describe_groups(broker: Broker, context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups = []
    for group_id in request.groups:
        described = _describe(broker, context, group_id)
        if described.error_code == ErrorCode.NONE:
            described.authorized_operations = operations
        groups.append(described)
    return DescribeGroupsResponse(groups=groups)


def _describe(broker: Broker, context: RequestContext, group_id: str) -> DescribedGroup:
    host = broker.groups
    error = host.refusal(group_id, context.now)
    if error is not ErrorCode.NONE:
        return DescribedGroup(error, None, group_id)
    try:
        return host.coordinator.describe_classic(group_id)
    except ApiError as missing:
        if context.api_version < NOT_FOUND_FROM:
            return DescribedGroup(group_id=group_id, group_state="Dead")
        return DescribedGroup(missing.code, missing.message, group_id, "Dead")
