"""What consumer, share and streams groups have in common: the coordinator leads them from epoch to epoch.

Rule: a change of the members or of what they read starts a group epoch, the target of that epoch follows, and each
member is moved on to it with its heartbeats (KIP-848, KIP-932, KIP-1071). All of that is hard state: it changes by
replay alone, and a request works on a copy of its member.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import IntEnum
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from pykafka_broker.coordinators.effects import Effects
from pykafka_broker.coordinators.groups.group import Group, GroupTable, TimerKey, Timers
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2  # leaves for a while (KIP-345)
FIRST_GROUP_EPOCH = 1
COMMIT_VERSION = 9  # the first OffsetCommit that knows member epochs

Since = Callable[[bytes, int], int | None]  # (topic id, partition) -> the epoch since which a member has it


class EpochMember(ABC):
    """One member; requests work on a `copy`."""

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
        """The same member. What it refers to is shared: none of it is ever changed."""
        copy = self.__class__.__new__(self.__class__)
        for name in self._fields:
            setattr(copy, name, getattr(self, name))
        return copy

    @property
    def is_static(self) -> bool:
        """Whether it comes back under a name of its own (KIP-345)."""
        return False

    @abstractmethod
    def metadata(self) -> tuple[object, ...]:
        """What the record of its metadata says."""

    def withdraw(self) -> None:
        """The record of its current assignment has been taken back, as it is before a member goes."""
        self.epoch = self.previous_epoch = LEAVE_EPOCH
        self.assigned = self.NOTHING


class ReconciledMember(EpochMember):
    """A member that has to give back what it loses before somebody else gets it."""

    __slots__ = ("instance_id", "rebalance_timeout_ms", "revoking", "state")
    STABLE: ClassVar[IntEnum]  # it has what it should have
    UNREVOKED: ClassVar[IntEnum]  # it has to give something back first

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
        """What the record of its current assignment says."""
        return self.epoch, self.previous_epoch, self.state, self.assigned, self.revoking

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is self.STABLE and self.epoch == epoch

    def move_to(self, epoch: int, state: IntEnum, assigned: Any, revoking: Any) -> None:
        """A step of the reconciliation."""
        self.previous_epoch, self.epoch = self.epoch, epoch
        self.state = state
        self.assigned = assigned
        self.revoking = revoking

    def withdraw(self) -> None:
        super().withdraw()
        self.revoking = self.NOTHING


M = TypeVar("M", bound=EpochMember)
R = TypeVar("R", bound=ReconciledMember)
T = TypeVar("T")  # what a member should have


class EpochGroup(ABC, Generic[M, T]):
    """A group of any of the three kinds."""

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
        """Raises NON_EMPTY_GROUP."""
        if self.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstones of all records of the group, offsets apart."""

    def member(self, member_id: str) -> M:
        """Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def check_room(self, limit: int) -> None:
        """Raises GROUP_MAX_SIZE_REACHED."""
        if len(self.members) >= limit:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The {self.type_name} group has reached its maximum capacity of {limit} members.",
            )

    def may_retarget(self, interval_ms: int, now: int) -> bool:
        """Whether the last target is old enough for a new one (KIP-1263)."""
        last = self.assignment_timestamp
        return last == 0 or interval_ms == 0 or now - last >= interval_ms

    def fenced(self, how: str, epoch: int, known: int, but: str = "") -> ApiError:
        """FENCED_MEMBER_EPOCH for a member whose epoch is "greater" or "smaller" than it can be."""
        return ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The {self.type_name} group member has a {how} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({known}){but}. The member must abandon all its partitions and rejoin.",
        )

    # Hard state, by replay alone

    def set_member(self, member: M) -> None:
        """A member has come, or a record of it has changed."""
        self.members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        self.members.pop(member_id, None)


class ReconciledGroup(EpochGroup[R, T]):
    """A group whose members own what they are assigned, and commit offsets for it."""

    def progress(self) -> str:
        """Which of the states it is in once it has members and can be assigned something."""
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def check_epoch(self, member: R, epoch: int, has_only_its_own: Callable[[], bool]) -> None:
        """Raises FENCED_MEMBER_EPOCH. The epoch before the last is fine for a member that has missed one answer, as
        long as it has nothing that is not its own."""
        if epoch > member.epoch:
            raise self.fenced("greater", epoch, member.epoch)
        if epoch < member.epoch and (epoch != member.previous_epoch or not has_only_its_own()):
            raise self.fenced("smaller", epoch, member.epoch)

    # Offsets

    def knows_epochs(self, member: R) -> bool:
        """False for a member that speaks the classic protocol and takes epochs for generations."""
        return True

    @abstractmethod
    def assigned_since(self, member: R) -> Since:
        """How to find out since when the member has a partition, also while it is to be given back."""

    def expiry_base(self) -> Callable[[int], int] | None:
        return lambda committed_at: committed_at

    def check_offset_delete(self) -> None:
        """Any time: topics that are read are kept one by one."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member.epoch != member_epoch:
            raise ApiError(self._stale(member))

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, transactional: bool
    ) -> Callable[[bytes, int], ErrorCode] | None:
        """An older epoch may still commit what was the member's own at that epoch (KIP-1251)."""
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
    """A change of one member by a request, whose kind of group says how. The member is a copy, and what is to become of
    the group stands in `records`: nothing here touches the group's hard state.
    """

    def __init__(self, table: GroupTable, group: G, before: M, effects: Effects[Any], now: int) -> None:
        self._table = table
        self._group = group
        self._now = now
        self.before = before
        self.member = before.copy()
        self.records: list[CoordinatorRecord] = effects.records
        self.group_epoch = group.epoch  # as it will be


# Time


class MemberClocks:
    """The deadlines of the members of one kind of group; `kind` is its `type_name`, so that the table can stop them
    with the group.

    Every heartbeat starts the member's session anew, and a member that has to give something back has its rebalance
    timeout for it. Deadlines are soft: after a restart each member has both once more in full. They end with the record
    that takes the member out, so that a member whose record the log refuses is not forgotten.
    """

    def __init__(self, timers: Timers, kind: str) -> None:
        self._timers = timers
        self.session = f"{kind}-session"
        self.rebalance = f"{kind}-rebalance"

    def keep_alive(self, group: Group, member_id: str, deadline: int) -> None:
        """Start the member's session anew."""
        self._timers.set(TimerKey(self.session, group.group_id, member_id), deadline)

    def follow_state(self, group: Group, before: ReconciledMember, member: ReconciledMember, now: int) -> None:
        """Start or stop the rebalance timeout, if the member has moved."""
        if member.current() == before.current():
            return
        if member.state is member.UNREVOKED:
            self.await_revocation(group, member, now)
        else:
            self.stop_rebalance(group, member.member_id)

    def await_revocation(self, group: Group, member: ReconciledMember, now: int) -> None:
        key = TimerKey(self.rebalance, group.group_id, member.member_id)
        self._timers.set(key, now + member.rebalance_timeout_ms)

    def stop_rebalance(self, group: Group, member_id: str) -> None:
        """Cancel the rebalance timeout of a member that has nothing to give back any more."""
        self._timers.cancel(TimerKey(self.rebalance, group.group_id, member_id))

    def is_out(self, key: TimerKey, member: ReconciledMember) -> bool:
        """Whether a deadline that has passed still means something: the member may have given back in time."""
        return key.kind != self.rebalance or member.state is member.UNREVOKED


# Replay: the five types of records that all three kinds have


class Kind(NamedTuple):
    """How one kind of group meets its records."""

    group: type[Any]  # an EpochGroup
    new_group: Callable[[str], Any]  # by group id
    new_member: Callable[[str], Any]  # by member id
    take_epoch: Callable[[Any, Any], None]  # (group, value): what the record of the epoch says besides
    take_metadata: Callable[[Any, Any], None]  # (member, value)
    take_assignment: Callable[[Any, Any], None]  # (member, value)
    read_target: Callable[[Any], Any]  # (value)


class KeyTypes(NamedTuple):
    """The keys of the five types."""

    epoch: type
    member_metadata: type
    target_metadata: type
    target: type
    current_assignment: type


def no_more(group: Any, value: Any) -> None:
    """For kinds whose record of the epoch says nothing else."""


class EpochReplay(Generic[G]):
    """The replay of one kind of group; `more` are the types that this kind alone has.

    A record creates the group that it is about, and a group goes with the tombstone of its epoch. A tombstone for what
    is not there is nothing special: compaction may have taken the rest.
    """

    def __init__(
        self,
        table: GroupTable,
        kind: Kind,
        keys: KeyTypes,
        more: dict[type, Callable[[G, Any, Any], None]],
    ) -> None:
        self._table = table
        self._kind = kind
        rules = (self._epoch, self._member, self._target_metadata, self._target, self._current_assignment)
        self._rules: dict[type, Callable[[G, Any, Any], None]] = dict(zip(keys, rules, strict=True)) | more

    def takes(self, key: Any) -> bool:
        return type(key) in self._rules

    def replay(self, key: Any, value: Any) -> None:
        """Take over one record; `takes` has said yes to its key."""
        group: Any = self._table.groups.get(key.group_id)
        if not isinstance(group, self._kind.group):
            if value is None:
                return
            # A classic group of this name has made way, or was only there because of its offsets.
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
        """Put a changed copy in a member's place, or a new member in none's."""
        known = group.members.get(member_id)
        member = self._kind.new_member(member_id) if known is None else known.copy()
        change(member)
        group.set_member(member)
