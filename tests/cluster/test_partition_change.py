"""Changes of a partition: the ISR, the eligible replicas, the leader, and the end of a reassignment."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.partition_change import Election, active, partition_change
from pykafka_broker.log.checkpoints import UNASSIGNED
from tests.cluster.parts import cluster_of, directory, partition_in, told

PREFERRED, UNCLEAN = Election.PREFERRED, Election.UNCLEAN

Case = tuple[dict[str, Any], set[int], dict[str, Any], dict[str, Any] | None]
# state of the partition | brokers that may lead | wanted change | expected record
WITH_ELR: dict[str, Case] = {
    "nothing wanted": ({}, {1, 2, 3}, {}, None),
    "the ISR as it is": ({}, {1, 2, 3}, {"isr": [1, 2, 3]}, None),
    "one leaves, enough stay": ({}, {1, 2}, {"isr": [1, 2]}, {"isr": [1, 2]}),
    "the leader leaves, the next in order leads": ({}, {2, 3}, {"isr": [2, 3]}, {"isr": [2, 3], "leader": 2}),
    "the order is that of the replicas": (
        {"replicas": (3, 1, 2), "isr": (2, 1, 3), "leader": 3},
        {1, 2},
        {"isr": [2, 1]},
        {"isr": [2, 1], "leader": 1},
    ),
    "too few in sync: who leaves is eligible": (
        {"isr": (1, 2)},
        {1},
        {"isr": [1]},
        {"isr": [1], "elr": [2]},
    ),
    "eligible ones add up": (
        {"isr": (1, 2), "elr": (3,)},
        {2},
        {"isr": [2]},
        {"isr": [2], "elr": [1, 3], "leader": 2},
    ),
    "the last one leaves": (
        {"isr": (2,), "elr": (1,)},
        set(),
        {"isr": []},
        {"isr": [], "elr": [1, 2], "last_known": [2], "leader": -1},
    ),
    "an eligible one takes over from the last in sync": (
        {"isr": (2,), "elr": (1,)},
        {1},
        {"isr": []},
        {"isr": [1], "elr": [2], "leader": 1},
    ),
    "an eligible one comes back to a partition without a leader": (
        {"isr": (), "elr": (1, 2), "last_known": (1,)},
        {2},
        {},
        {"isr": [2], "elr": [1], "last_known": [], "leader": 2},
    ),
    "enough in sync again: nobody else is eligible": (
        {"isr": (2,), "elr": (1, 3)},
        {1, 2, 3},
        {"isr": [2, 1]},
        {"isr": [2, 1], "elr": []},
    ),
    "one that may have lost records is not eligible": (
        {"isr": (2,), "elr": (1, 3)},
        {2, 3},
        {"unclean": (1,)},
        {"elr": [3]},
    ),
    "the last in sync may have lost records": (
        {"isr": (2,), "elr": (), "replicas": (1, 2)},
        set(),
        {"unclean": (2,)},
        {"isr": [], "last_known": [2], "leader": -1},
    ),
    "the last known leader is elected when nobody is eligible": (
        {"isr": (), "elr": (), "last_known": (2,)},
        {1, 2},
        {},
        {"isr": [2], "last_known": [], "leader": 2, "recovery_state": 1},
    ),
    "and not while somebody is": ({"isr": (), "elr": (1,), "last_known": (2,)}, {2}, {}, None),
    "an unclean one is elected where that is allowed": (
        {"isr": (), "elr": (2,), "last_known": (2,)},
        {1, 3},
        {"election": UNCLEAN},
        {"isr": [1], "elr": [], "last_known": [], "leader": 1, "recovery_state": 1},
    ),
    "and never where a clean one can": (
        {"isr": (3,), "leader": -1},
        {1, 3},
        {"election": UNCLEAN},
        {"leader": 3},
    ),
    "the first replica leads where that is wanted": (
        {"isr": (2, 1, 3), "leader": 2},
        {1, 2, 3},
        {"election": PREFERRED},
        {"leader": 1},
    ),
    "and not if it lags": ({"isr": (2, 3), "leader": 2}, {1, 2, 3}, {"election": PREFERRED}, None),
    "the leader has recovered": (
        {"isr": (1,), "recovery_state": 1},
        {1},
        {"isr": [1], "recovery_state": 0},
        {"recovery_state": 0},
    ),
    "new replicas come with their directories": (
        {"replicas": (1, 2)},
        {1, 2, 3},
        {"replicas": [3, 1, 2], "adding": [3], "removing": [1]},
        {
            "replicas": [3, 1, 2],
            "adding": [3],
            "removing": [1],
            "directories": [directory(3), directory(1), directory(2)],
        },
    ),
    "a reassignment ends when the new ones are in sync": (
        {"replicas": (3, 2, 1), "isr": (1, 2), "leader": 1, "adding": (3,), "removing": (1,)},
        {1, 2, 3},
        {"isr": [1, 2, 3]},
        {
            "isr": [2, 3],
            "replicas": [3, 2],
            "adding": [],
            "removing": [],
            "directories": [directory(3), directory(2)],
            "leader": 3,
        },
    ),
    "a leader that stays begins an epoch when a replica goes": (
        {"replicas": (1, 2, 3), "removing": (3,)},
        {1, 2, 3},
        {"isr": [1, 2, 3]},
        {"isr": [1, 2], "replicas": [1, 2], "removing": [], "directories": [directory(1), directory(2)], "leader": 1},
    ),
    "a directory is told": (
        {},
        {1, 2, 3},
        {"directories": {2: b"x" * 16}},
        {"directories": [directory(1), b"x" * 16, directory(3)]},
    ),
    "the last in sync of a partition that nobody led is remembered": (
        {"isr": (2,), "leader": -1},
        {1},
        {"unclean": (2,)},
        {"isr": [], "last_known": [2]},
    ),
    "a directory is told again": ({}, {1, 2, 3}, {"directories": {2: directory(2)}}, None),
}

# ... the same with min.insync.replicas=1
WITH_ONE: dict[str, Case] = {
    "one is enough, so nobody else stays eligible": (
        {"isr": (), "elr": (1, 2), "last_known": (1,)},
        {2},
        {},
        {"isr": [2], "elr": [], "last_known": [], "leader": 2},
    ),
}

WITHOUT_ELR: dict[str, Case] = {
    "the last one stays in the ISR": ({"isr": (2,)}, {1, 3}, {"isr": []}, {"leader": -1}),
    "and leads again when it is back": ({"isr": (2,), "leader": -1}, {1, 2, 3}, {}, {"leader": 2}),
    "nobody is eligible": ({"isr": (1, 2)}, {1}, {"isr": [1]}, {"isr": [1]}),
    "who was eligible before it was off is not elected": ({"isr": (2,), "leader": -1, "elr": (3,)}, {3}, {}, None),
    "an unclean one is elected where that is allowed": (
        {"isr": (2,), "leader": -1},
        {3},
        {"election": UNCLEAN},
        {"isr": [3], "leader": 3, "recovery_state": 1},
    ),
}

CASES = [pytest.param(True, "2", *case, id=name) for name, case in WITH_ELR.items()]
CASES += [pytest.param(True, "1", *case, id=name) for name, case in WITH_ONE.items()]
CASES += [pytest.param(False, "2", *case, id=f"without ELR: {name}") for name, case in WITHOUT_ELR.items()]


@pytest.mark.parametrize(("elr", "minimum", "state", "there", "wanted", "expected"), CASES)
def test_a_change(
    elr: bool,
    minimum: str,
    state: dict[str, Any],
    there: set[int],
    wanted: dict[str, Any],
    expected: dict[str, Any] | None,
) -> None:
    cluster = cluster_of(elr=elr, min_insync_replicas=minimum)
    topic, partition = partition_in(cluster, **state)
    record = partition_change(cluster.controller, topic, partition, there.__contains__, **wanted)
    assert told(record) == expected
    if record is not None:
        cluster.apply([record])
        after = topic.partitions[0]
        assert (after.partition_epoch, after.leader_epoch) == (8, 5 + ("leader" in (expected or {})))
        assert partition_change(cluster.controller, topic, after, there.__contains__) is None, "it is all there now"


def test_the_topic_s_own_min_insync_replicas_counts_and_never_more_than_the_replicas() -> None:
    cluster = cluster_of(min_insync_replicas="2")
    topic, partition = partition_in(cluster)
    cluster.image.configs[2, "t"] = {"min.insync.replicas": "1"}
    assert told(partition_change(cluster.controller, topic, partition, {1}.__contains__, isr=[1])) == {"isr": [1]}
    topic, partition = partition_in(cluster, (1,), name="small")
    assert told(partition_change(cluster.controller, topic, partition, {1}.__contains__, isr=[1])) is None


def test_new_replicas_of_a_broker_with_several_directories_are_not_assigned_yet() -> None:
    cluster = cluster_of()
    cluster.image.brokers[3].log_dirs = (b"x" * 16, b"y" * 16)
    topic, partition = partition_in(cluster, (1, 2))
    record = partition_change(
        cluster.controller, topic, partition, {1, 2, 3}.__contains__, replicas=[1, 2, 3], adding=[3]
    )
    assert record is not None
    assert record.message.directories == [directory(1), directory(2), UNASSIGNED]


@pytest.mark.parametrize(
    ("level", "version", "bumped"), [(30, 2, False), (17, 1, False), (12, 0, False), (11, 0, True)]
)
def test_old_releases_hear_no_more_than_they_know(level: int, version: int, bumped: bool) -> None:
    cluster = cluster_of(elr=False)
    cluster.image.features[METADATA_VERSION] = level
    topic, partition = partition_in(cluster)
    record = partition_change(cluster.controller, topic, partition, {1, 2}.__contains__, isr=[1, 2])
    assert record is not None
    assert record.version == version
    assert told(record) == {"isr": [1, 2]} | ({"leader": 1} if bumped else {})
    assert record.message.encode(version)


def test_who_is_fenced_about_to_stop_or_unknown_is_not_active() -> None:
    cluster = cluster_of(3)
    cluster.image.brokers[2].fenced = True
    cluster.image.brokers[3].in_controlled_shutdown = True
    assert [active(cluster.image, broker) for broker in (1, 2, 3, 4)] == [True, False, False, False]
