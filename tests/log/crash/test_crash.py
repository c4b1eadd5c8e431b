"""Power cuts after every single operation of a busy broker: what was promised is there, and nothing is made up."""

from __future__ import annotations

import contextlib
import zlib

import pytest

from pykafka_broker.log import loading
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.records.control import read_end_transaction_marker
from pykafka_broker.records.header import check_crc, iter_batches, read_header
from pykafka_broker.testing.simulation.disk import CrashFileSystem
from tests.log.crash.seen import Seen
from tests.log.crash.workload import Promises, Workload, open_manager
from tests.log.support import NOW, batch, errors_of

SEEDS = 2


def check(fs: CrashFileSystem, promises: Promises) -> None:
    """Start on the disk that the crash left and assert that every promise holds and nothing synced is missed."""
    logs = open_manager(fs)
    with errors_of(loading.logger) as errors:
        logs.start(NOW)
    assert not errors
    for directory in logs.directories:
        assert directory.online, directory.error
    found = set(logs.partitions())
    for key, end in promises.synced.items():
        assert key in found or promises.start.get(key, 0) >= end, f"{key} is lost"
    for key in sorted(found - promises.gone):
        log = logs.get(*key)
        start = promises.start.get(key, 0)
        synced = promises.synced.get(key, 0)
        if log.topic_id != promises.ids[key]:
            assert not synced, f"{key} is of another topic"
            continue
        assert log.log_start_offset <= max(start, synced), f"{key} starts at {log.log_start_offset}"
        assert log.log_end_offset >= synced, f"{key} ends at {log.log_end_offset}, but was synced up to {synced}"
        read_back(log, promises.appended.get(key, {}), start, synced)
        check_aborted(log)
        goes_on(log)


def check_aborted(log: PartitionLog) -> None:
    """Assert that the transaction index names the aborted transactions that the log's own markers end."""
    opened: dict[int, int] = {}
    expected = []
    offset = log.log_start_offset
    while (read := log.read(offset, 1 << 20, log.log_end_offset)) is not None:
        for header, data in iter_batches(read.records.read()):
            offset = header.next_offset
            marker = read_end_transaction_marker(data, header) if header.is_control else None
            if marker is not None:
                first = opened.pop(marker.producer_id, None)
                # the log may begin in the middle of a batch
                if first is not None and first >= log.log_start_offset and not marker.commit:
                    expected.append((first, header.base_offset))
            elif header.is_transactional:
                opened.setdefault(header.producer_id, header.base_offset)
    found = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    known = [(one.first_offset, one.last_offset) for one in found if one.first_offset >= log.log_start_offset]
    assert known == expected, f"{log}: {known}, not {expected}"


def read_back(log: PartitionLog, appended: dict[int, bytes], start: int, synced: int) -> None:
    """Assert that every batch was appended there, with gaps only where a segment's whole tail was not synced."""
    offset = log.log_start_offset
    bases = {segment.base_offset for segment in log.segments}
    while (read := log.read(offset, 1 << 20, log.high_watermark)) is not None:
        for header, data in iter_batches(read.records.read()):
            check_crc(data, header)
            assert bytes(data) == appended.get(header.base_offset), f"{log}: made up at {header.base_offset}"
            if header.last_offset >= start:  # batches below are deleted, though perhaps not yet on disk
                known = log.epochs.epoch_at(header.last_offset)
                assert known == header.partition_leader_epoch, f"{log}: {known} of {log.epochs.entries} for {header}"
            gap = header.base_offset > offset
            assert not gap or (offset >= synced and header.base_offset in bases), f"{log}: a gap from {offset}"
            offset = header.next_offset
    assert offset == log.log_end_offset or (offset >= synced and log.log_end_offset in bases)
    for wanted in range(max(start, log.log_start_offset), synced):
        read = log.read(wanted, 1, log.high_watermark)
        assert read is not None
        header = read_header(read.records.read())
        assert header.base_offset <= wanted <= header.last_offset


def goes_on(log: PartitionLog) -> None:
    """Assert that the producers' state is that of the log: the last batch is a duplicate, the next one fits."""
    entry = log.producers.entries.get(1)
    if entry is not None and entry.batches:
        last = entry.batches[-1]
        again = batch(last.offset_delta + 1, producer_id=1, epoch=0, sequence=last.first_sequence)
        assert log.append(again, NOW).duplicate
        log.append(batch(producer_id=1, epoch=0, sequence=last.last_sequence + 1), NOW)
    assert log.last_stable_offset == log.high_watermark or log.producers.first_unstable_offset is not None


class PowerCut(BaseException):
    """A power cut in the middle of the recovery."""


def interrupt(fs: CrashFileSystem, operations: int, seed: int) -> CrashFileSystem:
    """Recover from a crash until the power fails again after `operations` operations; return what is left then."""

    def count(what: str) -> None:
        nonlocal operations
        operations -= 1
        if operations < 0:
            raise PowerCut

    fs.on_operation = count
    with contextlib.suppress(PowerCut):
        open_manager(fs).start(NOW)
    fs.on_operation = None
    return fs.after_crash(seed)


@pytest.mark.whole
def test_a_crash_after_every_operation(crash_seed: int) -> None:
    workload = Workload(crash_seed)
    checked = 0
    seen = Seen()

    def look(fs: CrashFileSystem) -> None:
        if seen.is_new(fs, workload.promises.so_far()):
            check(fs, workload.promises)

    def crash(what: str) -> None:
        nonlocal checked
        checked += 1
        look(workload.fs.after_crash(zlib.crc32(what.encode()) + checked))
        if checked % 2:
            look(workload.fs.after_crash())
        if checked % 5 == 0:
            look(workload.fs.after_crash(keep=True))
            look(interrupt(workload.fs.after_crash(checked), workload.random.randrange(20), checked))

    workload.fs.on_operation = crash
    workload.run(60)
    assert checked > 300
    assert len(workload.did) > 10
