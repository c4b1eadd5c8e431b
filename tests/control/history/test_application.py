"""The verdict on an application: what has no output, what has two, and what belongs to nothing."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from pykafka_broker.control.history.application import GUARANTEES, Guarantee, PlainRecord, identify_by, verdict
from pykafka_broker.control.history.facts import Produced
from pykafka_broker.control.history.findings import Evidence, Finding
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


def test_a_question_that_nothing_could_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="neither topic has records: nothing could be lost"):
        judged([], [])
    for stray in ("x", None):
        assert judged([], records("out", stray)) == ["invented out@0"]
    assert judged(records("in", "a"), records("out", None), "at_most_once") == ["invented out@0"]
    with pytest.raises(ValueError, match="topic both is input and output"):
        judged(records("both", "a"), records("both", "a"))
    assert judged(records("in", "a"), [], "at_least_once") == ["lost in@0"]
    with pytest.raises(ValueError, match="the output has no records: with at_most_once nothing could be doubled"):
        judged(records("in", "a"), [], "at_most_once")
    inputs, outputs, key, order = records("in", "a"), records("out", "a"), identify_by("key"), identify_by("/nope")
    with pytest.raises(ValueError, match="no input record has an order"):
        verdict(Story().evidence(), inputs, outputs, key, "exactly_once", order=order)
    assert len(verdict(Story().evidence(), [], outputs, key, "exactly_once", order=order)) == 1


VALUE = b'{"order": {"id": 7}, "items": ["x"], "~1": 1, "a/b": {"y": 2, "x": 1}}'


@pytest.mark.parametrize(
    ("expression", "id"),
    [
        ("key", b"k"),
        ("value", VALUE),
        ("header:trace", b"t"),
        ("header:other", None),
        ("/order/id", "7"),
        ("/items/0", '"x"'),
        ("/items/-1", None),
        ("/order", '{"id": 7}'),
        ("/order/id/more", None),
        ("/missing", None),
        ("/~01", "1"),
        ("/a~1b", '{"x": 1, "y": 2}'),
    ],
)
def test_an_expression_gives_the_id(expression: str, id: object) -> None:
    record = PlainRecord("t", 0, 0, b"k", VALUE, (("trace", b"t"),))
    assert identify_by(expression)(record) == id


def test_another_expression_is_refused() -> None:
    with pytest.raises(ValueError, match=r'key must be "key", "value", "header:NAME" or a JSON pointer'):
        identify_by("id")


def test_a_value_that_is_no_json_has_no_id() -> None:
    for value in (b"no", b"[" * 100_000, b'{"id":' + b"9" * 5000 + b"}"):
        assert identify_by("/id")(PlainRecord("t", 0, 0, None, value)) is None


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


def test_fetches_are_read_once_for_all_lost_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 2,000 lost records and as many fetches, to read them for each record took a minute."""
    story = Story()
    for offset in range(5):
        story.produced()
        story.fetched(offset, offset + 1)
    monkeypatch.setattr(Evidence, "range_of", read := Mock(side_effect=story.evidence().range_of))
    found = verdict(story.evidence(), records("orders", *"abcde"), [], identify_by("key"), "exactly_once")
    assert [each.way[1] for each in found] == [
        f"fetched at 00:00:00.00{at} by reader (reader:1)" for at in (1, 3, 5, 7, 9)
    ]
    assert read.call_count == 5


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


def test_an_output_is_invented_though_other_outputs_were_deleted() -> None:
    story = Story()
    story.produced("out")
    story.produced("out")
    story.starts["out"] = 1
    outputs = [PlainRecord("out", 0, 1, b"b", b"")]
    found = verdict(story.evidence(), records("orders", "a"), outputs, identify_by("key"), "at_most_once")
    assert [each.anomaly for each in found] == ["invented"]


def test_a_commit_of_a_records_own_offset_is_not_told() -> None:
    story = Story()
    story.produced()
    story.committed(0)
    (found,) = verdict(story.evidence(), records("orders", "a"), [], identify_by("key"), "at_least_once")
    assert found.way[-1] == "never committed"


# -- order


def placed(topic: str, *ids: str, partition: int = 0, key: bytes = b"k") -> list[PlainRecord]:
    return [PlainRecord(topic, partition, offset, key, each.encode()) for offset, each in enumerate(ids)]


def ordered(story: Story, inputs: list[PlainRecord], outputs: list[PlainRecord]) -> list[Finding]:
    by_value = identify_by("value")
    return verdict(story.evidence(), inputs, outputs, by_value, "at_least_once", order=identify_by("key"))


def repartitioned(story: Story) -> Story:
    """Turn the topic "more" into the second partition of the orders, and return the story."""
    for fact in story.facts:
        if isinstance(fact, Produced) and fact.topic == "more":
            fact.topic, fact.partition = "orders", 1
    evidence = story.evidence()
    evidence.outlines["orders", 1] = evidence.outlines.pop(("more", 0))
    story.evidence = lambda **_: evidence  # type: ignore[method-assign]
    return story


def test_outputs_of_a_key_come_as_their_inputs_did() -> None:
    inputs = placed("orders", "1", "2", "3")
    assert ordered(Story(), inputs, placed("billed", "1", "2", "3")) == []
    assert ordered(Story(), inputs, placed("billed", "1", "2", "3", "1", "2")) == []  # some once more
    (found,) = ordered(Story(), inputs, placed("billed", "2", "1", "3"))
    assert found.anomaly == "out of order"
    assert found.text == "billed-0@1 is of orders-0@0, and is behind billed-0@0 of orders-0@1, which came later"
    by_value = identify_by("value")
    assert verdict(Story().evidence(), inputs, placed("billed", "2", "1", "3"), by_value, "exactly_once") == []


def test_different_keys_and_records_without_key_have_no_order() -> None:
    inputs = [PlainRecord("orders", 0, index, key, b"%d" % index) for index, key in enumerate((b"a", b"b", None, None))]
    assert ordered(Story(), inputs, placed("billed", "3", "2", "1", "0")) == []


def test_a_key_in_two_partitions_of_the_output_is_split() -> None:
    inputs = placed("orders", "1", "2")
    (found,) = ordered(Story(), inputs, [*placed("billed", "1"), *placed("billed", "2", partition=1)])
    assert found.anomaly == "split key"
    assert found.text == (
        "billed-0@0 and billed-1@0 belong to one key, so no consumer can tell their order: "
        "they are of orders-0@0 and orders-0@1"
    )


def test_outputs_in_two_partitions_have_no_order() -> None:
    inputs = placed("orders", "1", "2")
    found = ordered(Story(), inputs, [*placed("billed", "2"), *placed("billed", "1", partition=1)])
    assert [each.anomaly for each in found] == ["split key"]


def test_an_id_that_came_in_twice_has_no_order() -> None:
    assert ordered(Story(), placed("orders", "1", "2", "1"), placed("billed", "2", "1", "1")) == []


def test_a_key_that_moved_to_another_partition_keeps_its_order() -> None:
    """Partitions were added to the input, and the consumer of the new one was quicker."""
    story = Story()
    story.produced(client="shop")
    story.produced("more", client="shop", address="shop:2")
    repartitioned(story)
    inputs = [*placed("orders", "before"), *placed("orders", "after", partition=1)]
    assert ordered(story, inputs, placed("billed", "before", "after")) == []
    (found,) = ordered(story, inputs, placed("billed", "after", "before"))
    assert found.text == "billed-0@1 is of orders-0@0, and is behind billed-0@0 of orders-1@0, which came later"
    assert found.way[:2] == [
        "orders-0@0 was produced at 00:00:00.000 by shop (shop:1)",
        "orders-1@0 was produced at 00:00:00.001 by shop (shop:2)",
    ]


@pytest.mark.parametrize(("until", "error"), [(5, ""), (1, ""), (-1, ""), (0, "REQUEST_TIMED_OUT")])
def test_inputs_that_were_on_their_way_at_once_have_no_order(until: int, error: str) -> None:
    story = Story()
    story.produced(client="shop", error=error).until = until
    story.produced("more", client="shop", address="shop:2")
    repartitioned(story)
    inputs = [*placed("orders", "before"), *placed("orders", "after", partition=1)]
    assert ordered(story, inputs, placed("billed", "after", "before")) == []
    assert ordered(Story(), inputs, placed("billed", "after", "before")) == []  # not in the history at all


def test_how_many_records_a_compaction_has_removed_is_not_known() -> None:
    story = Story()
    for _ in range(2):
        story.produced("in")
        story.produced("out")
    key = identify_by("key")
    whole = story.evidence(compacted=True)
    assert verdict(whole, records("in", "a", "a"), records("out", "a", "a"), key, "exactly_once") == []
    for topic in ("in", "out"):
        del story.logs[topic][0]
        with pytest.raises(ValueError, match=f"{topic}-0 was compacted: how many records there were is not known"):
            verdict(story.evidence(compacted=True), records("in", "a"), records("out", "a"), key, "exactly_once")
        assert verdict(story.evidence(), records("in", "a"), records("out", "a"), key, "exactly_once") == []
        story.logs[topic].insert(0, story.logs[topic][0]._replace(base=0, last=0))


def test_a_number_is_the_same_with_and_without_a_fraction() -> None:
    read = identify_by("/id")
    one, other, third = (PlainRecord("t", 0, 0, None, value) for value in (b'{"id":7}', b'{"id":7.0}', b'{"id":7.5}'))
    assert read(one) == read(other) != read(third)
