"""Where batches lie in a segment's file, by their headers alone.

Rule: little is read of large batches, and many small ones are read at once: what a search touches in a log of many
gigabytes is in no cache of the CPU.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from pykafka_broker.log.filesystem import FileHandle
from pykafka_broker.log.scan import DamagedLog
from pykafka_broker.records.header import HEADER_SIZE, LENGTH_OVERHEAD

# base offset, length of what follows, leader epoch, magic, CRC, attributes, last offset delta, first and max timestamp
_HEAD = struct.Struct(">qiibihiqq")
_MAGIC = 2
_PIECE_BYTES = 16384
_LARGE_BYTES = 4096


class BatchPosition(NamedTuple):
    """Where one batch lies, and what its header says."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int

    @property
    def end(self) -> int:
        return self.position + self.size


def batch_position(data: bytes, at: int, position: int) -> BatchPosition | None:
    """The batch whose header stands at `at` in `data`, that is at `position` in the file; None if none can."""
    base_offset, length, _, magic, _, _, delta, _, max_timestamp = _HEAD.unpack_from(data, at)
    if length < HEADER_SIZE - LENGTH_OVERHEAD or delta < 0 or magic != _MAGIC:
        return None
    return BatchPosition(position, length + LENGTH_OVERHEAD, base_offset, base_offset + delta, max_timestamp)


def batch_positions(handle: FileHandle, path: str, position: int, end: int, size: int) -> Iterator[BatchPosition]:
    """Those that start in [position, end) of a file that holds `size` bytes of batches."""
    piece, start, wanted = b"", 0, HEADER_SIZE
    while position < end:
        at = position - start
        if at + HEADER_SIZE > len(piece):
            piece, start, at = handle.read_at(wanted, position), position, 0
            if len(piece) < HEADER_SIZE:
                raise DamagedLog(path, position, "no whole batch header")
        place = batch_position(piece, at, position)
        if place is None:
            raise DamagedLog(path, position, "a broken batch header")
        if place.end > size:
            raise DamagedLog(path, position, f"a batch of {place.size} bytes, of which some are missing")
        yield place
        position = place.end
        wanted = HEADER_SIZE if place.size >= _LARGE_BYTES else _PIECE_BYTES
