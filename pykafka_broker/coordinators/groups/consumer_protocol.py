"""The bytes that consumers of the classic protocol exchange through the group: subscriptions and assignments.

Rule: a classic group never needs to understand them; where the broker looks in (expiry, OffsetDelete, migration to
KIP-848), bytes that can't be read count as unknown. A version above ours is read as ours, as the format promises
(ConsumerProtocol in Kafka's clients).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from pykafka_broker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from pykafka_broker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from pykafka_broker.protocol.runtime import DecodeError

_VERSION = Struct(">h")


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Raises DecodeError."""
    version = _version(metadata, ConsumerProtocolSubscription.MAX_VERSION)
    subscription, end = ConsumerProtocolSubscription.read(metadata, 2, version)
    _check_end(end, metadata)
    return subscription


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Raises DecodeError."""
    version = _version(assignment, ConsumerProtocolAssignment.MAX_VERSION)
    result, end = ConsumerProtocolAssignment.read(assignment, 2, version)
    _check_end(end, assignment)
    return result


def write_assignment(assignment: ConsumerProtocolAssignment, version: int) -> bytes:
    """The form in which SyncGroup carries it."""
    version = min(max(version, 0), ConsumerProtocolAssignment.MAX_VERSION)
    return _VERSION.pack(version) + assignment.encode(version)


def subscription_version(metadata: bytes) -> int:
    """The version in which a member wrote its subscription, and expects its assignment. Raises DecodeError."""
    return _version(metadata, ConsumerProtocolSubscription.MAX_VERSION)


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that these members subscribe to, or None if one can't be read."""
    topics: set[str] = set()
    try:
        for one in metadata:
            topics.update(read_subscription(one).topics)
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


def _check_end(end: int, data: bytes) -> None:
    if end > len(data):
        raise DecodeError("a consumer protocol message is cut short")
