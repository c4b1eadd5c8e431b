"""Equal entries of hash tables and priority queues come as in Java 17, and Kafka's choices follow from that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.coordinators.groups.java_order import (
    JavaQueue,
    JavaTable,
    in_hash_order,
    in_order_of_absent_keys,
    partition_hash,
    string_hash,
    uuid_hash,
)
from pykafka_broker.coordinators.streams.group import TasksTuple, collect, pairs
from pykafka_broker.coordinators.streams.sticky_assignor import TaskMemberSpec, assign_tasks
from pykafka_broker.steps import at_once

# Of a 4.4.0: members that have no tasks yet, beside one that has all, and what each gets.
SHARED_OUT = json.loads(Path(__file__).with_name("shared_out_tasks.json").read_text(encoding="utf-8"))


def test_a_hash_is_javas() -> None:
    assert string_hash("") == 0
    assert string_hash("a") == 97
    assert string_hash("hello") == 99162322 ^ 99162322 >> 16
    assert string_hash("\U0001f600") == 1772899 ^ 1772899 >> 16  # two surrogates


def test_a_topic_id_and_a_partition_have_the_hashes_of_kafkas_classes() -> None:
    topic_id = bytes([0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 8])
    assert uuid_hash(topic_id) == 15
    assert [partition_hash((topic_id, index)) for index in (0, 1)] == [15 * 31, 15 * 31 + 1]
    assert in_hash_order([topic_id, bytes(16)], hash_of=uuid_hash) == [bytes(16), topic_id]


def test_names_come_by_their_bucket() -> None:
    assert in_hash_order("qab") == ["q", "a", "b"]
    assert in_hash_order("qabcdefghijklm") == [*"abcdefghijklmq"]  # more than three quarters of sixteen


def test_absent_keys_come_before_their_bucket() -> None:
    assert in_order_of_absent_keys("", 0) == []
    assert in_order_of_absent_keys("bqab", 1) == ["a", "q", "b"]  # "q" is in the bucket of "a"
    assert in_order_of_absent_keys("aq", 16) == ["q", "a"]


def test_a_table_grows_before_it_looks_whether_the_key_is_there() -> None:
    assert in_order_of_absent_keys("eabc", 4) == ["a", "e", "b", "c"]
    assert in_order_of_absent_keys("eabca", 4) == ["a", "b", "c", "e"]


def test_members_come_by_their_slot_and_the_newest_first_in_it() -> None:
    """Kafka 4.4.0 describes members so; here they are in their order of arrival."""
    came = [
        "9755d4c1-3a90-2931-cd44-7e35b8b6d8fe",
        "51431193-e6c3-f339-1a2b-8f1ff1fd42a2",
        "a648a7dd-0683-9eb9-05b6-e6e307d4bedc",
        "e1988ad9-f06c-144a-025b-413f8a9a021e",
        "f8130c42-3773-0edf-afbd-67f9619699cf",
        "8712b8bc-076f-3787-b9d1-79e06c0fd4f5",
    ]
    table = JavaTable()
    for number in range(1, len(came) + 1):
        table.grow(number)
    assert [came.index(name) for name in table.order(came)] == [2, 0, 4, 1, 3, 5]
    assert table.order(came[::-1]) != table.order(came)


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
    targets = at_once(assign_tasks(members, case["partitions"], (), 0))
    found = {name: sorted([*task] for task in pairs(target.active)) for name, target in targets.items()}
    assert found == {name: each["gets"] for name, each in case["members"].items()}
