"""The file of a history: what comes back, what outlives the writer, and what happens when it is full."""

from __future__ import annotations

import errno
from itertools import count
from pathlib import Path

import pytest

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.control.history import entries
from pykafka_broker.control.history.entries import HistoryFile, thin_request
from pykafka_broker.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.header import HEADER_SIZE
from pykafka_broker.records.record import BatchRecord
from pykafka_broker.server.link_codec import encode_request

CONNECTION = ConnectionContext(5, "PLAINTEXT", ("h", 1), ("client", 2))
NUMBERS = count()


def batch(value_bytes: int) -> bytes:
    return bytes(build_batch([BatchRecord(0, 0, b"key", bytes(value_bytes))]))


def produce(*partitions: bytes, version: int = 9, transactional_id: str | None = None) -> memoryview:
    data = [PartitionProduceData(index, records) for index, records in enumerate(partitions)]
    request = ProduceRequest(transactional_id, -1, 1000, [TopicProduceData("orders", partition_data=data)])
    return memoryview(bytearray().join(encode_request(request, version, next(NUMBERS), "app")))[4:]


def note(history: HistoryFile, frame: memoryview, answer: list[bytes] | None) -> None:
    history.note(12, 15, CONNECTION, thin_request(frame), answer)


@pytest.fixture
def history(tmp_path: Path) -> HistoryFile:
    return HistoryFile(str(tmp_path / "history"), whole=True)


@pytest.mark.parametrize("version", [3, 8, 9, 12])
@pytest.mark.parametrize("transactional_id", [None, "id"])
@pytest.mark.parametrize("sizes", [(10,), (50_000,), (50_000, 10), (10, 50_000)])
def test_of_a_produce_request_the_headers_of_the_batches_are_kept(
    history: HistoryFile, sizes: tuple[int, ...], version: int, transactional_id: str | None
) -> None:
    batches = [batch(each) for each in sizes]
    note(history, produce(*batches, version=version, transactional_id=transactional_id), None)
    (entry,) = history.entries()
    partitions = entry.exchange.request.topic_data[0].partition_data
    assert [bytes(each.records[:HEADER_SIZE]) for each in partitions] == [each[:HEADER_SIZE] for each in batches]
    assert (entry.exchange.client_id, entry.exchange.wall_ms, entry.client) == ("app", 12, "client:2")
    assert entry.until == 15
    assert entry.exchange.answer is None
    assert history.size_bytes < 2000


def test_of_a_long_answer_the_beginning_is_kept(history: HistoryFile) -> None:
    note(history, produce(batch(1)), [b"\0\0\0\1short", b"x" * 100_000, b"end"])
    (entry,) = history.entries()
    assert b"".join(map(bytes, entry.exchange.answer or ())) == b"\0\0\0\1short" + b"x" * 61 + bytes(99_939) + b"end"


def test_entries_outlive_a_writer_that_never_closed(history: HistoryFile) -> None:
    for _ in range(3):
        note(history, produce(batch(1)), [b"\0\0\0\0"])
    again = HistoryFile(history.path)
    note(again, produce(batch(1)), None)
    assert [each.exchange.answer is None for each in again.entries()] == [False, False, False, True]
    assert again.whole
    assert len({each.number for each in again.entries()}) == 4


def test_a_history_is_cleared(history: HistoryFile) -> None:
    note(history, produce(batch(1)), None)
    history.clear(whole=False)
    assert list(history.entries()) == []
    assert not history.whole
    note(history, produce(batch(1)), None)
    assert [each.client for each in history.entries()] == ["client:2"]


def test_entries_end_when_they_are_forgotten(history: HistoryFile) -> None:
    def note_some() -> None:
        for _ in range(3):
            note(history, produce(batch(1)), None)

    note_some()
    read = history.entries()
    next(read)
    history.clear(whole=False)
    note_some()
    assert list(read) == []
    read = history.entries()
    next(read)
    history.close()
    assert list(read) == []


def test_a_full_history_takes_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_STEP_BYTES", 4096)
    history = HistoryFile(str(tmp_path / "history"), 8192)
    for _ in range(100):
        note(history, produce(batch(1)), None)
    assert history.full
    assert 6000 < history.size_bytes <= 8192
    there = len(list(history.entries()))
    note(history, produce(batch(1)), None)
    assert len(list(history.entries())) == there > 10
    history.clear(whole=True)
    assert not history.full


def test_a_full_history_stays_full_when_it_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_STEP_BYTES", 4096)
    history = HistoryFile(str(tmp_path / "history"), 4096)
    note(history, produce(batch(1)), None)
    note(history, produce(batch(1)), [bytes(4000)] * 2)
    note(history, produce(batch(1)), None)  # there would be room
    assert (history.full, len(list(history.entries()))) == (True, 1)
    again = HistoryFile(history.path)
    note(again, produce(batch(1)), None)
    assert (again.full, len(list(again.entries()))) == (True, 1)
    again.clear(whole=True)
    note(again, produce(batch(1)), None)
    assert (again.full, len(list(again.entries()))) == (False, 1)


@pytest.mark.parametrize("refused", ["allocate", "mmap.mmap"])
def test_a_history_without_room_is_full(history: HistoryFile, refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device, or no memory")

    monkeypatch.setattr(f"{entries.__name__}.{refused}", refuse)
    while not history.full:
        history.note(12, 15, CONNECTION, thin_request(produce(batch(1))), [bytes(4000)] * 100)
    assert history.size_bytes <= 4 << 20
    assert len(list(history.entries())) > 5


def test_a_request_that_does_not_decode_is_cut(history: HistoryFile) -> None:
    frame = produce(batch(5000), batch(5000))[:8000]
    note(history, frame, None)
    (entry,) = history.entries()
    assert entry.exchange.request is None
    assert history.size_bytes < 2000


def test_a_wait_may_be_as_long_as_a_test_moves_the_clock(history: HistoryFile) -> None:
    years = 10 * 366 * 24 * 3_600_000
    frame = produce(batch(10))
    history.note(12, 12 + years, CONNECTION, thin_request(frame), None)
    history.note_small(12, 12 + years, CONNECTION, bytes(frame), b"answer", entries.BODY)
    assert [each.until - each.exchange.wall_ms for each in history.entries()] == [(1 << 32) - 1] * 2


def test_a_history_without_room_for_its_beginning_goes_on_without_entries(
    history: HistoryFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(fd: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patched:
        patched.setattr(entries, "allocate", no_room)
        history.clear(whole=True)
        for _ in range(100):
            note(history, produce(batch(10)), [bytes(100_000)])
    assert history.full
    assert history.whole
    history.clear(whole=True)
    note(history, produce(batch(10)), None)
    assert (history.full, len(list(history.entries()))) == (False, 1)


def test_a_file_with_something_else_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    for content in (b"short", b"my data\n" * 1000):
        path.write_bytes(content)
        with pytest.raises(OSError, match="it has something else in it than a history"):
            HistoryFile(str(path))
        assert path.read_bytes() == content
    path.write_bytes(bytes(100))
    HistoryFile(str(path)).close()
    HistoryFile(str(path)).close()
