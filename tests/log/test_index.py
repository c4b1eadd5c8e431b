"""Sparse indexes: in memory, on file, and both."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pykafka_broker.log.filesystem import CachedFile, FileCache, OsFileSystem
from pykafka_broker.log.index import (
    AbortedTransaction,
    CorruptTransactionIndex,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
)
from tests.log.support import FailingFileSystem

BASE = 1000


def file(path: Path) -> CachedFile:
    return CachedFile(FileCache(OsFileSystem()), str(path / "index"))


@pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 513, 1024, 3000])
@pytest.mark.parametrize("closed", [False, True])
def test_an_offset_is_found_wherever_its_entry_is(tmp_path: Path, count: int, closed: bool) -> None:
    index = OffsetIndex(file(tmp_path), BASE, fresh=True)
    draw = random.Random(count)
    entries, offset, position = [], BASE, 0
    for _ in range(count):
        offset += draw.randrange(1, 5)
        position += draw.randrange(1, 9000)
        entries.append((offset, position))
        index.append(offset, position)
    if closed:
        index.write_out()
        index = OffsetIndex(file(tmp_path), BASE, fresh=False)
    assert index.count == count
    assert [(BASE + first, second) for first, second in index.entries()] == entries
    for wanted in [BASE, *range(BASE, offset + 3, max(1, count // 100))]:
        assert index.floor(wanted) == max(((o, p) for o, p in entries if o <= wanted), default=None)
    for wanted in range(0, position + 3, max(1, position // 200)):
        assert index.floor_position(wanted) == max(((o, p) for o, p in entries if p <= wanted), default=None)


def test_the_file_has_kafkas_bytes(tmp_path: Path) -> None:
    index = OffsetIndex(file(tmp_path), BASE, fresh=True)
    index.append(BASE + 1, 2)
    index.append(BASE + 0x01020304, 0x05060708)
    index.write_out()
    assert (tmp_path / "index").read_bytes() == bytes([0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8])


def test_an_index_without_entries_is_an_empty_file_once_it_is_complete(tmp_path: Path) -> None:
    index = OffsetIndex(file(tmp_path), BASE, fresh=True)
    assert not (tmp_path / "index").exists()
    index.write_out()
    assert (tmp_path / "index").read_bytes() == b""


def test_a_torn_last_entry_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "index").write_bytes(bytes(8) + b"\1\2\3")
    index = OffsetIndex(file(tmp_path), BASE, fresh=False)
    index.append(BASE + 7, 9)
    index.write_out()
    assert (tmp_path / "index").read_bytes() == bytes(8) + bytes([0, 0, 0, 7, 0, 0, 0, 9])


def test_times_only_rise(tmp_path: Path) -> None:
    index = TimeIndex(file(tmp_path), BASE, fresh=True)
    assert index.last() == (-1, BASE)
    for stamp, offset in ((50, 1001), (50, 1002), (40, 1003), (60, 1004)):
        index.maybe_append(stamp, offset)
    assert list(index.entries()) == [(50, 1), (60, 4)]
    assert [index.floor(stamp)[1] for stamp in (0, 49, 50, 59, 60, 99)] == [1000, 1000, 1001, 1001, 1004, 1004]


@pytest.mark.parametrize("written", [0, 1, 2, 3])
def test_truncation_drops_entries_from_an_offset_on(tmp_path: Path, written: int) -> None:
    index = OffsetIndex(file(tmp_path), BASE, fresh=True)
    for number in range(3):
        if number == written:
            index.write_out()
        index.append(BASE + 10 * number, number)
    index.truncate_to(BASE + 20)
    assert list(index.entries()) == [(0, 0), (10, 1)]
    index.append(BASE + 21, 5)
    index.write_out()
    assert list(OffsetIndex(file(tmp_path), BASE, fresh=False).entries()) == [(0, 0), (10, 1), (21, 5)]


def test_full_is_full(tmp_path: Path) -> None:
    index = OffsetIndex(file(tmp_path), BASE, fresh=True)
    for number in range(3):
        assert not index.is_full(24)
        index.append(BASE + number, number)
    assert index.is_full(24)
    assert index.is_full(31)
    assert not index.is_full(32)
    assert index.is_full(32, spare=1)


def test_aborted_transactions_that_touch_a_range(tmp_path: Path) -> None:
    index = TransactionIndex(file(tmp_path), 0, fresh=True)
    rows = [AbortedTransaction(1, 0, 10, 11), AbortedTransaction(2, 5, 20, 12), AbortedTransaction(3, 12, 30, 31)]
    for row in rows:
        index.append(row)
    for again in (index, TransactionIndex(file(tmp_path), 0, fresh=False)):
        assert again.collect(0, 100) == (rows, False)
        assert again.collect(11, 13) == (rows[1:], True)
        assert again.collect(21, 25) == (rows[2:], True)
        assert again.collect(0, 5) == (rows[:1], True)
    index.truncate_to(20)
    assert TransactionIndex(file(tmp_path), 0, fresh=False).entries == rows[:1]


def test_what_is_right_in_a_transaction_index_is_not_written_again(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    cached = CachedFile(FileCache(fs), f"{tmp_path}/index")
    rows = [AbortedTransaction(1, 0, 10, 11), AbortedTransaction(2, 5, 20, 12)]
    TransactionIndex(cached, fresh=False).correct(rows)
    assert [call.split()[0] for call in fs.calls][-3:] == ["truncate", "write", "sync"]
    fs.calls.clear()
    TransactionIndex(cached, fresh=False).correct(rows)
    assert [call.split()[0] for call in fs.calls] == ["read"]
    (tmp_path / "index").write_bytes(b"torn")
    index = TransactionIndex(cached, fresh=False)
    with pytest.raises(CorruptTransactionIndex):
        _ = index.entries
    index.correct(rows[:1])
    assert TransactionIndex(cached, fresh=False).entries == rows[:1]
