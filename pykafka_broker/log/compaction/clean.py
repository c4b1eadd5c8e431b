"""A round of cleaning a partition, in a thread or in a process of its own.

Rule: `PartitionCleaner` reads the dirty part's keys, then writes each group of segments anew. It works on files alone
and knows no broker. The files that it writes end in `.cleaned` and are synced when it returns; the segments that it
read are not touched.

A large cleaning runs in another process, so that it takes no time from the event loop: a request goes in on standard
input and a result comes out on standard output. Small cleanings are not worth a process and run in the thread that
asked. A shutdown need not wait: a half-done cleaning is worth nothing. A worker never outlives its broker, even one
that is killed: it would write into files that the next broker has made.

Only the cleaner reads this module, with its first cleaning: no start waits for the import.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import time  # noqa: TID251  # the rate of a worker's own reads and writes; no state machine sees it
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pykafka_broker.log.compaction.filter import BatchFilter, CleanedTransactions
from pykafka_broker.log.compaction.latest import LEAST_RECORD_BYTES, LatestRecords, records_place
from pykafka_broker.log.compaction.request import CleanedSegment, CleanRequest, CleanResult
from pykafka_broker.log.filesystem import Buffer, FileCache, FileSystem, OsFileSystem
from pykafka_broker.log.index import AbortedTransaction, CorruptTransactionIndex
from pykafka_broker.log.producer_state import find_aborted
from pykafka_broker.log.scan import DamagedLog, ScannedBatch
from pykafka_broker.log.segment import CLEANED, MAX_RELATIVE_OFFSET, LogSegment
from pykafka_broker.log.segments import Segments
from pykafka_broker.platform import CREATION_FLAGS, PROCESS_GROUP, give_way
from pykafka_broker.records.errors import GrowsTooLarge
from pykafka_broker.records.header import BatchHeader, read_header

if TYPE_CHECKING:
    from pykafka_broker.log.compaction.cleaner import Cleaner, LogToClean

_OPEN_FILES = 64
_WRITE_BYTES = 1 << 20
_SMALL_BYTES = 1 << 20
_MOST_UNPACKED_HERE = 8 << 20
_UNLIMITED = 1e18
_NICENESS = 5
Throttle = Callable[[int], None]  # is told how many bytes were read or written; may wait
Runner = Callable[[FileSystem, CleanRequest], CleanResult]  # called as `CleaningProcesses` is


class PartitionCleaner:
    """A single cleaning of a partition."""

    def __init__(self, fs: FileSystem, request: CleanRequest, throttle: Throttle) -> None:
        self._request = request
        self._throttle = throttle
        self._files = FileCache(fs, _OPEN_FILES)
        self._segments = [
            LogSegment(self._files, request.directory, base, size=size, created_ms=request.wall, fresh=False)
            for base, size in request.segments
        ]
        self._latest = LatestRecords(request.map_bytes, request.first_dirty_offset, request.upper_offset)
        self._last_learned: dict[int, int] = {}  # in the dirty part, by producer: where its last data batch ends

    def run(self) -> CleanResult:
        request = self._request
        self._learn_keys()
        end_offset = self._latest.latest_offset + 1
        transactions = CleanedTransactions()
        transactions.add_aborted(self._aborted_after(-1))
        filter_ = BatchFilter(
            self._latest,
            transactions,
            request.producers,
            self._last_learned,
            end_offset,
            request.wall,
            request.delete_retention_ms,
            request.unpacking,
        )
        cleaned = []
        try:
            for group in self._groups(end_offset):
                cleaned.append(self._clean_group(group, filter_, transactions))
        except Exception:  # a full disk, a damaged batch, a shutdown: half-done files are of no use
            for group in self._groups(end_offset):
                with contextlib.suppress(OSError):
                    self._cleaned(group).discard()
            raise
        dropped_keyless = self._latest.dropped_keyless + filter_.dropped_keyless
        return CleanResult(cleaned, end_offset, len(self._latest), dropped_keyless)

    # -- the keys of the dirty part

    def _learn_keys(self) -> None:
        """Learn keys from the first dirty offset on, as far as the memory allows."""
        start = self._request.first_dirty_offset
        transactions = CleanedTransactions()
        transactions.add_aborted(self._aborted_after(start))  # markers of earlier transactions are not read any more
        latest = self._latest
        for index, segment in enumerate(self._segments):
            if self._end_of(index) <= start:
                continue
            for batch in self._batches(segment):
                if batch.header.last_offset >= start and not self._learn_batch(batch, transactions):
                    return
            latest.latest_offset = max(latest.latest_offset, self._end_of(index) - 1)

    def _learn_batch(self, batch: ScannedBatch, transactions: CleanedTransactions) -> bool:
        """Learn the keys of a batch, and return whether the memory had room."""
        header, latest = batch.header, self._latest
        if header.is_control:
            transactions.ends_nothing(header, batch.data)
        elif not transactions.is_aborted(header):
            data, begin, end = records_place(batch, self._request.unpacking)
            if not latest.has_room(min(header.count, (end - begin) // LEAST_RECORD_BYTES)):
                return False
            latest.learn(header.base_offset, data, header.count, begin, end)
        if header.producer_id in self._request.producers and not header.is_control:
            self._last_learned[header.producer_id] = header.last_offset
        latest.latest_offset = header.last_offset
        return True

    def _aborted_after(self, offset: int) -> Iterator[AbortedTransaction]:
        """Yield the aborted transactions with a marker at or after `offset`, also behind the cleaned part."""
        for segment in self._segments:
            try:
                aborted = segment.transactions.entries
            except CorruptTransactionIndex:  # not used since the start; a cleaning replaces the file
                aborted = find_aborted(Segments(self._files, self._request.directory, self._segments), segment)
            yield from (transaction for transaction in aborted if transaction.last_offset >= offset)
        yield from self._request.aborted_later

    # -- writing

    def _groups(self, end_offset: int) -> Iterator[list[int]]:
        """Yield the indexes of consecutive segments which together fit into a single segment."""
        request = self._request
        group: list[int] = []
        size = entries = 0
        for index, segment in enumerate(self._segments):
            if segment.base_offset >= end_offset:
                break
            more = max(segment.offset_index.count * 8, segment.time_index.count * 12)
            reach = self._end_of(index) - 1 - self._segments[group[0]].base_offset if group else 0
            full = (
                size + segment.size > request.segment_bytes
                or entries + more > request.segment_index_bytes
                or reach > MAX_RELATIVE_OFFSET
            )
            if group and full:
                yield group
                group, size, entries = [], 0, 0
            group.append(index)
            size += segment.size
            entries += more
        if group:
            yield group

    def _clean_group(self, group: list[int], filter_: BatchFilter, transactions: CleanedTransactions) -> CleanedSegment:
        cleaned = self._cleaned(group)
        cleaned.discard()
        for index in group:
            segment = self._segments[index]
            self._copy(segment, cleaned, filter_)
            for aborted in transactions.kept_aborts:
                cleaned.transactions.append(aborted)
            transactions.kept_aborts.clear()
        cleaned.seal()
        cleaned.sync()
        bases = [self._segments[index].base_offset for index in group]
        return CleanedSegment(cleaned.base_offset, cleaned.size, bases)

    def _cleaned(self, group: list[int]) -> LogSegment:
        """Return the segment replacing a group of segments."""
        request, base = self._request, self._segments[group[0]].base_offset
        return LogSegment(
            self._files, request.directory, base, size=0, created_ms=request.wall, fresh=True, suffix=CLEANED
        )

    def _copy(self, segment: LogSegment, cleaned: LogSegment, filter_: BatchFilter) -> None:
        """Append what stays of a segment, many batches with a write."""
        pieces: list[Buffer] = []
        headers: list[BatchHeader] = []
        waiting = 0
        for batch in self._batches(segment):
            kept = filter_.keep(batch)
            if kept is None:
                continue
            pieces.append(kept)
            headers.append(batch.header if kept is batch.data else read_header(kept))
            waiting += len(kept)
            if waiting >= _WRITE_BYTES:
                self._append(cleaned, pieces, headers)
                waiting = 0
        self._append(cleaned, pieces, headers)

    def _append(self, cleaned: LogSegment, pieces: list[Buffer], headers: list[BatchHeader]) -> None:
        if pieces:
            data = b"".join(pieces)
            cleaned.append_run(data, headers, self._request)
            pieces.clear()
            headers.clear()
            self._throttle(len(data))

    def _batches(self, segment: LogSegment) -> Iterable[ScannedBatch]:
        self._throttle(segment.size)
        return segment.scan(verify=True)

    def _end_of(self, index: int) -> int:
        following = index + 1
        return self._segments[following].base_offset if following < len(self._segments) else self._request.upper_offset


class CleaningStopped(Exception):
    """A cancelled cleaning, or a cleaning whose process died; the log is sound."""


class CleaningProcesses:
    """Cleanings in the calling thread or, if large, in separate processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: set[subprocess.Popen[bytes]] = set()
        self._cancelled = threading.Event()

    def __call__(self, fs: FileSystem, request: CleanRequest) -> CleanResult:
        """Clean a partition.

        Raises:
            ValueError: the log can't be cleaned.
            CleaningStopped: there was no time for it.
        """
        may_be_beside = isinstance(fs, OsFileSystem)
        if may_be_beside and sum(size for _, size in request.segments) >= _SMALL_BYTES:
            return self._clean_beside(request)
        here = request
        if may_be_beside:
            here = request._replace(unpacking=request.unpacking._replace(batch_bytes=_MOST_UNPACKED_HERE))
        try:
            return PartitionCleaner(fs, here, self._throttle(request.bytes_per_second)).run()
        except GrowsTooLarge:
            if not may_be_beside:
                raise
        return self._clean_beside(request)  # small on disk, but large when decompressed

    def cancel(self) -> None:
        """End all running cleanings, and start nothing more."""
        with self._lock:
            self._cancelled.set()
            for worker in self._workers:
                worker.kill()

    def _throttle(self, bytes_per_second: float) -> Throttle:
        wait = throttle(bytes_per_second, self._cancelled.wait)

        def check(count: int) -> None:
            wait(count)
            if self._cancelled.is_set():
                raise CleaningStopped("cancelled")

        return check

    def _clean_beside(self, request: CleanRequest) -> CleanResult:
        safe_path = ["-P"] if sys.flags.safe_path else []  # with the option of this process
        command = [sys.executable, *safe_path, "-m", "pykafka_broker.log.compaction.clean"]
        with self._lock:
            if self._cancelled.is_set():
                raise CleaningStopped("cancelled")
            # its own process group: Ctrl-C in a terminal reaches the broker alone, which then ends its workers
            try:
                worker = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    creationflags=CREATION_FLAGS,
                    process_group=PROCESS_GROUP,
                )
            except OSError as error:  # as at a limit of processes: no trouble of the log's disk
                raise CleaningStopped(f"no process could be started: {error}") from error
            self._workers.add(worker)
        try:
            output = _exchange(worker, pickle.dumps(request))
        finally:
            with self._lock:
                self._workers.discard(worker)
        if worker.returncode:
            raise CleaningStopped(f"the process ended with status {worker.returncode}")
        outcome = pickle.loads(output)
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, CleanResult)
        return outcome


@dataclass(eq=False)
class CleanJob:
    """A cleaning beside the loop, and afterwards the exchange of the segments."""

    _cleaner: Cleaner
    _found: LogToClean
    _request: CleanRequest
    _runner: Runner
    _fs: FileSystem
    _result: CleanResult | None = None
    _problem: ValueError | CleaningStopped | None = None

    def run(self) -> None:
        try:
            self._result = self._runner(self._fs, self._request)
        except (ValueError, CleaningStopped) as problem:
            self._problem = problem

    def apply(self) -> None:
        if self._result is not None:
            self._cleaner.cleaned(self._found, self._request.wall, self._result)
        else:
            self._cleaner.failed(self._found, self._request, self._problem)

    def failed(self, error: OSError) -> None:
        self._cleaner.failed(self._found, self._request, error)


def _exchange(worker: subprocess.Popen[bytes], request: bytes) -> bytes:
    """Send the request and wait for all of the answer.

    The worker's input stays open until then, since its end means to the worker that the broker is gone.
    """
    assert worker.stdin is not None
    assert worker.stdout is not None
    with worker, worker.stdout:
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.write(request)
            worker.stdin.flush()
        return worker.stdout.read()


def throttle(bytes_per_second: float, sleep: Callable[[float], object] = time.sleep) -> Throttle:
    """Return a function which waits to keep the reported bytes below the rate. `sleep` waits for so many seconds."""
    if bytes_per_second >= _UNLIMITED:
        return lambda count: None
    start = time.monotonic()
    done = 0

    def wait(count: int) -> None:
        nonlocal done
        done += count
        ahead = done / bytes_per_second - (time.monotonic() - start)
        if ahead > 0:
            sleep(ahead)

    return wait


def _end_with_parent() -> None:
    """End the process when standard input is closed: the broker has ended, by kill -9 too."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def main() -> None:
    give_way(_NICENESS)
    request = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    outcome: CleanResult | Exception
    try:
        outcome = PartitionCleaner(OsFileSystem(), request, throttle(request.bytes_per_second)).run()
    except OSError as error:
        outcome = OSError(error.errno, error.strerror, error.filename)
    except DamagedLog as damage:
        outcome = damage
    except ValueError as error:
        outcome = ValueError(str(error))
    sys.stdout.buffer.write(pickle.dumps(outcome))


if __name__ == "__main__":
    main()
