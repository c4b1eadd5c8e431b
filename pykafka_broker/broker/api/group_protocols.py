"""Which group protocols a cluster offers, and who may be sent away before a heartbeat is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker

FEATURES = {"consumer": "group.version", "streams": "streams.version"}


def offers(broker: Broker, protocol: str) -> bool:
    """Whether the protocol is among `group.coordinator.rebalance.protocols` and its feature is finalized."""
    return (
        broker.image.features.get(FEATURES[protocol], 0) >= 1
        and protocol in broker.config.group_coordinator_rebalance_protocols
    )


def heartbeat_refusal(broker: Broker, is_offered: bool, group_id: str, now: int) -> ErrorCode:
    """UNSUPPORTED_VERSION, or what is wrong with the coordinator of the group. That a group has no name is told with
    the other things that a heartbeat may lack."""
    if not is_offered:
        return ErrorCode.UNSUPPORTED_VERSION
    return broker.groups.refusal(group_id, now) if group_id else ErrorCode.NONE
