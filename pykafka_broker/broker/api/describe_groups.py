"""DescribeGroups v0-v6.

Behaviour: shows groups of the classic protocol. A missing one is "Dead" without an error before version 6 and
GROUP_ID_NOT_FOUND from then on; one of another kind counts as missing (KIP-1043).
Versions: 3 authorized operations (KIP-430), 4 static members, 6 errors with a message.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer, when_committed
from pykafka_broker.cluster.authorizer import NOT_ASKED
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse

NOT_FOUND_FROM = 6


@handles(ApiKey.DESCRIBE_GROUPS)
def describe_groups(
    services: Services, context: RequestContext, request: DescribeGroupsRequest
) -> Answer[DescribeGroupsResponse]:
    groups = []
    for group_id in request.groups:
        described = _describe(services, context, group_id)
        described.authorized_operations = NOT_ASKED
        if described.error_code == ErrorCode.NONE and request.include_authorized_operations:
            described.authorized_operations = services.authorized_operations(context, AclResourceType.GROUP, group_id)
        groups.append(described)
    return when_committed(DescribeGroupsResponse(groups=groups), services.groups.committed(*request.groups))


def _describe(services: Services, context: RequestContext, group_id: str) -> DescribedGroup:
    if not services.allows(context, AclOperation.DESCRIBE, AclResourceType.GROUP, group_id):
        return DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, group_id)
    host = services.groups
    error = host.refusal(group_id)
    if error is not ErrorCode.NONE:
        return DescribedGroup(error, None, group_id)
    try:
        return host.coordinator.describe_classic(group_id)
    except ApiError as missing:
        if context.api_version < NOT_FOUND_FROM:
            return DescribedGroup(group_id=group_id, group_state="Dead")
        return DescribedGroup(missing.code, missing.message, group_id, "Dead")
