"""Which group protocols a cluster offers, who may be sent away before a heartbeat is looked at, and what members of a
group are told that there is not.
"""

from __future__ import annotations

from collections.abc import Collection

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.authorizer import AllowAll
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode

FEATURES = {"consumer": "group.version", "streams": "streams.version"}


def offers(services: Services, protocol: str) -> bool:
    """Whether the protocol is among `group.coordinator.rebalance.protocols` and its feature is finalized."""
    return (
        services.image.features.get(FEATURES[protocol], 0) >= 1
        and protocol in services.config.group_coordinator_rebalance_protocols
    )


def may_name(services: Services, context: RequestContext, topics: Collection[str]) -> None:
    """Check the topics that a member names. Raises UNKNOWN_SERVER_ERROR for more than a record of a group can hold, and
    TOPIC_AUTHORIZATION_FAILED for topics that the client may not describe.
    """
    may_hold(services, topics)
    if type(services.authorizer) is not AllowAll:
        for name in topics:
            services.authorise(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, name)


def may_hold(services: Services, texts: Collection[str]) -> None:
    """Raise UNKNOWN_SERVER_ERROR, as Kafka does, where these texts, each once, exceed a record of a group."""
    most_bytes = services.topic_config(CONSUMER_OFFSETS).max_message_bytes
    if _bytes(texts) > most_bytes and _bytes(set(texts)) > most_bytes:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _bytes(texts: Collection[str]) -> int:
    return sum(map(len, texts)) + len(texts)


def heartbeat_refusal(services: Services, is_offered: bool, group_id: str) -> ErrorCode:
    """UNSUPPORTED_VERSION, or what is wrong with the coordinator of the group. That a group has no name is told with
    the other things that a heartbeat may lack."""
    if not is_offered:
        return ErrorCode.UNSUPPORTED_VERSION
    return services.groups.refusal(group_id) if group_id else ErrorCode.NONE


def may_lack_groups(services: Services) -> bool:
    """Whether this broker has taken the place of another one, of which clients stay connected and groups may be lost.
    Their members are to join again; told that there is no group they would give up for good.
    """
    return services.node.setup.leader_epoch >= 0


def verdict(services: Services, error: int, member_epoch: int) -> int:
    """What a member is told whose heartbeat was refused."""
    lost = error == ErrorCode.GROUP_ID_NOT_FOUND and member_epoch > 0 and may_lack_groups(services)
    return ErrorCode.UNKNOWN_MEMBER_ID if lost else error
