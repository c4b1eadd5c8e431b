"""All logs of this broker (Kafka: LogManager).

Rule: a start after a clean shutdown lists folders and opens nothing; the first request for a log loads it. After a
crash every log is recovered before the first request: unsynced records are checked. A directory that fails goes offline
alone. The manager knows one `LogListener`, from its constructor on, and tells the rest of the broker nothing else.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable
from functools import partial

from pykafka_broker.clock import Clock, Timed, earliest_deadline
from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.config.topic import TopicConfig
from pykafka_broker.errors import ApiError, counted
from pykafka_broker.log.checkpoints import (
    CLEANER_OFFSETS,
    METADATA_TOPIC_ID,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    RESTORED,
    UNASSIGNED,
    CheckpointWriter,
    same_but_damaged,
)
from pykafka_broker.log.compaction.cleaner import Cleaner
from pykafka_broker.log.deletion import Deletions, Remover
from pykafka_broker.log.directory_map import DirectoryMap, DirectoryOpener, quarantine
from pykafka_broker.log.filesystem import FileCache, FileSystem, is_passing
from pykafka_broker.log.flush import Flushers, Waiter
from pykafka_broker.log.jobs import Job, Submit, ThreadPool, in_threads, run_inline
from pykafka_broker.log.loading import FolderRecovery, create_log, load_log, recover_folder
from pykafka_broker.log.log_directory import (
    METADATA_TOPIC,
    LogDirectory,
    LogDirectoryError,
    close_directory,
)
from pykafka_broker.log.maintenance import LogMaintenance
from pykafka_broker.log.moving import Moves
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.scan import DamagedLog, help_for, remedy
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.log.uncreated_logs import UncreatedLogs
from pykafka_broker.platform import open_files_limit
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import ZERO_UUID

logger = logging.getLogger(__name__)

_OPEN_FILES = 4096
_BETWEEN_REFUSALS_MS = 60_000  # in the log, of one directory
_HANDED_OVER = OSError(errno.ESTALE, "another broker has the directory now")


class LogListener:
    """A listener for logs without a node, without any action; the broker overrides every method."""

    def is_replicated(self, partition: PartitionKey) -> bool:
        """Return whether the partition has other replicas; the log then begins with the checkpointed high watermark."""
        return False

    def synced(self, log: PartitionLog) -> None:
        """Act on more durable records in the log."""

    def lost(self, log: PartitionLog, offset: int, error: OSError) -> None:
        """Act on the loss of the records from `offset` on, by a truncation or a failed sync."""

    def directory_failed(self, directory: LogDirectory, partitions: list[PartitionKey]) -> None:
        """Act on a directory gone offline with some partitions."""

    def can_spare(self, partition: PartitionKey) -> bool:
        """Return whether another replica in sync takes the place of a log that is out of service."""
        return False

    def damaged(self, partition: PartitionKey) -> None:
        """Act on a partition that is out of service because its log is damaged."""

    def moving(self, partition: PartitionKey, target: LogDirectory, waiter: Waiter) -> None:
        """Announce a coming move of the partition to `target`; call `waiter` when the metadata is synced."""
        waiter(None)

    def moved(self, partition: PartitionKey) -> None:
        """Act on a partition's move to another directory."""


def _open_files() -> int:
    """Return how many segment files may be open: half of the process's limit; the rest is for connections."""
    limit = open_files_limit()
    return _OPEN_FILES if limit is None else min(_OPEN_FILES, limit // 2)


def _metadata_topic_config(config: BrokerConfig) -> TopicConfig:
    """Return the settings of `__cluster_metadata`: the `metadata.*` keys, and no retention (snapshots decide that)."""
    overrides = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "segment.bytes": str(config.metadata_log_segment_bytes),
        "segment.ms": str(config.metadata_log_segment_ms),
    }
    return TopicConfig.resolve(config, overrides)


class LogManager:
    """The logs in `log.dirs`, by partition; also the `LogKeeper` of the logs."""

    def __init__(
        self,
        fs: FileSystem,
        config: BrokerConfig,
        *,
        new_uuid: Callable[[], bytes],
        clock: Clock,
        topic_config: Callable[[str], TopicConfig] | None = None,
        submit: Submit = run_inline,
        thread_pool: ThreadPool | None = None,
        cluster_id: str = "",
        listener: LogListener | None = None,
    ) -> None:
        """Make the manager of `log.dirs`; `start` reads the directories.

        Args:
            topic_config: returns a topic's settings.
            cluster_id: the cluster that the directories must belong to, and new ones get; empty for the one that the
                directories name, or a new one.
            listener: acts on events of the logs.
        """
        self.fs = fs
        self.config = config
        self.new_uuid = new_uuid
        self.clock = clock
        self.topic_config = topic_config or (lambda topic: config.topic_defaults)
        self.submit = submit
        self.thread_pool = thread_pool
        self.files = FileCache(fs, _open_files())
        self.directories: list[LogDirectory] = []
        self.cluster_id = cluster_id
        self.listener = LogListener() if listener is None else listener
        self._is_closing = False  # the listener hears nothing any more, since logs are closed in threads
        self.metadata_is_elsewhere = False  # other nodes keep the metadata log, so that it can be fetched again
        self._restored = False  # an earlier state has taken the place of a later one: producers may have gone on
        # Until topics' own settings are known, no records are deleted or compacted: the defaults may keep less.
        self.topics_are_known = True
        self.loaded: dict[PartitionKey, PartitionLog] = {}
        self._refused_ms: dict[LogDirectory, int] = {}  # when the log last told of a directory without room
        self.damaged: dict[PartitionKey, DamagedLog] = {}  # out of service until the next start
        self.directory_map = DirectoryMap(
            self.directories, lambda: [*map(os.path.abspath, self.config.cordoned_dirs)], self.directory_failed
        )
        self._where = self.directory_map.where
        self._flushers = Flushers(self._submit)
        self._uncreated = UncreatedLogs(fs, self._submit, self.path_failed)
        cannot_remove = "Could not remove deleted files; the next start at the latest tries again: %s"
        self._remover = Remover(fs, submit, partial(logger.warning, cannot_remove))
        self._deletions = Deletions(
            self.files,
            lambda: self.new_uuid(),
            self._submit,
            self.directory_failed,
            self._uncreated,
            self._remover,
        )
        self.checkpoints = CheckpointWriter(fs, self._submit, self.path_failed)
        self.maintenance = LogMaintenance(
            lambda: self.config,
            self.clock,
            self.directories,
            self._where,
            self.loaded,
            self.checkpoints,
            flush=self.flush,
            to_retain=self._to_retain,
            retain=self._retain,
        )
        self.cleaner = Cleaner(
            fs,
            lambda: self.config,
            self.clock,
            self._submit,
            self._where,
            self.loaded,
            self.checkpoints,
            may_clean=lambda: self.topics_are_known,
            is_moving=lambda key: key in self.moves,
        )
        self._timed: tuple[Timed, ...] = self._flushers, self.maintenance, self._deletions, self._remover, self.cleaner
        self.moves = Moves(self)

    # -- life

    def start(self, now: int, *, with_metadata: bool = False) -> None:
        """Open the directories and recover the logs.

        Raises:
            LogDirectoryError: no directory can be used; or, `with_metadata`, the metadata log is missing.
        """
        opener = DirectoryOpener(
            self.directory_map,
            self.config,
            self.new_uuid,
            self._attempt,
            self.cluster_id,
            may_found_cluster=not self.metadata_is_elsewhere,
        )
        due = self.clock.now + self.config.topic_defaults.file_delete_delay_ms
        for path in opener.open(self.fs):
            self._remover.folder_later(due, path)
        self.cluster_id = opener.cluster_id
        for directory in self.directories:
            self._attempt(directory, self._note_restore, directory)
        if with_metadata:
            self.directory_of_metadata_log()
        opener.recover(self._recover)
        self.maintenance.start(now)
        self.cleaner.start(now)

    def _note_restore(self, directory: LogDirectory) -> None:
        if directory.online and self.fs.exists(directory.file(RESTORED)):
            self.fs.remove(directory.file(RESTORED))
            self._restored = True

    def _recover(self, directory: LogDirectory) -> None:
        """Recover every partition of a directory, several at a time where threads are given.

        Topics' own settings aren't known yet; of the broker's settings only the density of indexes matters.
        """
        config, files, wall = self.config.topic_defaults, self.files, self.clock.wall

        def recover(partition: PartitionKey) -> None:
            topic, index = partition
            path, offsets = directory.partition_path(partition), directory.offsets(partition)
            try:
                if topic == METADATA_TOPIC:
                    FolderRecovery(files, path, f"{topic}-{index}", config, offsets, wall, contiguous=True).run()
                else:
                    recovered = recover_folder(files, path, f"{topic}-{index}", config, offsets, wall)
                    if recovered.log_end_offset > offsets.recovery_point:
                        directory.recovered.add(partition)
            except DamagedLog as damage:
                if topic == METADATA_TOPIC:
                    raise LogDirectoryError(f"{damage}; {remedy(directory.path)}") from damage
                directory.whole = False
                self._out_of_service(partition, damage)

        if not directory.clean:
            partitions = self.directory_map.in_directory(directory)
            in_threads(self.thread_pool, self.config.num_recovery_threads_per_data_dir, recover, partitions)
        directory.ready = True

    def _attempt(self, directory: LogDirectory, action: Callable[..., None], *arguments: object) -> None:
        """Run `action`; if the disk fails, take the directory offline. Another broker's lock ends the start."""
        try:
            action(*arguments)
        except (OSError, DamagedLog) as error:
            self.take_offline(directory, error)

    def stop_jobs(self) -> None:
        """Cancel cleanings and moves, which take long and are worth nothing half done; then jobs can be waited for."""
        self.cleaner.cancel()
        self.moves.cancel_all()

    def shutdown(self, now: int) -> None:
        """Sync and close every log, write the checkpoints and, last of all, the marker."""
        self._is_closing = True
        self._deletions.complete(now)
        self._uncreated.finish()
        for directory in self.online():
            if directory.ready:
                self._attempt(directory, self._close, directory, now)
        for directory in self.directories:
            directory.release()

    def _close(self, directory: LogDirectory, now: int) -> None:
        for partition in directory.recovered:
            if self._where.get(partition) is directory and partition not in self.loaded:
                try:
                    self._load(partition)  # to be synced
                except ApiError:
                    directory.whole = False
        logs = [log for partition, log in self.loaded.items() if self._where.get(partition) is directory]
        close_directory(directory, logs, self.thread_pool, self.maintenance.write_checkpoints, now)

    def hand_over(self) -> None:
        """Leave the directories to another broker: no path in a directory is used any more.

        Open files stay usable for their readers. The caller calls `close_files` next.
        """
        self._is_closing = True
        self.stop_jobs()
        for directory in self.directories:
            directory.error = _HANDED_OVER
            directory.release()

    def close_files(self) -> None:
        """Fail every wait for a sync and close all files, after `hand_over`."""
        self._flushers.fail_all(_HANDED_OVER)
        self.loaded.clear()
        self.files.forget_all()

    @property
    def partition_directories(self) -> list[LogDirectory]:
        """Return the directories of `log.dirs`."""
        return [directory for directory in self.directories if not directory.metadata_only]

    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.online]

    # -- logs

    def get(self, topic: str, partition: int) -> PartitionLog:
        """Return the log of a partition; the first call loads the log.

        Raises:
            ApiError: UNKNOWN_TOPIC_OR_PARTITION if there is no log here, KAFKA_STORAGE_ERROR if its disk fails or the
                log is out of service.
        """
        key = topic, partition
        log = self.loaded.get(key)
        return log if log is not None else self._load(key)

    def _load(self, key: PartitionKey) -> PartitionLog:
        topic, partition = key
        directory = self._where.get(key)
        if directory is None:
            if key in self.directory_map.ambiguous:
                raise ApiError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"It can't be told which copy is the log of {topic}-{partition}"
                )
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no log of {topic}-{partition} here")
        if directory.error is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Offline: {directory.trouble}")
        if key in self.damaged:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.damaged[key]))
        path, offsets = directory.partition_path(key), directory.offsets(key)
        if self.listener.is_replicated(key):
            offsets = offsets._replace(high_watermark=directory.high_watermarks.get(key, 0))
        try:
            topic_id, config = self._uncreated.claim(path), self._config_of(topic)
            if topic_id is None:
                log = load_log(self.files, path, topic, partition, config, offsets, self.clock, self)
                log.producers.restored_end = log.log_end_offset if self._restored else 0
            else:
                where = self.files, path, topic, partition
                log = create_log(*where, topic_id, config, self.clock, self, has_folder=True)
        except OSError as error:
            raise self.directory_failed(directory, error) from error
        except DamagedLog as damage:
            self._out_of_service(key, damage)
            if topic != METADATA_TOPIC:
                self.listener.damaged(key)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(damage)) from damage
        self.loaded[key] = log
        if directory.cleaner_offsets.get(key, 0) > log.log_end_offset:  # the log has lost its end
            directory.cleaner_offsets[key] = log.log_end_offset
        if log.overdue and not self._is_closing:  # a crash may have left records in the system's memory
            self.must_sync(log)
        return log

    def _out_of_service(self, key: PartitionKey, damage: DamagedLog) -> None:
        """Take a damaged partition out of service, and log that, but of the metadata, whose damage ends the start."""
        self.damaged[key] = damage
        if key[0] == METADATA_TOPIC:
            return
        logger.error("%s-%d is out of service: %s%s", *key, damage, help_for(damage, self._where[key].path))

    def is_fresh(self, topic: str, partition: int) -> bool:
        """Return whether the log was made since the start and never loaded: such a log is empty."""
        directory = self._where.get((topic, partition))
        return directory is not None and directory.partition_path((topic, partition)) in self._uncreated

    def exists(self, topic: str, partition: int) -> bool:
        return self.directory_map.has((topic, partition))

    def directory_of(self, partition: PartitionKey) -> LogDirectory | None:
        return self._where.get(partition)

    def size_of(self, partition: PartitionKey) -> int:
        """Return the bytes in a partition's segments, without loading the log. Raises KAFKA_STORAGE_ERROR."""
        log, directory = self.loaded.get(partition), self._where[partition]
        if log is not None:
            return log.segments.size_bytes
        try:
            return directory.size_of(partition)
        except OSError as error:
            raise self.directory_failed(directory, error) from error

    def partitions(self) -> Iterable[PartitionKey]:
        """Return all partitions with a folder."""
        return self._where.keys()

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        now: int,
        *,
        directory_id: bytes = UNASSIGNED,
        new: bool = True,
    ) -> PartitionLog:
        """Return a new log, in the named directory or the directory with the fewest partitions; or the existing log.

        Args:
            new: False if the log may have been made before a restart.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR, the log can't be made for now, or may be in an unreadable directory. The
                caller may ask again.
        """
        key = topic, partition
        if key in self._where:
            log = self.get(topic, partition)
            if topic_id in (log.topic_id, ZERO_UUID):
                return log
            if log.topic_id == ZERO_UUID or same_but_damaged(log.topic_id, topic_id):
                self._name(log, topic_id)
                return log
            self.delete(topic, partition, now)  # a log of an earlier topic of that name
        directory = self._directory_for(key, directory_id, new, now)
        path = directory.partition_path(key)
        try:
            log = create_log(self.files, path, topic, partition, topic_id, self._config_of(topic), self.clock, self)
        except OSError as error:
            raise self.directory_failed(directory, error) from error
        self.directory_map.put(key, directory)
        self.loaded[key] = log
        return log

    def make(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        now: int,
        *,
        directory_id: bytes = UNASSIGNED,
        new: bool = True,
    ) -> None:
        """Make a log as `create` does, to be loaded by the first request; a job makes the folder.

        Raises:
            ApiError: as `create`, except for the folder: a failure to make it shows when the log is asked for.
        """
        key = topic, partition
        if key in self._where or self._config_of(topic).preallocate:
            self.create(topic, partition, topic_id, now, directory_id=directory_id, new=new)
            return
        directory = self._directory_for(key, directory_id, new, now)
        self.directory_map.put(key, directory)
        self._uncreated.note(directory.partition_path(key), topic_id)

    def _directory_for(self, key: PartitionKey, directory_id: bytes, new: bool, now: int) -> LogDirectory:
        """Return the directory for a new log, rid of every earlier log of the name.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR, the log can't be made for now.
        """
        self._deletions.finish(key, now)
        directory = self.directory_map.choose(key, directory_id, new=new)
        lost = 0 if new else directory.recovery_points.get(key, 0)
        if lost and directory_id == directory.id:  # otherwise the partition was deleted here and assigned again since
            logger.error("%s-%d had been synced up to %d in %s and is missing now", *key, lost, directory.path)
        try:
            self.maintenance.drop_checkpoints(directory, key)
        except OSError as error:
            raise self.directory_failed(directory, error) from error
        return directory

    def _name(self, log: PartitionLog, topic_id: bytes) -> None:
        if log.topic_id != ZERO_UUID:
            logger.warning("%s/%s has a damaged topic id and is rewritten", log.directory, PARTITION_METADATA)
        try:
            log.assign_topic_id(topic_id)
        except OSError as error:
            raise self.directory_failed(self._where[log.topic, log.partition], error) from error

    def metadata_log(self, now: int) -> PartitionLog:
        """Return `__cluster_metadata-0`, in `metadata.log.dir` or else the first directory; a missing log is made.

        Raises:
            LogDirectoryError: the log can't be had.
        """
        directory = self.directory_of_metadata_log()
        try:
            if (METADATA_TOPIC, 0) in self._where:
                log = self.get(METADATA_TOPIC, 0)
                if log.topic_id != METADATA_TOPIC_ID:
                    self._name(log, METADATA_TOPIC_ID)
                return log
            return self.create(METADATA_TOPIC, 0, METADATA_TOPIC_ID, now, directory_id=directory.id)
        except ApiError as error:
            raise LogDirectoryError(f"{error.message}; {remedy(directory.path)}") from error

    def directory_of_metadata_log(self) -> LogDirectory:
        path = self.config.metadata_log_dir or self.directories[0].path
        return self.directory_map.of_metadata_log(path, may_begin_anew=self.metadata_is_elsewhere)

    def _config_of(self, topic: str) -> TopicConfig:
        return _metadata_topic_config(self.config) if topic == METADATA_TOPIC else self.topic_config(topic)

    def reconfigure(self, topic: str, partitions: Iterable[int], config: TopicConfig) -> None:
        """Apply changed settings to a topic's loaded logs."""
        for partition in partitions:
            log = self.loaded.get((topic, partition))
            if log is not None:
                log.reconfigure(config)

    def delete(self, topic: str, partition: int, now: int) -> None:
        """Delete a partition. Never raises: whatever the disk says, the partition is gone.

        Its folder gets another name, at once or as soon as the disk allows, and is removed after
        `file.delete.delay.ms`.
        """
        key = topic, partition
        self.moves.cancel(key)
        directories = self.directory_map.remove_everywhere(key)
        log = self.loaded.pop(key, None)
        self.damaged.pop(key, None)
        self._flushers.forget(key)
        config = log.config if log is not None else self._config_of(topic)
        for directory in directories:
            if directory.online:
                self._deletions.delete(key, directory, log, config.file_delete_delay_ms, now)

    def _to_retain(self) -> list[PartitionKey]:
        if not self.topics_are_known:
            return []
        return [key for key in self.partitions() if key[0] != METADATA_TOPIC and key not in self.damaged]

    def _retain(self, key: PartitionKey, most: int) -> int:
        """Delete expired segments of a log, `most` of them at a time, and return how many.

        A log that no request has loaded is loaded for it, since its records expire too; a log that was made since the
        start and never loaded is empty.
        """
        directory = self._where.get(key)
        if directory is None or not directory.online or self.is_fresh(*key):
            return 0
        from pykafka_broker.log.retention import retain  # no start waits for the import

        try:
            log = self.get(*key)
        except ApiError as error:
            logger.warning("No retention for %s-%d: %s", *key, error)
            return 0
        try:
            return retain(log, self.clock.wall, most)
        except DamagedLog as damage:
            log.met_damage(damage)
        except OSError as error:
            self.directory_failed(directory, error)
        return 0

    def copies(self) -> list[tuple[PartitionKey, LogDirectory]]:
        """Return every folder of a partition, as pairs of the partition and the directory."""
        found = list(self._where.items())
        return found + [(key, each) for key, held in self.directory_map.ambiguous.items() for each in held]

    def quarantine(self, key: PartitionKey, directory: LogDirectory) -> None:
        """Keep a folder under another name which is no longer a log of the node.

        Where the disk refuses that, the log is out of service. Only retention may have loaded the log since the start.
        """
        if self._where.get(key) is directory:
            self.loaded.pop(key, None)
            self._flushers.forget(key)
        try:
            aside = quarantine(key, directory, self.new_uuid)
        except OSError as error:
            self.directory_failed(directory, error)
            logger.error("%s-%d does not belong to this broker, and can't be put aside: %s", *key, error)
        else:
            logger.warning("%s-%d does not belong to this broker; put aside in %s: %s", *key, directory.path, aside)
            self.directory_map.forget_copy(key, directory)

    def moved(self, key: PartitionKey, old_folder: str, target: LogDirectory) -> PartitionLog:
        """Note a partition's move to `target`, and have the old folder removed later."""
        log = self.loaded[key]
        self._remover.log_later(self.clock.now + log.config.file_delete_delay_ms, old_folder, log)
        self._where[key].forget(key)
        self.directory_map.put(key, target)
        return log

    # -- what logs tell their keeper

    def storage_failed(self, log: PartitionLog, error: OSError) -> None:
        key = log.topic, log.partition
        if self.loaded.get(key) is not log:
            return  # deleted meanwhile
        if isinstance(error, FileNotFoundError) and not str(error.filename).startswith(f"{log.directory}/"):
            return  # moved meanwhile
        self.directory_failed(self._where[key], error)
        if is_passing(error):
            self._flushers.retry(self.clock.now)

    def damaged_log(self, log: PartitionLog, damage: DamagedLog) -> None:
        """Take a log out of service as at a load. Without a clean marker the next start recovers its directory."""
        key = log.topic, log.partition
        if self.loaded.get(key) is not log:
            return
        self.moves.cancel(key)
        del self.loaded[key]
        self._flushers.forget(key)
        self._where[key].whole = False
        self._out_of_service(key, damage)
        self.listener.damaged(key)

    def can_spare(self, log: PartitionLog) -> bool:
        return self.listener.can_spare((log.topic, log.partition))

    def rolled(self, log: PartitionLog) -> None:
        self.flush(log, self.clock.now)

    def must_sync(self, log: PartitionLog) -> None:
        self._flushers.of(log).catch_up(self.clock.now)

    def synced(self, log: PartitionLog) -> None:
        if not self._is_closing:
            self.listener.synced(log)

    def sync_failed(self, log: PartitionLog, error: OSError) -> None:
        self.storage_failed(log, error)
        if not self._is_closing:
            self.listener.lost(log, log.durable_end, error)

    def truncating(self, log: PartitionLog, offset: int) -> None:
        self._flushers.of(log).truncated(offset)
        if not self._is_closing:
            reason = OSError(errno.EIO, f"{log.topic}-{log.partition} was truncated to {offset}")
            self.listener.lost(log, offset, reason)
        key, directory = (log.topic, log.partition), self._where[log.topic, log.partition]
        if directory.cleaner_offsets.get(key, 0) > offset:  # the log will have other records there, to be cleaned too
            directory.cleaner_offsets[key] = offset
            self.checkpoints.now(directory.file(CLEANER_OFFSETS), self.maintenance.offsets(directory, CLEANER_OFFSETS))
        if offset <= log.recovery_point:
            self.checkpoints.now(directory.file(RECOVERY_POINTS), self.maintenance.offsets(directory, RECOVERY_POINTS))

    def segment_deleted(self, log: PartitionLog, segment: LogSegment) -> None:
        self._remover.later(self.clock.now + log.config.file_delete_delay_ms, segment.remove)

    def flush(self, log: PartitionLog, now: int, waiter: Waiter | None = None) -> None:
        """Sync the records in the log by now, off the event loop; `waiter` is called at the end."""
        self._flushers.of(log).request(now, waiter)

    # -- failure

    def directory_failed(self, directory: LogDirectory, error: OSError) -> ApiError:
        if is_passing(error):
            self._log_refusal(directory, error)
        else:
            self.take_offline(directory, error)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.path}: {error}")

    def _log_refusal(self, directory: LogDirectory, error: OSError) -> None:
        """Log that a directory has no room, once a minute: clients see no more than KAFKA_STORAGE_ERROR."""
        last = self._refused_ms.get(directory)
        if last is None or self.clock.now - last >= _BETWEEN_REFUSALS_MS:
            self._refused_ms[directory] = self.clock.now
            text = "Log directory %s: %s; what needs it fails with KAFKA_STORAGE_ERROR until that has changed"
            logger.warning(text, directory.path, error)

    def path_failed(self, path: str, error: OSError) -> None:
        """Handle a failed write or sync of a file in a log directory, or of the directory itself."""
        around = [each for each in self.directories if f"{path}/".startswith(f"{each.path}/")]
        if around:
            # A disk may be mounted within another log directory.
            self.directory_failed(max(around, key=lambda directory: len(directory.path)), error)

    def take_offline(self, directory: LogDirectory, error: Exception) -> None:
        """Take a directory out of service until the next start."""
        if not directory.online:
            return
        directory.error = error
        lost = [partition for partition, where in self._where.items() if where is directory]
        if lost or self.online():  # otherwise nothing is served yet, and the start fails with the reason
            of = counted(len(lost), "partition")
            logger.error("Log directory %s is offline with %s: %s", directory.path, of, error)
        for partition in lost:
            self.loaded.pop(partition, None)
            self._flushers.forget(partition)
        self._uncreated.abandon(directory.path)
        self.moves.cancel_of(directory)
        if not self._is_closing:
            self.listener.directory_failed(directory, lost)

    # -- time

    def next_deadline(self) -> int | None:
        return earliest_deadline(self._timed)

    def on_deadline(self, now: int) -> None:
        for each in self._timed:
            each.on_deadline(now)

    def look_now(self, now: int) -> None:
        """Let retention, expiry of producers and compaction be due now."""
        self.maintenance.look_now(now)
        self.cleaner.look_now(now)

    def _submit(self, job: Job) -> None:
        self.submit(job)
