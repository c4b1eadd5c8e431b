"""The files of a log that a power cut could still take back.

Rule: these are the segments and producer snapshots above the recovery point, the indexes of segments completed since
their last sync, and the folder, if files came, went or were replaced in it. The log notes such changes here. A sync
collects all files, which count as synced from then on, and puts them back if it fails.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from pykafka_broker.log.checkpoints import EPOCHS_FILE, PARTITION_METADATA
from pykafka_broker.log.filesystem import FileHandle
from pykafka_broker.log.producer_state import snapshot_name
from pykafka_broker.log.segment import LogSegment

if TYPE_CHECKING:
    from pykafka_broker.log.partition_log import PartitionLog


class UnsyncedFiles(NamedTuple):
    """Everything to be brought to disk by a sync of a log.

    end_offset: the log's end when the files were collected. truncations: the log's count of truncations then. segments:
    complete segments whose indexes are not on disk for certain. directories: folders to sync last.
    """

    end_offset: int
    truncations: int
    handles: list[FileHandle]
    paths: list[str]
    segments: list[LogSegment]
    directories: list[str]


class Unsynced:
    """The unsynced files of one log; the recovery point is the log's own."""

    __slots__ = ("_folder_has_changed", "_segments")

    def __init__(self) -> None:
        self._segments: list[LogSegment] = []  # complete, but their indexes are not on disk for certain
        self._folder_has_changed = True

    @property
    def has_segments(self) -> bool:
        """Return whether complete segments wait for a sync."""
        return bool(self._segments)

    def folder_changed(self) -> None:
        """Note that files came, went or were replaced in the log's folder."""
        self._folder_has_changed = True

    def segment_completed(self, segment: LogSegment) -> None:
        """Note a complete segment, after which a new one has begun."""
        self._segments.append(segment)
        self._folder_has_changed = True

    def collect(self, log: PartitionLog, *, closed: bool) -> UnsyncedFiles:
        """Collect everything not on disk. The log counts all as synced until `put_back`.

        Args:
            closed: whether to add what a clean shutdown promises: the active segment's indexes and the snapshot.
        """
        self._folder_has_changed |= log.epochs.unsynced
        handles, paths = self._handles_and_paths(log, closed)
        directories = [log.directory, os.path.dirname(log.directory)] if self._folder_has_changed else []
        files = UnsyncedFiles(log.log_end_offset, log.truncations, handles, paths, self._segments, directories)
        self.clear(log)
        return files

    def put_back(self, log: PartitionLog, files: UnsyncedFiles) -> None:
        """Take back `collect`: the sync has failed."""
        self._segments += files.segments
        self._folder_has_changed = log.segments.active.transactions.unsynced = True

    def clear(self, log: PartitionLog) -> None:
        """Count all files of the log as synced."""
        self._segments = []
        self._folder_has_changed = log.epochs.unsynced = log.segments.active.transactions.unsynced = False

    def _handles_and_paths(self, log: PartitionLog, closed: bool) -> tuple[list[FileHandle], list[str]]:
        """Return the handles of segments and indexes, and the paths of the small files."""
        handles, paths = [], []
        directory, segments = log.directory, log.segments
        for segment in segments.starting_from(log.recovery_point):
            handles.append(segment.log.create())
            if segment is not segments.active or closed:
                handles += [file.handle() for file in segment.files()[1:] if file.exists()]
            elif segment.transactions.unsynced and segment.transactions.file.exists():
                handles.append(segment.transactions.file.handle())
            if segment.base_offset > log.recovery_point:
                paths.append(f"{directory}/{snapshot_name(segment.base_offset)}")
        first_synced = segments.floor(log.recovery_point).base_offset
        for segment in self._segments:
            if segment.base_offset < first_synced and segments.holds(segment):
                # its batches were synced while it was active, but not the cut of its preallocated room
                handles += [file.handle() for file in segment.files() if file.exists()]
                paths.append(f"{directory}/{snapshot_name(segments.after(segment).base_offset)}")
        if closed:
            paths.append(f"{directory}/{snapshot_name(log.log_end_offset)}")
        if self._folder_has_changed:
            paths += [f"{directory}/{PARTITION_METADATA}", f"{directory}/{EPOCHS_FILE}"]
        return handles, paths
