"""Leaving a log directory as a clean shutdown leaves it.

Rule: the clean marker is written last of all, after every log in the directory is synced and its checkpoints are
written. A partition that could not be recovered keeps the marker away, so that the next start recovers it again.

Apart from the manager, its only reader: a shutdown of many logs is a subject of its own, which takes threads.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka_broker.log.flush import close_log
from pykafka_broker.log.jobs import ThreadPool, in_threads
from pykafka_broker.log.log_directory import LogDirectory
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.producer_state import QUICKLY_READ_BYTES

_THREADS = 16  # they wait for the disk, which syncs many files in little more time than one
_SEALING_THREADS = 2  # making files is the processor's work
_TOGETHER_FROM = 100  # logs; the files of fewer are synced one by one, since others may have much on that disk


def close_directory(
    directory: LogDirectory,
    logs: list[PartitionLog],
    thread_pool: ThreadPool | None,
    write_checkpoints: Callable[[LogDirectory], None],
    now: int,
) -> None:
    """Close the loaded logs of a directory, to which nothing is written any more.

    Raises:
        OSError: a sync or a write failed. The directory has no marker then, and its next start recovers it.
    """
    _sync_together(directory, [log for log in logs if log.is_unsynced], thread_pool, now)
    in_threads(thread_pool, _THREADS, lambda log: close_log(log, now), logs)
    if directory.online:
        write_checkpoints(directory)
        if directory.whole:
            directory.write_clean_marker()


def _sync_together(directory: LogDirectory, logs: list[PartitionLog], thread_pool: ThreadPool | None, now: int) -> None:
    """Sync many logs with one call, where the system can do that, instead of half a dozen files of each."""
    if len(logs) < _TOGETHER_FROM:
        return
    fs = directory.fs
    in_threads(thread_pool, _SEALING_THREADS, _seal_one_of_many, logs)
    if fs.sync_all(directory.path):
        device = fs.stat(directory.path).device
        for log in logs:
            if fs.stat(log.directory).device == device:  # another disk may be mounted there
                log.synced_with_all(now)


def _seal_one_of_many(log: PartitionLog) -> None:
    """Seal a log; one with few records and no producers gets no snapshot.

    Making that file would be most of the work, and there may be tens of thousands of logs. Without a snapshot the log
    is read when it is opened next; Kafka takes it that there were no producers, which is right.
    """
    producers = log.producers
    if not (producers.entries or producers.snapshot_offset) and log.segments.size_bytes <= QUICKLY_READ_BYTES:
        producers.snapshot_offset = log.log_end_offset
    log.seal()
