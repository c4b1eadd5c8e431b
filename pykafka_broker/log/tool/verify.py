"""A check of everything in a data directory.

Rule: the batches are the truth. Their CRCs, offsets and epochs are checked first; then every index, snapshot and
checkpoint is compared with them. A finding is an `error` if records are lost or unreadable, and a `warning` if a broker
that starts on the directory mends the fault by itself.

Only the command reads this module, when it is asked for a check.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from pykafka_broker.log.checkpoints import (
    CLEAN_SHUTDOWN,
    EPOCHS_FILE,
    LOCK,
    METADATA_TOPIC_ID,
    PARTITION_METADATA,
    read_partition_metadata,
    same_but_damaged,
)
from pykafka_broker.log.filesystem import CachedFile, FileCache, FileSystem
from pykafka_broker.log.index import AbortedTransaction, OffsetIndex, SparseIndex, TimeIndex, TransactionIndex
from pykafka_broker.log.leader_epochs import LeaderEpochs
from pykafka_broker.log.loading import INDEXES
from pykafka_broker.log.producer_state import (
    CorruptSnapshot,
    ProducerState,
    encode_snapshot,
    read_snapshot,
    replay_batch,
    snapshot_name,
)
from pykafka_broker.log.scan import DamagedLog, ScannedBatch, scan
from pykafka_broker.log.tool.abort_markers import AbortMarkers
from pykafka_broker.log.tool.decoding import is_kept_for, unreadable_records
from pykafka_broker.log.tool.directory import (
    QUORUM_STATE,
    Folder,
    Row,
    base_of,
    check_directory,
    in_use,
    is_partition,
    lost_beginning,
    partition_folders,
    quorum_state,
    snapshots,
    topic_ids,
    used_entries,
)
from pykafka_broker.protocol.runtime import uuid_text
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.record import iter_records


def verify(fs: FileSystem, path: str) -> Iterator[Row]:
    """Yield findings, and for each partition a row of type `partition` with the end of the log."""
    folders = list(partition_folders(fs, path))
    directory = os.path.dirname(path) if is_partition(fs, path) else path
    if running := in_use(fs, directory):
        yield {"type": "note", "file": LOCK, "problem": "a broker is running here; what it is writing may look damaged"}
    if directory == path:
        yield from check_directory(fs, path)
    closed = fs.exists(f"{directory}/{CLEAN_SHUTDOWN}")
    ids = topic_ids(fs, directory)
    for folder in folders:
        yield from PartitionCheck(folder, closed=closed, running=running, topic_id=ids.get(folder.topic)).run()


class PartitionCheck:
    """A check of a partition, read from end to end."""

    def __init__(self, folder: Folder, *, closed: bool, running: bool, topic_id: bytes | None) -> None:
        self._folder = folder
        self._running = running  # a broker writes here
        self._is_written = False  # a broker writes the segment being checked: its indexes come with its end
        self._closed = closed  # shut down cleanly: no torn end, which a start would cut
        self._topic_id = METADATA_TOPIC_ID if folder.is_metadata else topic_id  # None: the metadata has none
        self._cache = FileCache(folder.fs, writable=False)
        self._findings: list[Row] = []
        self._producers = ProducerState(folder.name)
        self._markers = AbortMarkers()
        self._producers_known = True  # False: batches are missing or damaged, so snapshots can't be compared with them
        self._epochs: list[tuple[int, int]] = []
        self._is_kept = is_kept_for(folder.topic)
        self._end = 0
        self._batches = self._records = 0

    def run(self) -> list[Row]:
        logs = self._folder.files(".log")
        self._end = base_of(logs[0]) if logs else 0
        self._producers_known = self._end == 0
        for path in logs:
            self._check_segment(path, last=path == logs[-1])
        self._check_orphans(logs)
        if self._folder.fs.list_directory(self._folder.path):  # an empty folder was just made
            self._check_small_files()
        if self._folder.is_metadata:
            self._check_metadata()
        summary: Row = {
            "type": "partition",
            "file": self._folder.name,
            "segments": len(logs),
            "batches": self._batches,
            "records": self._records,
            "log_end_offset": self._end,
        }
        return [*self._findings, summary]

    def _found(self, severity: str, path: str, problem: str) -> None:
        name = os.path.basename(path)
        self._findings.append({"type": severity, "file": f"{self._folder.name}/{name}", "problem": problem})

    # -- a segment

    def _check_segment(self, path: str, *, last: bool) -> None:
        base = base_of(path)
        self._is_written = self._running and last
        if base > self._end and self._folder.is_metadata:
            self._found("error", path, f"begins at {base}, but the records from {self._end} on are missing")
        if base < self._end:
            self._found("error", path, f"begins at {base}, but the segment before it ends at {self._end}")
        self._check_snapshot(base)
        handle = self._folder.fs.open(path, writable=False)
        batches: list[ScannedBatch] = []
        aborted: list[AbortedTransaction] = []
        whole = True
        self._markers.begin_segment()
        try:
            for batch in scan(handle, path, 0, handle.size(), verify=True):
                self._check_batch(path, batch, aborted)
                batches.append(batch._replace(data=memoryview(b"")))
        except DamagedLog as damage:
            lost = handle.size() - damage.position
            torn = last and not self._closed and not damage.old_format
            if torn and self._end >= self._folder.offsets.recovery_point:
                self._found("warning", path, f"byte {damage.position}: {damage.reason}; a start cuts {lost} bytes off")
            else:
                self._found("error", path, f"byte {damage.position}: {damage.reason}; {lost} bytes can't be read")
            self._producers_known = whole = False
            self._markers.lost_track()
        if whole and not batches and (self._closed or not last) and self._has_entries(path, base):
            self._found("error", path, "is empty, but its index speaks of records: they are lost")
        self._check_offset_index(path, base, batches)
        self._check_time_index(path, base, batches)
        self._check_transactions(path, aborted, whole=whole)

    def _check_batch(self, path: str, batch: ScannedBatch, aborted: list[AbortedTransaction]) -> None:
        header = batch.header
        if header.base_offset < self._end:
            self._found("error", path, f"byte {batch.position}: offset {header.base_offset} after {self._end - 1}")
        elif header.base_offset > self._end:
            self._producers_known = False  # compacted
        latest = self._epochs[-1][0] if self._epochs else -1
        if header.partition_leader_epoch > latest:
            self._epochs.append((header.partition_leader_epoch, header.base_offset))
        if self._is_kept:
            for offset, reason in unreadable_records(self._folder.topic, batch):
                self._found(
                    "error", path, f"byte {batch.position}: the record at offset {offset} makes no sense: {reason}"
                )
        try:
            count = sum(1 for _ in iter_records(batch.data, header))
            ended = replay_batch(self._producers, batch)
        except CorruptBatch as error:
            self._found("error", path, f"byte {batch.position}: {error}")
            return
        if ended is not None:
            aborted.append(ended)
        self._markers.learn(batch)
        if count <= header.last_offset_delta:
            self._producers_known = False
        self._batches += 1
        self._records += count
        self._end = header.next_offset

    def _has_entries(self, log_path: str, base: int) -> bool:
        """Return whether the time index has entries, as the index of every segment with batches does."""
        index = TimeIndex(self._beside(log_path, ".timeindex"), base, fresh=False)
        return index.file.exists() and any(True for _ in used_entries(index))

    def _beside(self, log_path: str, suffix: str) -> CachedFile:
        return CachedFile(self._cache, log_path.removesuffix(".log") + suffix)

    def _check_offset_index(self, log_path: str, base: int, batches: list[ScannedBatch]) -> None:
        ends = {batch.position: batch.header.last_offset for batch in batches}

        def problem(offset: int, position: int) -> str | None:
            # of several batches that were written at once, releases before 4.0 named the last one
            is_wrong = ends.get(position, offset + base + 1) > base + offset
            return f"says that offset {base + offset} is at byte {position}" if is_wrong else None

        self._check_entries(OffsetIndex(self._beside(log_path, ".index"), base, fresh=False), batches, problem)

    def _check_time_index(self, log_path: str, base: int, batches: list[ScannedBatch]) -> None:
        stamps = {batch.header.last_offset: batch.header.max_timestamp for batch in batches}

        def problem(time: int, offset: int) -> str | None:
            is_wrong = stamps.get(base + offset) != time
            return f"says that the batch up to offset {base + offset} is of {time}" if is_wrong else None

        index = TimeIndex(self._beside(log_path, ".timeindex"), base, fresh=False)
        last = self._check_entries(index, batches, problem)
        greatest = max(stamps.values(), default=-1)
        if last is not None and self._closed and greatest > last[0]:
            self._found("warning", index.file.path, f"does not know the batch of {greatest}")

    def _check_entries(
        self, index: SparseIndex, batches: list[ScannedBatch], problem: Callable[[int, int], str | None]
    ) -> tuple[int, int] | None:
        """Check that an index is not missing, that its entries rise, and that none has a `problem`.

        Returns:
            The last entry, (-1, -1) for none. None after a fault, and for an index that was not closed: Kafka 4.4
            leaves the indexes of the metadata log as large as they were made.
        """
        path = index.file.path
        if not index.file.exists():
            if batches and not self._is_written:
                self._found("warning", path, "is missing")
            return None
        last, count = (-1, -1), 0
        for first, second in used_entries(index):
            found = problem(first, second)
            if found is None and (first <= last[0] or second <= last[1]):
                found = f"entry {first}, {second} is out of order"
            if found is not None:
                self._found("warning", path, found)
                return None
            last, count = (first, second), count + 1
        return last if count == index.count else None

    def _check_transactions(self, log_path: str, aborted: list[AbortedTransaction], *, whole: bool) -> None:
        file = self._beside(log_path, ".txnindex")
        try:
            entries = TransactionIndex(file, fresh=False).entries
        except ValueError as error:
            self._found("warning", file.path, str(error))
            return
        problem = self._markers.problem(entries) if whole else None
        if problem is None and self._producers_known and entries != aborted:
            problem = f"has {len(entries)} aborted transactions, the log {len(aborted)}, or other ones"
        if problem is not None:
            self._found("error", file.path, problem)

    # -- files beside the segments

    def _check_snapshot(self, offset: int) -> None:
        path = f"{self._folder.path}/{snapshot_name(offset)}"
        if not self._folder.fs.exists(path):
            return
        try:
            entries = read_snapshot(self._folder.fs, path)
        except CorruptSnapshot as error:
            self._found("warning", path, str(error))
            return
        if self._producers_known:
            found = ProducerState(self._folder.name)
            found.restore(entries)
            known = set(self._producers.entries)
            if not set(found.entries) <= known or (
                set(found.entries) == known and encode_snapshot(found) != encode_snapshot(self._producers)
            ):
                self._found("warning", path, "does not say what the batches before it say of their producers")

    def _check_orphans(self, logs: list[str]) -> None:
        bases = set(map(base_of, logs))
        for suffix in INDEXES:
            for path in self._folder.files(suffix):
                if base_of(path) not in bases:
                    lost = "; if retention or a cleaning did not take it, its records are lost"
                    self._found("warning", path, f"belongs to no segment{lost if suffix == '.index' else ''}")
        for path in self._folder.files(".snapshot"):
            if base_of(path) == self._end and self._end not in bases:
                self._check_snapshot(self._end)
            elif base_of(path) > self._end:  # snapshots between segments are of earlier shutdowns
                self._found("warning", path, f"is of offset {base_of(path)}, but the log ends at {self._end}")

    def _check_metadata(self) -> None:
        folder = self._folder
        for snapshot in snapshots(folder.fs, folder.path):
            problem = snapshot.problem()
            if problem is None and snapshot.end_offset > self._end:
                problem = f"is ahead of the log, which ends at {self._end}"
            if problem is not None:
                self._found("error", snapshot.path, problem)
        if (lost := lost_beginning(folder)) is not None:
            self._found("error", folder.path, lost)
        try:
            quorum_state(folder.fs, folder.path)
        except FileNotFoundError:
            self._found("warning", QUORUM_STATE, "is missing")
        except ValueError as error:
            self._found("error", QUORUM_STATE, str(error))

    def _check_small_files(self) -> None:
        folder, start = self._folder, self._folder.offsets.log_start_offset
        if folder.offsets.recovery_point > self._end:
            synced = folder.offsets.recovery_point
            self._found("error", folder.path, f"ends at offset {self._end}, but had been synced up to {synced}")
        if start > self._end:
            self._found("error", folder.path, f"ends at offset {self._end}, but its checkpointed start is {start}")
        topic_id = read_partition_metadata(folder.fs, f"{folder.path}/{PARTITION_METADATA}")
        if topic_id is None:
            self._found("warning", PARTITION_METADATA, "is missing or names no topic id")
        elif self._topic_id is not None and topic_id != self._topic_id:
            damaged = folder.is_metadata or same_but_damaged(topic_id, self._topic_id)
            follows = "it is written anew" if damaged else "it is taken for an earlier topic's, and removed"
            self._found(
                "warning", PARTITION_METADATA, f"does not name the topic's id {uuid_text(self._topic_id)}: {follows}"
            )
        found = LeaderEpochs.load(folder.fs, f"{folder.path}/{EPOCHS_FILE}")
        wanted = LeaderEpochs(folder.fs, "", list(self._epochs))
        wanted.truncate_from_start(start)  # epochs below the start were forgotten
        for epoch, offset in wanted.entries:
            if found.epoch_at(offset) != epoch:
                self._found("warning", EPOCHS_FILE, f"does not say that the leader epoch of offset {offset} is {epoch}")
                return
        if found.entries and found.entries[-1][1] > self._end:
            self._found("warning", EPOCHS_FILE, f"goes up to {found.entries[-1][1]}, but the log ends at {self._end}")
