"""Groups that go by epochs: consumer, share and streams groups (KIP-848, KIP-932, KIP-1071).

Rule: the coordinator leads a group from epoch to epoch. A change of the members or of their topics starts a group
epoch, the target of that epoch follows, and heartbeats move each member on to the target. All of this is hard state: it
changes by replay alone, and a request works on a copy of its member.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Generic, Self, TypeVar

from pykafka_broker.coordinators.groups.group import Caller, GroupTable, TimerKey
from pykafka_broker.coordinators.groups.java_order import JavaTable
from pykafka_broker.coordinators.record import CoordinatorRecord, CoordinatorResult
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2  # a static member leaves for a while (KIP-345)
FIRST_GROUP_EPOCH = 1
COMMIT_VERSION = 9  # the first OffsetCommit with member epochs

Since = Callable[[bytes, int], int | None]  # (topic id, partition) -> the epoch since which a member has it
Target = dict[bytes, frozenset[int]]  # topic id -> partitions
_RECORD_TYPES = {spec.key_name: spec for spec in GROUP_RECORDS.values()}


class GroupRecords:
    """The five types of records of every group with epochs, as in Kafka 4.4."""

    def __init__(self, kind: str) -> None:
        """Load the message classes.

        Args:
            kind: The begin of the message names, such as "ConsumerGroup" of ConsumerGroupMemberMetadataKey.
        """
        self.types: list[tuple[Any, Any]] = [
            (spec.key_class(), spec.value_class())
            for part in (
                "Metadata",
                "MemberMetadata",
                "TargetAssignmentMetadata",
                "TargetAssignmentMember",
                "CurrentMemberAssignment",
            )
            if (spec := _RECORD_TYPES[f"{kind}{part}Key"])
        ]
        self._epoch, self._member, self._target_epoch, self._target, self._assignment = self.types

    def epoch(self, group_id: str, *fields: Any) -> CoordinatorRecord:
        key, value = self._epoch
        return CoordinatorRecord(key(group_id), value(*fields))

    def member(self, group_id: str, member_id: str, *fields: Any) -> CoordinatorRecord:
        key, value = self._member
        return CoordinatorRecord(key(group_id, member_id), value(*fields))

    def target_epoch(self, group_id: str, epoch: int, timestamp: int) -> CoordinatorRecord:
        key, value = self._target_epoch
        return CoordinatorRecord(key(group_id), value(epoch, timestamp))

    def target(self, group_id: str, member_id: str, *fields: Any) -> CoordinatorRecord:
        key, value = self._target
        return CoordinatorRecord(key(group_id, member_id), value(*fields))

    def assignment(self, group_id: str, member_id: str, *fields: Any) -> CoordinatorRecord:
        key, value = self._assignment
        return CoordinatorRecord(key(group_id, member_id), value(*fields))

    def member_tombstones(self, group_id: str, member_id: str) -> list[CoordinatorRecord]:
        """Return the tombstones of all records of a member."""
        keys = self._assignment[0], self._target[0], self._member[0]
        return [CoordinatorRecord(key(group_id, member_id), None) for key in keys]

    def tombstones(
        self, group: EpochGroup[Any, Any], more: Sequence[CoordinatorRecord] = ()
    ) -> list[CoordinatorRecord]:
        """Return the tombstones of all records of a group; `more` stand before the last, of the epoch."""
        assignments, targets, members = (
            [CoordinatorRecord(key(group.group_id, member_id), None) for member_id in group.members]
            for key, _ in (self._assignment, self._target, self._member)
        )
        target_epoch = CoordinatorRecord(self._target_epoch[0](group.group_id), None)
        epoch = CoordinatorRecord(self._epoch[0](group.group_id), None)
        return [*assignments, *targets, target_epoch, *members, *more, epoch]


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

    @property
    def must_revoke(self) -> bool:
        """Whether the member has to give something back, within the rebalance timeout."""
        return False

    @abstractmethod
    def metadata(self) -> tuple[object, ...]:
        """Return what the member's metadata record tells."""

    def stored_metadata(self) -> Iterable[object]:
        """Return the fields of the member's metadata record."""
        return (sorted(field) if isinstance(field, frozenset) else field for field in self.metadata())

    @abstractmethod
    def stored_assignment(self) -> Iterable[object]:
        """Return the fields of the record of the current assignment, apart from the epochs."""

    def take_request(self, request: Any, caller: Caller) -> None:
        """Take over the fields of a heartbeat that all kinds of members have; fields without a value stay."""
        if request.rack_id is not None:
            self.rack_id = request.rack_id
        self.client_id, self.client_host = caller.client_id, caller.client_host

    # By replay alone

    def take_metadata(self, value: Any) -> None:
        """Take over the member's metadata record."""
        self.rack_id = value.rack_id
        self.client_id = value.client_id
        self.client_host = value.client_host

    def take_assignment(self, value: Any) -> None:
        """Take over the record of the member's current assignment."""
        self.epoch = value.member_epoch
        self.previous_epoch = value.previous_member_epoch

    def withdraw(self) -> None:
        """Take back the assignment after the tombstone of the record: the member is about to go."""
        self.epoch = self.previous_epoch = LEAVE_EPOCH
        self.assigned = self.NOTHING


class ReconciliationState(IntEnum):
    """The progress of a member towards the target; each kind of group has states of the kind, and UNKNOWN.

    UNKNOWN stands for the states of newer releases.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls["UNKNOWN"]


class ReconciledGroupMember(EpochGroupMember):
    """A member with exclusive ownership: a lost partition is given back before another member gets the partition."""

    __slots__ = ("instance_id", "rebalance_timeout_ms", "revoking", "state")
    STABLE: ClassVar[ReconciliationState]  # the member has reached the target
    UNREVOKED: ClassVar[ReconciliationState]  # the member has to give something back first

    def __init__(self, member_id: str) -> None:
        super().__init__(member_id)
        self.instance_id: str | None = None
        self.rebalance_timeout_ms = -1
        self.state: Any = self.STABLE
        self.revoking: Any = self.NOTHING

    def take_request(self, request: Any, caller: Caller) -> None:
        super().take_request(request, caller)
        if request.instance_id is not None:
            self.instance_id = request.instance_id
        if request.rebalance_timeout_ms != -1:
            self.rebalance_timeout_ms = request.rebalance_timeout_ms

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def must_revoke(self) -> bool:
        return self.state is self.UNREVOKED

    def current(self) -> tuple[object, ...]:
        """Return the content of the record of the current assignment."""
        return self.epoch, self.previous_epoch, self.state, self.assigned, self.revoking

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has reached the target of `epoch`."""
        return self.state is self.STABLE and self.epoch == epoch

    def move_to(self, epoch: int, state: ReconciliationState, assigned: Any, revoking: Any) -> None:
        """Take a step of the reconciliation."""
        self.previous_epoch, self.epoch = self.epoch, epoch
        self.state = state
        self.assigned = assigned
        self.revoking = revoking

    def take_metadata(self, value: Any) -> None:
        super().take_metadata(value)
        self.instance_id = value.instance_id
        self.rebalance_timeout_ms = value.rebalance_timeout_ms

    def take_assignment(self, value: Any) -> None:
        super().take_assignment(value)
        self.state = type(self.STABLE)(value.state)

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
    member_type: ClassVar[type[EpochGroupMember]]
    records: ClassVar[GroupRecords]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_GROUP_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_GROUP_EPOCH
        self.assignment_timestamp = 0
        self.members: dict[str, M] = {}
        self.targets: dict[str, T] = {}
        self.metadata_stale = True  # topics may have changed since metadata_hash was computed; soft
        self._java_table = JavaTable()

    @property
    def is_empty(self) -> bool:
        return not self.members

    def has_dynamic_member(self, member_id: str) -> bool:
        member = self.members.get(member_id)
        return member is not None and not member.is_static

    def check_delete(self) -> None:
        if self.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]: ...

    def member(self, member_id: str) -> M:
        """Return the member. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def with_change(self, member: M, replaced: M | None = None) -> list[M]:
        """Return the members after a change of `member`, which comes last, in the place of `replaced`."""
        gone = (member.member_id, member.member_id if replaced is None else replaced.member_id)
        return [*(other for other in self.members.values() if other.member_id not in gone), member]

    def in_table_order(self, members: Iterable[M]) -> list[M]:
        """Return members in the order of Kafka's table of them, which its assignors meet; new members come last."""
        found = {member.member_id: member for member in members}
        known = self._java_table.order(member_id for member_id in self.members if member_id in found)
        return [found[member_id] for member_id in dict.fromkeys((*known, *found))]

    def check_room(self, limit: int) -> None:
        """Raise GROUP_MAX_SIZE_REACHED if the group has `limit` members."""
        if len(self.members) >= limit:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The {self.type_name} group has reached its maximum capacity of {limit} members.",
            )

    def may_retarget(self, interval_ms: int, now: int) -> bool:
        """Return whether the last target is old enough for another target (KIP-1263).

        A target from the future, by the clock of an earlier coordinator, is old enough: its time may be hours away.
        """
        return not 0 <= now - self.assignment_timestamp < interval_ms

    def fenced(self, how: str, epoch: int, known: int, but: str = "") -> ApiError:
        """Return FENCED_MEMBER_EPOCH for a member epoch "greater" or "smaller" than allowed."""
        return ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The {self.type_name} group member has a {how} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({known}){but}. The member must abandon all its partitions and rejoin.",
        )

    # Records

    def member_record(self, member: M) -> CoordinatorRecord:
        return self.records.member(self.group_id, member.member_id, *member.stored_metadata())

    def assignment_record(self, member: M) -> CoordinatorRecord:
        epochs = member.epoch, member.previous_epoch
        return self.records.assignment(self.group_id, member.member_id, *epochs, *member.stored_assignment())

    def target_record(self, member_id: str, target: T) -> CoordinatorRecord:
        return self.records.target(self.group_id, member_id, *self.stored_target(target))

    @abstractmethod
    def stored_target(self, target: T) -> Iterable[object]:
        """Return the fields of the record of a target."""

    def target_records(self, targets: Mapping[str, T], epoch: int, now: int) -> list[CoordinatorRecord]:
        """Return the records of the changed targets, and of the group epoch that they are for."""
        changed = [each for each in targets.items() if each[1] != self.targets.get(each[0])]
        return [*(self.target_record(*each) for each in changed), self.records.target_epoch(self.group_id, epoch, now)]

    # Hard state, by replay alone

    def take_epoch(self, value: Any) -> None:
        """Take over the record of the group's epoch."""
        self.epoch = value.epoch
        self.metadata_hash = value.metadata_hash

    @abstractmethod
    def read_target(self, value: Any) -> T:
        """Return the target in a record."""

    def set_member(self, member: M) -> None:
        """Take in a member, new or with a changed record."""
        self.members[member.member_id] = member
        self._java_table.grow(len(self.members))

    def remove_member(self, member_id: str) -> None:
        self.members.pop(member_id, None)


class ReconciledGroup(EpochGroup[R, T]):
    """A group of members with exclusive ownership, which commit offsets.

    A static member has an instance id, under which the member leaves for a while and comes back as another member.
    """

    NO_TARGET: ClassVar[Any] = {}

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_members: dict[str, str] = {}  # instance id -> member id

    # Static members

    def static_member(self, instance_id: str | None) -> R | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def claimed_member(self, member_id: str, instance_id: str | None) -> R:
        """Return the member, a static member by the instance id.

        Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for another member's instance id.
        """
        if instance_id is None:
            return self.member(member_id)
        existing = self.static_member(instance_id)
        if existing is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if existing.member_id != member_id:
            raise ApiError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {existing.member_id}.",
            )
        return existing

    def unreleased(self, member_id: str, existing: R) -> ApiError:
        """Return UNRELEASED_INSTANCE_ID for a member that joins under the instance id of a member still there."""
        return ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {existing.instance_id} cannot join the group because the "
            f"instance id is owned by {existing.member_id} member.",
        )

    def in_place_of(self, existing: R, member_id: str, result: CoordinatorResult[Any]) -> R:
        """Return a static member that comes back; under another id, record that the new id has all of the old."""
        if existing.member_id == member_id:
            return existing
        member = existing.copy()
        member.member_id = member_id
        member.epoch = member.previous_epoch = 0
        result.records += [
            *self.records.member_tombstones(self.group_id, existing.member_id),
            self.member_record(member),
            self.target_record(member_id, self.target_of(existing)),
            self.assignment_record(member),
        ]
        return member

    def target_of(self, member: R) -> T:
        """Return the member's target; a returning static member takes over the predecessor's target."""
        member_id = member.member_id
        if member_id not in self.targets and member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, member_id)
        target: T = self.targets.get(member_id, self.NO_TARGET)
        return target

    def set_member(self, member: R) -> None:
        before = self.members.get(member.member_id)
        if before is not None and before.instance_id != member.instance_id:
            self._release_instance(before)
        super().set_member(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._release_instance(member)

    def _release_instance(self, member: R) -> None:
        """Free the instance id of a member that is gone, or has another one now."""
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    # Progress

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
        """Return False for a member of the classic protocol: generations stand for epochs."""
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
C = TypeVar("C", bound=ReconciledGroup[Any, Any])


class EpochChange(Generic[C, R]):
    """A change of a member by a request. The member is a copy, and the outcome stands in `records`.

    A subclass for each kind of group says how; none touches the group's hard state.
    """

    def __init__(self, table: GroupTable, group: C, before: R, result: CoordinatorResult[Any], now: int) -> None:
        self._table = table
        self._group = group
        self._now = now
        self.before = before
        self.member = before.copy()
        self.records: list[CoordinatorRecord] = result.records
        self.group_epoch = group.epoch  # as of after the change

    def members(self) -> list[R]:
        """Return the members after the change; a static member that has come back is in its predecessor's place."""
        return self._group.with_change(self.member, self._group.static_member(self.member.instance_id))

    def record_step(self, before: tuple[object, ...]) -> None:
        """Record the assignment if a step of the reconciliation has changed it. before: `current` of the member."""
        if self.member.current() != before:
            self.records.append(self._group.assignment_record(self.member))


# Requests and deadlines


def rebalance_key(group: EpochGroup[Any, Any], member_id: str) -> TimerKey:
    """Return the key of the deadline for a member that has to give something back."""
    return TimerKey(f"{group.type_name}-rebalance", group.group_id, member_id)


class EpochProtocol(ABC, Generic[G]):
    """The requests of a kind of group, and the members' deadlines.

    Every heartbeat starts the member's session anew, and a member that has to give something back has its rebalance
    timeout for that. Deadlines are soft: after a restart each member has both once more in full. Deadlines end with the
    record that takes the member out, so that a member whose record the log refuses is not forgotten.
    """

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._timers = table.timers

    @abstractmethod
    def session_ms(self, group: G, member: Any) -> int:
        """Return the member's session timeout."""

    @abstractmethod
    def next_epoch(self, group: G, leaving: list[Any]) -> list[CoordinatorRecord]:
        """Return the records of the next group epoch, without some members."""

    def fence(self, group: G, leaving: list[Any], result: CoordinatorResult[Any], now: int) -> None:
        """Remove members; the other members share everything from the next epoch on."""
        for member in leaving:
            result.records += group.records.member_tombstones(group.group_id, member.member_id)
        result.records += self.next_epoch(group, leaving)
        if self._table.config.is_of_4_4 and len(leaving) == len(group.members):
            # Without members the next epoch has its target already, which a release before 4.4 leaves open.
            result.records.append(group.records.target_epoch(group.group_id, group.epoch + 1, 0))

    def put_away(self, group: Any, member: R, assigned: Any, result: CoordinatorResult[Any]) -> None:
        """Keep the place of a static member for a session. assigned: what the member had, of no epoch any more."""
        away = member.copy()
        away.epoch = LEAVE_STATIC_EPOCH
        away.assigned, away.revoking = assigned, member.NOTHING
        result.records.append(group.assignment_record(away))
        self._timers.cancel(rebalance_key(group, member.member_id))

    def follow_state(
        self, group: EpochGroup[Any, Any], before: ReconciledGroupMember, member: ReconciledGroupMember, now: int
    ) -> None:
        """Start or stop the rebalance timeout, if the member has moved."""
        if member.current() != before.current():
            key = rebalance_key(group, member.member_id)
            if member.state is member.UNREVOKED:
                self._timers.set(key, now + member.rebalance_timeout_ms)
            else:
                self._timers.cancel(key)

    def on_timer(self, key: TimerKey, group: G, result: CoordinatorResult[Any], now: int) -> None:
        """Remove a member after a deadline, unless the member has given back in time."""
        member = group.members.get(key.member_id)
        is_rebalance = key == rebalance_key(group, key.member_id)
        if member is not None and (not is_rebalance or member.state is member.UNREVOKED):
            self.fence(group, [member], result, now)

    def on_loaded(self, group: G, now: int) -> None:
        """Begin the sessions after a load: members have a full session to come back."""
        for member in group.members.values():
            self._timers.set_session(group, member.member_id, now + self.session_ms(group, member))
            if member.must_revoke:
                self._timers.set(rebalance_key(group, member.member_id), now + member.rebalance_timeout_ms)


# Replay: the five types of records that all three kinds have


class EpochReplay(Generic[G]):
    """The replay of a kind of group.

    A record creates the group that it is about, and a group goes with the tombstone of its epoch. A tombstone for an
    unknown group or member is nothing special: compaction may have taken the rest.
    """

    def __init__(
        self,
        table: GroupTable,
        group_type: type[G],
        new_group: Callable[[str], Any],
        more: Mapping[type, Callable[..., None]],
    ) -> None:
        """Begin with nothing to replay.

        Args:
            new_group: Returns a group with the id.
            more: The types of records of the kind alone.
        """
        self._table = table
        self._group_type = group_type
        self._new_group = new_group
        rules = (self._epoch, self._member, self._target_metadata, self._target, self._current_assignment)
        keys = (key for key, _ in group_type.records.types)
        self._rules: dict[type, Callable[..., None]] = {**dict(zip(keys, rules, strict=True)), **more}

    def takes(self, key: Any) -> bool:
        """Return whether `replay` knows the type of the key."""
        return type(key) in self._rules

    def replay(self, key: Any, value: Any) -> None:
        """Apply a record with a key accepted by `takes`."""
        group: Any = self._table.groups.get(key.group_id)
        if not isinstance(group, self._group_type):
            if value is None:
                return
            # A classic group of this name has made way, or existed only because of its offsets.
            group = self._table.groups[key.group_id] = self._new_group(key.group_id)
        self._rules[type(key)](group, key, value)

    def _epoch(self, group: G, key: Any, value: Any) -> None:
        if value is None:
            self._table.remove(group.group_id)
        else:
            group.take_epoch(value)

    def _member(self, group: G, key: Any, value: Any) -> None:
        if value is None:
            group.remove_member(key.member_id)
            self._table.timers.cancel_member(group.group_id, group.type_name, key.member_id)
        else:
            self._change(group, key.member_id, lambda member: member.take_metadata(value))

    def _target_metadata(self, group: G, key: Any, value: Any) -> None:
        group.assignment_epoch = -1 if value is None else value.assignment_epoch
        group.assignment_timestamp = 0 if value is None else value.assignment_timestamp

    def _target(self, group: G, key: Any, value: Any) -> None:
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = group.read_target(value)

    def _current_assignment(self, group: G, key: Any, value: Any) -> None:
        if value is not None:
            self._change(group, key.member_id, lambda member: member.take_assignment(value))
        elif key.member_id in group.members:
            self._change(group, key.member_id, lambda member: member.withdraw())

    def _change(self, group: G, member_id: str, change: Callable[[Any], None]) -> None:
        """Put a changed copy in a member's place, or take in a new member."""
        known = group.members.get(member_id)
        member = group.member_type(member_id) if known is None else known.copy()
        change(member)
        group.set_member(member)
