"""Sequence numbers, epochs and markers, as appends meet them (KIP-98, KIP-360, KIP-890)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pykafka_broker.clock import Clock
from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import FileCache
from pykafka_broker.log.loading import Offsets, load_log
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.log.producer_state import CorruptSnapshot, decode_snapshot, encode_snapshot, snapshot_offsets
from pykafka_broker.protocol.errors import ErrorCode
from tests.log.support import NOW, Keeper, batch, marker, new_log, reopen

MAX = 0x7FFFFFFF


def produce(log: PartitionLog, sequence: int, count: int = 1, epoch: int = 0, **more: object) -> tuple[int, bool]:
    data = batch(count, producer_id=9, epoch=epoch, sequence=sequence, **more)  # type: ignore[arg-type]
    info = log.append(data, NOW)
    return info.base_offset, info.duplicate


def refused(log: PartitionLog, *args: int, **more: object) -> ErrorCode:
    end = log.log_end_offset
    with pytest.raises(ApiError) as caught:
        produce(log, *args, **more)  # type: ignore[arg-type]
    assert log.log_end_offset == end
    return caught.value.code


def test_the_last_five_batches_are_known_again(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for number in range(6):
        assert produce(log, number * 3, 3) == (number * 3, False)
    for number in range(1, 6):
        assert produce(log, number * 3, 3) == (number * 3, True)
    assert refused(log, 0, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, 15, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # same first, other last: not the same batch
    assert log.log_end_offset == 18


def test_the_last_batch_is_known_again_after_a_restart(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    produce(log, 0, 4)
    produce(log, 4, 2)
    log = reopen(log)
    assert produce(log, 4, 2) == (4, True)
    assert produce(log, 6) == (6, False)
    assert refused(log, 8) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(("sequence", "epoch"), [(7, 0), (3, 1)])
def test_a_producer_goes_on_after_a_restore_has_undone_its_latest_batches(
    sequence: int, epoch: int, tmp_path: Path
) -> None:
    log = new_log(tmp_path)
    produce(log, 0, 4)
    log = reopen(log)
    log.producers.restored_end = log.log_end_offset
    assert produce(log, 0, 4) == (0, True)
    assert produce(log, sequence, epoch=epoch) == (4, False)
    assert refused(log, sequence + 2, epoch=epoch) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_open_transaction_does_not_go_on_with_any_sequence_after_a_restore(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    produce(log, 0, transactional=True)
    log.producers.restored_end = log.log_end_offset
    assert refused(log, 5, transactional=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_at_the_greatest_int(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    produce(log, MAX - 1, 4)  # MAX-1, MAX, 0, 1
    assert produce(log, MAX - 1, 4) == (0, True)
    assert refused(log, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 2) == (4, False)
    exact = new_log(tmp_path / "exact")
    produce(exact, MAX)
    assert produce(exact, 0) == (1, False)


def test_an_unknown_producer_may_start_anywhere(tmp_path: Path) -> None:
    assert produce(new_log(tmp_path), 1234) == (0, False)


def test_epochs(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    produce(log, 0)
    assert refused(log, 1, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 0, epoch=1) == (1, False)
    assert refused(log, 1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert produce(log, 1, epoch=1) == (2, False)


def test_a_coordinator_writes_without_sequences(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(2):
        info = log.append(batch(producer_id=9, epoch=0, transactional=True), NOW, origin=Origin.COORDINATOR)
        assert not info.duplicate
    assert log.last_stable_offset == 0


def test_a_plain_batch_inside_a_transaction_is_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    produce(log, 0, transactional=True)
    assert refused(log, 1) is ErrorCode.INVALID_TXN_STATE


def end(log: PartitionLog, epoch: int, commit: bool = True, coordinator_epoch: int = 0, version: int = 0) -> int:
    data = marker(9, epoch, commit=commit, coordinator_epoch=coordinator_epoch)
    return log.append(data, NOW, origin=Origin.COORDINATOR, transaction_version=version).base_offset


def test_markers_are_fenced_by_both_epochs(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    produce(log, 0, epoch=3, transactional=True)
    with pytest.raises(ApiError) as caught:
        end(log, 2)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(log, 3, coordinator_epoch=5) == 1
    with pytest.raises(ApiError) as caught:
        end(log, 3, coordinator_epoch=4)
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert refused(log, 2, epoch=3, transactional=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 1, epoch=3, transactional=True) == (2, False)


def test_a_marker_of_version_two_carries_a_raised_epoch(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    produce(log, 0, transactional=True)
    with pytest.raises(ApiError) as caught:
        end(log, 0, version=2)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(log, 1, version=2) == 1
    assert end(log, 1, version=2) == 2  # the coordinator asks once more after a time-out
    assert refused(log, 1, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 0, epoch=1, transactional=True) == (3, False)


def test_idle_producers_are_forgotten_but_not_open_transactions(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(batch(producer_id=1, epoch=0, sequence=0), NOW)
    log.append(batch(producer_id=2, epoch=0, sequence=0, transactional=True), NOW)
    log.append(marker(3, 7, commit=True), NOW, origin=Origin.COORDINATOR)  # of a transaction without records here
    log.producers.expire(NOW + 999, 1000)
    assert {entry.producer_id for entry in log.producers.entries.values()} == {1, 2, 3}
    log.producers.expire(NOW + 1000, 1000)
    assert {entry.producer_id for entry in log.producers.entries.values()} == {2}


def test_a_log_that_begins_anew_below_its_last_snapshot_knows_nothing_of_it(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    produce(log, 0, 10)
    log.roll(NOW)
    log.raise_log_start(10)
    log.set_sole_replica(False)
    produce(log, 10, 1, transactional=True)
    log.append(marker(9, 0, commit=True), NOW, origin=Origin.COORDINATOR)
    log.truncate_or_restart(4, NOW)
    assert log.producers.first_unstable_offset is None, "the marker that had to be committed is gone"
    produce(log, 0)
    log.close()
    assert snapshot_offsets(os.listdir(log.directory)) == [5]


def test_last_stable_offset_after_a_restart_in_the_middle_of_transactions(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for producer in (5, 3, 4):
        log.append(batch(producer_id=producer, epoch=0, sequence=0, transactional=True), NOW)
    log = reopen(log)
    assert log.last_stable_offset == 0
    log.append(marker(5, 0, commit=False), NOW, origin=Origin.COORDINATOR)
    assert log.last_stable_offset == 1
    (aborted,) = log.aborted_transactions(0, 4)
    assert (aborted.first_offset, aborted.last_stable_offset) == (0, 1)


def test_a_snapshot_says_what_it_was_made_of(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    produce(log, 0, 5)
    log.append(batch(2, producer_id=7, epoch=1, sequence=9, transactional=True), NOW)
    first, second = decode_snapshot(encode_snapshot(log.producers))
    assert (first.producer_id, first.epoch, first.txn_first_offset, list(first.batches)) == (
        7,
        1,
        5,
        [(10, 6, 1, NOW + 1)],
    )
    assert (second.producer_id, second.last_sequence, second.coordinator_epoch) == (9, 4, -1)


def test_every_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    produce(log, 0)
    data = encode_snapshot(log.producers)
    for length in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(data[:length])
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(damaged))


def test_a_damaged_snapshot_costs_a_longer_read_and_nothing_else(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=500)
    for number in range(10):
        produce(log, number)
    log.close()
    snapshots = sorted(tmp_path.glob("t-0/*.snapshot"))
    assert len(snapshots) >= 2
    snapshots[-1].write_bytes(b"\0\1garbage")
    log = reopen(log)
    assert produce(log, 9) == (9, True)
    assert produce(log, 10) == (10, False)


GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_comes_behind_a_refused_beginning_does_not_begin_in_its_place(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for sequence in (4, 0, 4):
        log.producers.on_try(9, 0, sequence, False)
    assert refused(log, 4, transactional=True) is GAP
    log.producers.on_try(9, 1, 4, False)
    assert produce(log, 4, epoch=1, transactional=True) == (0, False)


def test_nor_does_what_is_in_no_transaction_until_one_has_begun(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.producers.on_try(9, 0, 0, False)
    assert refused(log, 1) is GAP
    assert produce(log, 0) == (0, False)
    assert refused(log, 1) is GAP
    log.producers.on_try(9, 1, 0, False)
    assert produce(log, 0, epoch=1, transactional=True) == (1, False)
    assert produce(log, 1, epoch=1, transactional=True) == (2, False)


def test_a_new_producer_that_joins_by_producing_begins_with_0(tmp_path: Path) -> None:
    """A new producer whose first try joins a transaction implicitly has to begin with sequence 0, as with Kafka."""
    for name, implicit, answers in (("joins", True, {1: GAP, 0: (0, False)}), ("old", False, {1: (0, False)})):
        log = new_log(tmp_path / name)
        log.producers.on_try(9, 0, 1, implicit)
        for sequence, answer in answers.items():
            ask = refused if answer is GAP else produce
            assert ask(log, sequence, transactional=True) == answer


def test_a_marker_ends_what_was_tried_but_not_for_the_transaction_that_comes_next(tmp_path: Path) -> None:
    for name, epoch, implicit, gone in (("old", 0, False, True), ("next", 1, True, False), ("late", 0, True, True)):
        log = new_log(tmp_path / name)
        log.producers.on_try(9, epoch, 0, implicit)
        log.append(marker(9, 1 if implicit else 0, commit=True), NOW, origin=Origin.COORDINATOR)
        later = produce if gone else refused
        produce(log, 0, epoch=1)
        assert later(log, 1, epoch=1) == ((2, False) if gone else GAP)


def test_once_the_beginning_is_in_the_log_nothing_is_left_of_what_was_tried(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.producers.on_try(9, 0, 0, False)
    produce(log, 0, transactional=True)
    assert produce(log, 1, transactional=True) == (1, False)


def names_of_snapshots(log: PartitionLog) -> list[int]:
    return snapshot_offsets(os.listdir(log.directory))


def test_each_stop_takes_the_place_of_the_snapshot_that_the_one_before_left(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=300)
    for sequence in range(8):
        log.append(batch(producer_id=1, epoch=0, sequence=sequence), NOW)
        log = reopen(log)
    bases = [segment.base_offset for segment in log.segments if segment.base_offset]
    assert bases
    assert names_of_snapshots(log) == [*bases, 8] if bases[-1] < 8 else bases


def test_a_snapshot_that_a_stop_left_goes_once_a_segment_begins_after_it(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(batch(3, producer_id=1, epoch=0, sequence=0), NOW)
    log = reopen(log)
    assert names_of_snapshots(log) == [3]
    log.append(batch(2, producer_id=1, epoch=0, sequence=3), NOW)
    log.roll(NOW)
    log.append(batch(1, producer_id=1, epoch=0, sequence=5), NOW)
    log = reopen(log)
    assert names_of_snapshots(log) == [5, 6]
    assert log.producers.entries[1].last_sequence == 5


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("start", [150, 299])
def test_the_batch_that_holds_the_logs_start_counts(tmp_path: Path, start: int, damaged: bool) -> None:
    log = new_log(tmp_path)
    log.append(batch(300, producer_id=1, epoch=0, sequence=0, transactional=True), NOW)
    log.delete_records_before(start)
    log = reopen(log)
    for file in Path(log.directory).glob("*.snapshot"):
        if damaged:
            file.write_bytes(b"torn")
        else:
            file.unlink()
    log = reopen_as_it_is(log)
    assert log.last_stable_offset == start
    assert log.producers.entries[1].last_sequence == 299
    log.append(marker(1, 0, commit=False), NOW)
    (aborted,) = log.aborted_transactions(start, 301)
    assert (aborted.first_offset, aborted.last_offset, aborted.last_stable_offset) == (0, 300, 301)


def test_the_batch_that_holds_the_start_counts_after_a_cut(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(batch(300, producer_id=1, epoch=0, sequence=0, transactional=True), NOW)
    log.delete_records_before(150)
    log.append(batch(2), NOW)
    log.truncate_to(300)
    assert log.producers.entries[1].last_sequence == 299
    assert log.last_stable_offset == 150


def reopen_as_it_is(log: PartitionLog) -> PartitionLog:
    """Load the folder once more, without writing anything to it before."""
    offsets = Offsets(log.log_start_offset, log.log_end_offset)
    files = FileCache(log.segments.files.fs)
    return load_log(files, log.directory, log.topic, log.partition, log.config, offsets, Clock(NOW), Keeper())
