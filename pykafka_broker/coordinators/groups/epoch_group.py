"""The common part of consumer, share and streams groups: the coordinator leads such groups from epoch to epoch.

Rule: a change of the members or of their topics starts a group epoch, the target of that epoch follows, and heartbeats
move each member on to the target (KIP-848, KIP-932, KIP-1071). All of this is hard state: it changes by replay alone,
and a request works on a copy of its member.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import IntEnum
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from pykafka_broker.coordinators.groups.group import AnyGroup, GroupTable, TimerKey, Timers
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.coordinators.result import CoordinatorResult
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2  # a static member leaves for a while (KIP-345)
FIRST_GROUP_EPOCH = 1
COMMIT_VERSION = 9  # the first OffsetCommit with member epochs

Since = Callable[[bytes, int], int | None]  # (topic id, partition) -> the epoch since which a member has it


class EpochGroupMember(ABC):
    """A member of a group with epochs; requests work on a `copy`."""

    __slots__ = ("assigned", "client_host", "client_id", "epoch", "member_id", "previous_epoch", "rack_id")
    NOTHING: ClassVar[Any] = {}  # an assignment without anything in it
    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(name for base in cls.__mro__ for name in getattr(base, "__slots__", ()))

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.rack_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.epoch = 0
        self.previous_epoch = -1
        self.assigned: Any = self.NOTHING  # each kind of member declares its type

    def copy(self) -> Self:
        """Return the same member. All fields share the values, which never change."""
        copy = self.__class__.__new__(self.__class__)
        for name in self._fields:
            setattr(copy, name, getattr(self, name))
        return copy

    @property
    def is_static(self) -> bool:
        """Whether the member comes back under an instance id (KIP-345)."""
        return False

    @abstractmethod
    def metadata(self) -> tuple[object, ...]:
        """Return the content of the member's metadata record."""

    def withdraw(self) -> None:
        """Take back the assignment after the tombstone of the record: the member is about to go."""
        self.epoch = self.previous_epoch = LEAVE_EPOCH
        self.assigned = self.NOTHING


class ReconciledGroupMember(EpochGroupMember):
    """A member with exclusive ownership: lost partitions are given back before other members get hold of them."""

    __slots__ = ("instance_id", "rebalance_timeout_ms", "revoking", "state")
    STABLE: ClassVar[IntEnum]  # the member has reached the target
    UNREVOKED: ClassVar[IntEnum]  # the member has to give something back first

    def __init__(self, member_id: str) -> None:
        super().__init__(member_id)
        self.instance_id: str | None = None
        self.rebalance_timeout_ms = -1
        self.state: Any = self.STABLE
        self.revoking: Any = self.NOTHING

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    def current(self) -> tuple[object, ...]:
        """Return the content of the record of the current assignment."""
        return self.epoch, self.previous_epoch, self.state, self.assigned, self.revoking

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has reached the target of `epoch`."""
        return self.state is self.STABLE and self.epoch == epoch

    def move_to(self, epoch: int, state: IntEnum, assigned: Any, revoking: Any) -> None:
        """Take a step of the reconciliation."""
        self.previous_epoch, self.epoch = self.epoch, epoch
        self.state = state
        self.assigned = assigned
        self.revoking = revoking

    def withdraw(self) -> None:
        super().withdraw()
        self.revoking = self.NOTHING


M = TypeVar("M", bound=EpochGroupMember)
R = TypeVar("R", bound=ReconciledGroupMember)
T = TypeVar("T")  # the target of a member


class EpochGroup(ABC, Generic[M, T]):
    """A consumer, share or streams group."""

    type_name: str
    protocol_type: str
    goes_when_empty = True

    def __init__(self, group_id: str, assignment_epoch: int) -> None:
        self.group_id = group_id
        self.epoch = FIRST_GROUP_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = 0
        self.members: dict[str, M] = {}
        self.targets: dict[str, T] = {}
        self.metadata_stale = True  # topics may have changed since metadata_hash was computed; soft

    @property
    def is_empty(self) -> bool:
        return not self.members

    def has_dynamic_member(self, member_id: str) -> bool:
        member = self.members.get(member_id)
        return member is not None and not member.is_static

    def check_delete(self) -> None:
        """Raise NON_EMPTY_GROUP if the group has members."""
        if self.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstones of all records of the group, offsets apart."""

    def member(self, member_id: str) -> M:
        """Return the member. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def check_room(self, limit: int) -> None:
        """Raise GROUP_MAX_SIZE_REACHED if the group has `limit` members."""
        if len(self.members) >= limit:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The {self.type_name} group has reached its maximum capacity of {limit} members.",
            )

    def may_retarget(self, interval_ms: int, now: int) -> bool:
        """Whether the last target is old enough for another target (KIP-1263)."""
        last = self.assignment_timestamp
        return last == 0 or interval_ms == 0 or now - last >= interval_ms

    def fenced(self, how: str, epoch: int, known: int, but: str = "") -> ApiError:
        """Return FENCED_MEMBER_EPOCH for a member epoch "greater" or "smaller" than allowed."""
        return ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The {self.type_name} group member has a {how} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({known}){but}. The member must abandon all its partitions and rejoin.",
        )

    # Hard state, by replay alone

    def set_member(self, member: M) -> None:
        """Take in a member, new or with a changed record."""
        self.members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        self.members.pop(member_id, None)


class ReconciledGroup(EpochGroup[R, T]):
    """A group of members with exclusive ownership, which commit offsets."""

    def progress(self) -> str:
        """Return the state of a group with members and something to assign."""
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def check_epoch(self, member: R, epoch: int, has_only_its_own: Callable[[], bool]) -> None:
        """Raise FENCED_MEMBER_EPOCH for an epoch other than the member's.

        The epoch before the last is fine for a member that has missed an answer, as long as the member has nothing that
        belongs to others.
        """
        if epoch > member.epoch:
            raise self.fenced("greater", epoch, member.epoch)
        if epoch < member.epoch and (epoch != member.previous_epoch or not has_only_its_own()):
            raise self.fenced("smaller", epoch, member.epoch)

    # Offsets

    def knows_epochs(self, member: R) -> bool:
        """Return False for a member of the classic protocol, whose epochs are generations."""
        return True

    @abstractmethod
    def assigned_since(self, member: R) -> Since:
        """Return a function from a partition to the member's epoch at the assignment, also while revoked."""

    def expiry_base(self) -> Callable[[int], int] | None:
        return lambda committed_at: committed_at

    def check_offset_delete(self) -> None:
        """Allow every delete: topics with a reader are refused separately."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member.epoch != member_epoch:
            raise ApiError(self._stale(member))

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, transactional: bool
    ) -> Callable[[bytes, int], ErrorCode] | None:
        """Check a commit. An older epoch may still commit for partitions owned since then (KIP-1251)."""
        if epoch < 0 and not self.members:
            return None
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if not transactional and version < COMMIT_VERSION and self.knows_epochs(member):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if epoch == member.epoch:
            return None
        stale = self._stale(member)
        if epoch > member.epoch:
            raise ApiError(stale)
        assigned_since = self.assigned_since(member)

        def check(topic_id: bytes, partition: int) -> ErrorCode:
            since = assigned_since(topic_id, partition)
            return stale if since is None or epoch < since else ErrorCode.NONE

        return check

    def _stale(self, member: R) -> ErrorCode:
        return ErrorCode.STALE_MEMBER_EPOCH if self.knows_epochs(member) else ErrorCode.ILLEGAL_GENERATION


# A change on its way

G = TypeVar("G", bound=EpochGroup[Any, Any])


class EpochChange(Generic[G, M]):
    """A change of a member by a request. The member is a copy, and the outcome stands in `records`.

    A subclass for each kind of group says how; none touches the group's hard state.
    """

    def __init__(self, table: GroupTable, group: G, before: M, result: CoordinatorResult[Any], now: int) -> None:
        self._table = table
        self._group = group
        self._now = now
        self.before = before
        self.member = before.copy()
        self.records: list[CoordinatorRecord] = result.records
        self.group_epoch = group.epoch  # as of after the change


# Time


class MemberClocks:
    """The deadlines of members of a kind of group; `kind` is the group's `type_name`, by which the table cancels.

    Every heartbeat starts the member's session anew, and a member that has to give something back has its rebalance
    timeout for that. Deadlines are soft: after a restart each member has both once more in full. Deadlines end with the
    record that takes the member out, so that a member whose record the log refuses is not forgotten.
    """

    def __init__(self, timers: Timers, kind: str) -> None:
        self._timers = timers
        self.session = f"{kind}-session"
        self.rebalance = f"{kind}-rebalance"

    def keep_alive(self, group: AnyGroup, member_id: str, deadline: int) -> None:
        """Start the member's session anew."""
        self._timers.set(TimerKey(self.session, group.group_id, member_id), deadline)

    def follow_state(
        self, group: AnyGroup, before: ReconciledGroupMember, member: ReconciledGroupMember, now: int
    ) -> None:
        """Start or stop the rebalance timeout, if the member has moved."""
        if member.current() == before.current():
            return
        if member.state is member.UNREVOKED:
            self.await_revocation(group, member, now)
        else:
            self.stop_rebalance(group, member.member_id)

    def await_revocation(self, group: AnyGroup, member: ReconciledGroupMember, now: int) -> None:
        key = TimerKey(self.rebalance, group.group_id, member.member_id)
        self._timers.set(key, now + member.rebalance_timeout_ms)

    def stop_rebalance(self, group: AnyGroup, member_id: str) -> None:
        """Cancel the rebalance timeout of a member with nothing to give back any more."""
        self._timers.cancel(TimerKey(self.rebalance, group.group_id, member_id))

    def is_out(self, key: TimerKey, member: ReconciledGroupMember) -> bool:
        """Whether an expired deadline still counts: the member may have given back in time."""
        return key.kind != self.rebalance or member.state is member.UNREVOKED


# Replay: the five types of records that all three kinds have


class GroupRecordRules(NamedTuple):
    """The functions between groups of a kind and the records of the kind."""

    group: type[Any]  # an EpochGroup
    new_group: Callable[[str], Any]  # by group id
    new_member: Callable[[str], Any]  # by member id
    take_epoch: Callable[[Any, Any], None]  # (group, value): the other fields of the epoch's record
    take_metadata: Callable[[Any, Any], None]  # (member, value)
    take_assignment: Callable[[Any, Any], None]  # (member, value)
    read_target: Callable[[Any], Any]  # (value)


class KeyTypes(NamedTuple):
    """The key classes of the five types of records."""

    epoch: type
    member_metadata: type
    target_metadata: type
    target: type
    current_assignment: type


def no_more_fields(group: Any, value: Any) -> None:
    """Do nothing, for kinds with nothing else in the record of the epoch."""


class EpochReplay(Generic[G]):
    """The replay of a kind of group; `more` are the types of records of the kind alone.

    A record creates the group that it is about, and a group goes with the tombstone of its epoch. A tombstone for an
    unknown group or member is nothing special: compaction may have taken the rest.
    """

    def __init__(
        self,
        table: GroupTable,
        kind: GroupRecordRules,
        keys: KeyTypes,
        more: dict[type, Callable[[G, Any, Any], None]],
    ) -> None:
        self._table = table
        self._kind = kind
        rules = (self._epoch, self._member, self._target_metadata, self._target, self._current_assignment)
        self._rules: dict[type, Callable[[G, Any, Any], None]] = dict(zip(keys, rules, strict=True)) | more

    def takes(self, key: Any) -> bool:
        """Whether `replay` knows the type of the key."""
        return type(key) in self._rules

    def replay(self, key: Any, value: Any) -> None:
        """Apply a record with a key that `takes` accepts."""
        group: Any = self._table.groups.get(key.group_id)
        if not isinstance(group, self._kind.group):
            if value is None:
                return
            # A classic group of this name has made way, or existed only because of its offsets.
            group = self._table.groups[key.group_id] = self._kind.new_group(key.group_id)
        self._rules[type(key)](group, key, value)

    def _epoch(self, group: G, key: Any, value: Any) -> None:
        if value is None:
            self._table.remove(group.group_id)
            return
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash
        self._kind.take_epoch(group, value)

    def _member(self, group: G, key: Any, value: Any) -> None:
        if value is None:
            group.remove_member(key.member_id)
            self._table.timers.cancel_member(group.group_id, group.type_name, key.member_id)
        else:
            self._change(group, key.member_id, lambda member: self._kind.take_metadata(member, value))

    def _target_metadata(self, group: G, key: Any, value: Any) -> None:
        group.assignment_epoch = -1 if value is None else value.assignment_epoch
        group.assignment_timestamp = 0 if value is None else value.assignment_timestamp

    def _target(self, group: G, key: Any, value: Any) -> None:
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = self._kind.read_target(value)

    def _current_assignment(self, group: G, key: Any, value: Any) -> None:
        if value is not None:
            self._change(group, key.member_id, lambda member: self._kind.take_assignment(member, value))
        elif key.member_id in group.members:
            self._change(group, key.member_id, lambda member: member.withdraw())

    def _change(self, group: G, member_id: str, change: Callable[[Any], None]) -> None:
        """Put a changed copy in a member's place, or take in a new member."""
        known = group.members.get(member_id)
        member = self._kind.new_member(member_id) if known is None else known.copy()
        change(member)
        group.set_member(member)
