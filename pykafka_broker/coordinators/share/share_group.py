"""The state of a share group's membership (KIP-932).

Rule: all of it is hard state, made of records by replay; a request works on a copy of its member. Members share
partitions, so nothing has to be given back before somebody else gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

FIRST_GROUP_EPOCH = 1
JOIN_EPOCH = 0
LEAVE_EPOCH = -1

Target = dict[bytes, frozenset[int]]  # topic id -> partitions
Topics = dict[bytes, tuple[str, frozenset[int]]]  # topic id -> name and partitions


class ShareMember:
    """One member; requests work on a `copy`."""

    __slots__ = (
        "assigned",
        "client_host",
        "client_id",
        "epoch",
        "member_id",
        "previous_epoch",
        "rack_id",
        "topic_names",
    )

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.rack_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.topic_names: frozenset[str] = frozenset()
        self.epoch = 0
        self.previous_epoch = -1
        self.assigned: Target = {}

    def copy(self) -> ShareMember:
        copy = ShareMember.__new__(ShareMember)
        for name in ShareMember.__slots__:
            setattr(copy, name, getattr(self, name))
        return copy

    def metadata(self) -> tuple[object, ...]:
        """What a ShareGroupMemberMetadata record says."""
        return self.rack_id, self.client_id, self.client_host, self.topic_names


class ShareGroup:
    """A share group."""

    type_name = "share"
    protocol_type = "share"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_GROUP_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_timestamp = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Target] = {}
        self.initialized: Topics = {}  # what has a state with the share coordinator
        self.has_state_record = False
        self.metadata_stale = True  # topics may have changed since metadata_hash was computed; soft

    # What the table and the offsets ask

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.topic_names for member in self.members.values())

    def reads_any(self, topics: frozenset[str]) -> bool:
        """Whether a member names one of these topics, be there such a topic or not."""
        return any(not topics.isdisjoint(member.topic_names) for member in self.members.values())

    def expiry_base(self) -> Callable[[int], int] | None:
        """Share groups have no committed offsets that could expire."""
        return None

    def check_delete(self) -> None:
        if self.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def check_offset_delete(self) -> None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """There are none to see."""

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, transactional: bool
    ) -> Callable[[bytes, int], ErrorCode] | None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)

    # Members

    def member(self, member_id: str) -> ShareMember:
        """Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def with_member(self, member: ShareMember) -> list[ShareMember]:
        """The members as they will be with this one."""
        return [*(one for one in self.members.values() if one.member_id != member.member_id), member]


def subscribed_names(members: Iterable[ShareMember]) -> set[str]:
    """All topics that these members read."""
    return {name for member in members for name in member.topic_names}
