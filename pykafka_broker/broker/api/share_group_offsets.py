"""What altering and deleting the offsets of a share group have in common. Rule: the group must have no members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.share_host import is_enabled
from pykafka_broker.coordinators.share.share_group import ShareGroup
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker

NOT_HOSTED = "This server does not host this topic-partition."


def empty_group(broker: Broker, group_id: str, now: int) -> ShareGroup | None:
    """The group, or None if there is none of that name. Raises what forbids a change of its offsets."""
    if not is_enabled(broker):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    broker.groups.require(group_id, now)
    if group_id not in broker.groups.coordinator.groups:
        return None
    group = broker.groups.coordinator.share.group(group_id)
    if group.members:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    return group
