"""What is done to logs from time to time: syncing, checkpoints, retention, forgetting idle producers.

Rule: each task has its interval from the broker's configuration. A task looks at what is in memory and gives what may
block to a job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka_broker.errors import ApiError
from pykafka_broker.log import checkpoints
from pykafka_broker.log.checkpoint_writer import CheckpointWriter
from pykafka_broker.log.log_directory import METADATA_TOPIC, LogDirectory, TopicPartition
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.scan import DamagedLog

if TYPE_CHECKING:
    from pykafka_broker.log.manager import LogManager

logger = logging.getLogger(__name__)

_NEVER = 0x7FFFFFFFFFFFFFFF
_RETAINED_AT_ONCE = 50
_RETENTION_PAUSE_MS = 50


class _Task:
    __slots__ = ("due", "interval_ms", "run")

    def __init__(self, interval_ms: int, run: Callable[[int], None]) -> None:
        self.interval_ms = interval_ms
        self.run = run
        self.due = _NEVER


class Upkeep:
    def __init__(self, manager: LogManager) -> None:
        config = manager.config
        self._manager = manager
        self.checkpoints = CheckpointWriter(manager.fs, manager.submit, manager.path_failed)
        self._to_retain: list[TopicPartition] = []
        self._retention = _Task(config.log_retention_check_interval_ms, self._retain)
        self._expiry = _Task(config.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._due = _NEVER  # the earliest of the tasks' times, which is asked for after every request
        self._tasks = [
            _Task(config.log_flush_scheduler_interval_ms, self._flush_due),
            _Task(config.log_flush_offset_checkpoint_interval_ms, self._checkpoint_recovery_points),
            _Task(config.log_flush_start_offset_checkpoint_interval_ms, self._checkpoint_log_starts),
            _Task(config.replica_high_watermark_checkpoint_interval_ms, self._checkpoint_high_watermarks),
            self._retention,
            self._expiry,
        ]

    def start(self, now: int) -> None:
        for directory in self._manager.directories:
            if directory.online:
                for name, offsets in directory.checkpointed():
                    self.checkpoints.note(directory.file(name), dict(offsets))
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
        """What is done when it is old enough is looked at now, and not only after the interval."""
        self._retention.due = self._expiry.due = self._due = now

    # -- tasks

    def _flush_due(self, now: int) -> None:
        for log in list(self._manager.loaded.values()):
            if log.recovery_point < log.log_end_offset and now - log.last_flush_ms >= log.config.flush_ms:
                self._manager.flush(log, now)

    def _retain(self, now: int) -> None:
        """Some logs at a time, those not yet loaded too: nobody may ever ask for them, but their time comes as well. In
        what was made since the start and never asked for there is nothing.
        """
        manager = self._manager
        if not self._to_retain:
            damaged = manager.damaged
            self._to_retain = [key for key in manager.partitions() if key[0] != METADATA_TOPIC and key not in damaged]
        for key in self._to_retain[-_RETAINED_AT_ONCE:]:
            try:
                directory = manager.directory_of(key)
                if directory is not None and directory.online and not manager.is_fresh(*key):
                    manager.get(*key).retain(manager.clock.wall)
            except (ApiError, DamagedLog) as error:
                logger.warning("No retention for %s-%d: %s", *key, error)
            except OSError as error:
                manager.loaded[key].storage_error(error)
        del self._to_retain[-_RETAINED_AT_ONCE:]
        if self._to_retain:
            self._retention.due = now + _RETENTION_PAUSE_MS

    def _expire_producers(self, now: int) -> None:
        wall, expiration_ms = self._manager.clock.wall, self._manager.config.producer_id_expiration_ms
        for log in self._manager.loaded.values():
            log.producers.expire(wall, expiration_ms)

    def _checkpoint_recovery_points(self, now: int) -> None:
        for directory in self._manager.directories:
            if directory.online:
                self.checkpoints.later(directory.file(checkpoints.RECOVERY_POINTS), self.recovery_points(directory))

    def _checkpoint_log_starts(self, now: int) -> None:
        for directory in self._manager.directories:
            if directory.online:
                self.checkpoints.later(directory.file(checkpoints.LOG_START_OFFSETS), self.log_start_offsets(directory))

    def _checkpoint_high_watermarks(self, now: int) -> None:
        for directory in self._manager.directories:
            if directory.online:
                self.checkpoints.later(directory.file(checkpoints.HIGH_WATERMARKS), self.high_watermarks(directory))

    # -- checkpoints

    def _logs(self, directory: LogDirectory) -> list[tuple[TopicPartition, PartitionLog]]:
        where = self._manager.directory_map.where.get
        return [item for item in self._manager.loaded.items() if where(item[0]) is directory]

    def recovery_points(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        directory.recovery_points.update([(key, log.recovery_point) for key, log in self._logs(directory)])
        return directory.recovery_points.copy()

    def log_start_offsets(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        """Only those that the first segment doesn't tell."""
        starts = directory.log_start_offsets
        for key, log in self._logs(directory):
            if log.log_start_offset > log.segments.first.base_offset:
                starts[key] = log.log_start_offset
            elif key in starts:
                del starts[key]
        return starts.copy()

    def high_watermarks(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        directory.high_watermarks.update(
            [(key, log.high_watermark) for key, log in self._logs(directory) if key[0] != METADATA_TOPIC]
        )
        return directory.high_watermarks.copy()

    def offsets(self, directory: LogDirectory) -> list[tuple[str, dict[TopicPartition, int]]]:
        """What checkpoints would say now, by their names."""
        return [
            (checkpoints.RECOVERY_POINTS, self.recovery_points(directory)),
            (checkpoints.LOG_START_OFFSETS, self.log_start_offsets(directory)),
            (checkpoints.HIGH_WATERMARKS, self.high_watermarks(directory)),
            (checkpoints.CLEANER_OFFSETS, dict(directory.cleaner_offsets)),
        ]

    def write_checkpoints(self, directory: LogDirectory) -> None:
        """All of them, now."""
        for name, offsets in self.offsets(directory):
            self.checkpoints.now(directory.file(name), offsets)

    def disown(self, directory: LogDirectory, key: TopicPartition) -> None:
        """A log is about to be made: on disk there must be no word of an earlier one of that name, or after a crash its
        offsets would be taken for the new one's."""
        directory.forget(key)
        if self.checkpoints.mentions(key, directory.offset_files):
            self.write_checkpoints(directory)
