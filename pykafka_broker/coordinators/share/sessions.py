"""Share sessions (KIP-932): which partitions a member reads over which connection.

Rule: a member has one session at a node. Epoch 0 opens it, anew if need be, -1 closes it, and in between the epochs
count up and wrap from 2^31-1 to 1. A session ends with its connection.
"""

from __future__ import annotations

from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 0x7FFFFFFF

Member = tuple[str, str]  # group id, member id
TopicPartition = tuple[bytes, int]


class ShareSession:
    """One member's partitions, in the order in which they came."""

    __slots__ = ("connection_id", "epoch", "member", "partitions")

    def __init__(self, member: Member, connection_id: int) -> None:
        self.member = member
        self.connection_id = connection_id
        self.epoch = 1
        self.partitions: dict[TopicPartition, None] = {}

    def add(self, partition: TopicPartition) -> None:
        self.partitions[partition] = None

    def forget(self, partition: TopicPartition) -> None:
        self.partitions.pop(partition, None)

    def in_turn(self) -> list[TopicPartition]:
        """The partitions, each time with another one first, so that none starves."""
        partitions = list(self.partitions)
        if not partitions:
            return partitions
        first = (self.epoch - 1) % len(partitions)  # by the epoch of the request, which has been used up
        return partitions[first:] + partitions[:first] if first else partitions


class ShareSessions:
    """All sessions of this node, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[Member, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, member: Member, connection_id: int) -> ShareSession:
        """A new session in place of the one that there may be."""
        self._sessions.pop(member, None)
        if len(self._sessions) >= self._limit:
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[member] = ShareSession(member, connection_id)
        return session

    def go_on(self, member: Member, epoch: int) -> ShareSession:
        """The session of a request with this epoch, which is used up by it."""
        session = self.require(member)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        return session

    def close(self, member: Member) -> ShareSession:
        """End a session."""
        session = self.require(member)
        del self._sessions[member]
        return session

    def has_group(self, group_id: str) -> bool:
        """Whether any member of the group has a session here."""
        return any(member[0] == group_id for member in self._sessions)

    def of_connection(self, connection_id: int) -> list[Member]:
        """Who has a session over this connection."""
        return [member for member, session in self._sessions.items() if session.connection_id == connection_id]

    def require(self, member: Member) -> ShareSession:
        """Raises SHARE_SESSION_NOT_FOUND."""
        session = self._sessions.get(member)
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session
