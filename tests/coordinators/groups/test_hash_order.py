"""Ties between protocols end as a real Kafka ends them; the orders here are what it has answered."""

from __future__ import annotations

import pytest

from pykafka_broker.coordinators.groups.classic_group import ClassicGroup, ClassicMember
from pykafka_broker.coordinators.groups.hash_order import hash_order

KAFKA = ["a", "b", "sticky", "range", "roundrobin", "connect", "cooperative-sticky"]


def test_names_come_in_the_order_of_kafkas_table() -> None:
    assert hash_order(sorted(KAFKA)) == hash_order(sorted(KAFKA, reverse=True)) == KAFKA


def test_names_in_one_slot_stay_as_they_were() -> None:
    assert hash_order(["range", "x1"]) == ["range", "x1"]
    assert hash_order(["x1", "range"]) == ["x1", "range"]
    assert hash_order(["uniform", "a"]) == ["uniform", "a"]


def test_a_longer_table_has_more_slots() -> None:
    """Of 16 slots `p` and `range` have the 0th and the 9th, of 32 the 16th and the 9th."""
    many = [f"p{number}" for number in range(13)]
    assert hash_order(["range", "p"]) == ["p", "range"]
    found = [name for name in hash_order(["p", "range", *many]) if name in ("p", "range")]
    assert found == ["range", "p"]


@pytest.mark.parametrize("order", [("m", "n"), ("n", "m")])
def test_as_many_votes_are_decided_by_the_table(order: tuple[str, str]) -> None:
    group = ClassicGroup("g", 0)
    wanted = {"m": ["range", "roundrobin"], "n": ["roundrobin", "range"]}
    for name in order:
        member = ClassicMember("g", name, None, "", "", 1, 1, "consumer", [(one, b"") for one in wanted[name]])
        group.add(member, name)
    assert group.select_protocol() == "range"
