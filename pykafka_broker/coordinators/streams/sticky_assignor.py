"""The assignor `sticky`, Kafka's only one for streams groups: who gets which task. (Kafka: StickyTaskAssignor)

Rule: an assignor is a function of its specs alone. Every member gets as many active tasks as any other, give or take
one, and keeps its tasks as far as that allows. Then come members with a standby copy, then members that have reported
an offset of the task, and then the least loaded process. Standby tasks, copies of tasks with state, never share a
process with another copy. Tags, racks and end offsets play no part, and no task warms up: a Kafka 4.4.0 that is asked
with and without them assigns the same (KIP-1357 has only brought their settings so far).

The work goes in steps: an assignment of many thousand tasks takes up to a second, in which others are to be served.

Between equals Kafka's choice rests on the order of Java's collections, so this file keeps tables and queues as Kafka
has them: `tests/coordinators/streams/tasks` compares the outcome.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from typing import NamedTuple

from pykafka_broker.coordinators.groups.java_order import JavaQueue, in_hash_order, in_order_of_absent_keys
from pykafka_broker.coordinators.streams.group import Task, TasksTuple, collect, pairs
from pykafka_broker.steps import Pace

_ITEMS_OF_A_QUEUE = 4  # a look for the least loaded process, as items of `Pace`


class TaskMemberSpec(NamedTuple):
    """A member: the process, the tasks to keep if possible, and the offsets that the member has reported."""

    process_id: str
    before: TasksTuple
    offsets: Mapping[Task, int] = {}


def assign_tasks(
    members: Mapping[str, TaskMemberSpec], task_counts: Mapping[str, int], stateful: Collection[str], standbys: int
) -> Generator[None, None, dict[str, TasksTuple]]:
    """Return a target for every member, in steps.

    Args:
        members: The members in the order of the group's table.
        task_counts: The number of tasks of each subtopology.
        stateful: The subtopologies whose tasks have standby copies.
        standbys: The number of standby copies of a task.
    """
    assignment = _Assignment(members)
    # Partition by partition, so that a member keeps tasks of several subtopologies.
    in_order = sorted((partition, name) for name, count in task_counts.items() for partition in range(count))
    tasks = [(name, partition) for partition, name in in_order]
    if members:
        yield from assignment.read(members)
        yield from assignment.assign_active(tasks)
        yield from assignment.assign_standby([task for task in tasks if task[0] in stateful], standbys, len(tasks))
    return (yield from assignment.targets())


class _Member:
    """A member and the tasks assigned so far."""

    def __init__(self, member_id: str, process: _Process) -> None:
        self.id = member_id
        self.process = process
        self.active: set[Task] = set()
        self.standby: set[Task] = set()

    @property
    def load(self) -> int:
        return len(self.active) + len(self.standby)


class _Process:
    """A process: its threads, which are members, and what they have been assigned."""

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.held: set[Task] = set()
        self._queue: JavaQueue[_Member] | None = None

    @property
    def load(self) -> float:
        return len(self.held) / len(self.members)

    def give(self, task: Task, role: set[Task]) -> None:
        """Add a task to a role of a member; the queue of members begins anew with its next use."""
        role.add(task)
        self.held.add(task)
        self._queue = None

    def give_to_least_loaded(self, task: Task, *, active: bool) -> None:
        queue = self._queue
        if queue is None:
            queue = JavaQueue(self.members, lambda member: len(member.active) + len(member.standby))
        member = queue.take()
        self.give(task, member.active if active else member.standby)
        queue.add(member)
        self._queue = queue


class _Quota:
    """An even share of tasks for each member; the remainder goes to the first members with a full share."""

    def __init__(self, tasks: int, members: int) -> None:
        self._least, self._extra = divmod(tasks, members)

    def has_room(self, load: int) -> bool:
        return load < self._least or (load == self._least and self._extra > 0)

    def take(self, load: int) -> None:
        if load == self._least:
            self._extra -= 1


class _Assignment:
    def __init__(self, members: Mapping[str, TaskMemberSpec]) -> None:
        ids = in_hash_order(members)
        process_ids = in_order_of_absent_keys([members[member_id].process_id for member_id in ids], len(ids))
        self._processes = {process_id: _Process() for process_id in process_ids}
        self._members = {
            member_id: _Member(member_id, self._processes[members[member_id].process_id]) for member_id in ids
        }
        of_process: dict[str, list[str]] = {}
        for member_id in ids:
            of_process.setdefault(members[member_id].process_id, []).append(member_id)
        for process_id, threads in of_process.items():
            self._processes[process_id].members = [self._members[member_id] for member_id in in_hash_order(threads)]
        self._active_owners: dict[Task, _Member] = {}
        self._standby_owners: dict[Task, list[_Member]] = {}
        self._offsets: dict[Task, dict[_Member, int]] = {}
        self._pace = Pace()

    def read(self, members: Mapping[str, TaskMemberSpec]) -> Generator[None, None, None]:
        """Take in what the members have and have reported."""
        reports: dict[Task, list[tuple[int, _Member]]] = {}
        for member_id, member in self._members.items():
            spec = members[member_id]
            self._active_owners |= dict.fromkeys(pairs(spec.before.active), member)
            for task in pairs(spec.before.standby):
                self._standby_owners.setdefault(task, []).append(member)
            for task, offset in spec.offsets.items():
                reports.setdefault(task, []).append((offset, member))
            if self._pace.due(sum(map(len, spec.before.active.values())) + len(spec.offsets) + 1):
                yield
        self._offsets = {task: {member: offset for offset, member in found} for task, found in reports.items()}

    def targets(self) -> Generator[None, None, dict[str, TasksTuple]]:
        found = {}
        for member in self._members.values():
            found[member.id] = TasksTuple(collect(member.active), collect(member.standby))
            if self._pace.due(member.load + 1):
                yield
        return found

    # Active tasks

    def assign_active(self, tasks: list[Task]) -> Generator[None, None, None]:
        quota = _Quota(len(tasks), len(self._members))
        rest, last = list[Task](), list[Task]()
        for task in tasks:
            if not self._give_active(task, self._active_owners.get(task), quota):
                rest.append(task)
            if self._pace.due():
                yield
        for task in rest:
            if not self._give_active(task, self._best(self._with_state(task)), quota):
                last.append(task)
            if self._pace.due():
                yield
        processes = self._by_load()
        for task in sorted(last):
            process = processes.take()
            process.give_to_least_loaded(task, active=True)
            processes.add(process)
            if self._pace.due(_ITEMS_OF_A_QUEUE):
                yield

    def _give_active(self, task: Task, member: _Member | None, quota: _Quota) -> bool:
        """Give the task to the member if it has room; return whether it has."""
        if member is None or not quota.has_room(len(member.active)):
            return False
        quota.take(len(member.active))
        member.process.give(task, member.active)
        return True

    # Standby tasks

    def assign_standby(self, tasks: list[Task], copies: int, active: int) -> Generator[None, None, None]:
        """Assign copies first to members with state, up to an even share of all tasks, then to the least loaded."""
        quota = _Quota(active + len(tasks) * copies, len(self._members))
        rest: list[tuple[Task, int]] = []
        for task in reversed(tasks):
            for left in range(copies, 0, -1):
                if not self._give_standby_to_member_with_state(task, quota):
                    rest.append((task, left))
                    break
            if self._pace.due():
                yield
        processes = self._by_load()
        for task, left in sorted(rest, reverse=True):
            for _ in range(left):
                if not _give_standby_to_least_loaded(task, processes):
                    break
            if self._pace.due(_ITEMS_OF_A_QUEUE * left):
                yield

    def _give_standby_to_member_with_state(self, task: Task, quota: _Quota) -> bool:
        active = self._active_owners.get(task)
        for member in (active, self._best(self._with_state(task), task)):
            if member is not None and task not in member.process.held and quota.has_room(member.load):
                quota.take(member.load)
                member.process.give(task, member.standby)
                return True
        return False

    # Choices

    def _with_state(self, task: Task) -> list[_Member]:
        """Return the members with a standby copy, then all with an offset, each by falling offset."""
        offsets, owners = self._offsets.get(task), self._standby_owners.get(task, [])
        if not offsets:
            return owners
        return [
            member
            for members in (owners, offsets)
            for member in sorted(members, key=lambda member: -offsets.get(member, 0))
        ]

    def _best(self, members: Iterable[_Member], task: Task | None = None) -> _Member | None:
        """Return the first member, or a later one if both its process and itself are less loaded.

        task: The processes that hold the task are left out.
        """
        best = None
        for member in members:
            if task in member.process.held:
                continue
            if best is None or (member.process.load < best.process.load and member.load < best.load):
                best = member
        return best

    def _by_load(self) -> JavaQueue[_Process]:
        return JavaQueue(self._processes.values(), lambda process: process.load)


def _give_standby_to_least_loaded(task: Task, processes: JavaQueue[_Process]) -> bool:
    """Give a copy to the least loaded process that has none of the task. Return whether there is one."""
    passed_by: list[_Process] = []
    found = None
    while processes and found is None:
        process = processes.take()
        if task in process.held:
            passed_by.append(process)
        else:
            found = process
            process.give_to_least_loaded(task, active=False)
            processes.add(process)
    for process in reversed(passed_by):
        processes.add(process)
    return found is not None
