"""The choice of the next partition to clean, the life of a cleaning, and the exchange of segments at its end (Kafka:
LogCleanerManager).

Rule: the log with the greatest share of dirty bytes comes first, if that share is above `min.cleanable.dirty.ratio` or
its oldest dirty record above `max.compaction.lag.ms`. Only segments that are complete, synced, decided (below the last
stable offset) and older than `min.compaction.lag.ms` are cleaned. A partition that can't be cleaned is logged and left
alone (`uncleanable`). Of thousands, the dirtiest ones of a look at all logs are cleaned before the next look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Set
from heapq import nlargest
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from pykafka_broker.clock import Clock
from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import CLEANER_OFFSETS, CheckpointWriter
from pykafka_broker.log.compaction.request import CleanRequest, CleanResult, LastBatches, UnpackingLimits
from pykafka_broker.log.filesystem import FileSystem, is_passing
from pykafka_broker.log.jobs import Submit
from pykafka_broker.log.log_directory import LogDirectory
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.producer_state import forget_snapshot
from pykafka_broker.log.scan import DamagedLog
from pykafka_broker.log.segment import CLEANED, SWAP, LogSegment
from pykafka_broker.log.segments import Segments
from pykafka_broker.protocol.enums import PartitionKey

if TYPE_CHECKING:
    from pykafka_broker.log.compaction.clean import CleaningProcesses

logger = logging.getLogger(__name__)

_NEVER = 0x7FFFFFFFFFFFFFFF
_FOUND_AT_ONCE = 100  # by a look at all logs, so that thousands of dirty logs are not looked at thousands of times
_LOOKED_AT_ONCE = 500  # logs, in a few milliseconds


class LogToClean(NamedTuple):
    dirty_ratio: float
    key: PartitionKey
    log: PartitionLog
    first_dirty_offset: int
    upper_offset: int


def first_dirty_offset(log: PartitionLog, checkpoint: int | None) -> int:
    if checkpoint is None or not log.log_start_offset <= checkpoint <= log.log_end_offset:
        return log.log_start_offset
    return checkpoint


def settled_offset(log: PartitionLog) -> int:
    """Return the offset below which the log is complete, synced and decided."""
    return min(log.segments.active.base_offset, log.last_stable_offset, log.high_watermark, log.recovery_point)


def upper_offset(log: PartitionLog, first_dirty: int, wall: int) -> int:
    """Return the end of the cleanable part, the base offset of a segment."""
    limit = settled_offset(log)
    lag_ms = log.config.min_compaction_lag_ms
    upper = log.segments.first.base_offset
    for index, segment in enumerate(log.segments):
        end = log.segments.upper_offset(index, log.log_end_offset)
        too_young = lag_ms > 0 and end > first_dirty and segment.largest_timestamp > wall - lag_ms
        if end > limit or too_young:
            break
        upper = end
    return upper


def candidate(key: PartitionKey, log: PartitionLog, checkpoint: int | None, wall: int) -> LogToClean | None:
    """Return the log as a candidate, if a cleaning is due; else None."""
    first_dirty = first_dirty_offset(log, checkpoint)
    upper = upper_offset(log, first_dirty, wall)
    clean_bytes = dirty_bytes = 0
    overdue = False
    overdue_before = wall - log.config.max_compaction_lag_ms  # far below 0 by default: no segment is asked
    for index, segment in enumerate(log.segments):
        if segment.base_offset >= upper:
            break
        if log.segments.upper_offset(index, log.log_end_offset) <= first_dirty:
            clean_bytes += segment.size
            continue
        dirty_bytes += segment.size
        overdue = overdue or (overdue_before > 0 and 0 < segment.first_timestamp < overdue_before)
    if not dirty_bytes:
        return None
    ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    if not overdue and ratio <= log.config.min_cleanable_dirty_ratio:
        return None
    return LogToClean(ratio, key, log, first_dirty, upper)


def make_request(found: LogToClean, wall: int, map_bytes: int, bytes_per_second: float) -> CleanRequest:
    """Describe a cleaning as plain data. Raises ApiError if a transaction index can't be read."""
    log = found.log
    config = log.config
    return CleanRequest(
        directory=log.directory,
        segments=[(each.base_offset, each.size) for each in log.segments if each.base_offset < found.upper_offset],
        first_dirty_offset=found.first_dirty_offset,
        upper_offset=found.upper_offset,
        aborted_later=log.aborted_transactions(found.upper_offset, found.upper_offset),
        producers={
            entry.producer_id: LastBatches(tuple(each.last_offset for each in entry.batches), entry.epoch)
            for entry in log.producers.entries.values()
        },
        wall=wall,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        map_bytes=map_bytes,
        bytes_per_second=bytes_per_second,
        unpacking=UnpackingLimits(record_bytes=config.max_decompressed_message_bytes),
    )


class Swap:
    """The exchange of old segments for cleaned segments with files on disk.

    Names change in an order from which a crash leaves either all of the old segments or a `.swap` log, which is
    complete and takes its place at the next start (`loading`).

    possible: whether the log still has all old segments, in the same folder; otherwise the cleaned files are thrown
    away. is_whole: whether no exchange was thrown away and the log was not cut meanwhile, so that the log is clean up
    to `end_offset`.

    Where a full disk refuses a step, `run` goes on with that step the next time; until then the log is read from
    whatever names its files have.
    """

    def __init__(self, found: LogToClean, result: CleanResult, wall: int) -> None:
        log = found.log
        present = {segment.base_offset: segment for segment in log.segments}
        made = []
        for base, size, replaced in result.segments:
            new = LogSegment(
                log.segments.files, log.directory, base, size=size, created_ms=wall, fresh=False, suffix=CLEANED
            )
            made.append((new, replaced))
        self.possible = all(new.log.exists() and present.keys() >= {*replaced} for new, replaced in made)
        self.is_whole = True
        self.found = found
        self.end_offset = result.end_offset
        self._truncations = log.truncations
        self._left: list[tuple[list[LogSegment], LogSegment]] = []
        for new, replaced in made:
            if self.possible:
                self._left.append(([present[base] for base in replaced], new))
            else:
                new.discard()

    def run(self) -> None:
        """Exchange the segments, from the first unfinished exchange on. Raises OSError if the disk refused a step."""
        while self._left:
            self._exchange(*self._left[0])
            self._left.pop(0)
        if self.found.log.truncations != self._truncations:
            self.is_whole = False

    def _exchange(self, old: list[LogSegment], new: LogSegment) -> None:
        log = self.found.log
        if new.log.path.endswith(CLEANED):
            if log.truncations != self._truncations or not all(log.segments.holds(segment) for segment in old):
                new.discard()  # a truncation or retention came before this could go on
                self.is_whole = False
                return
            new.created_ms, new.written_ms = old[-1].created_ms, old[-1].written_ms  # the age for retention stays
            new.change_suffix(CLEANED, SWAP)
            log.segments.replace(old, [new])
        for segment in old:
            segment.mark_deleted()
            if segment.base_offset != new.base_offset:
                forget_snapshot(log.segments, segment.base_offset)
        new.change_suffix(SWAP, "")
        for segment in old:
            log.segment_deleted(segment)


class Cleaner:
    """Up to `log.cleaner.threads` cleanings at a time, and the choice of the next partition."""

    def __init__(
        self,
        fs: FileSystem,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        submit: Submit,
        where: dict[PartitionKey, LogDirectory],
        loaded: dict[PartitionKey, PartitionLog],
        writer: CheckpointWriter,
        *,
        may_clean: Callable[[], bool],
        is_moving: Callable[[PartitionKey], bool],
    ) -> None:
        """Make the cleaner of the logs in `loaded`.

        Args:
            config: returns the broker's settings of the moment.
            where, loaded: the manager's own, which change.
            may_clean: returns whether the topics' settings are known.
            is_moving: returns whether a partition moves to another directory.
        """
        self._fs = fs
        self._config = config
        self._clock = clock
        self._submit = submit
        self._where = where
        self._loaded = loaded
        self._writer = writer
        self._may_clean = may_clean
        self._is_moving = is_moving
        self._processes: CleaningProcesses | None = None  # made, with its modules loaded, by the first cleaning
        self._settings: tuple[float, ...] = ()
        self._cancelled = False
        self._due = _NEVER
        # Segments and truncations when each running cleaning began: a move or a truncation makes its result useless.
        self._running: dict[PartitionKey, tuple[Segments, int]] = {}
        self._again = False  # a cleaning has ended, another one may be due
        self._next: list[PartitionKey] = []  # found by the last look at all logs, the dirtiest last
        self._unseen: list[PartitionKey] = []  # of a look at all logs that takes several turns
        self._dirty: list[LogToClean] = []  # found by this look
        self._unfinished: dict[PartitionKey, Swap] = {}  # interrupted by a full disk
        self.uncleanable: dict[PartitionKey, PartitionLog] = {}

    def start(self, now: int) -> None:
        if self._config().log_cleaner_enable:
            self._pause(now)

    def _pause(self, now: int) -> None:
        """Look again after the back-off, which may be 0, and never in the same millisecond."""
        self._due = now + max(1, self._config().log_cleaner_backoff_ms)

    def cancel(self) -> None:
        """Stop cleaning at once, and for good."""
        self._due = _NEVER
        self._again = False
        self._cancelled = True
        if self._processes is not None:
            self._processes.cancel()

    @property
    def running(self) -> int:
        """Return the number of running cleanings."""
        return len(self._running)

    def next_deadline(self) -> int | None:
        if self._again:
            return 0
        return self._due if self._due < _NEVER else None

    def look_now(self, now: int) -> None:
        """Look for something to clean now, without waiting for the pause to end."""
        if self._due < _NEVER:
            self._due = now

    def on_deadline(self, now: int) -> None:
        if self._cancelled or (self._due > now and not self._again):
            return
        if self._due <= now:
            self._next.clear()  # others may be dirtier by now
        self._again = False
        self._pause(now)
        if not self._may_clean():
            return
        self._apply_settings()
        self.finish_swaps()
        # another log of a deleted log's name may be cleanable
        self.uncleanable = {key: log for key, log in self.uncleanable.items() if self._loaded.get(key) is log}
        tried: set[PartitionKey] = set()
        while len(self._running) < self._config().log_cleaner_threads:
            found = self._filthiest(tried)
            if found is None:
                return
            tried.add(found.key)
            self._start(found)

    def clean(self, keys: list[PartitionKey]) -> bool:
        """Clean the complete, synced and decided part of the partitions now, however small and young.

        Returns:
            Whether a cleaning began.
        """
        self._apply_settings()
        begun = False
        for key in keys:
            log, directory = self._loaded.get(key), self._where.get(key)
            if log is None or directory is None or key in self._running or self._is_moving(key):
                continue
            self.finish_swaps()
            if key in self._unfinished:
                continue
            upper = log.segments.floor(settled_offset(log)).base_offset  # a segment is cleaned as a whole
            if upper > log.segments.first.base_offset and not self._cancelled:
                begun |= self._start(LogToClean(1.0, key, log, log.log_start_offset, upper))
        return begun

    def is_idle(self, keys: list[PartitionKey]) -> bool:
        """Return whether none of the partitions is being cleaned."""
        return not self._running.keys() & {*keys}

    def _apply_settings(self) -> None:
        """Begin cleanings anew after a change of settings, as Kafka's cleaners do."""
        config = self._config()
        settings = (
            config.log_cleaner_threads,
            config.log_cleaner_dedupe_buffer_size,
            config.log_cleaner_io_max_bytes_per_second,
        )
        if self._processes is not None and settings != self._settings:
            self._processes.cancel()
            self._processes = None
        self._settings = settings

    def _filthiest(self, tried: set[PartitionKey]) -> LogToClean | None:
        """Return the next log to clean: of the last ones that were found, or else of all logs."""
        excluded = self._running.keys() | self._unfinished.keys() | self.uncleanable.keys() | tried
        found = self._next_found(excluded)
        if found is None:
            self._look(excluded)
            found = self._next_found(excluded)
        return found

    def _next_found(self, excluded: Set[PartitionKey]) -> LogToClean | None:
        while self._next:
            found = self._candidate(self._next.pop(), excluded)
            if found is not None:
                return found
        return None

    def _look(self, excluded: Set[PartitionKey]) -> None:
        """Begin or go on to look at all logs. The next turn goes on; the last one has found the dirtiest logs."""
        if not self._unseen:
            self._unseen, self._dirty = list(reversed(self._loaded)), []
        for _ in range(min(_LOOKED_AT_ONCE, len(self._unseen))):
            found = self._candidate(self._unseen.pop(), excluded)
            if found is not None:
                self._dirty.append(found)
        if self._unseen:
            self._again = True
            return
        best = nlargest(_FOUND_AT_ONCE, self._dirty, key=attrgetter("dirty_ratio"))
        self._next, self._dirty = [each.key for each in reversed(best)], []

    def _candidate(self, key: PartitionKey, excluded: Set[PartitionKey]) -> LogToClean | None:
        log = self._loaded.get(key)  # deletions and a disk that fails take logs away
        if log is None or key in excluded or self._is_moving(key) or "compact" not in log.config.cleanup_policy:
            return None
        directory = self._where.get(key)
        if directory is None or not directory.online:
            return None
        try:
            return candidate(key, log, directory.cleaner_offsets.get(key), self._clock.wall)
        except OSError as error:
            log.storage_error(error)
        except DamagedLog as error:
            self._leave_alone(key, log, error)
        return None

    def _start(self, found: LogToClean) -> bool:
        """Begin a cleaning; False if a transaction index can't be read, and the log is looked at again later."""
        from pykafka_broker.log.compaction.clean import CleaningProcesses, CleanJob

        if self._processes is None:
            self._processes = CleaningProcesses()
        config = self._config()
        map_bytes = config.log_cleaner_dedupe_buffer_size // config.log_cleaner_threads
        rate = config.log_cleaner_io_max_bytes_per_second / config.log_cleaner_threads
        try:
            request = make_request(found, self._clock.wall, map_bytes, rate)
        except ApiError as error:
            logger.warning("The cleaning of %s-%d is tried again: %s", *found.key, error)
            return False
        self._running[found.key] = found.log.segments, found.log.truncations
        self._submit(CleanJob(self, found, request, self._processes, self._fs))
        return True

    def cleaned(self, found: LogToClean, wall: int, result: CleanResult) -> None:
        begun = self._running.pop(found.key)
        self._again = True
        log = found.log
        if found.key not in self._where or self._loaded.get(found.key) is not log or self._is_moving(found.key):
            return  # deleted or being moved: the next load removes the cleaned files
        if (log.segments, log.truncations) != begun:
            return  # moved, and the cleaned files went with the old folder; or cut, and cut records must not come back

        if result.dropped_keyless:
            logger.warning("Dropped %d records without a key from %s-%d", result.dropped_keyless, *found.key)
        swap = Swap(found, result, wall)
        if swap.possible:
            self._swap(swap)

    def finish_swaps(self) -> None:
        """Go on with swaps stopped by a full disk; swaps of deleted logs are forgotten."""
        unfinished, self._unfinished = self._unfinished, {}
        for key, swap in unfinished.items():
            if self._loaded.get(key) is swap.found.log:
                self._swap(swap)

    def is_swapping(self, key: PartitionKey) -> bool:
        """Return whether files of the log have temporary names of an unfinished swap."""
        return key in self._unfinished

    def _swap(self, swap: Swap) -> None:
        key, log = swap.found.key, swap.found.log
        directory = self._where.get(key)
        if directory is None:
            return
        try:
            swap.run()
        except OSError as error:
            log.storage_error(error)
            if is_passing(error):
                self._unfinished[key] = swap
            return
        if not swap.is_whole:
            return
        directory.cleaner_offsets[key] = swap.end_offset
        # the checkpoint may call the log clean only once the swap outlives a power cut
        path = directory.file(CLEANER_OFFSETS)
        self._writer.later(path, dict(directory.cleaner_offsets), folder=log.directory)

    def failed(self, found: LogToClean, request: CleanRequest, error: Exception | None) -> None:
        key, log = found.key, found.log
        begun = self._running.pop(key)
        present = {segment.base_offset for segment in log.segments}
        if self._loaded.get(key) is not log or (log.segments, log.truncations) != begun:
            return  # deleted, moved or cut meanwhile: that is the reason
        if any(base not in present for base, _ in request.segments):
            return  # shortened meanwhile
        is_defect = isinstance(error, OSError) and error.errno is None  # made by the owner of the threads
        if error is not None and (is_defect or isinstance(error, ValueError)):
            self._leave_alone(key, log, error)
            return
        logger.warning("The cleaning of %s-%d is tried again: %s", *key, error)
        if isinstance(error, OSError):
            log.storage_error(error)

    def _leave_alone(self, key: PartitionKey, log: PartitionLog, error: Exception) -> None:
        if isinstance(error, DamagedLog):
            log.met_damage(error)
        if self._loaded.get(key) is log:
            self.uncleanable[key] = log
            logger.error("%s-%d can't be cleaned and is left as it is: %s", *key, error)
