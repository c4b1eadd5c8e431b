"""Outlines of logs: which batches, the outcome of their transactions, and what is gone."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from pykafka_broker.control.history.findings import evidence_of
from pykafka_broker.control.history.outlines import BatchOutline, Outline
from pykafka_broker.testing import KafkaBroker


def batch(base: int, last: int, size: int) -> BatchOutline:
    return BatchOutline(base, last, size, last - base + 1, -1, -1, -1, 0, 0, "")


OUTLINE = Outline("t", 0, 0, 9, False, [batch(0, 2, 100), batch(3, 3, 50), batch(6, 8, 70)])


def test_a_batch_is_found_by_an_offset() -> None:
    assert [OUTLINE.index_of(offset) for offset in range(-1, 10)] == [None, 0, 0, 0, 1, None, None, 2, 2, 2, None]


def test_batches_between_two_offsets() -> None:
    assert [each.base for each in OUTLINE.between(2, 7)] == [0, 3, 6]
    assert [each.base for each in OUTLINE.between(3, 6)] == [3]
    assert [each.base for each in OUTLINE.between(4, 6)] == []
    assert [each.base for each in OUTLINE.between(9, 20)] == []


def test_the_end_of_some_bytes_is_that_of_whole_batches() -> None:
    assert OUTLINE.end_of(0, 100) == 3
    assert OUTLINE.end_of(0, 150) == 4
    assert OUTLINE.end_of(3, 120) == 9
    assert OUTLINE.end_of(0, 149) is None
    assert OUTLINE.end_of(3, 121) is None
    assert OUTLINE.end_of(4, 70) is None


def transaction(broker: KafkaBroker, name: str, *, commit: bool | None) -> None:
    settings: dict[str, Any] = {"transactional.id": name, "client.id": name}
    producer = Producer({**broker.client_config("confluent"), **settings})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", b"v")
    assert producer.flush(60) == 0
    if commit is not None:
        (producer.commit_transaction if commit else producer.abort_transaction)()


def outline(broker: KafkaBroker, topic: str) -> Outline:
    return evidence_of(broker._histories()).outlines[topic, 0]


def test_the_outcome_of_transactions(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    broker.produce("t", ["1", "2"])
    transaction(broker, "a", commit=True)
    transaction(broker, "b", commit=False)
    transaction(broker, "c", commit=None)
    found = outline(broker, "t")
    assert [each.outcome for each in found.batches] == ["", "committed", "commit", "aborted", "abort", "open"]
    assert [(each.base, each.last) for each in found.batches][:3] == [(0, 1), (2, 2), (3, 3)]


def test_what_was_deleted_or_may_be_compacted(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    broker.create_topic("c", config={"cleanup.policy": "compact"})
    for value in "abc":
        broker.produce("t", [value])
    broker.delete_records("t", 2)
    found = outline(broker, "t")
    assert (found.start, found.end, found.compacted) == (2, 3, False)
    assert found.at(2) is not None
    assert outline(broker, "c").compacted
