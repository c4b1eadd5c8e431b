"""Dead letters: their content, and the batches that they are put into."""

from __future__ import annotations

import pytest

from pykafka_broker.coordinators.share.dead_letters import (
    MOST_LETTERS,
    REJECTED,
    DeadLetters,
    Original,
    letter_batches,
)
from pykafka_broker.records.compression import GZIP, NONE
from pykafka_broker.records.header import read_header
from pykafka_broker.records.record import BatchRecord, iter_records

NOW = 1_700_000_000_000
LARGE = 1 << 20


def batches(
    last: int, *originals: tuple[int, Original], max_bytes: int = LARGE, codec: int = NONE
) -> list[list[BatchRecord]]:
    """Return the letters of the offsets 7 to `last`, batch by batch."""
    letters = DeadLetters(7, last, 3, REJECTED)
    built = letter_batches(letters, originals, "t", 2, "g", max_bytes=max_bytes, now=NOW, codec=codec)
    return [list(iter_records(batch)) for batch in built]


def test_headers_say_where_the_record_stands_and_why_it_is_here() -> None:
    [[letter]] = batches(7)
    assert (letter.key, letter.value, letter.timestamp) == (None, None, NOW)
    assert [(name, bytes(value or b"")) for name, value in letter.headers] == [
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"2"),
        ("__dlq.errors.offset", b"7"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"3"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    ]


def test_copies_go_with_their_offsets() -> None:
    [letters] = batches(10, (5, Original(b"x", b"x")), (8, Original(b"k", None)), (10, Original(None, b"v")))
    assert [(letter.key, letter.value) for letter in letters] == [
        (None, None),
        (b"k", None),
        (None, None),
        (None, b"v"),
    ]


@pytest.mark.parametrize("max_bytes", [400, 1_000, 2_000])
def test_no_batch_is_larger_than_the_topic_takes(max_bytes: int) -> None:
    letters = DeadLetters(0, 49, 1, REJECTED)
    originals = [(offset, Original(b"k" * offset, b"v" * offset)) for offset in range(50)]
    built = list(letter_batches(letters, originals, "t", 0, "g", max_bytes=max_bytes, now=NOW))
    assert all(len(batch) <= max_bytes for batch in built)
    found = [record for batch in built for record in iter_records(batch)]
    assert [dict(record.headers)["__dlq.errors.offset"] for record in found] == [b"%d" % offset for offset in range(50)]
    copied = [offset for offset, record in enumerate(found) if record.key is not None]
    assert copied == list(range(len(copied)))  # the others are too large
    assert bool(copied)


def test_a_letter_that_is_too_large_without_its_copy_is_a_batch_all_the_same() -> None:
    assert [len(each) for each in batches(8, (7, Original(b"k", b"v")), max_bytes=100)] == [1, 1]


def test_batches_have_the_codec_of_the_topic() -> None:
    letters = DeadLetters(0, 0, 1, REJECTED)
    [batch] = letter_batches(letters, (), "t", 0, "g", max_bytes=LARGE, now=NOW, codec=GZIP)
    assert read_header(batch).codec == GZIP


@pytest.mark.parametrize(
    ("known", "left"),
    [
        ([], [(3, 7)]),
        ([(1, 2), (8, 9)], [(3, 7)]),
        ([(1, 3), (7, 9)], [(4, 6)]),
        ([(4, 4), (6, 6)], [(3, 3), (5, 5), (7, 7)]),
        ([(3, 4), (5, 7)], []),
        ([(0, 9)], []),
    ],
)
def test_known_letters_are_left_out(known: list[tuple[int, int]], left: list[tuple[int, int]]) -> None:
    found = DeadLetters(3, 7, 1, REJECTED).without([DeadLetters(*each, 2, "") for each in known])
    assert sorted(found) == [DeadLetters(*each, 1, REJECTED) for each in left]


def test_a_batch_does_not_hold_a_turn_up() -> None:
    letters = DeadLetters(0, 2 * MOST_LETTERS, 1, REJECTED)
    built = letter_batches(letters, (), "t", 0, "g", max_bytes=LARGE, now=NOW)
    assert [read_header(batch).count for batch in built] == [MOST_LETTERS, MOST_LETTERS, 1]
