"""How a member of a streams group gets from the tasks that it has to those that it should have (KIP-1071).

Rule: it first gives back what is not in its target; only then does it follow the group to the new epoch. An active task
comes when nobody has it active any more, and no task comes to a process that still has it in another role: its state
directory can be open once only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pykafka_broker.coordinators.streams.group import MemberState, StreamsGroup, StreamsMember
from pykafka_broker.coordinators.streams.tasks import ActiveTasks, Owned, Target, Task, Tasks
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

UNKNOWN_STATE = "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."


def reconcile(
    group: StreamsGroup, member: StreamsMember, target_epoch: int, target: Target, told: Target | None
) -> None:
    """Move the member, a copy, as far as it can go now. `told`: what it says it has; None: no news."""
    state = member.state
    if state is MemberState.STABLE:
        if member.epoch != target_epoch:
            _Step(group, member, target_epoch, target, told).go_on(member.epoch)
    elif state is MemberState.UNREVOKED_TASKS:
        if told is not None and not member.revoking.overlaps(told):
            # It has followed as far as the epoch at which it had to give back.
            _Step(group, member, target_epoch, target, told).go_on(member.epoch + 1)
    elif state is MemberState.UNRELEASED_TASKS:
        _Step(group, member, target_epoch, target, told).go_on(member.epoch)
    elif told is None or any(told):
        raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, UNKNOWN_STATE)
    else:
        _Step(group, member, target_epoch, target, told).go_on(target_epoch)


class _Difference(NamedTuple):
    """Of one role: what stays, what goes, what can come now, and whether something has to wait for others."""

    stays: Tasks
    goes: Tasks
    comes: Tasks
    waits: bool


class _Step:
    """One step of one member."""

    def __init__(
        self, group: StreamsGroup, member: StreamsMember, target_epoch: int, target: Target, told: Target | None
    ) -> None:
        self._member = member
        self._target_epoch = target_epoch
        self._target = target
        self._told = told
        self._active: set[Task] = set()  # active somewhere
        self._here: set[Task] = set()  # in this process in any role
        for other in group.members.values():
            for owned in (other.assigned, other.revoking):
                active = {(name, partition) for name, tasks in owned.active.items() for partition in tasks}
                self._active |= active
                if other.process_id == member.process_id:
                    self._here |= active
                    for copies in (owned.standby, owned.warmup):
                        self._here |= {(name, partition) for name, tasks in copies.items() for partition in tasks}

    def go_on(self, epoch: int) -> None:
        member, target = self._member, self._target
        has = member.assigned
        held = {name: frozenset(since) for name, since in has.active.items()}
        active = _difference(held, target.active, lambda task: task in self._active or task in self._here)
        standby = _difference(has.standby, target.standby, self._here.__contains__)
        warmup = _difference(has.warmup, target.warmup, self._here.__contains__)
        kept = Owned(_pick(has.active, active.stays), standby.stays, warmup.stays)
        going = Owned(_pick(has.active, active.goes), standby.goes, warmup.goes)
        if not going.is_empty and (self._told is None or going.overlaps(self._told)):
            member.move_to(epoch, MemberState.UNREVOKED_TASKS, kept, going)
            return
        new = {name: dict.fromkeys(sorted(tasks), self._target_epoch) for name, tasks in active.comes.items()}
        owned = Owned(
            {name: {**kept.active.get(name, {}), **new.get(name, {})} for name in {**kept.active, **new}},
            _merged(kept.standby, standby.comes),
            _merged(kept.warmup, warmup.comes),
        )
        waits = active.waits or standby.waits or warmup.waits
        state = MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE
        member.move_to(self._target_epoch, state, owned, Owned())


def _difference(has: Tasks, wanted: Tasks, is_taken: Callable[[Task], bool]) -> _Difference:
    stays: dict[str, frozenset[int]] = {}
    goes: dict[str, frozenset[int]] = {}
    comes: dict[str, frozenset[int]] = {}
    waits = False
    for name in sorted({*has, *wanted}):
        mine, mine_to_be = has.get(name, frozenset()), wanted.get(name, frozenset())
        new = mine_to_be - mine
        free = frozenset(partition for partition in new if not is_taken((name, partition)))
        waits |= len(free) < len(new)
        for found, tasks in ((stays, mine & mine_to_be), (goes, mine - mine_to_be), (comes, free)):
            if tasks:
                found[name] = tasks
    return _Difference(stays, goes, comes, waits)


def _pick(active: ActiveTasks, tasks: Tasks) -> dict[str, Mapping[int, int]]:
    """These tasks with their epochs."""
    return {
        name: {partition: since for partition, since in active[name].items() if partition in partitions}
        for name, partitions in tasks.items()
    }


def _merged(some: Tasks, more: Tasks) -> Tasks:
    return {name: some.get(name, frozenset()) | more.get(name, frozenset()) for name in {**some, **more}}
