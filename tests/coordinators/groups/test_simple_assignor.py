"""The assignor `simple`: everybody has something, everything has somebody, and little moves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.coordinators.groups.assignors import Assignment, MemberSpec, assign_simple

T, U = b"t" * 16, b"u" * 16


def assign(
    members: dict[str, set[bytes]], counts: dict[bytes, int], had: dict[str, Assignment] | None = None
) -> dict[str, Assignment]:
    """Assign all partitions of topics with these counts."""
    specs = {name: MemberSpec(None, topics, (had or {}).get(name, {})) for name, topics in members.items()}
    return assign_simple(specs, {topic_id: set(range(count)) for topic_id, count in counts.items()})


def sizes(assignment: dict[str, Assignment]) -> dict[str, int]:
    return {name: sum(map(len, share.values())) for name, share in assignment.items()}


def test_a_newcomer_gets_half_and_the_rest_stays() -> None:
    first = assign({"one": {T}}, {T: 4})
    assert first == {"one": {T: {0, 1, 2, 3}}}
    second = assign({"one": {T}, "two": {T}}, {T: 4}, first)
    assert sizes(second) == {"one": 2, "two": 2}
    assert second["one"][T].isdisjoint(second["two"][T])


def test_more_members_than_partitions_share_them() -> None:
    had: dict[str, Assignment] = {}
    for number in range(1, 6):
        before = had
        had = assign({f"m{one}": {T} for one in range(number)}, {T: 2}, had)
        moved = [name for name in before if before[name] != had[name] and number > 2]
        assert not moved
    readers = [name for name, share in had.items() if share == {T: {0}}]
    assert len(had) == 5
    assert len(readers) in (2, 3)


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
    assert [len(share.get(T, ())) for share in together.values()] == [2, 0]
    assert [(len(share[T]), len(share[U])) for share in apart.values()] == [(1, 3), (1, 3)]
