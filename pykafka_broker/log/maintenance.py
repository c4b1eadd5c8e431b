"""Periodic tasks on logs: syncs, checkpoints, retention, expiry of idle producers.

Rule: each task has its interval from the broker's configuration. A task looks at what is in memory, at some logs at a
time with requests served in between, and leaves work that may block to a job.

Only the manager reads this module: the timed tasks and their rounds are a subject of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from pykafka_broker.clock import Clock
from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.log.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, CheckpointWriter
from pykafka_broker.log.log_directory import METADATA_TOPIC, LogDirectory
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.enums import PartitionKey

Look = Callable[[PartitionKey, PartitionLog], None]

_NEVER = 0x7FFFFFFFFFFFFFFF
_RETAINED_AT_ONCE = 50  # logs or segments, in some ten milliseconds
_RETENTION_PAUSE_MS = 50
_LOOKED_AT_ONCE = 2000  # logs, in some milliseconds
_LOOK_PAUSE_MS = 10


class _Task:
    """Work on many logs at an interval, in rounds.

    Args:
        interval_ms: 0 and less mean never.
        keys: returns the partitions of a round.
        look: called with each partition, `at_once` of them at a time. Returns how many looks the call counts for, None
            for one; a partition that takes up a whole turn is looked at again.
        end: called after the last partition.
    """

    def __init__(
        self,
        interval_ms: int,
        keys: Callable[[], Iterable[PartitionKey]],
        look: Callable[[PartitionKey], int | None],
        end: Callable[[], object] = lambda: None,
        *,
        at_once: int,
        pause_ms: int,
    ) -> None:
        self.interval_ms = interval_ms if interval_ms > 0 else _NEVER
        self.due = _NEVER
        self._keys = keys
        self._look = look
        self._end = end
        self._at_once = at_once
        self._pause_ms = pause_ms
        self._left: list[PartitionKey] = []  # not reached by the current round
        self._hurried = -1  # the time of a round without pauses

    def begin_round(self, now: int) -> None:
        """Begin a round without pauses: while a test's clock stands still, a pause would never end."""
        self._left.clear()
        self.due = self._hurried = now

    def run(self, now: int) -> None:
        """Look at the next logs of the round, or at the first logs of a new round."""
        self.due = min(now + self.interval_ms, _NEVER)
        if not self._left:
            self._left = [*self._keys()]
        looks = self._at_once
        while self._left and looks > 0:
            key = self._left.pop()
            done = self._look(key) or 1
            if done >= self._at_once:
                self._left.append(key)
            looks -= done
        if self._left:
            self.due = now if now == self._hurried else now + self._pause_ms
        else:
            self._end()


class LogMaintenance:
    """The periodic tasks and the checkpoints of a log manager."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        directories: list[LogDirectory],
        where: dict[PartitionKey, LogDirectory],
        loaded: dict[PartitionKey, PartitionLog],
        writer: CheckpointWriter,
        *,
        flush: Callable[[PartitionLog, int], None],
        to_retain: Callable[[], Iterable[PartitionKey]],
        retain: Callable[[PartitionKey, int], int],
    ) -> None:
        """Make the tasks of the logs in `loaded`; `start` sets the times.

        Args:
            config: returns the broker's settings of the moment; the intervals are taken once.
            directories, where, loaded: the manager's own, which change.
            flush: syncs a log beside the loop.
            to_retain: returns the partitions that retention looks at, loaded or not.
            retain: deletes expired segments of a log, a given number at the most, and returns how many.
        """
        self._config = config
        self._clock = clock
        self._directories = directories
        self._where = where
        self._loaded = loaded
        self._writer = writer
        self._flush = flush
        config_at_start = config()
        self._retention = _Task(
            config_at_start.log_retention_check_interval_ms,
            to_retain,
            lambda key: retain(key, _RETAINED_AT_ONCE),
            at_once=_RETAINED_AT_ONCE,
            pause_ms=_RETENTION_PAUSE_MS,
        )
        self._expiry = self._each_log(config_at_start.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._due = _NEVER  # the earliest due time of the tasks, asked for after every request
        self._tasks = [
            self._each_log(config_at_start.log_flush_scheduler_interval_ms, self._flush_due),
            self._checkpoint(config_at_start.log_flush_offset_checkpoint_interval_ms, RECOVERY_POINTS),
            self._checkpoint(config_at_start.log_flush_start_offset_checkpoint_interval_ms, LOG_START_OFFSETS),
            self._checkpoint(config_at_start.replica_high_watermark_checkpoint_interval_ms, HIGH_WATERMARKS),
            self._retention,
            self._expiry,
        ]

    def _each_log(self, interval_ms: int, look: Look, end: Callable[[], object] = lambda: None) -> _Task:
        """Return a task over all loaded logs."""
        loaded = self._loaded

        def look_at(key: PartitionKey) -> None:
            if (log := loaded.get(key)) is not None:
                look(key, log)

        return _Task(interval_ms, lambda: loaded, look_at, end, at_once=_LOOKED_AT_ONCE, pause_ms=_LOOK_PAUSE_MS)

    def _checkpoint(self, interval_ms: int, name: str) -> _Task:
        return self._each_log(interval_ms, partial(self._note, name), partial(self._write, name))

    def start(self, now: int) -> None:
        for directory in self._directories:
            if directory.online:
                for name, offsets in directory.checkpointed.items():
                    self._writer.note(directory.file(name), dict(offsets))
                directory.forget_deleted()
        for task in self._tasks:
            task.due = min(now + task.interval_ms, _NEVER)
        self._due = min(task.due for task in self._tasks)

    def next_deadline(self) -> int | None:
        return self._due if self._due < _NEVER else None

    def on_deadline(self, now: int) -> None:
        for task in self._tasks:
            if task.due <= now:
                task.run(now)
        self._due = min(task.due for task in self._tasks)

    def look_now(self, now: int) -> None:
        """Run retention and the expiry of producers now, whatever the intervals."""
        self._retention.begin_round(now)
        self._expiry.begin_round(now)
        self._due = now

    def _flush_due(self, key: PartitionKey, log: PartitionLog) -> None:
        now = self._clock.now
        if log.recovery_point < log.log_end_offset and now - log.last_flush_ms >= log.config.flush_ms:
            self._flush(log, now)

    def _expire_producers(self, key: PartitionKey, log: PartitionLog) -> None:
        log.producers.expire(self._clock.wall, self._config().producer_id_expiration_ms)

    # -- checkpoints

    def _note(self, name: str, key: PartitionKey, log: PartitionLog) -> None:
        """Note the log's offset of the checkpoint `name` in the directory of the log."""
        if (directory := self._where.get(key)) is not None:
            offset = _OFFSET_OF[name](log)
            if offset is None:
                directory.checkpointed[name].pop(key, None)
            else:
                directory.checkpointed[name][key] = offset

    def _write(self, name: str) -> None:
        for directory in self._directories:
            if directory.online:
                self._writer.later(directory.file(name), directory.checkpointed[name].copy())

    def offsets(self, directory: LogDirectory, name: str) -> dict[PartitionKey, int]:
        """Return the content of a checkpoint as of now."""
        if name in _OFFSET_OF:
            for key, log in self._loaded.items():
                if self._where.get(key) is directory:
                    self._note(name, key, log)
        return directory.checkpointed[name].copy()

    def write_checkpoints(self, directory: LogDirectory) -> None:
        """Write every checkpoint of a directory and return when the writes are done."""
        for name in directory.checkpointed:
            self._writer.now(directory.file(name), self.offsets(directory, name))

    def drop_checkpoints(self, directory: LogDirectory, *keys: PartitionKey) -> None:
        """Remove partitions from a directory's checkpoints before logs of the same names are made or put aside.

        Otherwise, after a crash, offsets of the earlier log would be taken for the new one's.

        Raises:
            OSError: the disk refused.
        """
        for key in keys:
            directory.forget(key)
        if any(self._writer.mentions(key, directory.offset_files) for key in keys):
            self.write_checkpoints(directory)


def _log_start(log: PartitionLog) -> int | None:
    """Return the log start, if above the base offset of the first segment."""
    return log.log_start_offset if log.log_start_offset > log.segments.first.base_offset else None


_OFFSET_OF: dict[str, Callable[[PartitionLog], int | None]] = {  # None: no entry
    RECOVERY_POINTS: lambda log: log.recovery_point,
    LOG_START_OFFSETS: _log_start,
    HIGH_WATERMARKS: lambda log: log.high_watermark if log.topic != METADATA_TOPIC else None,
}
