"""Assignors: everything is given out once, evenly, and what can stay stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.coordinators.groups.assignors import (
    ASSIGNORS,
    Assignment,
    GroupSpec,
    MemberSpec,
    assign_simple,
)

TOPICS = [name.encode().ljust(16) for name in ("t", "u", "v", "w")]
MEMBERS = st.dictionaries(st.sampled_from([f"m{n}" for n in range(7)]), st.sets(st.sampled_from(TOPICS)), min_size=1)
PARTITIONS = st.fixed_dictionaries({topic: st.integers(0, 7) for topic in TOPICS})


def spec(
    subscriptions: dict[str, set[bytes]], partitions: dict[bytes, int], had: dict[str, Assignment] | None = None
) -> GroupSpec:
    members = {name: MemberSpec(None, topics, (had or {}).get(name, {})) for name, topics in subscriptions.items()}
    return GroupSpec(members, partitions)


def loads(result: dict[str, Assignment]) -> dict[str, int]:
    return {name: sum(map(len, assigned.values())) for name, assigned in result.items()}


def owners(result: dict[str, Assignment]) -> dict[tuple[bytes, int], str]:
    found: dict[tuple[bytes, int], str] = {}
    for name, assigned in result.items():
        for topic, partitions in assigned.items():
            for partition in partitions:
                assert (topic, partition) not in found, "a partition is given out once"
                found[topic, partition] = name
    return found


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(subscriptions=MEMBERS, partitions=PARTITIONS)
def test_every_partition_that_somebody_reads_has_one_owner(
    assignor: str, subscriptions: dict[str, set[bytes]], partitions: dict[bytes, int]
) -> None:
    result = ASSIGNORS[assignor](spec(subscriptions, partitions))
    assert set(result) == set(subscriptions)
    owner = owners(result)
    assert all(topic in subscriptions[name] for (topic, _), name in owner.items())
    read = set().union(*subscriptions.values())
    assert set(owner) == {(topic, p) for topic in read for p in range(partitions[topic])}


@pytest.mark.parametrize("differ", [False, True])
def test_uniform_keeps_no_partition_twice_and_none_that_is_not_there(differ: bool) -> None:
    """A target may have been made by another release, or be of a topic that was left since."""
    topic, other = TOPICS[:2]
    had = {name: {topic: {0, 1, 2}, other: {0}} for name in ("a", "b")}
    group = spec({"a": {topic}, "b": {topic}}, {topic: 2, other: 1}, had)._replace(subscriptions_differ=differ)
    assert set(owners(ASSIGNORS["uniform"](group))) == {(topic, 0), (topic, 1)}


@given(MEMBERS, PARTITIONS, st.data())
def test_uniform_is_even_for_one_subscription_and_moves_no_more_than_it_must(
    subscriptions: dict[str, set[bytes]], partitions: dict[bytes, int], data: st.DataObject
) -> None:
    subscriptions = {name: set(TOPICS) for name in subscriptions}
    before = ASSIGNORS["uniform"](spec(subscriptions, partitions))
    total = sum(partitions.values())
    assert max(loads(before).values()) - min(loads(before).values()) <= 1
    assert ASSIGNORS["uniform"](spec(subscriptions, partitions, before)) == before, "nothing has changed"
    gone = data.draw(st.sampled_from(sorted(subscriptions)))
    if len(subscriptions) == 1:
        return
    left = {name: topics for name, topics in subscriptions.items() if name != gone}
    after = ASSIGNORS["uniform"](spec(left, partitions, before))
    moved = sum(owners(after)[one] != name for one, name in owners(before).items())
    assert moved == loads(before)[gone]
    joined = left | {"new": set(TOPICS)}
    grown = ASSIGNORS["uniform"](spec(joined, partitions, after))
    assert sum(owners(grown)[one] != name for one, name in owners(after).items()) == loads(grown)["new"]
    assert total == sum(loads(grown).values())


@given(MEMBERS, PARTITIONS)
def test_uniform_with_different_subscriptions_can_not_be_made_more_even_by_one_move(
    subscriptions: dict[str, set[bytes]], partitions: dict[bytes, int]
) -> None:
    result = ASSIGNORS["uniform"](spec(subscriptions, partitions))
    load = loads(result)
    for (topic, _), name in owners(result).items():
        assert all(load[name] - load[other] <= 1 for other, topics in subscriptions.items() if topic in topics)
    assert ASSIGNORS["uniform"](spec(subscriptions, partitions, result)) == result, "it keeps what is even"


@given(MEMBERS, PARTITIONS)
def test_range_gives_runs_and_cuts_topics_of_one_size_alike(
    subscriptions: dict[str, set[bytes]], partitions: dict[bytes, int]
) -> None:
    result = ASSIGNORS["range"](spec(subscriptions, partitions))
    for assigned in result.values():
        for share in assigned.values():
            assert share == set(range(min(share), max(share) + 1))
    first, second, *_ = TOPICS
    if partitions[first] == partitions[second]:
        both = [name for name, topics in subscriptions.items() if (first in topics) == (second in topics)]
        if len(both) == len(subscriptions):
            assert all(assigned.get(first) == assigned.get(second) for assigned in result.values())


def test_range_puts_static_members_first() -> None:
    members = {
        "a": MemberSpec(None, {TOPICS[0]}, {}),
        "z": MemberSpec("i1", {TOPICS[0]}, {}),
    }
    result = ASSIGNORS["range"](GroupSpec(members, {TOPICS[0]: 3}))
    assert result == {"z": {TOPICS[0]: {0, 1}}, "a": {TOPICS[0]: {2}}}


# simple


T, U = TOPICS[:2]


def share_out(
    members: dict[str, set[bytes]], counts: dict[bytes, int], had: dict[str, Assignment] | None = None
) -> dict[str, Assignment]:
    """Assign all partitions of topics with these counts by `simple`."""
    specs = spec(members, counts, had).members
    return assign_simple(specs, {topic_id: set(range(count)) for topic_id, count in counts.items()})


def test_a_newcomer_gets_half_and_the_rest_stays() -> None:
    first = share_out({"one": {T}}, {T: 4})
    assert first == {"one": {T: {0, 1, 2, 3}}}
    second = share_out({"one": {T}, "two": {T}}, {T: 4}, first)
    assert loads(second) == {"one": 2, "two": 2}
    assert second["one"][T].isdisjoint(second["two"][T])


def test_more_members_than_partitions_share_them() -> None:
    """Each partition has as many readers as any other: of an odd number of members one reads both."""
    had: dict[str, Assignment] = {}
    for number in range(1, 6):
        before = had
        had = share_out({f"m{one}": {T} for one in range(number)}, {T: 2}, had)
        assert number <= 2 or all(before[name][T] & had[name][T] for name in before)
    assert sorted(loads(had).values()) == [1, 1, 1, 1, 2]
    assert [sum(index in share[T] for share in had.values()) for index in range(2)] == [3, 3]


def test_two_topics_of_one_partition_are_one_each() -> None:
    assert loads(share_out({"one": {T, U}, "two": {T, U}}, {T: 1, U: 1})) == {"one": 1, "two": 1}


def test_each_topic_among_its_own_readers() -> None:
    assignment = share_out({"one": {T, U}, "two": {T}}, {T: 4, U: 2})
    assert assignment["one"][U] == {0, 1}
    assert len(assignment["two"][T]) == 2


def test_nothing_to_read() -> None:
    assert share_out({"one": {T}}, {}) == {"one": {}}


def test_partitions_that_may_not_be_assigned_are_not() -> None:
    one, other = MemberSpec(None, {T}, {T: {0}}), MemberSpec(None, {T, U}, {})
    assert assign_simple({"one": one}, {T: {1, 3}}) == {"one": {T: {1, 3}}}
    assert assign_simple({"one": one, "two": one}, {T: {1}}) == {"one": {T: {1}}, "two": {T: {1}}}
    assert assign_simple({"one": one, "two": other}, {U: {2}}) == {"one": {}, "two": {U: {2}}}


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
def test_simple_is_even_and_complete_and_stable(before: int, after: int, partitions: int) -> None:
    had = share_out({f"m{n:02}": {T} for n in range(before)}, {T: partitions})
    members: dict[str, set[bytes]] = {f"m{n:02}": {T} for n in range(after)}
    new = share_out(members, {T: partitions}, had)
    held = loads(new)
    assert max(held.values()) - min(held.values()) <= 1
    assert min(held.values()) >= 1
    readers = [sum(p in share.get(T, ()) for share in new.values()) for p in range(partitions)]
    assert min(readers) >= 1
    assert max(readers) - min(readers) <= 1
    assert share_out(members, {T: partitions}, new) == new


def test_subscriptions_that_differ_by_a_topic_that_is_not_there_are_shared_out_topic_by_topic() -> None:
    """Compare the names that members ask for, as Kafka does."""
    both = MemberSpec(None, {T, U}, {})
    assignable = {T: {0, 1}, U: set(range(6))}
    together = assign_simple({"one": both, "two": both}, assignable)
    apart = assign_simple({"one": both, "two": both}, assignable, subscriptions_differ=True)
    assert sorted(len(share.get(T, ())) for share in together.values()) == [0, 2]
    assert [(len(share[T]), len(share[U])) for share in apart.values()] == [(1, 3), (1, 3)]
