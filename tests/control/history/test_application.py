"""The verdict on an application: what has no output, what has two, and what belongs to nothing."""

from __future__ import annotations

import pytest

from pykafka_broker.control.history.application import GUARANTEES, Guarantee, PlainRecord, identify_by, verdict
from tests.control.history.story import Story


def records(topic: str, *keys: str | None) -> list[PlainRecord]:
    return [
        PlainRecord(topic, 0, offset, None if key is None else key.encode(), b"") for offset, key in enumerate(keys)
    ]


def judged(inputs: list[PlainRecord], outputs: list[PlainRecord], guarantee: Guarantee = "exactly_once") -> list[str]:
    found = verdict(Story().evidence(), inputs, outputs, identify_by("key"), guarantee)
    return [f"{each.anomaly} {each.topic}@{each.offset}" for each in found]


@pytest.mark.parametrize(
    ("guarantee", "found"),
    [
        ("exactly_once", ["doubled out@1", "lost in@1", "invented out@2"]),
        ("at_least_once", ["lost in@1", "invented out@2"]),
        ("at_most_once", ["doubled out@1", "invented out@2"]),
    ],
)
def test_a_guarantee_forbids(guarantee: Guarantee, found: list[str]) -> None:
    assert guarantee in GUARANTEES
    assert judged(records("in", "a", "b"), records("out", "a", "a", "x"), guarantee) == found


def test_one_output_for_each_input_is_right() -> None:
    assert judged(records("in", "a", "b", "a"), records("out", "b", "a", "a")) == []


def test_of_equal_ids_the_last_are_missing() -> None:
    assert judged(records("in", "a", "a", "a"), records("out", "a")) == ["lost in@1", "lost in@2"]


def test_an_input_without_id_is_refused_unless_it_wants_no_output() -> None:
    inputs, outputs, key = records("in", None, "a"), records("out", "a"), identify_by("key")
    with pytest.raises(ValueError, match="in-0@0 has no id"):
        judged(inputs, outputs)
    assert verdict(Story().evidence(), inputs, outputs, key, "exactly_once", skips=True) == []
    assert judged(records("in", "a"), records("out", "a", None)) == ["invented out@1"]


@pytest.mark.parametrize(
    ("expression", "id"),
    [
        ("key", b"k"),
        ("value", b'{"order": {"id": 7}, "items": ["x"]}'),
        ("header:trace", b"t"),
        ("header:other", None),
        ("/order/id", "7"),
        ("/items/0", '"x"'),
        ("/order", '{"id": 7}'),
        ("/order/id/more", None),
        ("/missing", None),
    ],
)
def test_an_expression_gives_the_id(expression: str, id: object) -> None:
    record = PlainRecord("t", 0, 0, b"k", b'{"order": {"id": 7}, "items": ["x"]}', (("trace", b"t"),))
    assert identify_by(expression)(record) == id


def test_another_expression_is_refused() -> None:
    with pytest.raises(ValueError, match=r'key must be "key", "value", "header:NAME" or a JSON pointer'):
        identify_by("id")


def test_a_value_that_is_no_json_has_no_id() -> None:
    assert identify_by("/id")(PlainRecord("t", 0, 0, None, b"no")) is None


def test_the_way_of_a_lost_record() -> None:
    story = Story()
    story.produced(client="shop")
    for _ in range(5):
        story.fetched(0, 1)
    story.committed(1)
    (found,) = verdict(story.evidence(), records("orders", "a"), [], identify_by("key"), "at_least_once")
    assert found.lines == [
        "lost: orders-0@0 has no output",
        "  orders-0@0 was produced at 00:00:00.000 by shop (shop:1)",
        "  fetched at 00:00:00.001 by reader (reader:1)",
        "  fetched at 00:00:00.002 by reader (reader:1)",
        "  fetched at 00:00:00.003 by reader (reader:1)",
        "  fetched 2 times more",
        "  committed by group billing (1) at 00:00:00.006 by reader (reader:1)",
    ]


def test_the_way_of_a_doubled_record() -> None:
    story = Story()
    story.produced()
    story.produced("billed", client="old")
    story.produced("billed", client="new")
    (found,) = verdict(
        story.evidence(), records("orders", "a"), records("billed", "a", "a"), identify_by("key"), "exactly_once"
    )
    assert found.text == "orders-0@0 came out 2 times: billed-0@0, billed-0@1"
    assert found.way[1:] == [
        "never fetched",
        "never committed",
        "billed-0@0 was produced at 00:00:00.001 by old (old:1)",
        "billed-0@1 was produced at 00:00:00.002 by new (new:1)",
    ]


def test_an_output_of_a_deleted_input_is_not_invented() -> None:
    story = Story()
    story.produced()
    story.produced()
    story.starts["orders"] = 1
    inputs = [PlainRecord("orders", 0, 1, b"b", b"")]
    assert verdict(story.evidence(), inputs, records("out", "a", "b"), identify_by("key"), "exactly_once") == []
