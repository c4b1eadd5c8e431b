"""A log that takes over its leader's records."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka_broker.clock import Clock
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import EPOCHS_FILE
from pykafka_broker.log.compaction.filter import empty_batch
from pykafka_broker.log.filesystem import FileCache, is_passing, write_file
from pykafka_broker.log.leader_epochs import LeaderEpochs
from pykafka_broker.log.loading import Offsets, load_log, recover_folder
from pykafka_broker.log.log_directory import LogDirectory
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.log.producer_state import ProducerState, encode_snapshot, snapshot_name, snapshot_offsets
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import iter_batches, read_header
from tests.log.support import (
    TOPIC_ID,
    FailingFileSystem,
    Keeper,
    SweptFileSystem,
    batch,
    fetched,
    manager,
    marker,
    new_log,
    reopen,
    topic_config,
)

NOW = 1_700_000_000_000


@pytest.fixture
def leader(tmp_path: Path) -> PartitionLog:
    return new_log(tmp_path / "leader")


@pytest.fixture
def follower(tmp_path: Path) -> PartitionLog:
    return following(tmp_path)


def following(path: Path, fs: FailingFileSystem | None = None, **config: object) -> PartitionLog:
    log = new_log(path / "follower", fs, **config)
    log.sole_replica = False
    return log


def content(log: PartitionLog, start: int | None = None) -> bytes:
    """Return the bytes of all batches from `start` on."""
    pieces, offset = [], log.log_start_offset if start is None else start
    while (read := log.read(offset, 1 << 30, log.log_end_offset)) is not None:
        pieces.append(read.records.read())
        offset = read.end_offset
    return b"".join(pieces)


def catch_up(follower: PartitionLog, leader: PartitionLog) -> None:
    follower.append_fetched(content(leader, follower.log_end_offset), NOW)


def test_many_batches_arrive_with_every_byte(leader: PartitionLog, follower: PartitionLog) -> None:
    for count in (1, 5, 2):
        leader.append(batch(count), NOW)
    catch_up(follower, leader)
    assert content(follower) == content(leader)
    assert (follower.log_end_offset, follower.high_watermark) == (8, 0), "the leader says what is committed"


def test_batches_of_one_epoch_are_one_write(tmp_path: Path, leader: PartitionLog) -> None:
    fs = FailingFileSystem()
    follower = following(tmp_path, fs)
    for _ in range(20):
        leader.append(batch(), NOW)
    catch_up(follower, leader)
    assert len([call for call in fs.calls if call.startswith("write ") and call.endswith(".log")]) == 1


def test_epochs_grow_from_the_batches(leader: PartitionLog, follower: PartitionLog) -> None:
    for epoch in (0, 0, 3, 5, 5):
        leader.append(batch(2), NOW, leader_epoch=epoch)
    catch_up(follower, leader)
    assert follower.epochs.entries == leader.epochs.entries == [(0, 0), (3, 4), (5, 6)]


def test_segments_roll_as_their_size_demands(tmp_path: Path, leader: PartitionLog) -> None:
    follower = following(tmp_path, segment_bytes=300)
    for _ in range(10):
        leader.append(batch(), NOW)
    catch_up(follower, leader)
    assert content(follower) == content(leader)
    assert len(follower.segments) > 3
    assert all(segment.size <= 300 for segment in follower.segments)


def test_producers_and_their_transactions_are_known(leader: PartitionLog, follower: PartitionLog) -> None:
    leader.append(batch(2, producer_id=7, epoch=0, sequence=0, transactional=True), NOW)
    leader.append(batch(1, producer_id=8, epoch=1, sequence=0), NOW)
    leader.append(marker(7, 0, commit=False), NOW, origin=Origin.COORDINATOR)
    leader.append(batch(2, producer_id=7, epoch=0, sequence=2, transactional=True), NOW)
    catch_up(follower, leader)
    assert follower.producers.entries.keys() == {7, 8}
    assert follower.producers.first_unstable_offset == 0, "the marker is not committed yet"
    assert follower.aborted_transactions(0, 6) == leader.aborted_transactions(0, 6) != []
    follower.advance_high_watermark(3)
    assert follower.last_stable_offset == 0, "the marker itself is not committed yet"
    follower.advance_high_watermark(4)
    assert follower.last_stable_offset == 4
    with pytest.raises(ApiError) as caught:
        follower.append(batch(1, producer_id=8, epoch=1, sequence=5), NOW)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_whose_marker_a_cleaning_has_removed_opens_no_transaction(
    leader: PartitionLog, follower: PartitionLog
) -> None:
    leader.append(batch(), NOW)
    leader.append(marker(7, 0, commit=True), NOW, origin=Origin.COORDINATOR)
    before, ended = itertools.islice(iter_batches(content(leader)), 2)
    follower.append_fetched(bytes(before[1]) + empty_batch(ended[0]), NOW)
    follower.advance_high_watermark(2)
    for log in (follower, reloaded(follower)):
        assert (log.log_end_offset, log.last_stable_offset) == (2, 2)
        assert not log.producers.entries


def test_a_batch_that_is_cut_short_waits(leader: PartitionLog, follower: PartitionLog) -> None:
    for _ in range(3):
        leader.append(batch(), NOW)
    whole = content(leader)
    for cut in (1, len(whole) // 3 - 1, len(whole) // 3 - 50):
        follower.append_fetched(whole[len(whole) // 3 * follower.log_end_offset : -cut], NOW)
        assert follower.log_end_offset == 2
    follower.append_fetched(whole[len(whole) // 3 * 2 :], NOW)
    assert content(follower) == whole


def test_batches_of_a_newer_epoch_than_the_leaders_are_left(follower: PartitionLog) -> None:
    """A leader that is replaced while it answers may send what its log has there by now, of another history."""
    older, newer = fetched(0), fetched(1)
    struct.pack_into(">i", newer, 12, 6)
    follower.append_fetched(older + newer, NOW, leader_epoch=5)
    assert content(follower) == bytes(older)
    follower.append_fetched(newer, NOW, leader_epoch=5)
    assert content(follower) == bytes(older)
    follower.append_fetched(newer, NOW, leader_epoch=6)
    assert content(follower) == bytes(older + newer)


def test_damage_stops_at_the_batch_that_has_it(leader: PartitionLog, follower: PartitionLog) -> None:
    for _ in range(3):
        leader.append(batch(), NOW)
    whole = bytearray(content(leader))
    whole[-1] ^= 1
    with pytest.raises(CorruptBatch):
        follower.append_fetched(whole, NOW)
    assert follower.log_end_offset == 2
    assert content(follower) == bytes(whole[: len(whole) // 3 * 2])


def test_what_does_not_follow_is_refused(leader: PartitionLog, follower: PartitionLog) -> None:
    leader.append(batch(2), NOW)
    leader.append(batch(2), NOW)
    catch_up(follower, leader)
    with pytest.raises(CorruptBatch, match="where 4 is expected"):
        follower.append_fetched(content(leader, 2), NOW)
    assert follower.log_end_offset == 4


def test_a_gap_that_compaction_has_left_is_taken_over(leader: PartitionLog, follower: PartitionLog) -> None:
    for _ in range(3):
        leader.append(batch(2), NOW)
    follower.append_fetched(content(leader, 4), NOW)
    assert follower.log_end_offset == 6


def test_a_full_disk_takes_back_what_it_has_begun(tmp_path: Path, leader: PartitionLog) -> None:
    fs = FailingFileSystem()
    follower = following(tmp_path, fs)
    leader.append(batch(), NOW)
    catch_up(follower, leader)
    leader.append(batch(3), NOW)
    fs.failures = {"write .log": errno.ENOSPC}
    with pytest.raises(ApiError) as caught:
        catch_up(follower, leader)
    assert (caught.value.code, follower.log_end_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, 1)
    fs.failures = {}
    catch_up(follower, leader)
    assert content(follower) == content(leader)


def test_a_segment_begun_for_a_batch_that_found_no_room_takes_no_earlier_one(tmp_path: Path) -> None:
    """The leader's log was compacted and had a gap; the next leader's has records there."""
    fs = FailingFileSystem()
    follower = following(tmp_path, fs, segment_bytes=500)
    follower.append_fetched(fetched(0, 3, 100), NOW)
    fs.failures = {"write .log": errno.ENOSPC}
    with pytest.raises(ApiError):
        follower.append_fetched(fetched(50, 3, 100), NOW)
    fs.failures = {}
    for base_offset in (3, 4, 5, 60):
        follower.append_fetched(fetched(base_offset, 1, 150), NOW)
    before = content(follower)
    assert [each.base_offset for each in follower.segments] == [0, 3, 5]
    assert snapshot_offsets(os.listdir(follower.directory)) == [3, 5]
    folder, config, offsets = follower.directory, follower.config, Offsets(0, 0)
    recover_folder(FileCache(fs), folder, "t-0", config, offsets, NOW)
    again = load_log(FileCache(fs), folder, "t", 0, config, offsets, Clock(NOW), Keeper())
    assert (content(again), again.log_end_offset) == (before, 61)


def test_a_segment_that_is_written_to_again_mends_its_transaction_index(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    follower = following(tmp_path, fs, segment_bytes=500)
    origin = Origin.COORDINATOR
    follower.append(batch(3, producer_id=7, epoch=0, transactional=True), NOW, origin=origin)
    follower.roll(NOW)
    follower = reopen(follower)
    Path(follower.segments.first.transactions.file.path).write_bytes(b"torn")
    follower._unroll()
    follower.append(marker(7, 0, commit=False), NOW, origin=origin)
    assert len(follower.aborted_transactions(0, 4)) == len(reopen(follower).aborted_transactions(0, 4)) == 1


def test_a_segment_that_is_written_to_again_leaves_an_image_as_it_was(tmp_path: Path) -> None:
    """An image has hard links to the files of the segment that was complete when the image was made."""
    fs = FailingFileSystem()
    follower = following(tmp_path, fs, segment_bytes=1000, index_interval_bytes=1)
    for base_offset in (0, 3, 6):
        follower.append_fetched(fetched(base_offset, 3, 50), NOW)
    fs.failures = {"write .log": errno.ENOSPC}
    with pytest.raises(ApiError):
        follower.append_fetched(fetched(50, 3, 300), NOW)
    fs.failures = {}
    (tmp_path / "image").mkdir()
    links = {}
    for file in follower.segments.first.files():
        if os.path.exists(file.path):
            link = tmp_path / "image" / os.path.basename(file.path)
            os.link(file.path, link)
            links[link] = link.read_bytes()
    assert [link.suffix for link in links] == [".log", ".index", ".timeindex"]
    follower.append_fetched(fetched(9, 3, 50), NOW)
    follower.roll(NOW)
    assert [each.base_offset for each in follower.segments] == [0, 12]
    assert {link: link.read_bytes() for link in links} == links


def test_an_epoch_whose_first_append_has_failed_is_forgotten_with_a_cut_at_the_end(
    tmp_path: Path, leader: PartitionLog
) -> None:
    fs = FailingFileSystem()
    follower = following(tmp_path, fs)
    leader.append(batch(2), NOW)
    catch_up(follower, leader)
    leader.append(batch(), NOW, leader_epoch=5)
    fs.failures = {"write .log": errno.ENOSPC}
    with pytest.raises(ApiError):
        catch_up(follower, leader)
    fs.failures = {}
    assert follower.epochs.begins_at(follower.log_end_offset)
    follower.truncate_to(2)
    assert (follower.epochs.latest, follower.log_end_offset) == (0, 2)
    assert LeaderEpochs.load(fs, f"{follower.directory}/{EPOCHS_FILE}").entries == [(0, 0)]
    assert not follower.epochs.begins_at(follower.log_end_offset)


def test_a_log_begins_anew_where_the_leader_begins(leader: PartitionLog, follower: PartitionLog) -> None:
    leader.append(batch(2, producer_id=7, epoch=0, sequence=0), NOW)
    catch_up(follower, leader)
    follower.gap = 1
    follower.restart_at(100, NOW)
    assert follower.gap is None, "the gap was in the old log"
    assert follower.truncations == 1, "what was copied or is being synced of it counts no more"
    assert (follower.log_start_offset, follower.log_end_offset, follower.high_watermark) == (100, 100, 100)
    assert (follower.epochs.entries, len(follower.segments), dict(follower.producers.entries)) == ([], 1, {})
    follower.append(batch(), NOW)
    offsets = Offsets(follower.log_start_offset, follower.log_end_offset)
    follower.close()
    again = load_log(
        FileCache(follower.segments.files.fs),
        follower.directory,
        "t",
        0,
        follower.config,
        offsets,
        Clock(NOW),
        Keeper(),
    )
    assert (again.log_start_offset, again.log_end_offset, again.producers.entries) == (100, 101, {})


def open_transaction(log: PartitionLog) -> None:
    log.append(batch(2, producer_id=7, epoch=0, sequence=0, transactional=True), NOW)


@pytest.mark.parametrize("cut", [False, True])
def test_a_log_that_begins_anew_knows_no_transaction_of_before(tmp_path: Path, cut: bool) -> None:
    follower = following(tmp_path)
    open_transaction(follower)
    follower = reopen(follower)  # the stop left a snapshot that is of no segment's base
    follower.restart_at(100, NOW)
    assert snapshots(follower) == []
    follower.append(batch(), NOW)
    follower.append(batch(), NOW)
    if cut:
        follower.truncate_to(101)
    else:
        follower = recovered(follower)
    assert follower.producers.first_unstable_offset is None
    assert dict(follower.producers.entries) == {}


def test_a_crash_while_a_log_begins_anew_leaves_nothing_of_the_transaction_or_all(tmp_path: Path) -> None:
    """Each call of the file system in turn is the one before which the process dies."""
    seen = set()
    for nth in itertools.count(1):
        fs = SweptFileSystem()
        follower = following(tmp_path / str(nth), fs, segment_bytes=300)
        open_transaction(follower)
        for _ in range(6):
            follower.append(batch(), NOW)
        follower = reopen(follower)
        fs.die_at(nth)
        try:
            follower.restart_at(100, NOW)
        except OSError:
            starts = follower.segments.first.base_offset, follower.log_start_offset
            assert starts[0] <= starts[1] <= follower.high_watermark, "the log starts in a segment that it has"
        else:
            break
        fs.live()
        again = recovered(follower)
        seen.add(again.log_end_offset)
        if again.log_end_offset == 100:
            assert again.producers.first_unstable_offset is None
        else:
            assert again.log_end_offset <= 8
            again.restart_at(100, NOW)
        assert again.last_stable_offset == again.log_start_offset == 100
    assert seen >= {7, 8}, "the last segment, which starts at 7, was gone or not"


def test_a_crash_while_a_log_begins_anew_is_no_loss_of_what_was_synced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen = set()
    for nth in itertools.count(1):
        fs = SweptFileSystem()
        logs = manager(tmp_path / str(nth), fs)
        logs.topic_config = lambda topic: topic_config(segment_bytes=300)
        logs.start(NOW)
        log = logs.create("t", 0, TOPIC_ID, NOW)
        for _ in range(8):
            log.append(batch(), NOW)
        log.delete_records_before(3)
        logs.flush(log, NOW)
        logs.on_deadline(NOW + 60_000)
        assert directory_offsets(logs) == (3, 8)
        fs.die_at(nth)
        try:
            log.restart_at(100, NOW)
        except OSError:
            pass
        else:
            break
        fs.live()
        logs.directories[0].release()
        again = manager(tmp_path / str(nth), fs)
        again.start(NOW)
        seen.add(bounds(again.get("t", 0)))
        assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
        again.directories[0].release()
    assert seen >= {(3, 8), (3, 3), (100, 100)}


def directory_offsets(logs: LogManager) -> tuple[int, int]:
    """Return what the checkpoints say: where the log starts, and up to where it was synced."""
    fresh = LogDirectory(logs.fs, logs.directories[0].path)
    fresh.read_state()
    return fresh.offsets(("t", 0))[:2]


@pytest.mark.parametrize("operation", ["rename", "remove", "open"])
def test_what_a_full_disk_kept_from_beginning_anew_does_so_later(tmp_path: Path, operation: str) -> None:
    fs = FailingFileSystem()
    follower = following(tmp_path, fs, segment_bytes=300)
    for sequence in range(6):
        follower.append(batch(1, producer_id=7, epoch=0, sequence=sequence), NOW)
    follower = reopen(follower)
    fs.failures = {operation: errno.ENOSPC}
    with pytest.raises(OSError, match="No space"):
        follower.restart_at(100, NOW)
    fs.failures = {}
    follower.restart_at(100, NOW)
    assert (follower.log_start_offset, follower.log_end_offset, len(follower.segments)) == (100, 100, 1)
    follower.append(batch(), NOW)
    assert (reopen(follower).log_start_offset, reopen(follower).log_end_offset) == (100, 101)


@pytest.mark.parametrize("operation", ["rename", "remove", "open"])
def test_what_a_full_disk_kept_from_a_cut_below_its_start_is_cut_later(tmp_path: Path, operation: str) -> None:
    fs = FailingFileSystem()
    follower = following(tmp_path, fs)
    follower.restart_at(50, NOW)
    follower.append(batch(5), NOW)
    follower = reopen(follower)
    fs.failures = {operation: errno.ENOSPC}
    with pytest.raises(OSError, match="No space"):
        follower.truncate_or_restart(30, NOW)
    assert follower.log_end_offset == 55, "the next answer of the leader has the log cut again"
    fs.failures = {}
    follower.truncate_or_restart(30, NOW)
    follower.append_fetched(fetched(30, 2, 100), NOW)
    assert bounds(follower) == bounds(reopen(follower)) == (30, 32)


def test_readers_of_a_deleted_segment_keep_it_when_another_one_of_its_offset_is_deleted(tmp_path: Path) -> None:
    """Two segments of one base offset may wait for their removal, and the cache may close the files meanwhile."""
    log = following(tmp_path, segment_bytes=100)
    records, expected = [], []
    for text in ("one", "other"):
        for _ in range(2):
            log.append(batch(1, len(text)), NOW)
        read = log.read(1, 1000, 2)
        assert read is not None
        records.append(read.records)
        expected.append(read.records.read())
        log.truncate_to(1)
    keeper = log.keeper
    assert isinstance(keeper, Keeper)
    for segment in keeper.deleted:
        segment.log.close()
    assert [each.read() for each in records] == expected
    keeper.deleted[0].remove()
    assert records[1].read() == expected[1]


@pytest.mark.parametrize("operation", ["rename", "sync_directory"])
@pytest.mark.parametrize("offset", [2, 100])
def test_a_begin_anew_that_the_disk_has_interrupted_is_finished_before_anything_else(
    tmp_path: Path, operation: str, offset: int
) -> None:
    """Otherwise the next records would go into files that are called deleted."""
    fs = FailingFileSystem()
    follower = following(tmp_path, fs, segment_bytes=300)
    for _ in range(6):
        follower.append(batch(), NOW)
    follower.advance_high_watermark(6)
    follower.raise_log_start(3)
    fs.failures = {operation: errno.ENOSPC}
    with pytest.raises(OSError, match="No space"):
        follower.truncate_or_restart(offset, NOW) if offset < 3 else follower.restart_at(offset, NOW)
    fs.failures = {}
    follower.synced_to(6, NOW)
    assert follower.recovery_point == 0
    follower.finish_cut(NOW)
    assert follower.interrupted_cut is None
    follower.append_fetched(fetched(offset, 2, 100), NOW)
    assert bounds(follower) == bounds(reopen(follower)) == (offset, offset + 2)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_a_cut_that_the_disk_has_interrupted_is_made_whole_by_the_next_call(tmp_path: Path, number: int) -> None:
    def filled(path: Path, fs: FailingFileSystem) -> PartitionLog:
        log = following(path, fs, segment_bytes=500)
        for sequence in range(12):
            log.append(batch(1, 50, producer_id=7, epoch=0, sequence=sequence), NOW, leader_epoch=sequence // 4)
        log.advance_high_watermark(12)
        return reopen(log)

    def state(log: PartitionLog) -> tuple[object, ...]:
        return bounds(log), log.high_watermark, encode_snapshot(log.producers), log.epochs.entries, content(log)

    wanted = filled(tmp_path / "wanted", FailingFileSystem())
    wanted.truncate_to(6)
    interrupted = 0
    for nth in itertools.count(1):
        fs = SweptFileSystem()
        log = filled(tmp_path / str(nth), fs)
        fs.fail_at(nth, number)
        try:
            log.truncate_to(6)
        except OSError:
            interrupted += 1
            log.truncate_to(6) if log.interrupted_cut is None else log.finish_cut(NOW)
        assert log.interrupted_cut is None
        fs.live()
        assert state(log) == state(wanted), fs.failed
        if not fs.failed:
            break
        assert state(reopen(log)) == state(wanted), fs.failed
    assert interrupted > 10


def test_a_sync_that_fails_in_a_cut_is_not_repeated(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    follower = following(tmp_path, fs)
    for _ in range(3):
        follower.append(batch(), NOW)
    fs.failures = {"sync 0.log": errno.ENOSPC}
    with pytest.raises(OSError, match="sync failed") as failure:
        follower.truncate_to(2)
    assert not is_passing(failure.value)


def test_a_log_that_can_not_begin_anew_on_a_full_disk_has_lost_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The checkpoint still says what was synced, so the log must not lose that while the disk is full."""
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    logs.topic_config = lambda topic: topic_config(segment_bytes=300)
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for _ in range(8):
        log.append(batch(), NOW)
    logs.flush(log, NOW)
    logs.on_deadline(NOW + 60_000)
    fs.failures = {"open": errno.ENOSPC}
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            log.restart_at(100, NOW)
    fs.failures = {}
    logs.directories[0].release()
    again = manager(tmp_path)
    again.start(NOW)
    assert bounds(again.get("t", 0)) == (0, 8)
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def snapshots(log: PartitionLog) -> list[int]:
    return snapshot_offsets(os.listdir(log.directory))


def recovered(log: PartitionLog) -> PartitionLog:
    """Load a log as after a kill of the process."""
    offsets = Offsets(log.log_start_offset, 0)
    files = FileCache(log.segments.files.fs)
    found = recover_folder(files, log.directory, "t-0", log.config, offsets, NOW)
    offsets = Offsets(offsets.log_start_offset, found.log_end_offset)
    return load_log(files, log.directory, "t", 0, log.config, offsets, Clock(NOW), Keeper())


def test_a_log_does_not_begin_anew_below_its_end(leader: PartitionLog) -> None:
    leader.append(batch(2), NOW)
    with pytest.raises(ApiError):
        leader.restart_at(1, NOW)
    assert leader.log_end_offset == 2


def reloaded(log: PartitionLog) -> PartitionLog:
    """Return the log as it is after a stop and a start."""
    offsets = Offsets(log.log_start_offset, log.log_end_offset)
    log.close()
    return load_log(FileCache(log.segments.files.fs), log.directory, "t", 0, log.config, offsets, Clock(NOW), Keeper())


def bounds(log: PartitionLog) -> tuple[int, int]:
    return log.log_start_offset, log.log_end_offset


@pytest.fixture
def trimmed(leader: PartitionLog) -> PartitionLog:
    """A leader with offsets 0-1 and 2-31 in two batches of different epochs, whose log starts at 10."""
    leader.append(batch(2), NOW)
    leader.append(batch(30, producer_id=7, epoch=0, sequence=0), NOW, leader_epoch=1)
    leader.delete_records_before(10)
    return leader


def test_a_batch_that_holds_the_end_of_an_empty_log_is_taken_whole(
    trimmed: PartitionLog, follower: PartitionLog
) -> None:
    follower.restart_at(10, NOW)
    follower.append_fetched(content(trimmed), NOW)
    assert (bounds(follower), follower.epochs.entries) == ((2, 32), [(1, 2)])
    assert follower.truncations > 1, "a copy between directories goes by positions"
    follower.raise_log_start(10)
    assert content(follower) == content(trimmed)
    assert follower.epochs.entries == trimmed.epochs.entries == [(1, 10)]
    assert follower.producers.entries.keys() == {7}
    again = reloaded(follower)
    assert (bounds(again), again.epochs.entries, again.producers.entries.keys()) == ((10, 32), [(1, 10)], {7})


def test_a_batch_that_holds_the_end_of_another_history_is_taken_whole(
    trimmed: PartitionLog, follower: PartitionLog
) -> None:
    """Ten records that nobody else has end where the leader starts, after DeleteRecords: no epoch tells them apart."""
    for _ in range(5):
        follower.append(batch(2), NOW)
    with pytest.raises(CorruptBatch, match="where 10 is expected"):
        follower.append_fetched(content(trimmed), NOW)
    follower.append_fetched(content(trimmed), NOW, trimmed.log_start_offset)
    follower.advance_high_watermark(32)
    follower.raise_log_start(10)
    assert (bounds(follower), content(follower)) == ((10, 32), content(trimmed))
    again = reloaded(follower)
    assert (bounds(again), content(again)) == ((10, 32), content(trimmed))


def test_a_batch_that_holds_the_end_is_taken_where_older_segments_are_left(
    trimmed: PartitionLog, follower: PartitionLog
) -> None:
    follower.append(batch(2), NOW)
    follower.roll(NOW, 10)
    follower.log_start_offset = follower.log_end_offset = 10  # as a recovery leaves it that has lost what was behind
    follower.advance_high_watermark(10)
    follower.append_fetched(content(trimmed), NOW)
    follower.raise_log_start(10)
    assert (bounds(follower), content(follower)) == ((10, 32), content(trimmed))
    assert bounds(reloaded(follower)) == (10, 32)


@pytest.mark.parametrize("what", ["it is cut short", "its end is here", "it is damaged"])
def test_a_batch_that_does_not_hold_the_end_leaves_the_log_alone(
    trimmed: PartitionLog, follower: PartitionLog, what: str
) -> None:
    follower.restart_at(32 if what == "its end is here" else 10, NOW)
    data = bytearray(content(trimmed))
    if what == "it is cut short":
        follower.append_fetched(data[:-1], NOW)
    else:
        data[-1] ^= what == "it is damaged"
        with pytest.raises(CorruptBatch):
            follower.append_fetched(data, NOW)
    assert follower.log_start_offset == follower.log_end_offset == (32 if what == "its end is here" else 10)


def test_a_disk_that_fails_while_the_log_steps_back_is_told(tmp_path: Path, trimmed: PartitionLog) -> None:
    fs = FailingFileSystem()
    follower = following(tmp_path, fs)
    follower.restart_at(10, NOW)
    fs.failures = {"rename .log": errno.EIO}
    with pytest.raises(ApiError) as caught:
        follower.append_fetched(content(trimmed), NOW)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_wherever_a_step_back_is_interrupted_the_next_start_goes_on(tmp_path: Path, trimmed: PartitionLog) -> None:
    """Each call of the file system in turn is the one before which the process dies."""
    seen = set()
    for nth in itertools.count(1):
        fs = SweptFileSystem()
        follower = following(tmp_path / str(nth), fs)
        follower.append(batch(), NOW)
        follower.restart_at(10, NOW)
        fs.die_at(nth)
        try:
            follower.append_fetched(content(trimmed), NOW)
        except ApiError:
            pass
        else:
            break
        fs.live()
        where, config = (FileCache(fs), follower.directory), follower.config
        end = recover_folder(*where, "t-0", config, Offsets(10, 2), NOW).log_end_offset
        again = load_log(*where, "t", 0, config, Offsets(10, end), Clock(NOW), Keeper())
        seen.add(bounds(again))
        if again.log_end_offset == 10:
            again.append_fetched(content(trimmed), NOW)
        again.raise_log_start(10)
        assert content(again) == content(trimmed)
    assert (10, 10) in seen


def test_a_log_that_is_cut_within_a_batch_ends_where_its_last_batch_does(
    leader: PartitionLog, follower: PartitionLog
) -> None:
    leader.append(batch(2), NOW)
    leader.append(batch(20), NOW)
    catch_up(follower, leader)
    follower.advance_high_watermark(2)
    follower.truncate_or_restart(10, NOW)
    assert (bounds(follower), follower.high_watermark, len(follower.segments)) == ((0, 2), 2, 1)
    assert bounds(reloaded(follower)) == (0, 2)


@pytest.mark.parametrize(("offset", "known"), [(6, True), (5, False)])
def test_a_log_that_is_cut_at_a_segment_keeps_what_its_snapshot_knows(
    leader: PartitionLog, follower: PartitionLog, offset: int, known: bool
) -> None:
    """Kafka's cleaner takes a producer's last batch of a segment away if the producer has a later one: the snapshot at
    the next segment alone knows its sequence number then.
    """
    leader.append(batch(5), NOW)
    leader.append(batch(), NOW)
    catch_up(follower, leader)
    follower.roll(NOW)
    leader.append(batch(2, producer_id=8, epoch=0, sequence=0), NOW)
    catch_up(follower, leader)
    cleaned = ProducerState("t-0")
    cleaned.apply(read_header(memoryview(batch(3, producer_id=7, epoch=0, sequence=0)), 0), 3)
    write_file(
        follower.segments.files.fs, f"{follower.directory}/{snapshot_name(6)}", encode_snapshot(cleaned), sync=False
    )
    follower.truncate_to(offset)
    for log in (follower, reloaded(follower)):
        assert log.log_end_offset == offset
        assert [entry.last_sequence for entry in log.producers.entries.values()] == ([2] if known else [])


@pytest.mark.parametrize(("offset", "left"), [(20, 10), (10, 10), (5, 5), (0, 0)])
def test_a_log_that_is_cut_to_nothing_begins_anew(
    trimmed: PartitionLog, follower: PartitionLog, offset: int, left: int
) -> None:
    follower.append_fetched(content(trimmed), NOW)
    follower.advance_high_watermark(10)
    follower.raise_log_start(10)
    follower.truncate_or_restart(offset, NOW)
    assert (bounds(follower), follower.high_watermark) == ((left, left), left)
    assert (follower.epochs.entries, dict(follower.producers.entries)) == ([], {})
    follower = reloaded(follower)
    assert (bounds(follower), dict(follower.producers.entries)) == ((left, left), {})
    follower.append(batch(3), NOW)
    assert bounds(reloaded(follower)) == (left, left + 3)


def test_what_was_known_of_the_high_watermark_is_where_it_begins(leader: PartitionLog) -> None:
    leader.append(batch(4), NOW)
    end = leader.log_end_offset
    for known, expected in ((2, 2), (100, end), (None, end)):
        leader.close()
        log = load_log(
            FileCache(leader.segments.files.fs),
            leader.directory,
            "t",
            0,
            leader.config,
            Offsets(0, end, known),
            Clock(NOW),
            Keeper(),
        )
        assert (log.high_watermark, log.last_stable_offset) == (expected, expected)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(20, 200)), max_size=12), st.data())
def test_however_answers_are_cut_the_logs_are_equal(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("logs")
    leader, follower = new_log(path / "leader", segment_bytes=700), following(path, segment_bytes=500)
    epoch = 0
    for count, rise, size in batches:
        epoch += rise
        leader.append(batch(count, size // count), NOW, leader_epoch=epoch)
    while follower.log_end_offset < leader.log_end_offset:
        rest = content(leader, follower.log_end_offset)
        follower.append_fetched(rest[: data.draw(st.integers(read_header(rest).size, len(rest)))], NOW)
    assert content(follower) == content(leader)
    assert follower.epochs.entries == leader.epochs.entries
