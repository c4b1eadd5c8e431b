"""Equal entries of hash tables and priority queues come as in Java 17, and Kafka's choices follow from that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.coordinators.groups.assignors import TaskMemberSpec, assign_tasks
from pykafka_broker.coordinators.groups.java_order import JavaQueue, in_hash_order, string_hash
from pykafka_broker.coordinators.streams.group import TasksTuple, collect, pairs

# Of a 4.4.0: members that have no tasks yet, beside one that has all, and what each gets.
SHARED_OUT = json.loads(Path(__file__).with_name("shared_out_tasks.json").read_text(encoding="utf-8"))


def test_a_hash_is_javas() -> None:
    assert string_hash("") == 0
    assert string_hash("a") == 97
    assert string_hash("hello") == 99162322 ^ 99162322 >> 16
    assert string_hash("\U0001f600") == 1772899 ^ 1772899 >> 16  # two surrogates


def test_names_come_by_their_bucket() -> None:
    assert in_hash_order("qab") == ["q", "a", "b"]
    assert in_hash_order("bqa", 1) == ["b", "q", "a"]
    assert in_hash_order("qabcdefghijklm") == [*"abcdefghijklmq"]  # more than three quarters of sixteen


def test_equal_entries_of_a_queue() -> None:
    ranks = {"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0}
    queue = JavaQueue(ranks, lambda name: ranks[name])
    taken = []
    for _ in range(10):
        name = queue.take()
        taken.append(name)
        ranks[name] += 1
        queue.add(name)
    assert "".join(taken) == "bdcdcababd"


@pytest.mark.parametrize("case", SHARED_OUT, ids=lambda case: "-".join(case["members"]))
def test_tasks_are_shared_out_as_by_kafka(case: dict[str, Any]) -> None:
    members = {
        name: TaskMemberSpec(each["process"], TasksTuple(collect({(sub, index) for sub, index in each["has"]}), {}))
        for name, each in case["members"].items()
    }
    targets = assign_tasks(members, case["partitions"], (), 0)
    found = {name: sorted([*task] for task in pairs(target.active)) for name, target in targets.items()}
    assert found == {name: each["gets"] for name, each in case["members"].items()}
