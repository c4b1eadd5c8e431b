"""What ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe have in common.

Rule: each group is answered by itself, in the order of the request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from pykafka_broker.broker.api.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from pykafka_broker.broker.services import Services
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode


class DescribeRequest(Protocol):
    """What the three requests say."""

    group_ids: list[str]
    include_authorized_operations: bool


class Described(Protocol):
    """What the three answers say of a group whatever its kind. The first fields of all three are error code, error
    message and group id."""

    authorized_operations: int

    def __init__(self, error_code: int = 0, error_message: str | None = None, group_id: str = "") -> None: ...


D = TypeVar("D", bound=Described)


def describe_each(
    services: Services, request: DescribeRequest, is_enabled: bool, describe: Callable[[str], D], kind: type[D]
) -> list[D]:
    """Each group as `describe` shows it, or with its error: UNSUPPORTED_VERSION, INVALID_GROUP_ID, that of a
    coordinator that is elsewhere or still loading, or GROUP_ID_NOT_FOUND."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups = []
    for group_id in request.group_ids:
        try:
            if not is_enabled:
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
            if not group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            services.groups.require(group_id)
            described = describe(group_id)
            described.authorized_operations = operations
        except ApiError as error:
            described = kind(error.code, error.message, group_id)
        groups.append(described)
    return groups
