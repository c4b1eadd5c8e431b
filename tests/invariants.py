"""Invariants of logs and groups, asserted where their state is written and where it is read.

Rule: production code pays nothing for these assertions: `install` puts functions around methods of `PartitionLog`,
`Partition` and `Reconciliation`, in tests and in the simulation only. A write is compared with what was known before,
and a read with what was written: the batch that is handed out holds the offset that was asked for, lies within the log,
below the offset that the reader may see, and in the leader epoch that the epoch cache names for it. A leader commits
nothing that a required replica lacks. No partition is given to a member of a group while another one has it. Names are
Kafka's: log start offset, last stable offset, high watermark, log end offset, recovery point, leader epoch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.coordinators.groups.consumer import Reconciliation
from pykafka_broker.coordinators.groups.consumer_group import UNOWNED
from pykafka_broker.log.filesystem import FileSlice
from pykafka_broker.log.index import AbortedTransaction
from pykafka_broker.log.log_directory import METADATA_TOPIC
from pykafka_broker.log.partition_log import AppendInfo, Origin, PartitionLog
from pykafka_broker.log.segments import LogRead
from pykafka_broker.records.header import HEADER_SIZE, BatchHeader, read_header

_INSTALLED = "__invariants__"


def install() -> None:
    """Assert from now on, in this process. A second call does nothing."""
    if getattr(PartitionLog.append, _INSTALLED, False):
        return
    _around(PartitionLog, "__init__", _made)
    _around(PartitionLog, "append", _append)
    _around(PartitionLog, "read", _read)
    _around(PartitionLog, "aborted_transactions", _aborted_transactions)
    _around(PartitionLog, "advance_high_watermark", _advance_high_watermark)
    for name in ("roll", "synced_to", "delete_records_before", "delete_oldest", "truncate_to"):
        _around(PartitionLog, name, _changed)
    for name in ("append", "advance"):
        _around(Partition, name, _committed_by_leader)
    _around(Partition, "_propose", _propose)
    _around(Partition, "know_committed", _know_committed)
    _around(Reconciliation, "step", _reconciled)


def _around(owner: type, name: str, assertion: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def asserting(self: Any, *args: Any, **options: Any) -> Any:
        return assertion(original, self, *args, **options)

    setattr(asserting, _INSTALLED, True)
    setattr(owner, name, asserting)


def check(log: PartitionLog) -> None:
    """Assert the order of a log's offsets, leader epochs and segments."""
    start, end, high_watermark = log.log_start_offset, log.log_end_offset, log.high_watermark
    known = f"{log}: high watermark {high_watermark}, recovery point {log.recovery_point}"
    assert 0 <= start <= log.last_stable_offset <= high_watermark <= end, known
    assert 0 <= log.recovery_point <= end, known
    first = log.segments.first.base_offset
    # A log that was cut below its first segment holds nothing, and begins anew with the next call.
    assert first <= start or start == end, f"{known}: the first segment is {first}"
    sizes = [segment.size for segment in log.segments]
    assert log.segments.size_bytes == sum(sizes), f"{known}: {log.segments.size_bytes} bytes, segments of {sizes}"
    entries = log.epochs.entries
    for (epoch, at), (next_epoch, next_at) in pairwise(entries):
        assert epoch < next_epoch, f"{known}: epochs {entries}"
        assert at < next_at, f"{known}: epochs {entries}"
    assert not entries or entries[-1][1] <= end, f"{known}: epochs {entries}"


def _made(original: Callable[..., None], log: PartitionLog, *args: Any, **options: Any) -> None:
    original(log, *args, **options)
    check(log)


def _changed(original: Callable[..., Any], log: PartitionLog, *args: Any, **options: Any) -> Any:
    start, high_watermark, end = log.log_start_offset, log.high_watermark, log.log_end_offset
    truncations, recovery_point = log.truncations, log.recovery_point
    result = original(log, *args, **options)
    check(log)
    if log.truncations == truncations:
        assert log.log_start_offset >= start, f"{log}: the log start offset went down from {start}"
        assert log.high_watermark >= high_watermark, f"{log}: the high watermark went down from {high_watermark}"
        assert log.recovery_point >= recovery_point, f"{log}: the recovery point went down from {recovery_point}"
        # A sync answers those who wait for it, and they may append.
        assert log.log_end_offset >= end, f"{log}: the log end offset went down from {end}"
    return result


def _append(
    original: Callable[..., AppendInfo], log: PartitionLog, batch: Any, *args: Any, **options: Any
) -> AppendInfo:
    start, high_watermark, end = log.log_start_offset, log.high_watermark, log.log_end_offset
    info = original(log, batch, *args, **options)
    assert log.log_start_offset == info.log_start_offset == start
    if info.duplicate:
        assert log.log_end_offset == end
        return info
    header = read_header(batch)
    replicated = options.get("origin") is Origin.REPLICATION
    assert info.base_offset > end if replicated and info.base_offset != end else info.base_offset == end
    assert (header.base_offset, header.last_offset) == (info.base_offset, info.last_offset)
    assert log.log_end_offset == info.last_offset + 1
    assert log.high_watermark >= high_watermark
    assert log.segments.active.base_offset <= info.base_offset
    assert header.partition_leader_epoch <= log.epochs.latest
    return info


def _read(
    original: Callable[..., LogRead | None], log: PartitionLog, offset: int, max_bytes: int, upper: int, **options: Any
) -> LogRead | None:
    found = original(log, offset, max_bytes, upper, **options)
    assert log.log_start_offset <= offset <= log.log_end_offset
    if found is not None:
        records = found.records
        assert len(records) > 0
        try:
            header = _first_header(records)
        except OSError:  # the disk has failed: whoever sends these records meets that
            return found
        assert header.last_offset >= offset, f"{log}: {header.base_offset} to {header.last_offset} for {offset}"
        assert offset < found.end_offset <= min(upper, log.log_end_offset) or header.last_offset < upper
        assert header.last_offset < log.log_end_offset
        _check_epoch(log, header)
    return found


def _first_header(records: FileSlice) -> BatchHeader:
    """Return the header of the first batch, read past a file system that counts reads or fails them."""
    handle = records.file.handle()
    return read_header(getattr(handle, "_inner", handle).read_at(HEADER_SIZE, records.position))


def _check_epoch(log: PartitionLog, header: BatchHeader) -> None:
    epoch, entries = header.partition_leader_epoch, log.epochs.entries
    if epoch >= 0 and entries:
        known = log.epochs.epoch_at(max(header.base_offset, log.log_start_offset))
        assert known == epoch, f"{log}: {header.base_offset} is of epoch {epoch}, the cache says {entries}"


def _aborted_transactions(
    original: Callable[..., list[AbortedTransaction]], log: PartitionLog, first_offset: int, upper_offset: int
) -> list[AbortedTransaction]:
    found = original(log, first_offset, upper_offset)
    for each in found:
        assert each.first_offset <= each.last_offset < log.log_end_offset, f"{log}: {each}"
        assert each.last_offset >= first_offset, f"{log}: {each} is no part of [{first_offset}, {upper_offset})"
        assert each.first_offset < upper_offset, f"{log}: {each} is no part of [{first_offset}, {upper_offset})"
    assert all(a.last_offset < b.last_offset for a, b in pairwise(found))
    return found


def _advance_high_watermark(original: Callable[..., None], log: PartitionLog, offset: int) -> None:
    before = log.high_watermark
    is_cut = before > log.log_end_offset
    begins = log.topic == METADATA_TOPIC  # a voter that starts knows no more than what its snapshot proves
    assert offset >= before or is_cut or begins, f"{log}: the high watermark went from {before} to {offset}"
    original(log, offset)
    assert log.high_watermark == offset


def _committed_by_leader(original: Callable[..., Any], partition: Partition, *args: Any, **options: Any) -> Any:
    before = partition.high_watermark
    result = original(partition, *args, **options)
    if partition.followers is not None and partition.high_watermark > before:
        reached = partition.followers.reached(partition.log.durable_end)
        assert partition.high_watermark <= reached, f"{partition}: {partition.high_watermark} of {reached}"
    return result


def _propose(original: Callable[..., None], partition: Partition, isr: tuple[int, ...] | None) -> None:
    if isr is not None and partition.followers is not None:
        assert partition.followers.proposed_isr is None, f"{partition}: another ISR may have been granted"
    original(partition, isr)


def _know_committed(original: Callable[..., None], partition: Partition, leader_high_watermark: int) -> None:
    before = partition.high_watermark
    original(partition, leader_high_watermark)
    assert before <= partition.high_watermark <= max(before, leader_high_watermark), f"{partition}: {before}"
    check(partition.log)


def _reconciled(original: Callable[..., None], step: Reconciliation) -> None:
    group, member = step.group, step.member
    had = [member.assigned, member.revoking]
    original(step)
    for topic_id, partitions in member.assigned.items():
        for partition in partitions:
            if not any(partition in owned.get(topic_id, ()) for owned in had):
                free = group.partition_epoch(topic_id, partition) == UNOWNED
                assert free, f"{group.group_id}: {member.member_id} is given {topic_id.hex()}-{partition} of another"
