"""Assignors: everything is given out once, evenly, and what can stay stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.coordinators.groups.assignors import ASSIGNORS, Assignment, GroupSpec, MemberSpec

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
