"""Periodic tasks on logs: syncs, checkpoints, retention, expiry of idle producers.

Rule: each task has its interval from the broker's configuration. A task looks at what is in memory, at some logs at a
time with requests served in between, and leaves work that may block to a job.

Only the manager reads this module: the timed tasks and their rounds are a subject of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka_broker.errors import ApiError
from pykafka_broker.log import checkpoints
from pykafka_broker.log.checkpoints import CheckpointWriter
from pykafka_broker.log.log_directory import METADATA_TOPIC, LogDirectory, TopicPartition
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.scan import DamagedLog

if TYPE_CHECKING:
    from pykafka_broker.log.manager import LogManager

logger = logging.getLogger(__name__)

Look = Callable[[TopicPartition, PartitionLog], None]
Note = Callable[[LogDirectory, TopicPartition, PartitionLog], None]

_NEVER = 0x7FFFFFFFFFFFFFFF
_RETAINED_AT_ONCE = 50
_RETENTION_PAUSE_MS = 50
_LOOKED_AT_ONCE = 2000  # logs, in some milliseconds
_LOOK_PAUSE_MS = 10


class _Task:
    """Work at an interval, in rounds. left: logs not reached by the current round."""

    __slots__ = ("_hurried", "due", "interval_ms", "left", "run")

    def __init__(self, interval_ms: int, run: Callable[[int], None]) -> None:
        self.interval_ms = interval_ms
        self.run = run
        self.due = _NEVER
        self.left: list[TopicPartition] = []
        self._hurried = -1

    def begin_round(self, now: int) -> None:
        """Begin a round over every log without a pause: while the clock stands still, a pause would never end."""
        self.left.clear()
        self.due = self._hurried = now

    def continue_round(self, now: int, pause_ms: int) -> None:
        """Continue with the rest of the logs after the pause."""
        self.due = now if now == self._hurried else now + pause_ms


class _Round(_Task):
    """A task over all loaded logs, some at a time: calls `look` for each log, and `end` after the last."""

    __slots__ = ("_end", "_look", "_manager")

    def __init__(self, interval_ms: int, manager: LogManager, look: Look, end: Callable[[], None]) -> None:
        super().__init__(interval_ms, self._continue)
        self._manager = manager
        self._look = look
        self._end = end

    def _continue(self, now: int) -> None:
        loaded = self._manager.loaded
        if not self.left:
            self.left = list(loaded)
        for key in self.left[-_LOOKED_AT_ONCE:]:
            log = loaded.get(key)
            if log is not None:
                self._look(key, log)
        del self.left[-_LOOKED_AT_ONCE:]
        if self.left:
            self.continue_round(now, _LOOK_PAUSE_MS)
        else:
            self._end()


class LogMaintenance:
    """The periodic tasks of a log manager."""

    def __init__(self, manager: LogManager) -> None:
        config = manager.config
        self._manager = manager
        self.checkpoints = CheckpointWriter(manager.fs, manager.submit, manager.path_failed)
        self._retention = _Task(config.log_retention_check_interval_ms, self._retain)
        self._expiry = self._round(config.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._due = _NEVER  # the earliest due time of the tasks, asked for after every request
        self._tasks = [
            self._round(config.log_flush_scheduler_interval_ms, self._flush_due),
            self._round(
                config.log_flush_offset_checkpoint_interval_ms,
                self._noting(_note_recovery_point),
                lambda: self._write(checkpoints.RECOVERY_POINTS, lambda directory: directory.recovery_points),
            ),
            self._round(
                config.log_flush_start_offset_checkpoint_interval_ms,
                self._noting(_note_log_start),
                lambda: self._write(checkpoints.LOG_START_OFFSETS, lambda directory: directory.log_start_offsets),
            ),
            self._round(
                config.replica_high_watermark_checkpoint_interval_ms,
                self._noting(_note_high_watermark),
                lambda: self._write(checkpoints.HIGH_WATERMARKS, lambda directory: directory.high_watermarks),
            ),
            self._retention,
            self._expiry,
        ]

    def _round(self, interval_ms: int, look: Look, end: Callable[[], None] = lambda: None) -> _Round:
        return _Round(interval_ms, self._manager, look, end)

    def start(self, now: int) -> None:
        for directory in self._manager.directories:
            if directory.online:
                for name, offsets in directory.checkpointed():
                    self.checkpoints.note(directory.file(name), dict(offsets))
                directory.forget_deleted()
        for task in self._tasks:
            task.due = min(now + task.interval_ms, _NEVER)
        self._due = min(task.due for task in self._tasks)

    def next_deadline(self) -> int | None:
        return self._due if self._due < _NEVER else None

    def on_deadline(self, now: int) -> None:
        for task in self._tasks:
            if task.due <= now:
                task.due = min(now + task.interval_ms, _NEVER)
                task.run(now)
        self._due = min(task.due for task in self._tasks)

    def look_now(self, now: int) -> None:
        """Run retention and the expiry of producers now, whatever the intervals."""
        self._retention.begin_round(now)
        self._expiry.begin_round(now)
        self._due = now

    # -- tasks

    def _flush_due(self, key: TopicPartition, log: PartitionLog) -> None:
        now = self._manager.clock.now
        if log.recovery_point < log.log_end_offset and now - log.last_flush_ms >= log.config.flush_ms:
            self._manager.flush(log, now)

    def _retain(self, now: int) -> None:
        """Retain some logs at a time.

        Logs that no request has loaded are loaded for it, since their records expire too; logs that were made since the
        start and never loaded are empty.
        """
        manager, task = self._manager, self._retention
        if not manager.topics_are_known:
            return
        if not task.left:
            damaged = manager.damaged
            task.left = [key for key in manager.partitions() if key[0] != METADATA_TOPIC and key not in damaged]
        for key in task.left[-_RETAINED_AT_ONCE:]:
            try:
                directory = manager.directory_of(key)
                if directory is not None and directory.online and not manager.is_fresh(*key):
                    manager.get(*key).retain(manager.clock.wall)
            except (ApiError, DamagedLog) as error:
                logger.warning("No retention for %s-%d: %s", *key, error)
            except OSError as error:
                manager.loaded[key].storage_error(error)
        del task.left[-_RETAINED_AT_ONCE:]
        if task.left:
            task.continue_round(now, _RETENTION_PAUSE_MS)

    def _expire_producers(self, key: TopicPartition, log: PartitionLog) -> None:
        log.producers.expire(self._manager.clock.wall, self._manager.config.producer_id_expiration_ms)

    def _noting(self, note: Note) -> Look:
        where = self._manager.directory_map.where

        def look(key: TopicPartition, log: PartitionLog) -> None:
            directory = where.get(key)
            if directory is not None:
                note(directory, key, log)

        return look

    def _write(self, name: str, offsets_of: Callable[[LogDirectory], dict[TopicPartition, int]]) -> None:
        for directory in self._manager.directories:
            if directory.online:
                self.checkpoints.later(directory.file(name), offsets_of(directory).copy())

    # -- checkpoints

    def _noted(self, directory: LogDirectory, note: Note) -> None:
        where = self._manager.directory_map.where.get
        for key, log in self._manager.loaded.items():
            if where(key) is directory:
                note(directory, key, log)

    def recovery_points(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        self._noted(directory, _note_recovery_point)
        return directory.recovery_points.copy()

    def log_start_offsets(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        """Return the log starts above the base offset of the first segment."""
        self._noted(directory, _note_log_start)
        return directory.log_start_offsets.copy()

    def high_watermarks(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        self._noted(directory, _note_high_watermark)
        return directory.high_watermarks.copy()

    def offsets(self, directory: LogDirectory) -> list[tuple[str, dict[TopicPartition, int]]]:
        """Return the content of every checkpoint as of now, by file name."""
        return [
            (checkpoints.RECOVERY_POINTS, self.recovery_points(directory)),
            (checkpoints.LOG_START_OFFSETS, self.log_start_offsets(directory)),
            (checkpoints.HIGH_WATERMARKS, self.high_watermarks(directory)),
            (checkpoints.CLEANER_OFFSETS, dict(directory.cleaner_offsets)),
        ]

    def write_checkpoints(self, directory: LogDirectory) -> None:
        """Write every checkpoint of a directory and return when the writes are done."""
        for name, offsets in self.offsets(directory):
            self.checkpoints.now(directory.file(name), offsets)

    def drop_checkpoints(self, directory: LogDirectory, *keys: TopicPartition) -> None:
        """Remove partitions from the checkpoints before logs of the same names are made or put aside.

        Otherwise, after a crash, offsets of the earlier log would be taken for the new one's.
        """
        for key in keys:
            directory.forget(key)
        if any(self.checkpoints.mentions(key, directory.offset_files) for key in keys):
            self.write_checkpoints(directory)


def _note_recovery_point(directory: LogDirectory, key: TopicPartition, log: PartitionLog) -> None:
    directory.recovery_points[key] = log.recovery_point


def _note_log_start(directory: LogDirectory, key: TopicPartition, log: PartitionLog) -> None:
    if log.log_start_offset > log.segments.first.base_offset:
        directory.log_start_offsets[key] = log.log_start_offset
    else:
        directory.log_start_offsets.pop(key, None)


def _note_high_watermark(directory: LogDirectory, key: TopicPartition, log: PartitionLog) -> None:
    if key[0] != METADATA_TOPIC:
        directory.high_watermarks[key] = log.high_watermark
