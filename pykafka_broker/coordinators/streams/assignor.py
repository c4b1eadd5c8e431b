"""The sticky assignor of tasks, Kafka 4.3's only assignor for streams groups.

Rule: the assignor is a function of its specs alone, apart from the state of groups. Every member gets as many active
tasks as any other, give or take one, and keeps its tasks as far as that allows; then members with a standby copy come
first. Standby tasks, copies of tasks with state, never share a process with another copy. Where nothing else decides,
the least loaded process is next, and then the order of ids, so that the same group always gets the same answer. Warm-up
tasks are never assigned: Kafka 4.3 has none either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from pykafka_broker.coordinators.streams.group import Task, TasksTuple, collect, pairs


class TaskMemberSpec(NamedTuple):
    """A member: the process, and the last target."""

    process_id: str
    before: TasksTuple


def assign(
    members: Mapping[str, TaskMemberSpec], task_counts: Mapping[str, int], stateful: Collection[str], standbys: int
) -> dict[str, TasksTuple]:
    """Return a target for every member."""
    assignment = _Assignment(members)
    # Partition by partition, so that a member gets tasks of several subtopologies.
    tasks = [
        (name, partition)
        for partition in range(max(task_counts.values(), default=0))
        for name in sorted(task_counts)
        if partition < task_counts[name]
    ]
    if members:
        assignment.assign_active(tasks)
        assignment.assign_standby([task for task in tasks if task[0] in stateful], standbys)
    return assignment.targets()


class _Process:
    """A process: threads, which are members, and the sum of assigned tasks."""

    def __init__(self, process_id: str) -> None:
        self.id = process_id
        self.threads = 0
        self.tasks = 0

    @property
    def load(self) -> tuple[float, int]:
        """Return the tasks for each thread; of equal processes the larger process comes first."""
        return self.tasks / self.threads, -self.threads


class _Member:
    """A member and the tasks assigned so far."""

    def __init__(self, member_id: str, spec: TaskMemberSpec, process: _Process) -> None:
        self.id = member_id
        self.process = process
        process.threads += 1
        self.had_active = set(pairs(spec.before.active))
        self.had_standby = set(pairs(spec.before.standby))
        self.active: set[Task] = set()
        self.standby: set[Task] = set()
        self.of_subtopology: Counter[str] = Counter()

    @property
    def load(self) -> int:
        return len(self.active) + len(self.standby)

    def take(self, task: Task, role: set[Task]) -> None:
        role.add(task)
        self.of_subtopology[task[0]] += 1
        self.process.tasks += 1


class _Assignment:
    """An assignment in the making."""

    def __init__(self, members: Mapping[str, TaskMemberSpec]) -> None:
        processes = {spec.process_id: _Process(spec.process_id) for spec in members.values()}
        self._members = [
            _Member(member_id, members[member_id], processes[members[member_id].process_id])
            for member_id in sorted(members)
        ]
        self._holders: dict[Task, set[str]] = {}  # the processes with a copy of a task
        self._active_owners: dict[Task, _Member] = {}
        self._standby_owners: dict[Task, list[_Member]] = {}
        for member in self._members:
            for task in member.had_active:
                self._active_owners[task] = member
            for task in member.had_standby:
                self._standby_owners.setdefault(task, []).append(member)

    def targets(self) -> dict[str, TasksTuple]:
        return {member.id: TasksTuple(collect(member.active), collect(member.standby)) for member in self._members}

    # Active tasks

    def assign_active(self, tasks: list[Task]) -> None:
        quota = _Quota(len(tasks), len(self._members))
        rest = []
        for task in tasks:
            owner = self._active_owners.get(task)
            if owner is not None and quota.has_room(owner.active):
                self._give_active(task, owner, quota)
            else:
                rest.append(task)
        last = []
        for task in rest:
            ready = [member for member in self._standby_owners.get(task, ()) if quota.has_room(member.active)]
            if ready:
                self._give_active(task, self._least_loaded(ready, task), quota)
            else:
                last.append(task)
        for task in last:
            free = [member for member in self._members if quota.has_room(member.active)]
            self._give_active(task, self._least_loaded(free, task), quota)

    def _give_active(self, task: Task, member: _Member, quota: _Quota) -> None:
        quota.take(member.active)
        member.take(task, member.active)
        self._holders.setdefault(task, set()).add(member.process.id)

    # Standby tasks

    def assign_standby(self, tasks: list[Task], copies: int) -> None:
        """Assign copies first to former owners of the task, as long as no owner gets more than an even share."""
        total = sum(member.load for member in self._members) + len(tasks) * copies
        share = -(-total // len(self._members))
        open_tasks = []
        for task in tasks:
            for left in range(copies, 0, -1):
                former = [owner for owner in self._former_owners(task) if owner.load < share]
                if not self._give_standby(task, former):
                    open_tasks += [task] * left
                    break
        for task in open_tasks:
            self._give_standby(task, self._members)

    def _former_owners(self, task: Task) -> list[_Member]:
        active = self._active_owners.get(task)
        return [*self._standby_owners.get(task, ()), *([] if active is None else [active])]

    def _give_standby(self, task: Task, candidates: Iterable[_Member]) -> bool:
        """Give a copy to a candidate in a process without a copy of the task. Returns False if no candidate is free."""
        holders = self._holders.setdefault(task, set())
        free = [member for member in candidates if member.process.id not in holders]
        if not free:
            return False
        member = self._least_loaded(free, task)
        member.take(task, member.standby)
        holders.add(member.process.id)
        return True

    # Load

    def _least_loaded(self, members: Iterable[_Member], task: Task) -> _Member:
        """Return the least loaded member; of equal members the member with the fewest tasks of the subtopology.

        Tasks of some subtopologies weigh more than others.
        """
        return min(
            members,
            key=lambda member: (member.process.load, member.load, member.of_subtopology[task[0]], member.id),
        )


class _Quota:
    """An even share of tasks for each member; the remainder goes to the first members with a full share."""

    def __init__(self, tasks: int, members: int) -> None:
        self._least, self._extra = divmod(tasks, members)

    def has_room(self, tasks: Collection[Task]) -> bool:
        return len(tasks) < self._least or (len(tasks) == self._least and self._extra > 0)

    def take(self, tasks: Collection[Task]) -> None:
        if len(tasks) == self._least:
            self._extra -= 1
