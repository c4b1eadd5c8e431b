"""A log whose folder has got another name, or gives way to a copy.

Rule: whoever reads from the files as they were keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.log.files import FileCache
from pykafka_broker.log.leader_epochs import FILE_NAME as EPOCHS_FILE
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.log.segments import Segments

if TYPE_CHECKING:
    from pykafka_broker.log.partition_log import PartitionLog


def renamed(log: PartitionLog, directory: str) -> None:
    """The folder has got another name."""
    log.directory = directory
    log.epochs.rename(f"{directory}/{EPOCHS_FILE}")
    for segment in log.segments:
        segment.move_to(directory)


def _moved(segment: LogSegment, files: FileCache, directory: str) -> LogSegment:
    base, size, created_ms = segment.base_offset, segment.size, segment.created_ms
    copy = LogSegment(files, directory, base, size=size, created_ms=created_ms, fresh=False)
    copy.written_ms = segment.written_ms
    return copy


def go_on_in(log: PartitionLog, directory: str, now: int) -> None:
    """The synced copy in another folder is the log from now on."""
    log.directory = directory
    log.epochs.rename(f"{directory}/{EPOCHS_FILE}")
    log.segments = Segments([_moved(segment, log.files, directory) for segment in log.segments])
    log.unsynced_segments.clear()
    log.synced_to(log.log_end_offset, now)
