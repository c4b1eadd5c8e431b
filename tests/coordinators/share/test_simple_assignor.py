"""The assignor `simple`: everybody has something, everything has somebody, little moves, and all as with Kafka."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.coordinators.groups.assignors import Assignment, MemberSpec
from pykafka_broker.coordinators.share.simple_assignor import assign_simple
from tests.coordinators.share.assignments.record import FIRST, RECORDED
from tests.coordinators.share.test_share_group import ShareMachine

T, U = b"t" * 16, b"u" * 16


def assign(
    members: dict[str, set[bytes]], counts: dict[bytes, int], had: dict[str, Assignment] | None = None
) -> dict[str, Assignment]:
    """Assign all partitions of topics with these counts."""
    specs = {name: MemberSpec(None, topics, (had or {}).get(name, {})) for name, topics in members.items()}
    return assign_simple(specs, {topic_id: set(range(count)) for topic_id, count in counts.items()})


def sizes(assignment: dict[str, Assignment]) -> dict[str, int]:
    return {name: sum(map(len, share.values())) for name, share in assignment.items()}


@pytest.mark.parametrize("history", json.loads(RECORDED.read_text(encoding="utf-8")))
def test_members_get_what_kafka_gives_them(history: dict[str, Any]) -> None:
    machine = ShareMachine(group_share_assignment_interval_ms="0")
    names = {}
    for name, (topic_id, count) in history["topics"].items():
        names[bytes.fromhex(topic_id)] = name
        machine.topic(name, count, bytes.fromhex(topic_id))
    machine.beat(FIRST, 0, [*history["topics"]])
    machine.beat(FIRST, -1)
    for member_id, topics, expected in history["steps"]:
        known = machine.group.members.get(member_id)
        machine.beat(member_id, -1 if topics is None else 0 if known is None else known.epoch, topics)
        for member in [*machine.group.members.values()]:
            machine.beat(member.member_id, member.epoch)
        assert {
            member.member_id: {names[topic_id]: sorted(parts) for topic_id, parts in member.assigned.items()}
            for member in machine.group.members.values()
        } == expected


def test_a_newcomer_gets_half_and_the_rest_stays() -> None:
    first = assign({"one": {T}}, {T: 4})
    assert first == {"one": {T: {0, 1, 2, 3}}}
    second = assign({"one": {T}, "two": {T}}, {T: 4}, first)
    assert sizes(second) == {"one": 2, "two": 2}
    assert second["one"][T].isdisjoint(second["two"][T])


def test_more_members_than_partitions_share_them() -> None:
    """Each partition has as many readers as any other: of an odd number of members one reads both."""
    had: dict[str, Assignment] = {}
    for number in range(1, 6):
        before = had
        had = assign({f"m{one}": {T} for one in range(number)}, {T: 2}, had)
        assert number <= 2 or all(before[name][T] & had[name][T] for name in before)
    assert sorted(sizes(had).values()) == [1, 1, 1, 1, 2]
    assert [sum(index in share[T] for share in had.values()) for index in range(2)] == [3, 3]


def test_two_topics_of_one_partition_are_one_each() -> None:
    assert sizes(assign({"one": {T, U}, "two": {T, U}}, {T: 1, U: 1})) == {"one": 1, "two": 1}


def test_each_topic_among_its_own_readers() -> None:
    assignment = assign({"one": {T, U}, "two": {T}}, {T: 4, U: 2})
    assert assignment["one"][U] == {0, 1}
    assert len(assignment["two"][T]) == 2


def test_nothing_to_read() -> None:
    assert assign({"one": {T}}, {}) == {"one": {}}


def test_partitions_that_may_not_be_assigned_are_not() -> None:
    one, other = MemberSpec(None, {T}, {T: {0}}), MemberSpec(None, {T, U}, {})
    assert assign_simple({"one": one}, {T: {1, 3}}) == {"one": {T: {1, 3}}}
    assert assign_simple({"one": one, "two": one}, {T: {1}}) == {"one": {T: {1}}, "two": {T: {1}}}
    assert assign_simple({"one": one, "two": other}, {U: {2}}) == {"one": {}, "two": {U: {2}}}


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
def test_even_and_complete_and_stable(before: int, after: int, partitions: int) -> None:
    had = assign({f"m{n:02}": {T} for n in range(before)}, {T: partitions})
    members: dict[str, set[bytes]] = {f"m{n:02}": {T} for n in range(after)}
    new = assign(members, {T: partitions}, had)
    held = sizes(new)
    assert max(held.values()) - min(held.values()) <= 1
    assert min(held.values()) >= 1
    readers = [sum(p in share.get(T, ()) for share in new.values()) for p in range(partitions)]
    assert min(readers) >= 1
    assert max(readers) - min(readers) <= 1
    assert assign(members, {T: partitions}, new) == new


def test_subscriptions_that_differ_by_a_topic_that_is_not_there_are_shared_out_topic_by_topic() -> None:
    """Compare the names that members ask for, as Kafka does."""
    both = MemberSpec(None, {T, U}, {})
    assignable = {T: {0, 1}, U: set(range(6))}
    together = assign_simple({"one": both, "two": both}, assignable)
    apart = assign_simple({"one": both, "two": both}, assignable, subscriptions_differ=True)
    assert sorted(len(share.get(T, ())) for share in together.values()) == [0, 2]
    assert [(len(share[T]), len(share[U])) for share in apart.values()] == [(1, 3), (1, 3)]
