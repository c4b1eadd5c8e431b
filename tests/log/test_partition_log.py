"""Append and read, on which the handlers of Produce and Fetch build."""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka_broker.clock import Clock
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import EPOCHS_FILE
from pykafka_broker.log.filesystem import FileCache
from pykafka_broker.log.leader_epochs import LeaderEpochs
from pykafka_broker.log.loading import Offsets, load_log
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.log.retention import retain
from pykafka_broker.log.scan import DamagedLog
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.header import MAGIC_OFFSET, check_crc, iter_batches, read_header
from pykafka_broker.records.validation import TimeSearch
from pykafka_broker.steps import at_once
from tests.log.support import NOW, FailingFileSystem, Keeper, batch, fetched, marker, new_log, reopen


def heard_by(log: PartitionLog) -> Keeper:
    assert isinstance(log.keeper, Keeper)
    return log.keeper


def read_all(log: PartitionLog, offset: int = 0, max_bytes: int = 1 << 20) -> list[tuple[int, int]]:
    """Return base and last offset of every batch, read to the end of the log."""
    found = []
    while (read := log.read(offset, max_bytes, log.high_watermark)) is not None:
        found += [(header.base_offset, header.last_offset) for header, _ in iter_batches(read.records.read())]
        offset = read.end_offset
    return found


def test_an_append_assigns_offsets_and_leader_epoch_and_keeps_the_crc(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    first = log.append(batch(3), NOW)
    second = log.append(batch(2), NOW, leader_epoch=7)
    assert (first.base_offset, first.last_offset, first.max_timestamp) == (0, 2, NOW + 2)
    assert (second.base_offset, second.last_offset) == (3, 4)
    read = log.read(0, 1 << 20, log.high_watermark)
    assert read is not None
    headers = []
    for header, data in iter_batches(read.records.read()):
        check_crc(data, header)
        headers.append((header.base_offset, header.partition_leader_epoch))
    assert headers == [(0, 0), (3, 7)]
    assert (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset) == (0, 5, 5, 5)
    assert log.epochs.led_end_offset_for(0, 5) == (0, 3)
    assert log.epochs.led_end_offset_for(7, 5) == (7, 5)
    log.epochs.current = 9
    assert log.epochs.led_end_offset_for(8, 5) == (7, 5), "of an epoch between, nothing is here (KIP-279)"
    assert log.epochs.led_end_offset_for(9, 5) == (9, 5)
    assert log.epochs.epoch_at(4) == 7


def test_reading_in_the_middle_of_a_batch_gives_the_whole_batch(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(4):
        log.append(batch(5), NOW)
    read = log.read(7, 1 << 20, log.high_watermark)
    assert read is not None
    assert read_header(read.records.read()).base_offset == 5
    assert read.end_offset == 20


def test_the_end_is_empty_and_beyond_it_is_out_of_range(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(batch(5), NOW)
    assert log.read(5, 100, 5) is None
    for offset in (-1, 6):
        with pytest.raises(ApiError) as caught:
            log.read(offset, 100, 5)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_max_bytes_cuts_between_batches_but_the_first_one_comes_whole(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    size = len(batch(1, 100))
    for _ in range(10):
        log.append(batch(1, 100), NOW)
    for max_bytes, expected in ((size * 3, 3), (size * 3 + size - 1, 3), (size, 1), (1, 1), (0, 1), (1 << 20, 10)):
        read = log.read(0, max_bytes, 10)
        assert read is not None
        assert len(read.records) == expected * size == len(read.records.read())
        assert read.end_offset == expected
    assert log.read(0, size - 1, 10, min_one=False) is None


def test_the_upper_offset_cuts_at_a_batch_boundary(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=500)
    for _ in range(20):
        log.append(batch(2, 40), NOW)
    for upper in range(0, 41, 2):
        offset, got = 0, []
        while (read := log.read(offset, 1 << 20, upper)) is not None:
            got += [header.last_offset for header, _ in iter_batches(read.records.read())]
            offset = read.end_offset
        assert got == list(range(1, upper, 2))


@pytest.mark.parametrize("max_bytes", [1, 300, 5000, 1 << 20])
def test_reading_on_gives_every_batch_once_across_segments(tmp_path: Path, max_bytes: int) -> None:
    log = new_log(tmp_path, segment_bytes=3000, index_interval_bytes=200)
    expected = []
    for number in range(200):
        info = log.append(batch(1 + number % 4, number), NOW)
        expected.append((info.base_offset, info.last_offset))
    assert len(log.segments) > 5
    assert read_all(log, max_bytes=max_bytes) == expected
    again = reopen(log)
    assert again.log_end_offset == log.log_end_offset
    assert read_all(again, max_bytes=max_bytes) == expected


def test_any_offset_is_found_by_the_index(tmp_path: Path) -> None:
    log = reopen_after(new_log(tmp_path, segment_bytes=20_000, index_interval_bytes=100), 500)
    for offset in range(log.log_end_offset):
        read = log.read(offset, 1, log.high_watermark)
        assert read is not None
        header = read_header(read.records.read())
        assert header.base_offset <= offset <= header.last_offset


def reopen_after(log: PartitionLog, batches: int) -> PartitionLog:
    for number in range(batches):
        log.append(batch(3, number % 50), NOW)
    return reopen(log)


def test_a_tail_read_needs_no_disk_besides_the_data(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    log = new_log(tmp_path, fs)
    for _ in range(100):
        log.append(batch(1, 200), NOW)
    offset = log.log_end_offset
    log.append(batch(1), NOW)
    assert log.read(offset, 100, log.high_watermark) is not None
    offset = log.log_end_offset
    fs.calls.clear()
    assert log.read(offset, 1000, offset) is None
    log.append(batch(1), NOW)
    read = log.read(offset, 1000, log.high_watermark)
    assert [call.split()[0] for call in fs.calls] == ["write"]
    assert read is not None
    assert read_header(read.records.read()).base_offset == offset


def test_a_roll_by_size_by_record_time_and_by_age(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=1000, segment_ms=5000)
    size = len(batch(1, 300))
    for _ in range(1000 // size + 1):
        log.append(batch(1, 300), NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.append(batch(timestamp=NOW + 5000), NOW)
    assert len(log.segments) == 2
    log.append(batch(timestamp=NOW + 5001), NOW)
    assert log.segments.active.base_offset == 4
    ageless = new_log(tmp_path / "other", segment_ms=5000)
    ageless.append(batch(timestamp=-1), NOW)
    ageless.append(batch(timestamp=-1), NOW + 5000)
    assert len(ageless.segments) == 1
    ageless.append(batch(timestamp=-1), NOW + 5001)
    assert len(ageless.segments) == 2


def test_a_roll_when_an_index_is_full(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_index_bytes=36, index_interval_bytes=1)
    for number in range(12):
        log.append(batch(timestamp=NOW + number), NOW)
    # three entries of the time index fit, one place is kept for sealing
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9]
    assert all(segment.time_index.count <= 3 for segment in log.segments)


def test_jitter_is_below_its_limit_and_steady(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_ms=1000, segment_jitter_ms=400)
    log.append(batch(), NOW)
    log.append(batch(timestamp=NOW + 600), NOW)
    assert len(log.segments) == 1
    log.append(batch(timestamp=NOW + 1001), NOW)
    assert len(log.segments) == 2


def test_jitter_spreads_the_rolls_of_many_partitions(tmp_path: Path) -> None:
    rolled = set()
    for each in range(30):
        log = new_log(tmp_path / str(each), segment_ms=1000, segment_jitter_ms=1000)
        log.append(batch(), NOW)
        log.append(batch(timestamp=NOW + 500), NOW)
        rolled.add(len(log.segments) == 2)
    assert rolled == {True, False}


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=200)
    with pytest.raises(ApiError) as caught:
        log.append(batch(1, 500), NOW)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0


def test_a_failed_write_changes_nothing_and_the_next_one_goes_on(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    log = new_log(tmp_path, fs)
    log.append(batch(2, producer_id=1, epoch=0, sequence=0), NOW)
    fs.failures = {"write .log": errno.ENOSPC}
    with pytest.raises(ApiError) as caught:
        log.append(batch(2, producer_id=1, epoch=0, sequence=2), NOW)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [error.errno for error in heard_by(log).errors] == [errno.ENOSPC]
    assert log.log_end_offset == log.high_watermark == 2
    assert read_all(log) == [(0, 1)]
    fs.failures = {}
    info = log.append(batch(2, producer_id=1, epoch=0, sequence=2), NOW)
    assert (info.base_offset, info.duplicate) == (2, False)
    assert read_all(reopen(log)) == [(0, 1), (2, 3)]


def test_what_a_failed_write_left_is_gone_after_a_restart(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    log = new_log(tmp_path, fs)
    log.append(batch(), NOW)
    fs.failures = {"write .log": errno.ENOSPC, "truncate .log": errno.EIO}
    with pytest.raises(ApiError):
        log.append(batch(), NOW)
    fs.failures = {}
    again = reopen(log)
    assert again.log_end_offset == 1
    assert read_all(again) == [(0, 0)]


def test_a_follower_keeps_the_leaders_offsets_and_epochs(tmp_path: Path) -> None:
    leader = new_log(tmp_path / "leader")
    leader.append(batch(3), NOW)
    leader.append(batch(2), NOW, leader_epoch=4)
    read = leader.read(0, 1 << 20, 5)
    assert read is not None
    follower = new_log(tmp_path / "follower")
    follower.sole_replica = False
    for _, data in iter_batches(bytearray(read.records.read())):
        follower.append(data, NOW, origin=Origin.REPLICATION)
    assert follower.log_end_offset == 5
    assert follower.high_watermark == 0
    assert follower.epochs.entries == [(0, 0), (4, 3)]
    follower.advance_high_watermark(5)
    assert read_all(follower) == read_all(leader)


def test_open_transactions_hold_the_last_stable_offset(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(batch(2), NOW)
    log.append(batch(1, producer_id=1, epoch=0, sequence=0, transactional=True), NOW)
    log.append(batch(1, producer_id=2, epoch=0, sequence=0, transactional=True), NOW)
    assert (log.last_stable_offset, log.high_watermark) == (2, 4)
    log.append(marker(1, 0, commit=True), NOW, origin=Origin.COORDINATOR)
    assert log.last_stable_offset == 3
    assert log.aborted_transactions(0, 10) == []
    log.append(marker(2, 0, commit=False), NOW, origin=Origin.COORDINATOR)
    assert log.last_stable_offset == log.high_watermark == 6
    (aborted,) = log.aborted_transactions(0, 6)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (2, 3, 5)
    assert log.aborted_transactions(0, 3) == []
    assert reopen(log).aborted_transactions(3, 4) == [aborted]


def test_an_unverified_transactional_batch_needs_an_open_transaction(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    first = batch(producer_id=1, epoch=0, sequence=0, transactional=True)
    with pytest.raises(ApiError) as caught:
        log.append(first, NOW, verified=False)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE
    log.append(first, NOW)
    log.append(batch(producer_id=1, epoch=0, sequence=1, transactional=True), NOW, verified=False)
    assert log.log_end_offset == 2


def test_a_slice_outlives_the_deletion_of_its_segment(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=300, retention_bytes=0)
    for _ in range(5):
        log.append(batch(1, 200), NOW)
    read = log.read(0, 1 << 20, 5)
    assert read is not None
    before = read.records.read()
    retain(log, NOW)
    assert log.log_start_offset > 0
    for segment in heard_by(log).deleted:
        segment.remove()
    assert not list(tmp_path.glob("**/*.deleted"))
    assert read.records.read() == before
    assert read.records.fileno() >= 0


def test_offsets_of_times(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=600, index_interval_bytes=50, retention_ms=-1)
    stamps = [100, 101, 500, 501, 300, 301, 900, 901, 200, 201, 700, 701]
    for stamp in stamps[::2]:
        log.append(batch(2, 30, timestamp=stamp), NOW)
    for log_ in (log, log := reopen(log)):
        for wanted in range(90, 910, 10):
            expected = next((offset for offset, stamp in enumerate(stamps) if stamp >= wanted), None)
            found = at_once(log_.offset_for_timestamp(wanted))
            assert (found.offset if found else None) == expected
            assert found is None or found.timestamp == stamps[found.offset]
        best = at_once(log_.offset_for_timestamp(None))
        assert best is not None
        assert (best.timestamp, best.offset) == (901, 7)
    log.delete_records_before(8)
    found = at_once(log.offset_for_timestamp(0))
    assert found is not None
    assert (found.timestamp, found.offset) == (200, 8)


def test_an_empty_log_has_no_times(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert at_once(log.offset_for_timestamp(0)) is None
    assert at_once(log.offset_for_timestamp(None)) is None


def test_delete_records_moves_the_start_and_frees_whole_segments(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=400)
    for _ in range(10):
        log.append(batch(1, 100), NOW)
    log.delete_records_before(5)
    assert log.log_start_offset == 5
    retain(log, NOW)
    assert log.segments.first.base_offset == 4
    with pytest.raises(ApiError) as caught:
        log.read(4, 100, 10)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(ApiError):
        log.delete_records_before(11)
    log.delete_records_before(3)
    assert log.log_start_offset == 5
    assert [first for first, _ in read_all(log, 5)] == [5, 6, 7, 8, 9]


def test_truncation_forgets_offsets_indexes_epochs_and_producers(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=700, index_interval_bytes=50)
    for number in range(22):
        log.append(
            batch(1, 50, timestamp=NOW + number, producer_id=1, epoch=0, sequence=number), NOW, leader_epoch=number // 5
        )
    for offset in range(22):
        log.read(offset, 1, 22)  # where these stood is remembered
    log.truncate_to(8)
    assert (log.log_end_offset, log.high_watermark) == (8, 8)
    on_disk = LeaderEpochs.load(log.segments.files.fs, f"{log.directory}/{EPOCHS_FILE}")
    assert log.epochs.entries == on_disk.entries == [(0, 0), (1, 5)]
    assert log.producers.entries[1].last_sequence == 7
    best = at_once(log.offset_for_timestamp(None))
    assert best is not None
    assert best.offset == 7
    for number in (8, 9, 10):
        log.append(batch(1, 40, producer_id=1, epoch=0, sequence=number), NOW, leader_epoch=1)
    assert [log.read(offset, 1, 11) is not None for offset in range(11)] == [True] * 11
    assert [first for first, _ in read_all(log)] == list(range(11))
    assert [first for first, _ in read_all(reopen(log))] == list(range(11))


def test_a_cut_abort_does_not_hide_records_that_are_committed_in_its_place(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(batch(2, producer_id=1, epoch=0, transactional=True), NOW, origin=Origin.COORDINATOR)
    log.append(marker(1, 0, commit=False), NOW, origin=Origin.COORDINATOR)
    assert len(log.aborted_transactions(0, 3)) == 1
    log.truncate_to(2)
    log.append(marker(1, 0, commit=True), NOW, origin=Origin.COORDINATOR)
    assert log.aborted_transactions(0, 3) == reopen(log).aborted_transactions(0, 3) == []


def test_an_offset_gap_larger_than_an_index_can_hold_rolls(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(batch(), NOW)
    far = batch()
    struct.pack_into(">q", far, 0, 1 << 32)
    log.append(far, NOW, origin=Origin.REPLICATION)
    assert [segment.base_offset for segment in log.segments] == [0, 1 << 32]
    assert read_all(log) == [(0, 0), (1 << 32, 1 << 32)]


def garbage(kind: str, size: int) -> bytes:
    if kind == "zeros":
        return bytes(size)
    if kind == "ones":
        return b"\xff" * size
    rising = b"".join(struct.pack(">ii", 7 * number, 100 * number + 13) for number in range(1, size // 8))
    return rising if kind == "lies" else rising[: size // 2] + b"x"


def test_a_gap_larger_than_an_index_can_hold_ends_a_run_of_batches(tmp_path: Path) -> None:
    follower = new_log(tmp_path)
    far = (1 << 31) + 5
    follower.append_fetched(fetched(0) + fetched(1) + fetched(far), NOW)
    assert [each.base_offset for each in follower.segments] == [0, far]


@pytest.mark.parametrize("offset", [50, 20])
def test_a_log_that_is_cut_behind_a_gap_ends_before_the_gap(tmp_path: Path, offset: int) -> None:
    """The leader may have records in the gap, which the next fetch must ask for."""
    follower = new_log(tmp_path)
    follower.append_fetched(fetched(0, 3), NOW)
    follower.roll(NOW, 50)
    follower.append_fetched(fetched(50), NOW)
    follower.truncate_to(offset)
    assert follower.log_end_offset == reopen(follower).log_end_offset == 3


@pytest.mark.parametrize("kind", ["zeros", "ones", "lies", "torn"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_lying_index_is_noticed_and_rebuilt(tmp_path: Path, kind: str, suffix: str) -> None:
    log = new_log(tmp_path, segment_bytes=4000, index_interval_bytes=100)
    for number in range(100):
        log.append(batch(2, 40, timestamp=NOW + number * 10), NOW)
    log.close()
    for file in tmp_path.glob(f"t-0/*{suffix}"):
        file.write_bytes(garbage(kind, file.stat().st_size))
    log = reopen(log)
    for offset in range(199, -1, -1):
        read = log.read(offset, 1, 200)
        assert read is not None
        assert read_header(read.records.read()).base_offset == offset - offset % 2
    for number in range(100):
        found = at_once(log.offset_for_timestamp(NOW + number * 10))
        assert found is not None
        assert found.offset == number * 2
    best = at_once(log.offset_for_timestamp(None))
    assert best is not None
    assert best.offset == 199
    assert read_all(log, max_bytes=500) == [(number, number + 1) for number in range(0, 200, 2)]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_made_at_load(tmp_path: Path, suffix: str) -> None:
    log = new_log(tmp_path, segment_bytes=4000, index_interval_bytes=100)
    for number in range(100):
        log.append(batch(2, 40, timestamp=NOW + number * 10), NOW)
    log.close()
    before = {file.name: file.stat().st_size for file in tmp_path.glob("t-0/*")}
    for file in tmp_path.glob(f"t-0/*{suffix}"):
        file.unlink()
    log = reopen(log)
    assert {file.name for file in tmp_path.glob("t-0/*")} == set(before)
    assert len(read_all(log)) == 100


def test_a_preallocated_segment_gives_back_what_it_did_not_use(tmp_path: Path) -> None:
    log = new_log(tmp_path, preallocate=True, segment_bytes=10_000)
    log.append(batch(), NOW)
    active = log.roll(NOW)
    log.append(batch(), NOW)
    file = Path(active.log.path)
    assert file.stat().st_size == 10_000
    assert read_all(log) == [(0, 0), (1, 1)]
    log.roll(NOW)
    assert file.stat().st_size == len(batch())
    assert read_all(reopen(log)) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("failure", ["write .index", "write .timeindex", "write checkpoint", "rename checkpoint"])
def test_no_room_beside_the_log_itself(tmp_path: Path, failure: str) -> None:
    """A batch is taken whole or not at all, whichever of the log's files has no room."""
    fs = FailingFileSystem()
    log = new_log(tmp_path, fs, index_interval_bytes=1)
    taken = 0
    for number in range(1500):
        fs.failures = {failure: errno.ENOSPC} if number % 3 else {}
        try:
            log.append(batch(1, number % 40, timestamp=NOW + number), NOW, leader_epoch=number // 100)
            taken += 1
        except ApiError:
            assert failure.endswith("checkpoint")
    fs.failures = {}
    expected = [(number, number) for number in range(taken)]
    assert taken > 1000
    assert read_all(log) == expected
    again = reopen(log)
    assert read_all(again) == expected
    assert again.segments.active.has_whole_indexes()
    assert again.epochs.entries[-1][0] == 14


@pytest.mark.parametrize("content", [None, b"", b"0\n7\n1 2\n", b"\xff\xff"])
def test_leader_epochs_are_rebuilt_at_load(tmp_path: Path, content: bytes | None) -> None:
    log = new_log(tmp_path, segment_bytes=1000, index_interval_bytes=100)
    for number in range(40):
        log.append(batch(1, 30), NOW, leader_epoch=number // 17)
    expected = [(0, 0), (1, 17), (2, 34)]
    assert log.epochs.entries == expected
    log.close()
    file = tmp_path / "t-0/leader-epoch-checkpoint"
    file.unlink() if content is None else file.write_bytes(content)
    log = reopen(log)
    assert (log.epochs.entries, log.epochs.current) == (expected, 2)
    assert file.read_bytes() == b"0\n3\n0 0\n1 17\n2 34\n"


def test_a_transaction_that_ended_before_the_log_was_loaded_is_stable(tmp_path: Path) -> None:
    """Also where no snapshot says so and the batches are read again."""
    log = new_log(tmp_path)
    log.append(batch(2, producer_id=1, epoch=0, transactional=True), NOW, origin=Origin.COORDINATOR)
    log.append(marker(1, 0, commit=True), NOW, origin=Origin.COORDINATOR)
    log.close()
    (tmp_path / "t-0" / f"{3:020d}.snapshot").unlink()
    offsets = Offsets(0, 3)
    again = load_log(FileCache(log.segments.files.fs), log.directory, "t", 0, log.config, offsets, Clock(NOW), Keeper())
    assert again.last_stable_offset == again.high_watermark == 3


@pytest.mark.parametrize("content", [b"\xff" * 77, bytes(4096), bytes(34), b"\0" * 33])
def test_a_damaged_transaction_index_is_made_anew(tmp_path: Path, content: bytes) -> None:
    """Also in a log that was shut down cleanly, where nothing is recovered."""
    log = new_log(tmp_path, segment_bytes=600)
    for turn in range(6):
        for producer_id in (1, 2):
            transactional = batch(1, 50, producer_id=producer_id, epoch=0, transactional=True)
            log.append(transactional, NOW, origin=Origin.COORDINATOR)
        for producer_id in (1, 2):
            log.append(marker(producer_id, 0, commit=turn % 3 == 0), NOW, origin=Origin.COORDINATOR)
    expected = log.aborted_transactions(0, log.log_end_offset)
    assert len(expected) == 8
    log = reopen(log)
    log.close()
    for file in (tmp_path / "t-0").glob("*.txnindex"):
        file.write_bytes(content)
    log = reopen(log)
    assert log.aborted_transactions(0, log.log_end_offset) == expected
    assert reopen(log).aborted_transactions(0, log.log_end_offset) == expected


def test_a_cut_in_a_segment_with_a_damaged_transaction_index_makes_the_index_anew(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=300)
    for turn in range(8):
        log.append(batch(1, 50, producer_id=1, epoch=0, transactional=True), NOW, origin=Origin.COORDINATOR)
        log.append(marker(1, 0, commit=turn % 2 == 0), NOW, origin=Origin.COORDINATOR)
    expected = log.aborted_transactions(0, 8)
    assert len(expected) == 2
    log = reopen(log)
    cut = log.segments.floor(7)
    assert cut is not log.segments.active
    Path(cut.transactions.file.path).write_bytes(b"torn")
    log.truncate_to(8)
    assert log.aborted_transactions(0, 8) == expected
    assert reopen(log).aborted_transactions(0, 8) == expected


def damaged_log(path: Path, damaged: int, retention_ms: int = 604_800_000) -> PartitionLog:
    """Return a cleanly stopped log of three batches, the second the newest, one of them with a broken header."""
    log = new_log(path, index_interval_bytes=1, retention_ms=retention_ms)
    for number in range(3):
        log.append(batch(timestamp=NOW + 9 * (number == 1)), NOW)
    size = log.segments.size_bytes
    log.close()
    with open(log.segments.first.log.path, "r+b") as file:
        file.seek(damaged * size // 3 + MAGIC_OFFSET)
        file.write(b"\x7f")
    return reopen(log)


@pytest.mark.parametrize("damaged", [0, 1])
def test_an_append_that_meets_damage_is_an_error_of_the_disk(tmp_path: Path, damaged: int) -> None:
    """The first append after a start asks for the first and the greatest timestamp, and so for their batches."""
    log = damaged_log(tmp_path, damaged)
    size = log.segments.size_bytes
    with pytest.raises(ApiError, match="is damaged at byte") as caught:
        log.append(batch(), NOW)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    path = log.segments.first.log.path
    assert (log.log_end_offset, os.path.getsize(path)) == (3, size), "nothing is there for the next start to find"


def test_what_stands_around_damage_is_served(tmp_path: Path) -> None:
    """The index entry of the damaged batch does not hold, and the other entries are needed."""
    log = damaged_log(tmp_path, 1)
    for _ in range(2):
        with pytest.raises(ApiError, match="is damaged at byte"):
            log.read(1, 1 << 20, 3)
        assert read_all(log, 2) == [(2, 2)]
    before = log.read(0, 100, 3)
    assert before is not None
    assert (len(before.records), before.end_offset) == (log.segments.size_bytes // 3, 1)


@pytest.mark.parametrize("by", ["read", "look-up by time"])
def test_messages_of_old_formats_are_no_reason_to_lead_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    """Every replica has the same messages."""
    log = new_log(tmp_path)
    for _ in range(2):
        log.append(batch(), NOW)
    log.roll(NOW)
    log.append(batch(), NOW)
    body = struct.pack(">bbqii", 1, 0, NOW, -1, 1) + b"v"
    old = struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body
    with open(log.segments.first.log.path, "wb") as file:
        file.write(old + old)
    log = reopen(log)
    monkeypatch.setattr(log.keeper, "can_spare", lambda log: True)
    for _ in range(2):
        with pytest.raises(ApiError, match="format 0 or 1"):
            log.read(1, 1000, 3) if by == "read" else at_once(log.offset_for_timestamp(NOW))
    assert log.read(2, 1000, 3) is not None
    assert "log repair" not in caplog.text, "which would not help"


def test_a_cut_between_the_steps_of_a_search_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def search(self: TimeSearch) -> Iterator[None]:
        yield

    monkeypatch.setattr(TimeSearch, "search", search)
    log = new_log(tmp_path)
    for _ in range(3):
        log.append(batch(), NOW)
    monkeypatch.setattr(log.keeper, "can_spare", lambda log: True)
    steps = log.offset_for_timestamp(NOW)
    next(steps)
    log.truncate_to(1)
    with pytest.raises(ApiError) as caught:
        at_once(steps)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_records_behind_damage_stay_for_as_long_as_others(tmp_path: Path) -> None:
    log = damaged_log(tmp_path, 1, retention_ms=5)
    with pytest.raises(DamagedLog):
        retain(log, NOW + 10)
    retain(log, NOW + 10)
    assert log.log_start_offset == 0, "the index says that there is a record of NOW + 9"
    retain(log, NOW + 15)
    assert log.log_start_offset == 3


def test_a_marker_that_meets_damage_is_not_indexed(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    first = batch(producer_id=1, epoch=0, sequence=0, transactional=True)
    log.append(first, NOW)
    log.append(batch(producer_id=1, epoch=0, sequence=1, transactional=True), NOW)
    path = log.segments.active.log.path
    log = reopen(log)
    with open(path, "r+b") as file:
        file.seek(len(first) + MAGIC_OFFSET)
        file.write(b"\x7f")
    os.truncate(f"{path.removesuffix('.log')}.timeindex", 0)
    with pytest.raises(ApiError) as caught:
        log.append(marker(1, 0, commit=False), NOW, origin=Origin.COORDINATOR)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.segments.active.transactions.entries == []
    log.append(marker(1, 0, commit=False), NOW, origin=Origin.COORDINATOR)  # the damage is known by now
    assert [each.last_offset for each in log.segments.active.transactions.entries] == [2]


def test_a_look_up_by_time_tells_the_keeper_of_a_disk_that_fails(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    log = new_log(tmp_path, fs)
    log.append(batch(), NOW)
    fs.failures = {"read .log": errno.EIO}
    with pytest.raises(ApiError) as caught:
        at_once(log.offset_for_timestamp(NOW))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [error.errno for error in heard_by(log).errors] == [errno.EIO]


@pytest.mark.parametrize("what", ["the disk fails", "a batch is damaged"])
def test_what_many_segments_tell_of_their_times_is_told_to_the_keeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    fs = FailingFileSystem()
    log = new_log(tmp_path, fs)
    for number in range(20):
        log.append(batch(timestamp=NOW + number), NOW)
        log.roll(NOW)
    log = reopen(log)
    assert log.segments.untimed
    if what == "the disk fails":
        fs.failures = {"read .log": errno.EIO, "read .timeindex": errno.EIO}
        with pytest.raises(ApiError):
            list(log.learn_times())
        assert [error.errno for error in heard_by(log).errors] == [errno.EIO]
        return
    with open(log.segments[5].log.path, "r+b") as file:
        file.seek(MAGIC_OFFSET)
        file.write(b"\x7f")
    monkeypatch.setattr(log.keeper, "can_spare", lambda log: True)
    with pytest.raises(DamagedLog):  # by the keeper of tests
        list(log.learn_times())
    list(log.learn_times())
    assert not log.segments.untimed


def test_a_look_up_in_a_segment_deleted_meanwhile_says_nothing_against_the_disk(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    log = new_log(tmp_path, fs)
    log.append(batch(), NOW)
    fs.failures = {"read .log": errno.ENOENT}
    with pytest.raises(ApiError) as caught:
        at_once(log.offset_for_timestamp(NOW))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert heard_by(log).errors == []
