"""Reading a segment file from front to back, in large pieces.

Rule: a scan yields whole batches with a sensible header and, where asked, a right CRC. The first other bytes end the
scan with `DamagedLog`, which says how far the file is sound.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from pykafka_broker.log.filesystem import FileHandle
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import HEADER_SIZE, BatchHeader, check_crc, read_header

_PIECE_BYTES = 1 << 20
_OLD_HEAD = struct.Struct(">qiIb")  # offset, size, CRC and magic of formats 0 and 1


class DamagedLog(ValueError):
    """A damaged batch in a segment; everything before `position` is sound.

    With `old_format` the batch is a sound message of format 0 or 1, as releases before 0.11 wrote them, and must not be
    cut off.
    """

    def __init__(self, path: str, position: int, reason: str, *, old_format: bool = False) -> None:
        super().__init__(path, position, reason)
        self.path = path
        self.position = position
        self.reason = reason
        self.old_format = old_format

    def __str__(self) -> str:
        return f"{self.path} is damaged at byte {self.position}: {self.reason}"


def remedy(directory: str) -> str:
    """Return the operator's remedy for damage beyond the broker's own repair."""
    return f"stop the broker and run `pykafka-broker log repair {directory}`, which keeps what it cuts off"


def help_for(damage: DamagedLog, directory: str) -> str:
    """Return the end of a line about damage: the remedy, none for messages of old formats."""
    return "" if damage.old_format else f"; {remedy(directory)}"


class ScannedBatch(NamedTuple):
    """A batch, and where its bytes stand in the piece of the file that was read."""

    position: int
    header: BatchHeader
    data: memoryview
    piece: bytes
    at: int


def scan(handle: FileHandle, path: str, position: int, end: int, *, verify: bool) -> Iterator[ScannedBatch]:
    """Yield every batch in [position, end).

    Args:
        verify: whether to check each CRC.

    Raises:
        DamagedLog: a batch is damaged; the batches before are sound.
    """
    read, start = b"", position
    piece = memoryview(read)
    while position < end:
        at = position - start
        try:
            if at + HEADER_SIZE > len(piece):
                read, start, at = handle.read_at(min(_PIECE_BYTES, end - position), position), position, 0
                piece = memoryview(read)
            header = read_header(piece, at)
            size = header.size
            if at + size > len(piece):
                if position + size > end:
                    raise CorruptBatch(f"a batch of {size} bytes, but only {end - position} are left")
                read, start, at = handle.read_at(max(_PIECE_BYTES, size), position), position, 0
                piece = memoryview(read)
            if header.last_offset_delta < 0:
                raise CorruptBatch(f"last offset delta {header.last_offset_delta}")
            if verify:
                check_crc(piece, header, at)
        except CorruptBatch as error:
            raise damage_at(handle, path, position, end, str(error)) from error
        yield ScannedBatch(position, header, piece[at : at + size], read, at)
        position += size


def damage_at(handle: FileHandle, path: str, position: int, end: int, reason: str) -> DamagedLog:
    """Return the error for bytes that are no batch: damage for a reason, or a message of an old format."""
    if _is_old_message(handle, position, end):
        reason = "messages of format 0 or 1 are not served: read and write them again with Kafka 3.9 or older"
        return DamagedLog(path, position, reason, old_format=True)
    return DamagedLog(path, position, reason)


def _is_old_message(handle: FileHandle, position: int, end: int) -> bool:
    """Return whether a message of format 0 or 1 stands at `position`, by the message's CRC."""
    from pykafka_broker.records.conversion import ENTRY_OVERHEAD, iter_entries  # at damage alone

    head = handle.read_at(_OLD_HEAD.size, position)
    if len(head) < _OLD_HEAD.size:
        return False
    _, size, _, magic = _OLD_HEAD.unpack(head)
    if magic not in (0, 1) or not 0 < size <= end - position - ENTRY_OVERHEAD:
        return False
    try:
        return any(True for _ in iter_entries(handle.read_at(ENTRY_OVERHEAD + size, position)))
    except CorruptBatch:
        return False
