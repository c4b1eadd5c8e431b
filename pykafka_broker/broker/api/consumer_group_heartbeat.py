"""ConsumerGroupHeartbeat v0-v1 (KIP-848), and the checks that heartbeats of consumer, share and streams groups share.

Behaviour: epoch 0 joins, -1 leaves, -2 leaves for a while; the answer carries an assignment when there is a new one.
Versions: 1 patterns (`SubscribedTopicRegex`), and member ids that the client chooses.
"""

from __future__ import annotations

from collections.abc import Collection

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer
from pykafka_broker.cluster.authorizer import AllowAll
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

_FEATURES = {"consumer": "group.version", "streams": "streams.version"}


def offers(services: Services, protocol: str) -> bool:
    """Return whether the protocol is among `group.coordinator.rebalance.protocols` and its feature is finalized."""
    is_finalized = services.metadata.image.features.get(_FEATURES[protocol], 0) >= 1
    return is_finalized and protocol in services.node.config.group_coordinator_rebalance_protocols


def may_name(services: Services, context: RequestContext, topics: Collection[str]) -> None:
    """Check the topics that a member names.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR for more names than a record of a group can hold, TOPIC_AUTHORIZATION_FAILED for
            topics that the client may not describe.
    """
    if not topics:
        return
    may_hold(services, topics)
    if type(services.authorizer) is not AllowAll:
        for name in topics:
            services.authorise(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, name)


def may_hold(services: Services, texts: Collection[str]) -> None:
    """Raise UNKNOWN_SERVER_ERROR, as Kafka does, where these texts, each once, exceed a record of a group."""
    most_bytes = services.node.topic_config(CONSUMER_OFFSETS).max_message_bytes
    if _bytes(texts) > most_bytes and _bytes(set(texts)) > most_bytes:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _bytes(texts: Collection[str]) -> int:
    return sum(map(len, texts)) + len(texts)


def check_heartbeat_of_group(services: Services, context: RequestContext, is_offered: bool, group_id: str) -> None:
    """Check the protocol and the client's right to the group, in Kafka's order.

    Raises:
        ApiError: UNSUPPORTED_VERSION, or GROUP_AUTHORIZATION_FAILED.
    """
    if not is_offered:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    services.authorise(context, AclOperation.READ, AclResourceType.GROUP, group_id)


def may_lack_groups(services: Services) -> bool:
    """Return whether this broker has taken over from another broker, whose clients stay connected.

    Groups of the other broker may be lost, and their members are to join again. Clients give up for good when a group
    is said not to exist.
    """
    return services.node.setup.leader_epoch >= 0


def verdict(services: Services, error: int, member_epoch: int) -> int:
    """Return the error that a member is told: UNKNOWN_MEMBER_ID for a group that may have been lost."""
    lost = error == ErrorCode.GROUP_ID_NOT_FOUND and member_epoch > 0 and may_lack_groups(services)
    return ErrorCode.UNKNOWN_MEMBER_ID if lost else error


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumer_group_heartbeat(
    services: Services, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Answer[ConsumerGroupHeartbeatResponse]:
    check_heartbeat_of_group(services, context, offers(services, "consumer"), request.group_id)
    may_name(services, context, request.subscribed_topic_names or [])
    host = services.groups
    if request.group_id:
        host.require(request.group_id)
    caller = host.caller(context, services.who_may_see(context))
    effects = host.coordinator.consumer_heartbeat(request, caller, services.clock.now)
    effects.reply.error_code = verdict(services, effects.reply.error_code, request.member_epoch)
    answer = host.answer(request.group_id, effects)
    host.heard(context, request.group_id, effects.reply.member_id or request.member_id)
    return answer
