"""Subscriptions: what a group reads after a change is what its members read, counted anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.coordinators.groups.subscriptions import Subscriptions, TopicsRead, names_read
from pykafka_broker.coordinators.groups.topics import TopicHashes
from tests.coordinators.machine import TopicTable

READS = st.tuples(st.frozensets(st.sampled_from("abc")), st.sampled_from([None, "", "a.*", "b.*"]))


def reader(names: frozenset[str], regex: str | None) -> Any:
    return SimpleNamespace(topic_names=frozenset([*names]), topic_regex=regex)


@given(steps=st.lists(st.tuples(st.booleans(), READS, READS), max_size=30))
def test_what_a_group_reads_after_a_change(steps: list[tuple[bool, Any, Any]]) -> None:
    subscriptions = Subscriptions()
    members: list[Any] = []
    for leaves, first, second in steps:
        gone = members[:1] if leaves else []
        come = [reader(*first), reader(*second)][: 1 + (not leaves)]
        after = [*members[len(gone) :], *come]
        names, patterns = subscriptions.names_after(gone, come), subscriptions.patterns_after(gone, come)
        assert names == {name for member in after for name in member.topic_names}
        assert patterns == {member.topic_regex for member in after if member.topic_regex}
        for member in come:
            subscriptions.add(member)
        for member in gone:
            subscriptions.remove(member)
        members = after
        assert all(subscriptions.has_name(name) == (name in names) for name in "abc")


def test_equal_sets_of_names_become_one_object() -> None:
    subscriptions = Subscriptions()
    one, two = reader(frozenset("ab"), None), reader(frozenset("ab"), None)
    assert one.topic_names is not two.topic_names
    subscriptions.add(one)
    subscriptions.add(two)
    assert one.topic_names is two.topic_names


def test_a_pattern_stands_for_its_topics() -> None:
    regexes = {"b.*": SimpleNamespace(topics=frozenset(["b1"]))}
    assert names_read(reader(frozenset(), "b.*"), regexes) == {"b1"}
    assert names_read(reader(frozenset("a"), "b.*"), regexes) == {"a", "b1"}
    assert names_read(reader(frozenset("a"), "unknown"), regexes) == {"a"}


def test_topics_are_looked_up_anew_once_they_have_changed() -> None:
    topics = TopicTable(a=1)
    read = TopicsRead(topics, TopicHashes(topics))
    names = frozenset(["a", "b"])
    assert read.ids(names) == {topics.topics["a"].id}
    before = read.hash(names)
    topics.add("b")
    read.forget()
    assert read.ids(names) == {topics.topics["a"].id, topics.topics["b"].id}
    assert read.hash(names) != before
