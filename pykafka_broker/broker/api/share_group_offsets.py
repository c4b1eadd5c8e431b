"""Checks before the offsets of a share group are altered or deleted. Rule: the group must have no members, and
only its coordinator changes what the share coordinator keeps.
"""

from __future__ import annotations

from pykafka_broker.broker.coordinators.share_host import is_enabled
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Steps
from pykafka_broker.coordinators.share.share_group import ShareGroup, Topics
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode

NOT_HOSTED = "This server does not host this topic-partition."


def empty_group(
    services: Services, context: RequestContext, operation: AclOperation, group_id: str
) -> Steps[ShareGroup | None]:
    """Return the group, or None if there is none of that name, once it is certain that this node is its coordinator.
    Raises what forbids a change of its offsets.
    """
    if not is_enabled(services.image.features):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    services.authorise(context, operation, AclResourceType.GROUP, group_id)
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    services.groups.require(group_id)
    _empty(services, group_id)
    yield from services.groups.confirmed(group_id)
    return _empty(services, group_id)


def _empty(services: Services, group_id: str) -> ShareGroup | None:
    if group_id not in services.groups.coordinator.groups:
        return None
    group = services.groups.coordinator.share.group(group_id)
    if group.members:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    return group


def delete_states(services: Services, group_id: str, topics: Topics) -> Steps[list[ShareKey]]:
    """Delete a group's states of these partitions; return whose states went. The group's records say before that their
    topics are being deleted, and after a failure that all is as it was.
    """
    host, share = services.groups, services.groups.coordinator.share
    host.apply(share.delete_topics(group_id, topics))
    try:
        return (yield from services.shares.forget_topics(group_id, topics))
    except ApiError:
        host.require(group_id)
        host.apply(share.initialized(group_id, {}, topics))
        raise
