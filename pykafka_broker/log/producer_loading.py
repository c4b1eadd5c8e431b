"""The producers' state when a log is opened: the newest sound snapshot and the batches after it.

Rule: a snapshot that lies beyond the log's end or can't be read is not used; reading more of the log gives the same.
"""

from __future__ import annotations

import contextlib
import logging

from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.producer_snapshot import CorruptSnapshot, read_snapshot, snapshot_name, snapshot_offsets
from pykafka_broker.log.producer_state import ProducerEntry, ProducerState
from pykafka_broker.log.scan import ScannedBatch, scan
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.log.segments import Segments
from pykafka_broker.log.transaction_index import AbortedTransaction
from pykafka_broker.records.control import read_end_transaction_marker

logger = logging.getLogger(__name__)

# A log that is no longer and has never had an idempotent producer needs no snapshot: it is read when it is opened.
QUICKLY_READ_BYTES = 64 << 10


def remove_strays(fs: FileSystem, directory: str, names: list[str], segments: Segments) -> None:
    """Remove the snapshots that stops left, which are of no segment's base offset. The newest of them stays if it lies
    beyond the last segment's base (Kafka: ProducerStateManager.removeStraySnapshots).
    """
    strays = set(snapshot_offsets(names)) - {segment.base_offset for segment in segments}
    if strays and max(strays) > segments.active.base_offset:
        strays.remove(max(strays))
    for offset in sorted(strays):
        name = snapshot_name(offset)
        _remove(fs, f"{directory}/{name}")
        names.remove(name)


def restore_producers(
    fs: FileSystem,
    directory: str,
    names: list[str],
    producers: ProducerState,
    segments: Segments,
    log_start_offset: int,
    end_offset: int,
) -> None:
    """Make `producers` what they were as of `end_offset`, from the newest sound snapshot and the batches after it."""
    start = log_start_offset
    producers.clear(0)
    for offset in reversed(snapshot_offsets(names)):
        path = f"{directory}/{snapshot_name(offset)}"
        if offset > end_offset:
            _remove(fs, path)
            continue
        entries = _read_or_remove(fs, path, offset)
        if entries is None:
            continue
        producers.restore(entries)
        producers.snapshot_offset = start = offset
        break
    if start < end_offset:
        replay_producers(producers, segments, start, end_offset)


def replay_producers(producers: ProducerState, segments: Segments, start: int, end_offset: int) -> None:
    """Bring `producers` from `start` to `end_offset` by what the log holds. A batch that holds `start` counts: so the
    log begins after DeleteRecords.
    """
    for segment in segments.starting_from(start):
        if segment.base_offset >= end_offset:
            return
        handle = segment.log.handle()
        position = segment.position_of(start) if start > segment.base_offset else 0
        for batch in scan(handle, segment.log.path, position, segment.size, verify=False):
            if batch.header.base_offset >= end_offset:
                return
            if batch.header.last_offset >= start:
                replay_batch(producers, batch)


def rebuild_transactions(fs: FileSystem, directory: str, segments: Segments, segment: LogSegment) -> None:
    """The transaction index of one segment anew."""
    segment.transactions.replace(find_aborted(fs, directory, segments, segment))


def find_aborted(fs: FileSystem, directory: str, segments: Segments, segment: LogSegment) -> list[AbortedTransaction]:
    """What the transaction index of a segment must say, by what was open where it begins and its batches."""
    producers = ProducerState(directory)
    start = segments.first.base_offset
    for offset in reversed(snapshot_offsets(fs.list_directory(directory))):
        if offset <= segment.base_offset:
            with contextlib.suppress(CorruptSnapshot):
                producers.restore(read_snapshot(fs, f"{directory}/{snapshot_name(offset)}"))
                start = offset
                break
    replay_producers(producers, segments, start, segment.base_offset)
    found = []
    for batch in scan(segment.log.handle(), segment.log.path, 0, segment.size, verify=False):
        aborted = replay_batch(producers, batch)
        if aborted is not None:
            found.append(aborted)
    return found


def replay_batch(producers: ProducerState, batch: ScannedBatch) -> AbortedTransaction | None:
    """Take account of a batch that is in the log; what the transaction index must say of it, if anything."""
    header = batch.header
    if header.producer_id < 0:
        return None
    if not header.is_control:
        producers.apply(header, header.base_offset)
        return None
    marker = read_end_transaction_marker(batch.data, header)
    if marker is None:
        return None
    aborted = producers.aborted_by(marker)
    producers.apply_marker(marker)
    return aborted


def _read_or_remove(fs: FileSystem, path: str, offset: int) -> list[ProducerEntry] | None:
    """The entries of a snapshot as of `offset`; a file that is damaged goes, lest it be read again."""
    try:
        entries = read_snapshot(fs, path)
        if any(entry.txn_first_offset >= offset or _last_offset(entry) >= offset for entry in entries):
            raise CorruptSnapshot("it knows of later offsets than its own")
        return entries
    except CorruptSnapshot as error:
        logger.warning("Removed %s: %s", path, error)
        _remove(fs, path)
        return None


def _last_offset(entry: ProducerEntry) -> int:
    return entry.batches[-1].last_offset if entry.batches else -1


def _remove(fs: FileSystem, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        fs.remove(path)
