"""Share sessions (KIP-932): the partitions that a member reads over a connection.

Rule: a member has one session at a node. Epoch 0 opens the session, anew if need be, -1 closes it, and in between the
epochs count up and wrap from 2^31-1 to 1. A session ends with its connection.
"""

from __future__ import annotations

from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import TopicIdPartition
from pykafka_broker.protocol.errors import ErrorCode

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MOST_PARTITIONS = 65_536  # named by any number of requests; every fetch of the session looks at all of them
_MAX_EPOCH = 0x7FFFFFFF

Member = tuple[str, str]  # group id, member id


class ShareSession:
    """A member's partitions, in order of addition, each with whether its topic was known then."""

    __slots__ = ("connection_id", "epoch", "member", "partitions")

    def __init__(self, member: Member, connection_id: int) -> None:
        self.member = member
        self.connection_id = connection_id
        self.epoch = 1
        self.partitions: dict[TopicIdPartition, bool] = {}

    def add(self, partition: TopicIdPartition, is_known: bool) -> None:
        """Add a partition, unless the session has it already. Raises INVALID_REQUEST beyond `MOST_PARTITIONS`."""
        if len(self.partitions) >= MOST_PARTITIONS and partition not in self.partitions:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"A share session has at most {MOST_PARTITIONS} partitions.")
        self.partitions.setdefault(partition, is_known)

    def forget(self, partition: TopicIdPartition) -> None:
        self.partitions.pop(partition, None)

    def in_turn(self) -> list[TopicIdPartition]:
        """Return the partitions, each time with another first partition: no partition starves."""
        partitions = list(self.partitions)
        if not partitions:
            return partitions
        first = (self.epoch - 1) % len(partitions)  # the epoch of the request, which has been used up
        return partitions[first:] + partitions[:first] if first else partitions


class ShareSessions:
    """All sessions of a node, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[Member, ShareSession] = {}

    def open(self, member: Member, connection_id: int) -> ShareSession:
        """Open a session, in place of an old session of the member. Raises SHARE_SESSION_LIMIT_REACHED."""
        self._sessions.pop(member, None)
        if len(self._sessions) >= self._limit:
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[member] = ShareSession(member, connection_id)
        return session

    def use_epoch(self, member: Member, epoch: int) -> ShareSession:
        """Return the session for a request with the session's epoch, and use up the epoch.

        Raises:
            SHARE_SESSION_NOT_FOUND: The member has no session.
            INVALID_SHARE_SESSION_EPOCH: The session has another epoch.
        """
        session = self.require(member)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        return session

    def close(self, member: Member) -> ShareSession:
        """End and return a session. Raises SHARE_SESSION_NOT_FOUND."""
        session = self.require(member)
        del self._sessions[member]
        return session

    def partitions(self, member: Member) -> list[TopicIdPartition]:
        """Return the partitions of a member's session; none without a session."""
        session = self._sessions.get(member)
        return [] if session is None else list(session.partitions)

    def has_group(self, group_id: str) -> bool:
        return any(member[0] == group_id for member in self._sessions)

    def of_connection(self, connection_id: int) -> list[Member]:
        return [member for member, session in self._sessions.items() if session.connection_id == connection_id]

    def require(self, member: Member) -> ShareSession:
        """Return the member's session. Raises SHARE_SESSION_NOT_FOUND."""
        session = self._sessions.get(member)
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session
