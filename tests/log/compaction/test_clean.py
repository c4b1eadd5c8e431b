"""Cleaning keeps, byte for byte, what Kafka's cleaner keeps, and follows its rules."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.clock import Clock
from pykafka_broker.log.compaction.clean import PartitionCleaner
from pykafka_broker.log.compaction.cleaner import LogToClean, Swap, candidate, make_request
from pykafka_broker.log.compaction.request import CleanResult
from pykafka_broker.log.filesystem import FileCache, OsFileSystem
from pykafka_broker.log.loading import Offsets, load_log
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.log.retention import retain
from pykafka_broker.log.scan import DamagedLog, scan
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.compression import LZ4, NONE
from pykafka_broker.records.errors import InvalidRecord
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import BatchRecord, iter_records
from tests.log.support import DATA, NOW, FailingFileSystem, Keeper, batch, marker, new_log, reopen, topic_config

RETENTION_MS = 864_000_000
FS = OsFileSystem()


def compacted(path: Path, **more: Any) -> PartitionLog:
    settings = {"segment_bytes": 2000, "index_interval_bytes": 300, "cleanup_policy": ["compact"], "retention_ms": -1}
    merged: dict[str, Any] = {**settings, "min_cleanable_dirty_ratio": 0.01, **more}
    return new_log(path, **merged)


def swap_in(log: PartitionLog, result: CleanResult, wall: int) -> bool:
    swap = Swap(LogToClean(1.0, ("t", 0), log, 0, 0), result, wall)
    swap.run()
    return swap.possible


def clean(log: PartitionLog, first_dirty: int = 0, now: int = NOW, map_bytes: int = 1 << 20) -> CleanResult:
    """Clean all segments but the active one, as if the log were synced."""
    log.recovery_point = log.log_end_offset
    upper = log.segments.active.base_offset
    request = make_request(LogToClean(1.0, ("t", 0), log, first_dirty, upper), now, map_bytes, 1e300)
    result = PartitionCleaner(log.segments.files.fs, request, lambda count: None).run()
    assert swap_in(log, result, now)
    return result


def put(log: PartitionLog, *pairs: tuple[str, str | None], **more: object) -> int:
    """Append one batch of keys and values and return its base offset."""
    records = [
        BatchRecord(number, NOW + number, key.encode(), None if value is None else value.encode())
        for number, (key, value) in enumerate(pairs)
    ]
    return log.append(build_batch(records, **more), NOW).base_offset  # type: ignore[arg-type]


def records(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    found, offset = [], log.log_start_offset
    while (read := log.read(offset, 1 << 20, log.high_watermark)) is not None:
        for header, data in iter_batches(read.records.read()):
            if not header.is_control:
                found += [
                    (each.offset, (each.key or b"").decode(), each.value.decode() if each.value is not None else None)
                    for each in iter_records(data, header)
                ]
        offset = read.end_offset
    return found


def headers(log: PartitionLog) -> list[tuple[int, int, int]]:
    """Return base offset, last offset and count of every batch."""
    found, offset = [], log.log_start_offset
    while (read := log.read(offset, 1 << 20, log.high_watermark)) is not None:
        found += [(each.base_offset, each.last_offset, each.count) for each, _ in iter_batches(read.records.read())]
        offset = read.end_offset
    return found


@pytest.mark.parametrize("topic", ["tombstones", "zipped", "idempotent", "transactional"])
def test_the_result_is_kafkas(tmp_path: Path, topic: str) -> None:
    with tarfile.open(DATA / "compaction.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    before, after = tmp_path / "before" / f"{topic}-0", tmp_path / "after" / f"{topic}-0"
    now = NOW
    for file in after.glob("*.log"):
        for found in scan(FS.open(str(file)), str(file), 0, file.stat().st_size, verify=True):
            if found.header.delete_horizon_ms is not None:
                now = found.header.delete_horizon_ms - RETENTION_MS  # when Kafka's cleaner ran
    config = topic_config(
        segment_bytes=8192, index_interval_bytes=1024, cleanup_policy=["compact"], delete_retention_ms=RETENTION_MS
    )
    log = load_log(FileCache(FS), str(before), topic, 0, config, Offsets(0, 1 << 40), Clock(NOW), Keeper())
    found_candidate = candidate((topic, 0), log, None, now)
    assert found_candidate is not None
    request = make_request(found_candidate, now, 1 << 20, 1e300)
    assert swap_in(log, PartitionCleaner(FS, request, lambda count: None).run(), now)
    log.close()
    names = sorted(file.name for file in after.iterdir())
    assert len([name for name in names if name.endswith(".log")]) >= 4
    for name in names:
        assert (before / name).read_bytes() == (after / name).read_bytes(), name


@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_of_each_key_the_last_value_stays_where_it_was(tmp_path: Path, codec: int) -> None:
    log = compacted(tmp_path)
    for number in range(40):
        put(log, (f"k{number % 7}", f"{number}" * 50), (f"j{number % 3}", "x" * 50), codec=codec)
    before = records(log)
    end = log.log_end_offset
    active = log.segments.active.base_offset
    clean(log)
    last = {key: offset for offset, key, _ in before if offset < active}
    expected = [row for row in before if row[0] >= active or last[row[1]] == row[0]]
    assert records(log) == expected
    assert log.log_end_offset == end
    log = reopen(log)
    assert records(log) == expected
    assert log.log_end_offset == end
    for offset in range(end):
        read = log.read(offset, 1, end)
        assert read is not None
        assert next(iter_batches(read.records.read()))[0].last_offset >= offset


@pytest.mark.parametrize("codec", [NONE, LZ4])
@pytest.mark.parametrize("cleaned_before", [False, True])
def test_a_compressed_record_that_is_too_large_ends_the_cleaning(
    tmp_path: Path, codec: int, cleaned_before: bool
) -> None:
    """Kafka's cleaner reads a limit of 207 bytes as all records up to that, without their length."""
    log = compacted(tmp_path)
    for key, value in (("a", "s"), ("b", "x" * 199), ("a", "s")):
        put(log, (key, value), codec=codec)
    log.roll(NOW)
    first_dirty = clean(log).end_offset if cleaned_before else 0
    put(log, ("c", "s"), ("a", "s"), codec=codec)
    log.roll(NOW)
    before = records(log)
    log.config = topic_config(cleanup_policy=["compact"], max_decompressed_message_bytes=206)
    if codec != NONE:
        with pytest.raises(InvalidRecord, match=r"record 0 has 207 bytes"):
            clean(log, first_dirty)
        assert records(log) == before
        log.config = topic_config(cleanup_policy=["compact"], max_decompressed_message_bytes=207)
    clean(log, first_dirty)
    assert [key for _, key, _ in records(log)] == ["b", "c", "a"]


def test_the_new_files_are_synced_before_they_take_the_place_of_the_old(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    log = compacted(tmp_path, fs=fs)
    for _ in range(2):
        put(log, ("a", "1"), ("b", "2"))
    log.roll(NOW)
    fs.calls.clear()
    clean(log)
    renamed = next(at for at, call in enumerate(fs.calls) if call.startswith("rename "))
    synced = {call.rpartition("/")[2] for call in fs.calls[:renamed] if call.startswith("sync ")}
    assert {f"{0:020d}{kind}.cleaned" for kind in (".log", ".index", ".timeindex")} <= synced


def test_a_second_round_merges_small_segments(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for number in range(60):
        put(log, (f"k{number % 4}", "v" * 300))
    first = clean(log)
    segments = len(log.segments)
    log.roll(NOW)
    clean(log, first.end_offset)
    assert len(log.segments) < segments
    assert log.segments.first.base_offset == 0
    assert [key for _, key, _ in records(log)] == ["k0", "k1", "k2", "k3"]
    assert sorted(int(file.stem) for file in tmp_path.glob("t-0/*.snapshot")) == [
        segment.base_offset for segment in list(log.segments)[1:]
    ]


def test_tombstones_stay_for_their_time_and_then_go(tmp_path: Path) -> None:
    log = compacted(tmp_path, delete_retention_ms=1000)
    put(log, ("a", "1"), ("b", "1"), ("c", "1"))
    put(log, ("a", None), ("b", "2"))
    log.roll(NOW)
    clean(log, now=NOW)
    assert records(log) == [(2, "c", "1"), (3, "a", None), (4, "b", "2")]
    clean(log, now=NOW + 999)
    assert len(records(log)) == 3
    clean(log, now=NOW + 1000)
    assert records(log) == [(2, "c", "1"), (4, "b", "2")]


def test_records_without_a_key_go_and_are_counted(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    log.append(batch(3), NOW)
    put(log, ("a", "1"))
    log.roll(NOW)
    assert clean(log).dropped_keyless == 3
    assert records(log) == [(3, "a", "1")]


def test_a_producers_last_batch_stays_as_an_empty_one(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    put(log, ("a", "1"), ("b", "1"), producer_id=5, producer_epoch=0, base_sequence=0)
    put(log, ("a", "2"), ("b", "2"), producer_id=5, producer_epoch=0, base_sequence=2)
    put(log, ("a", "3"), ("b", "3"))
    log.roll(NOW)
    clean(log)
    assert headers(log) == [(2, 3, 0), (4, 5, 2)]
    for file in tmp_path.glob("t-0/*.snapshot"):
        file.unlink()
    log = reopen(log)
    assert log.producers.entries[5].last_sequence == 3
    log.producers.clear(0)
    clean(log)
    assert headers(log) == [(4, 5, 2)]


def write(log: PartitionLog, producer: int, *sequences: int) -> None:
    """Write one record of that producer for each sequence, all with one key."""
    for sequence in sequences:
        put(log, ("a", f"{producer}.{sequence}"), producer_id=producer, producer_epoch=0, base_sequence=sequence)


@pytest.mark.parametrize("later", [1, 3, 12])
def test_a_producer_that_is_cut_back_goes_on_behind_what_was_cleaned(tmp_path: Path, later: int) -> None:
    """later: the producer's batches behind the cleaned part, which are taken away; more than are remembered, too."""
    log = compacted(tmp_path)
    write(log, 5, 0, 1, 2)
    put(log, ("a", "newer"))
    log.roll(NOW)
    end = log.log_end_offset
    write(log, 5, *range(3, 3 + later))
    clean(log)
    assert headers(log)[:2] == [(2, 2, 0), (3, 3, 1)]
    log.truncate_to(end)
    assert log.producers.entries[5].last_sequence == 2
    write(log, 5, 3)


def test_a_follower_of_a_cleaned_log_knows_its_producers(tmp_path: Path) -> None:
    """The leader has cleaned while a later batch of the producer was not committed; the follower gets all but that."""
    (tmp_path / "leader").mkdir()
    (tmp_path / "follower").mkdir()
    leader, follower = compacted(tmp_path / "leader"), compacted(tmp_path / "follower")
    write(leader, 5, 0)
    first = leader.read(0, 1 << 20, leader.high_watermark)
    assert first is not None
    follower.append_fetched(first.records.read(), NOW)
    write(leader, 5, 1, 2)
    put(leader, ("a", "newer"))
    leader.roll(NOW)
    end = leader.log_end_offset
    write(leader, 5, 3)
    clean(leader)
    while (rest := leader.read(follower.log_end_offset, 1 << 20, end)) is not None:
        follower.append_fetched(rest.records.read(), NOW)
    write(follower, 5, 3)


def test_a_batch_that_is_kept_in_doubt_goes_with_the_next_round(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    write(log, 5, 0, 1)
    log.roll(NOW)
    put(log, ("a", "newer"))
    log.roll(NOW)
    write(log, 5, *range(2, 12))
    clean(log, first_dirty=2)  # nothing tells which batch is the producer's last one below offset 2
    assert headers(log)[:3] == [(0, 0, 0), (1, 1, 0), (2, 2, 1)]
    log.roll(NOW)
    clean(log, first_dirty=3)
    assert headers(log) == [(12, 12, 1)]


def test_the_last_batch_of_a_round_stays_as_an_empty_one(tmp_path: Path) -> None:
    log = compacted(tmp_path, delete_retention_ms=0)
    put(log, ("a", None), ("b", None))
    log.roll(NOW)
    clean(log, now=NOW)
    clean(log, now=NOW + 1)
    assert headers(log) == [(0, 1, 0)]


def transaction(log: PartitionLog, producer: int, commit: bool, *pairs: tuple[str, str]) -> None:
    rows = [BatchRecord(number, NOW, key.encode(), value.encode()) for number, (key, value) in enumerate(pairs)]
    data = build_batch(rows, producer_id=producer, producer_epoch=0, transactional=True)
    log.append(data, NOW, origin=Origin.COORDINATOR)
    log.append(marker(producer, 0, commit=commit), NOW, origin=Origin.COORDINATOR)


def test_aborted_records_go_and_markers_follow_when_their_time_has_come(tmp_path: Path) -> None:
    log = compacted(tmp_path, delete_retention_ms=1000)
    put(log, ("a", "1"))
    transaction(log, 1, False, ("a", "aborted"))
    transaction(log, 2, True, ("b", "1"))
    transaction(log, 2, True, ("b", "2"))
    transaction(log, 1, True, ("c", "1"))
    log.roll(NOW)
    log.producers.clear(log.log_end_offset)
    clean(log, now=NOW)
    assert records(log) == [(0, "a", "1"), (5, "b", "2"), (7, "c", "1")]
    assert [aborted.first_offset for aborted in log.aborted_transactions(0, 9)] == [1]
    clean(log, now=NOW + 1)  # now no batch of the aborted transaction is there, so its marker gets its time
    assert [base for base, _, count in headers(log) if count] == [0, 2, 4, 5, 6, 7, 8]
    assert log.aborted_transactions(0, 9) == []
    clean(log, now=NOW + 1001)
    assert [base for base, _, count in headers(log) if count] == [0, 5, 6, 7, 8]


def test_what_was_aborted_before_the_part_that_is_cleaned_says_nothing_of_the_producers_next_transaction(
    tmp_path: Path,
) -> None:
    log = compacted(tmp_path)
    put(log, ("a", "1"), ("b", "1"))
    transaction(log, 1, False, ("a", "aborted"))  # 2 and its marker
    transaction(log, 1, True, ("a", "2"))  # 4 and its marker
    log.roll(NOW)
    clean(log, first_dirty=4)
    assert records(log) == [(1, "b", "1"), (4, "a", "2")]


def begin(log: PartitionLog, producer: int, *pairs: tuple[str, str]) -> None:
    """Append records of a transaction that stays open."""
    rows = [BatchRecord(number, NOW, key.encode(), value.encode()) for number, (key, value) in enumerate(pairs)]
    data = build_batch(rows, producer_id=producer, producer_epoch=0, transactional=True)
    log.append(data, NOW, origin=Origin.COORDINATOR)


def end(log: PartitionLog, producer: int, *, commit: bool) -> None:
    log.append(marker(producer, 0, commit=commit), NOW, origin=Origin.COORDINATOR)


def test_aborted_records_whose_marker_is_in_the_active_segment_supersede_nothing(tmp_path: Path) -> None:
    log = compacted(tmp_path, delete_retention_ms=1000)
    put(log, ("a", "committed"))
    begin(log, 1, ("a", "aborted"), ("b", "aborted"))
    log.roll(NOW)
    end(log, 1, commit=False)
    clean(log)
    assert records(log) == [(0, "a", "committed")]
    log.roll(NOW)
    clean(log, first_dirty=3)
    assert records(log) == [(0, "a", "committed")]


def test_a_marker_some_segments_later_is_found(tmp_path: Path) -> None:
    log = compacted(tmp_path, delete_retention_ms=1000)
    put(log, ("a", "0"))
    begin(log, 1, ("a", "aborted"))
    begin(log, 2, ("b", "1"))
    log.roll(NOW)
    put(log, ("c", "0"))
    log.roll(NOW)
    end(log, 2, commit=True)
    begin(log, 2, ("a", "aborted too"))
    log.roll(NOW)
    end(log, 1, commit=False)
    end(log, 2, commit=False)
    log.recovery_point = log.log_end_offset
    first = next(iter(log.segments))
    upper = log.segments[1].base_offset
    request = make_request(LogToClean(1.0, ("t", 0), log, 0, upper), NOW, 1 << 20, 1e300)
    assert [aborted.producer_id for aborted in request.aborted_later] == [1]
    assert swap_in(log, PartitionCleaner(log.segments.files.fs, request, lambda count: None).run(), NOW)
    assert log.segments[0] is not first
    kept = [(offset, key, value) for offset, key, value in records(log) if offset < upper]
    assert kept == [(0, "a", "0"), (2, "b", "1")]


def test_an_open_transaction_is_not_cleaned(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.roll(NOW)
    log.append(batch(producer_id=1, epoch=0, sequence=0, transactional=True, keys=[b"a"]), NOW)
    log.roll(NOW)
    put(log, ("a", "3"))
    log.roll(NOW)
    log.recovery_point = log.log_end_offset
    found = candidate(("t", 0), log, None, NOW)
    assert found is not None
    assert found.upper_offset == 2


def test_a_full_map_cleans_as_far_as_it_got(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for number in range(40):
        put(log, (f"k{number % 20}", "v" * 100))
    log.roll(NOW)
    first = clean(log, map_bytes=400)  # a slot takes 20 bytes, a batch 12 and a record one
    assert first.end_offset == 8
    assert [key for _, key, _ in records(log)][:8] == [f"k{number}" for number in range(8)]
    dirty = first.end_offset
    while dirty < 40:
        dirty = clean(log, dirty, map_bytes=400).end_offset
    assert [offset for offset, _, _ in records(log)] == list(range(20, 40))


def test_a_batch_that_is_larger_than_the_map_is_cleaned_all_the_same(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for _ in range(3):
        put(log, *((f"k{number}", "v") for number in range(100)))
    log.roll(NOW)
    dirty = 0
    for round_ in range(3):
        dirty = clean(log, dirty, map_bytes=400).end_offset
        assert dirty == 100 * (round_ + 1)
    assert [offset for offset, _, _ in records(log)] == list(range(200, 300))


def test_a_round_that_begins_in_the_middle_of_a_batch_asks_for_the_keys_before_it(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    put(log, ("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"))
    put(log, ("a", "2"), ("c", "2"), ("e", "1"))
    log.roll(NOW)
    clean(log, first_dirty=2)
    assert [(offset, key) for offset, key, _ in records(log)] == [(1, "b"), (3, "d"), (4, "a"), (5, "c"), (6, "e")]


def test_what_was_cleaned_before_loses_the_keys_that_came_again(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("c", "1"))
    log.roll(NOW)
    first = clean(log)
    put(log, ("b", "2"), ("c", "2"))
    log.roll(NOW)
    clean(log, first.end_offset)
    assert [(offset, key) for offset, key, _ in records(log)] == [(0, "a"), (3, "b"), (4, "c")]


def test_a_log_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for number in range(40):
        put(log, (f"k{number % 4}", "v" * 100))
    log.recovery_point = log.log_end_offset
    found = candidate(("t", 0), log, None, NOW)
    assert found is not None
    result = PartitionCleaner(FS, make_request(found, NOW, 1 << 20, 1e300), lambda count: None).run()
    log.delete_records_before(30)
    retain(log, NOW)
    before = records(log)
    assert not swap_in(log, result, NOW)
    assert records(log) == before
    assert not list(tmp_path.glob("t-0/*.cleaned"))


def test_long_keys_are_told_apart(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    put(log, ("a" * 40 + "1", "1"), ("a" * 40 + "2", "1"), ("a" * 40 + "1", "2"))
    log.roll(NOW)
    clean(log)
    assert [(offset, value) for offset, _, value in records(log)] == [(1, "1"), (2, "2")]


@pytest.mark.parametrize("content", [b"\xff" * 34, b"torn"])
def test_a_damaged_transaction_index_does_not_keep_a_log_from_being_cleaned(tmp_path: Path, content: bytes) -> None:
    """A log with a damaged transaction index is cleaned all the same.

    Kafka rebuilds such an index at the start; here nothing has read the index before the cleaning.
    """
    log = compacted(tmp_path, segment_bytes=400)
    for number in range(6):
        put(log, (f"k{number}", "aborted"), producer_id=1, producer_epoch=0, base_sequence=number, transactional=True)
        log.append(marker(1, 0, commit=False), NOW, origin=Origin.COORDINATOR)
        put(log, (f"k{number}", "good"))
    end = log.segments.active.base_offset
    log = reopen(log)
    log.close()
    for file in (tmp_path / "t-0").glob("*.txnindex"):
        file.write_bytes(content)
    log = reopen(log)
    clean(log)
    found = records(log)
    assert [value for offset, _, value in found if offset < end] == ["good"] * (end // 3)


def test_a_damaged_batch_leaves_no_half_done_files(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for number in range(80):
        put(log, (f"k{number}", "v" * 100))
    path = Path([each.log.path for each in log.segments][-3])
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedLog):
        clean(log, first_dirty=log.segments.active.base_offset - 1)
    assert not list(tmp_path.glob("**/*.cleaned"))
