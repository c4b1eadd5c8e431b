"""The state of a classic group, and its records.

Rule: members, generations in the making and waiting requests are soft state; a restart keeps what the last
GroupMetadata record says. The states and the ways between them are the table `ALLOWED_FROM`; any other step is a
defect and raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from enum import Enum

from pykafka_broker.coordinators.groups.consumer_protocol import subscribed_topics
from pykafka_broker.coordinators.groups.group import CONSUMER_PROTOCOL_TYPE, UNKNOWN_MEMBER, TimerKey, WallAt, unchanged
from pykafka_broker.coordinators.groups.java_order import in_hash_order
from pykafka_broker.coordinators.record import CoordinatorRecord, Token
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from pykafka_broker.protocol.stored.group_metadata_key import GroupMetadataKey
from pykafka_broker.protocol.stored.group_metadata_value import GroupMetadataValue, MemberMetadata

Protocols = list[tuple[str, bytes]]  # (name, metadata) in the member's order of preference


class ClassicState(Enum):
    """KIP-62's states, by name as in ListGroups and DescribeGroups; a group that does not exist is "Dead" there."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


EMPTY = ClassicState.EMPTY
PREPARING_REBALANCE = ClassicState.PREPARING_REBALANCE
COMPLETING_REBALANCE = ClassicState.COMPLETING_REBALANCE
STABLE = ClassicState.STABLE

ALLOWED_FROM: dict[ClassicState, frozenset[ClassicState]] = {
    EMPTY: frozenset({PREPARING_REBALANCE}),
    PREPARING_REBALANCE: frozenset({EMPTY, STABLE, COMPLETING_REBALANCE}),
    COMPLETING_REBALANCE: frozenset({PREPARING_REBALANCE}),
    STABLE: frozenset({COMPLETING_REBALANCE}),
}


class ClassicGroupMember:
    """A member with subscription, assignment and the waiting request, if any."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_token",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_key",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = b""
        self.is_new = False  # the first join is unanswered, so the member can't send heartbeats
        self.join_token: Token | None = None
        self.sync_token: Token | None = None
        self.session_key = TimerKey("classic-session", group_id, member_id)

    def metadata(self, protocol_name: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")


class ClassicGroup:
    """A group of the classic protocol (KIP-62, KIP-345, KIP-394, KIP-814)."""

    type_name = "classic"
    goes_when_empty = True

    def __init__(self, group_id: str, now: int, state: ClassicState = EMPTY, *, wall_at: WallAt = unchanged) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = state
        self.live = False  # until a member joins or the load ends: the group is what its last record says
        self._wall_at = wall_at
        self.state_since: int | None = wall_at(now)  # by the wall clock; None after an old record without it
        self.generation = 0
        self.protocol_type_or_none: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.pending_joins: set[str] = set()  # ids handed out with MEMBER_ID_REQUIRED and not used yet
        self.pending_syncs: set[str] = set()  # members with the new generation and without a SyncGroup
        # During the initial delay: the present wait, and what remains of the rebalance timeout after it.
        self.initial_delay: tuple[int, int] | None = None
        self.new_member_added = False  # during the initial delay: wait longer for more members
        self.subscribed: frozenset[str] | None = None  # None: unknown, or not consumers
        self.awaiting_join = 0  # how many members have a join_token
        self._support: dict[str, int] = {}  # protocol name -> number of members that know it
        self.join_key = TimerKey("classic-join", group_id)
        self.sync_key = TimerKey("classic-sync", group_id)

    # Questions of the table and of the offsets

    @property
    def protocol_type(self) -> str:
        return self.protocol_type_or_none or ""

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type_or_none == CONSUMER_PROTOCOL_TYPE

    def read_among(self, topics: frozenset[str]) -> frozenset[str]:
        """Return the topics of `topics` that live consumers read; all topics if the subscription can't be read."""
        if self.subscribed is None:
            return topics if self.uses_consumer_protocol else frozenset()
        return topics & self.subscribed

    def has_dynamic_member(self, member_id: str) -> bool:
        member = self.members.get(member_id)
        return member_id in self.pending_joins if member is None else member.instance_id is None

    def expiry_base(self) -> Callable[[int], int] | None:
        """Return the start of an offset's retention, from the commit time.

        Retention counts from when the group became empty (KIP-211). It counts from the commit for a stable group of
        consumers, whose subscribed topics are left alone, and for a simple group without a protocol.
        """
        if self.protocol_type_or_none is None:
            return lambda committed_at: committed_at
        if self.state is EMPTY:
            since = self.state_since
            return lambda committed_at: committed_at if since is None else since
        if self.uses_consumer_protocol and self.subscribed is not None and self.state is STABLE:
            return lambda committed_at: committed_at
        return None

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, transactional: bool
    ) -> None:
        if epoch < 0 and self.state is EMPTY:
            return  # an admin client, or a consumer that assigns its partitions itself
        if epoch >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None:
            self.check_member(member_id, instance_id)
            if epoch != self.generation:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional and self.state is not EMPTY:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is COMPLETING_REBALANCE:
            # The member knows the new generation but not its assignment: it may commit for partitions of others.
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow every fetch: classic members do not say who they are."""

    def check_offset_delete(self) -> None:
        if self.state is not EMPTY and not self.uses_consumer_protocol:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        if self.state is not EMPTY:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def tombstones(self) -> list[CoordinatorRecord]:
        return [group_tombstone(self.group_id)]

    # Members

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raise UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where another member has taken over the instance (KIP-345)."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    def add(self, member: ClassicGroupMember, token: Token) -> None:
        """Take in a member with a join request waiting under `token`."""
        if not self.members:
            self.protocol_type_or_none = member.protocol_type
        self.restore(member)
        self.pending_joins.discard(member.member_id)
        self.wait_for_join(member, token)

    def restore(self, member: ClassicGroupMember) -> None:
        """Take in a member with no waiting request; the first one leads, unless the group has a leader."""
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_support(member, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def update(
        self,
        member: ClassicGroupMember,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        token: Token,
    ) -> None:
        """Take over the subscription and the timeouts of a known member's new join request."""
        self._count_support(member, -1)
        member.protocols = protocols
        self._count_support(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.wait_for_join(member, token)

    def remove(self, member_id: str) -> None:
        """Forget a member, known or pending; the next in line becomes leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_support(member, -1)
            if member.join_token is not None:
                self.awaiting_join -= 1
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def replace_static(self, old_id: str, new_id: str) -> tuple[ClassicGroupMember, ClassicGroupMember]:
        """Hand a static member's place to the next incarnation. Returns the old and the new member."""
        old = self.members.pop(old_id)
        new = copy(old)
        new.member_id = new_id
        new.is_new, new.join_token, new.sync_token = False, None, None
        new.session_key = TimerKey("classic-session", self.group_id, new_id)
        self.members[new_id] = new
        if self.leader == old_id:
            self.leader = new_id
        assert old.instance_id is not None
        self.static_members[old.instance_id] = new_id
        self.pending_syncs.discard(old_id)
        return old, new

    def wait_for_join(self, member: ClassicGroupMember, token: Token) -> None:
        """Have the member's join request wait under `token`, in the place of an earlier request."""
        self.awaiting_join += member.join_token is None
        member.join_token = token

    def end_join(self, member: ClassicGroupMember) -> Token | None:
        """Return the token of the member's join request, which waits no longer; None without a waiting request."""
        token, member.join_token = member.join_token, None
        self.awaiting_join -= token is not None
        return token

    @property
    def all_joined(self) -> bool:
        return self.awaiting_join == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make a joined member the leader, unless the leader has joined. Returns False if no member has joined."""
        if self.leader is None:
            return False
        if self.members[self.leader].join_token is not None:
            return True
        for member in self.members.values():
            if member.join_token is not None:
                self.leader = member.member_id
                return True
        return False

    # Protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a member with the protocols `names` fits in: every member must know a common protocol."""
        if self.state is EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        if protocol_type != self.protocol_type_or_none:
            return False
        # All members may have gone while a member with a pending id is awaited: then any protocol will do.
        return any(self._support.get(name, 0) == len(self.members) for name in names)

    def _count_support(self, member: ClassicGroupMember, step: int) -> None:
        for name in {name for name, _ in member.protocols}:
            count = self._support.get(name, 0) + step
            if count:
                self._support[name] = count
            else:
                del self._support[name]

    def select_protocol(self) -> str:
        """Return the winner of a vote among the protocols with the support of all members.

        Each member votes for its first such protocol; the most votes win, and among as many the first in Kafka's order.
        """
        candidates = {name for name, count in self._support.items() if count == len(self.members)}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name, _ in member.protocols if name in candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(in_hash_order(votes), key=lambda name: votes[name])

    def compute_subscribed(self) -> frozenset[str] | None:
        """Return all topics of the consumers' subscriptions; None if unknown."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        return subscribed_topics(member.metadata(self.protocol_name) for member in self.members.values())

    # States and generations

    def move_to(self, state: ClassicState, now: int) -> None:
        if self.state not in ALLOWED_FROM[state]:
            raise RuntimeError(f"group {self.group_id} can't go from {self.state.value} to {state.value}")
        self.previous_state, self.state = self.state, state
        self.state_since = self._wall_at(now)

    @property
    def can_rebalance(self) -> bool:
        return self.state in ALLOWED_FROM[PREPARING_REBALANCE]

    def next_generation(self, now: int) -> None:
        """Close the join phase: with members the leader's assignment is awaited; without members the group is empty."""
        self.generation += 1
        if self.members:
            self.protocol_name = self.select_protocol()
            self.subscribed = self.compute_subscribed()
            self.move_to(COMPLETING_REBALANCE, now)
        else:
            self.protocol_name = None
            self.subscribed = self.compute_subscribed()
            self.move_to(EMPTY, now)
        self.pending_syncs.clear()

    def assignments(self) -> dict[str, bytes]:
        return {member.member_id: member.assignment for member in self.members.values()}


# DescribeGroups


def describe(group: ClassicGroup) -> DescribedGroup:
    """Return the group with all members.

    Metadata is shown of a stable group only: before that no protocol has the agreement of all members.
    """
    stable = group.state is STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[_describe_member(group, member, stable) for member in group.members.values()],
    )


def _describe_member(group: ClassicGroup, member: ClassicGroupMember, stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata(group.protocol_name) if stable else b"",
        member.assignment,
    )


# Records of `__consumer_offsets`, in the versions that Kafka 4.4 writes


GROUP_METADATA_VERSION = 3


def group_metadata_record(group: ClassicGroup, assignments: dict[str, bytes]) -> CoordinatorRecord:
    """Return the record of a classic group with members and assignments."""
    members = [
        MemberMetadata(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(group.protocol_name),
            assignments[member.member_id],
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        group.protocol_type, group.generation, group.protocol_name, group.leader, _since(group), members
    )
    return CoordinatorRecord(GroupMetadataKey(group.group_id), value, GROUP_METADATA_VERSION)


def empty_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """Return the record of a new classic group: no protocol, no member, generation 0."""
    value = GroupMetadataValue("", 0, None, None, _since(group), [])
    return CoordinatorRecord(GroupMetadataKey(group.group_id), value, GROUP_METADATA_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group_id), None)


def _since(group: ClassicGroup) -> int:
    return -1 if group.state_since is None else group.state_since


def restored(group_id: str, value: GroupMetadataValue, now: int, wall_at: WallAt = unchanged) -> ClassicGroup:
    """Return the group of a GroupMetadata record: stable with members, else empty."""
    group = ClassicGroup(group_id, now, STABLE if value.members else EMPTY, wall_at=wall_at)
    group.state_since = None if value.current_state_timestamp == -1 else value.current_state_timestamp
    group.generation = value.generation
    group.protocol_type_or_none = value.protocol_type or None
    group.protocol_name = value.protocol
    group.leader = value.leader
    for stored_member in value.members:
        member = ClassicGroupMember(
            group_id,
            stored_member.member_id,
            stored_member.group_instance_id,
            stored_member.client_id,
            stored_member.client_host,
            # Version 0 had one timeout for both.
            stored_member.session_timeout if stored_member.rebalance_timeout == -1 else stored_member.rebalance_timeout,
            stored_member.session_timeout,
            value.protocol_type,
            [(value.protocol or "", stored_member.subscription)],
        )
        member.assignment = stored_member.assignment
        group.restore(member)
    group.subscribed = group.compute_subscribed()
    return group
