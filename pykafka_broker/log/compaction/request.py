"""The request for a cleaning and its result: plain data, fit to go to another process.

This small module is apart because a process that cleans imports it under the same name as the broker.
"""

from __future__ import annotations

from typing import NamedTuple

from pykafka_broker.log.index import AbortedTransaction
from pykafka_broker.records.compression import ANY_SIZE, MAX_DECOMPRESSED


class LastBatches(NamedTuple):
    """The end of an active producer's records.

    offsets: where its newest data batches end, oldest first; none after a marker that has raised its epoch. epoch: the
    newest one.
    """

    offsets: tuple[int, ...]
    epoch: int

    def newest_below(self, offset: int) -> int | None:
        """Return the last offset of the newest batch ending below `offset`."""
        return next((each for each in reversed(self.offsets) if each < offset), None)


class UnpackingLimits(NamedTuple):
    """The most that compressed records may grow to, in bytes: all records of a batch, and each."""

    batch_bytes: int = MAX_DECOMPRESSED
    record_bytes: int = ANY_SIZE


class CleanRequest(NamedTuple):
    directory: str
    segments: list[tuple[int, int]]  # base offset and size of every segment that may be cleaned, in order
    first_dirty_offset: int
    upper_offset: int  # the end of the last segment
    aborted_later: list[AbortedTransaction]  # open at `upper_offset`: their markers are in later segments
    producers: dict[int, LastBatches]
    wall: int  # wall clock in ms
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int  # memory for keys in bytes
    bytes_per_second: float
    unpacking: UnpackingLimits = UnpackingLimits()


class CleanedSegment(NamedTuple):
    """A new segment, in files ending in `.cleaned`, and the base offsets of the replaced segments."""

    base_offset: int
    size: int
    replaces: list[int]


class CleanResult(NamedTuple):
    segments: list[CleanedSegment]
    end_offset: int  # the first offset that stays dirty
    keys: int
    dropped_keyless: int  # records without a key have no place in a compacted log
