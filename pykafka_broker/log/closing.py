"""Leaving a log directory as a clean shutdown leaves it.

Rule: the marker that says so comes last of all, after every log in it is synced and its checkpoints are written. A
partition that could not be recovered is to be looked at again by the next start, so it keeps the marker away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka_broker.log.flush import close_log
from pykafka_broker.log.log_directory import LogDirectory
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.pool import in_threads
from pykafka_broker.log.producer_loading import QUICKLY_READ_BYTES

if TYPE_CHECKING:
    from pykafka_broker.log.manager import LogManager

_THREADS = 16  # they wait for the disk, which syncs many files in little more time than one
_SEALING_THREADS = 2  # making files is the processor's work
_TOGETHER_FROM = 100  # logs; the files of fewer are synced one by one, since others may have much on that disk


def close_directory(
    manager: LogManager, directory: LogDirectory, write_checkpoints: Callable[[LogDirectory], None], now: int
) -> None:
    """Nothing is written to the logs in it any more.

    Raises:
        OSError: a sync or a write failed. The directory has no marker then, and its next start recovers it.
    """
    logs = [log for partition, log in manager.loaded.items() if manager.directory_of(partition) is directory]
    _sync_together(manager, directory, [log for log in logs if log.is_unsynced], now)
    in_threads(manager.thread_pool, _THREADS, lambda log: close_log(log, now), logs)
    if directory.online:
        write_checkpoints(directory)
        if directory.whole:
            directory.write_clean_marker()


def _sync_together(manager: LogManager, directory: LogDirectory, logs: list[PartitionLog], now: int) -> None:
    """Many logs with one sync, where the system can do that: half a dozen files of each would have to be synced."""
    if len(logs) < _TOGETHER_FROM:
        return
    fs = manager.fs
    in_threads(manager.thread_pool, _SEALING_THREADS, _seal_one_of_many, logs)
    if fs.sync_all(directory.path):
        device = fs.stat(directory.path).device
        for log in logs:
            if fs.stat(log.directory).device == device:  # else somebody has put another disk there
                log.synced_with_all(now)


def _seal_one_of_many(log: PartitionLog) -> None:
    """To make a file is most of the work for a log with little in it, and there may be tens of thousands: without a
    snapshot it is read when it is opened, and a Kafka takes it that there were no producers, as is so.
    """
    producers = log.producers
    if not (producers.entries or producers.snapshot_offset) and log.segments.size_bytes <= QUICKLY_READ_BYTES:
        producers.snapshot_offset = log.log_end_offset
    log.seal()
