"""A search for an offset or a time reads as little as it can: the log may be far larger than any cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.records.header import HEADER_SIZE
from pykafka_broker.steps import at_once
from tests.log.support import NOW, TOPIC_ID, batch, manager, new_log, reopen

BATCHES = 400
PAGE_BYTES = 4096


def filled(path: Path, value_bytes: int) -> PartitionLog:
    """Fill a segment with batches of two records, two milliseconds apart."""
    logs = manager(path)
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for number in range(BATCHES):
        log.append(batch(2, value_bytes, timestamp=NOW + 2 * number), NOW)
    log.roll(NOW)
    log.read(1, 1, log.high_watermark)
    at_once(log.offset_for_timestamp(NOW + 1))
    return log


def test_a_large_batch_is_found_by_its_header(tmp_path: Path, reads: list[int]) -> None:
    log = filled(tmp_path, 5000)
    reads.clear()
    found = log.read(501, 1, log.high_watermark)
    assert found is not None
    assert (int.from_bytes(found.records.read()[:8], "big"), found.end_offset) == (500, 502)
    page, *headers, _ = reads  # an index page; headers of the batch that it names and the next; the batch found
    assert page <= PAGE_BYTES
    assert headers == [HEADER_SIZE] * len(headers)
    assert len(headers) <= 2


def test_small_batches_are_looked_through_in_one_piece(tmp_path: Path, reads: list[int]) -> None:
    log = filled(tmp_path, 20)
    reads.clear()
    found = log.read(501, 1, log.high_watermark)
    assert found is not None
    assert int.from_bytes(found.records.read()[:8], "big") == 500
    assert len(reads) <= 5 + 1  # the one more is a read by tests/invariants.py


def test_a_time_is_found_with_one_batch_read(tmp_path: Path, reads: list[int]) -> None:
    log = filled(tmp_path, 5000)
    reads.clear()
    found = at_once(log.offset_for_timestamp(NOW + 500))
    assert found == (NOW + 500, 500)
    assert sum(reads) < 2 * 5100 + 2 * PAGE_BYTES + 4 * HEADER_SIZE


def test_what_one_read_may_take_beside_large_batches(tmp_path: Path) -> None:
    log = filled(tmp_path, 5000)
    size = log.segments.size_bytes // BATCHES
    for allowed, wanted in ((1, 1), (size - 1, 1), (size, 1), (size + 1, 1), (2 * size - 1, 1), (2 * size, 2)):
        found = log.read(300, allowed, log.high_watermark)
        assert found is not None
        assert (len(found.records), found.end_offset) == (wanted * size, 300 + 2 * wanted)
        log.segments.first._positions.clear()
        assert (log.read(300, allowed, log.high_watermark, min_one=False) is None) == (allowed < size)
        log.segments.first._positions.clear()


@pytest.mark.parametrize("between", [40, 41, 42])
def test_the_newest_batch_before_a_cut_is_in_the_time_index_of_a_closed_segment(tmp_path: Path, between: int) -> None:
    log = new_log(tmp_path, index_interval_bytes=200)
    for later in (0, 5, *[1] * between, 7, 9):
        log.append(batch(timestamp=NOW + later), NOW)
    log = reopen(log)
    log.truncate_to(log.log_end_offset - 1)
    assert reopen(log).segments.active.max_timestamp == NOW + 7
