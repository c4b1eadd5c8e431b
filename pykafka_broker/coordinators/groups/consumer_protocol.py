"""The bytes that consumers of the classic protocol exchange through the group: subscriptions and assignments.

Rule: a classic group never needs to understand these bytes. Where the broker reads them (expiry, OffsetDelete,
migration to KIP-848), unreadable bytes count as unknown. A version above ours is read as ours, as the format promises.
(Kafka: ConsumerProtocol)
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import TypeVar

from pykafka_broker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from pykafka_broker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from pykafka_broker.protocol.runtime import DecodeError, Message

M = TypeVar("M", bound=Message)
_VERSION = Struct(">h")


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Return a member's subscription. Raises DecodeError."""
    return _read(ConsumerProtocolSubscription, metadata)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Return a member's assignment. Raises DecodeError."""
    return _read(ConsumerProtocolAssignment, assignment)


def write_assignment(assignment: ConsumerProtocolAssignment, version: int) -> bytes:
    """Return the bytes of an assignment for SyncGroup."""
    version = min(max(version, 0), ConsumerProtocolAssignment.MAX_VERSION)
    return _VERSION.pack(version) + assignment.encode(version)


def subscription_version(metadata: bytes) -> int:
    """Return the version of a subscription, which the assignment has to have, too. Raises DecodeError."""
    return _version(metadata, ConsumerProtocolSubscription.MAX_VERSION)


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return all topics in the subscriptions, or None if a subscription can't be read."""
    topics: set[str] = set()
    try:
        for subscription in metadata:
            topics.update(read_subscription(subscription).topics)
    except DecodeError:
        return None
    return frozenset(topics)


def _version(data: bytes, highest: int) -> int:
    if len(data) < 2:
        raise DecodeError(f"{len(data)} bytes are no consumer protocol message")
    version = int(_VERSION.unpack_from(data)[0])
    if version < 0:
        raise DecodeError(f"consumer protocol version {version}")
    return min(version, highest)


def _read(kind: type[M], data: bytes) -> M:
    message, end = kind.read(data, 2, _version(data, kind.MAX_VERSION))
    if end > len(data):
        raise DecodeError("a consumer protocol message is cut short")
    return message
