"""The sticky assignor: fair, steady, and never two copies of a task in one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.coordinators.streams.group import NOTHING, TasksTuple, pairs
from pykafka_broker.coordinators.streams.sticky_assignor import TaskMemberSpec
from pykafka_broker.coordinators.streams.sticky_assignor import assign_tasks as assign_in_steps
from pykafka_broker.steps import at_once
from tests.coordinators.steps import steps_of

GROUPS = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2), st.sampled_from("PQRS"), min_size=1, max_size=9)
COUNTS = st.dictionaries(st.sampled_from("0123"), st.integers(1, 9), max_size=4)


def assign_tasks(
    members: dict[str, TaskMemberSpec], task_counts: dict[str, int], stateful: Collection[str], standbys: int
) -> dict[str, TasksTuple]:
    return at_once(assign_in_steps(members, task_counts, stateful, standbys))


def fresh(processes: dict[str, str]) -> dict[str, TaskMemberSpec]:
    return {member: TaskMemberSpec(process, NOTHING) for member, process in processes.items()}


def again(processes: dict[str, str], targets: dict[str, TasksTuple]) -> dict[str, TaskMemberSpec]:
    return {member: TaskMemberSpec(process, targets.get(member, NOTHING)) for member, process in processes.items()}


def check(
    processes: dict[str, str],
    counts: dict[str, int],
    targets: dict[str, TasksTuple],
    standbys: int,
    *,
    fair: bool = True,
) -> None:
    """Assert the rules of every assignment; a first one is fair too: later members keep what they may."""
    tasks = {(name, partition) for name, count in counts.items() for partition in range(count)}
    assert targets.keys() == processes.keys()
    active = Counter(task for target in targets.values() for task in pairs(target.active))
    assert active == dict.fromkeys(tasks, 1), "every task is active once"
    loads = [sum(map(len, target.active.values())) for target in targets.values()]
    assert max(loads) <= -(-len(tasks) // len(processes))
    assert not fair or max(loads) - min(loads) <= 1
    copies = Counter(
        (processes[member], task)
        for member, target in targets.items()
        for role in (target.active, target.standby)
        for task in pairs(role)
    )
    assert set(copies.values()) <= {1}, "one copy in each process"
    standby = Counter(task for target in targets.values() for task in pairs(target.standby))
    wanted = min(standbys, len(set(processes.values())) - 1)
    assert standby == (dict.fromkeys(tasks, wanted) if wanted else {})
    assert not any(target.warmup for target in targets.values())


@given(GROUPS, COUNTS, st.integers(0, 3))
def test_every_task_has_its_copies_and_members_share_fairly(
    processes: dict[str, str], counts: dict[str, int], standbys: int
) -> None:
    check(processes, counts, assign_tasks(fresh(processes), counts, set(counts), standbys), standbys)


@given(GROUPS, GROUPS, COUNTS, COUNTS, st.integers(0, 2))
def test_it_holds_after_any_change(
    before: dict[str, str], after: dict[str, str], counts: dict[str, int], grown: dict[str, int], standbys: int
) -> None:
    targets = assign_tasks(fresh(before), counts, set(counts), standbys)
    check(after, grown, assign_tasks(again(after, targets), grown, set(grown), standbys), standbys, fair=False)


@given(GROUPS, COUNTS, st.integers(0, 2))
def test_nothing_moves_without_a_reason(processes: dict[str, str], counts: dict[str, int], standbys: int) -> None:
    targets = assign_tasks(fresh(processes), counts, set(counts), standbys)
    second = assign_tasks(again(processes, targets), counts, set(counts), standbys)
    assert {member: target.active for member, target in second.items()} == {
        member: target.active for member, target in targets.items()
    }


@given(GROUPS, COUNTS)
def test_a_member_that_leaves_takes_nothing_from_the_others(processes: dict[str, str], counts: dict[str, int]) -> None:
    targets = assign_tasks(fresh(processes), counts, (), 0)
    left = dict(list(processes.items())[1:])
    for member, target in assign_tasks(again(left, targets), counts, (), 0).items() if left else ():
        assert set(pairs(targets[member].active)) <= set(pairs(target.active))


def test_a_standby_copy_becomes_the_active_one() -> None:
    processes = {"one": "P", "two": "Q", "three": "R"}
    targets = assign_tasks(fresh(processes), {"0": 6}, {"0"}, 1)
    gone = set(pairs(targets["one"].active))
    left = {"two": "Q", "three": "R"}
    after = assign_tasks(again(left, targets), {"0": 6}, {"0"}, 1)
    for member in left:
        gained = set(pairs(after[member].active)) - set(pairs(targets[member].active))
        assert gained <= gone
        assert gained <= set(pairs(targets[member].standby))


def test_a_process_with_more_threads_gets_more() -> None:
    targets = assign_tasks(fresh({"a": "P", "b": "P", "c": "Q"}), {"0": 3, "1": 3}, (), 0)
    assert {member: sum(map(len, target.active.values())) for member, target in targets.items()} == {
        "a": 2,
        "b": 2,
        "c": 2,
    }


def test_only_tasks_with_state_have_standby_copies() -> None:
    targets = assign_tasks(fresh({"a": "P", "b": "Q"}), {"0": 2, "1": 2}, {"1"}, 1)
    assert {name for target in targets.values() for name in target.standby} == {"1"}


def test_nobody_is_there() -> None:
    assert assign_tasks({}, {"0": 3}, {"0"}, 1) == {}


def test_subtopologies_of_different_widths_take_no_longer() -> None:
    def steps(counts: dict[str, int]) -> int:
        _, found = steps_of(lambda: assign_tasks(fresh({"a": "P", "b": "Q"}), counts, (), 0))
        return found

    alike = {str(number): 2 for number in range(200)}
    steps(alike)
    assert steps({"wide": 200} | {str(number): 1 for number in range(200)}) < 1.2 * steps(alike)
