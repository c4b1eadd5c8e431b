"""ListGroups v0-v5.

Behaviour: a client sees the groups that it may describe, or all if it may describe the cluster. Filters are compared
without case; a state or type that nobody knows matches nothing. NotReady of streams groups is asked for as NOT_READY.
Versions: 4 states (KIP-518), 5 types (KIP-848).
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer, when_committed
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.messages.list_groups_request import ListGroupsRequest
from pykafka_broker.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse


@handles(ApiKey.LIST_GROUPS)
def list_groups(services: Services, context: RequestContext, request: ListGroupsRequest) -> Answer[ListGroupsResponse]:
    states = {state.lower() for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    sees_all = services.allows(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER, log=False)
    response = ListGroupsResponse(
        groups=[
            ListedGroup(group.group_id, group.protocol_type, group.state_name, group.type_name)
            for group in services.groups.listed().groups.values()
            if (not states or _asked_as(group.state_name) in states) and (not types or group.type_name in types)
            if sees_all
            or services.allows(context, AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id, log=False)
        ]
    )
    return when_committed(response, services.groups.shards.all_committed())


def _asked_as(state: str) -> str:
    """What a filter has to say to mean this state."""
    return "not_ready" if state == "NotReady" else state.lower()
