"""Marks of records: what a plain dictionary says, in bounded memory."""

from __future__ import annotations

from random import Random

import pytest

from pykafka_broker.log.compaction.latest import GONE, TOMBSTONE, UNKNOWN, VALUE, LatestRecords, Span

MEMORY_BYTES = 1 << 20


def spans(*rows: tuple[int, bytes | None, bool]) -> list[Span]:
    """Offset delta, key, whether there is a value; where they stand doesn't matter here."""
    return [(0, 0, 0, offset_delta, 0, key, has_value) for offset_delta, key, has_value in rows]


def all_in_a_row(*keys: bytes) -> list[Span]:
    return spans(*((number, key, True) for number, key in enumerate(keys)))


@pytest.mark.parametrize("seed", range(20))
def test_marks_are_those_of_a_dictionary(seed: int) -> None:
    draw = Random(seed)
    latest = LatestRecords(MEMORY_BYTES, 0, 1 << 40)
    last: dict[bytes, int] = {}
    batches: dict[int, list[tuple[int, bytes | None, bool]]] = {}
    offset = 0
    for _ in range(draw.randrange(1, 40)):
        rows: list[tuple[int, bytes | None, bool]] = []
        for number in range(draw.randrange(30)):
            key = None if draw.random() < 0.1 else b"%d" % draw.randrange(50)
            rows.append((number * 3, key, draw.random() < 0.8))
            if key is not None:
                last[key] = offset + number * 3
        batches[offset] = rows
        assert latest.has_room(len(rows))
        latest.learn(offset, spans(*rows))
        offset += 1000 + len(rows) * 3
    assert len(latest) == len(last)
    assert latest.dropped_keyless == sum(key is None for rows in batches.values() for _, key, _ in rows)
    for base, rows in batches.items():
        expected = [
            (VALUE if has_value else TOMBSTONE) if key is not None and last[key] == base + delta else GONE
            for delta, key, has_value in rows
        ]
        assert latest.marks_of(base) == bytes(expected)
    assert all(b"%d" % number in latest or b"%d" % number not in last for number in range(50))
    assert b"x" not in latest


def test_a_batch_that_was_not_learned_has_no_marks() -> None:
    latest = LatestRecords(MEMORY_BYTES, 0, 100)
    for base in (0, 20):
        latest.learn(base, all_in_a_row(b"%d" % base))
    assert [latest.marks_of(base) for base in (0, 10, 20, 30)] == [b"\1", None, b"\1", None]


def test_records_before_the_first_offset_are_not_looked_at() -> None:
    latest = LatestRecords(MEMORY_BYTES, 12, 100)
    latest.learn(10, all_in_a_row(b"a", b"b", b"a", b"c"))
    assert latest.marks_of(10) == bytes([UNKNOWN, UNKNOWN, VALUE, VALUE])
    assert b"a" in latest
    assert b"b" not in latest


def test_keys_have_a_limit() -> None:
    latest = LatestRecords(1000, 0, 1 << 40)  # 750 bytes of slots of 20 bytes, 75 % of which may be taken
    latest.learn(0, all_in_a_row(*(b"%d" % number for number in range(20))))
    assert latest.has_room(7)
    assert not latest.has_room(8)


def test_records_and_batches_have_a_limit_too() -> None:
    latest = LatestRecords(1000, 0, 1 << 40)
    for base in range(20):
        assert latest.has_room(1) == (base * 13 + 1 <= 250)
        latest.learn(base, all_in_a_row(b"the same"))


def test_the_table_is_no_larger_than_the_log_needs() -> None:
    latest = LatestRecords(1 << 40, 1000, 1003)
    latest.learn(1000, all_in_a_row(b"a", b"b", b"c"))
    assert len(latest) == 3
    assert b"d" not in latest


def test_the_first_batch_always_has_room() -> None:
    latest = LatestRecords(100, 0, 1 << 40)
    keys = [b"%d" % number for number in range(500)]
    assert latest.has_room(500)
    latest.learn(0, all_in_a_row(*keys, *keys[:10]))
    assert len(latest) == 500
    assert latest.marks_of(0) == bytes([GONE] * 10 + [VALUE] * 500)
    assert not latest.has_room(1)
