"""DeleteGroups v0-v2.

Behaviour: each group is answered by itself; only an empty one can be deleted, and its offsets go with it (KIP-229), a
share group's state too (KIP-932).
Versions: 2 is the flexible encoding.
"""

from __future__ import annotations

from pykafka_broker.broker.api.share_group_offsets import delete_states
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Steps, all_of, when_committed
from pykafka_broker.coordinators.share.share_group import ShareGroup
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse


@handles(ApiKey.DELETE_GROUPS)
def delete_groups(
    services: Services, context: RequestContext, request: DeleteGroupsRequest
) -> Answer[DeleteGroupsResponse]:
    return services.slices.reply(_deleted(services, context, request), outlives_client=True)


def _deleted(
    services: Services, context: RequestContext, request: DeleteGroupsRequest
) -> Steps[Answer[DeleteGroupsResponse]]:
    group_ids = dict.fromkeys(request.groups_names)
    states: list[ShareKey] = []  # that went
    results = []
    for group_id in group_ids:
        results.append(DeletableGroupResult(group_id, (yield from _delete(services, context, group_id, states))))
    committed = services.groups.committed(*group_ids)
    if states:
        committed = all_of(committed, services.shares.committed(states))
    return when_committed(DeleteGroupsResponse(results=results), committed)


def _delete(services: Services, context: RequestContext, group_id: str, states: list[ShareKey]) -> Steps[ErrorCode]:
    host = services.groups
    try:
        services.authorise(context, AclOperation.DELETE, AclResourceType.GROUP, group_id)
        if group_id:
            host.require(group_id)
        if isinstance(host.coordinator.groups.get(group_id), ShareGroup):
            yield from host.confirmed(group_id)
            states += yield from _delete_states(services, group_id)
            host.require(group_id)  # it may have another coordinator by now
        effects = host.coordinator.delete_group(group_id)
        host.apply(effects)
    except ApiError as refused:
        return refused.code
    return effects.reply


def _delete_states(services: Services, group_id: str) -> Steps[list[ShareKey]]:
    """Delete the states of a share group that is there and has no members. A member that joins meanwhile keeps the
    group, and its partitions begin anew.
    """
    group = services.groups.coordinator.groups.get(group_id)
    if not isinstance(group, ShareGroup) or not group.is_empty:
        return []
    states = yield from delete_states(services, group_id, group.initialized)
    group = services.groups.coordinator.groups.get(group_id)
    if isinstance(group, ShareGroup) and not group.is_empty:
        services.groups.require(group_id)
        services.groups.apply(services.groups.coordinator.share.forget_topics(group_id, [*group.deleting]))
    return states
