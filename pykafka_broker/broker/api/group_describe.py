"""What ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe have in common.

Rule: each group is answered by itself, in the order of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.authorizer import NOT_ASKED
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode

HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


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
    services: Services,
    context: RequestContext,
    request: DescribeRequest,
    is_enabled: bool,
    describe: Callable[[str], D],
    topics_of: Callable[[D], Iterable[str]],
    kind: type[D],
) -> list[D]:
    """Each group as `describe` shows it, or with its error: UNSUPPORTED_VERSION, GROUP_AUTHORIZATION_FAILED,
    INVALID_GROUP_ID, that of a coordinator that is elsewhere or still loading, GROUP_ID_NOT_FOUND, or
    TOPIC_AUTHORIZATION_FAILED if one of `topics_of` the group may not be described.
    """
    groups = []
    for group_id in request.group_ids:
        try:
            if not is_enabled:
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
            services.authorise(context, AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)
            if not group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            services.groups.require(group_id)
            described = describe(group_id)
            if not all(
                services.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
                for topic in dict.fromkeys(topics_of(described))
            ):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS)
            described.authorized_operations = NOT_ASKED
            if request.include_authorized_operations:
                described.authorized_operations = services.authorized_operations(
                    context, AclResourceType.GROUP, group_id
                )
        except ApiError as error:
            described = kind(error.code, error.message, group_id)
        groups.append(described)
    return groups
