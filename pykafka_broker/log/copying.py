"""Copying what is in a log's files to another directory.

Rule: a piece is a run of bytes that does not change any more, and a copy is synced before it counts.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import NamedTuple

from pykafka_broker.log.filesystem import FileHandle, FileSystem
from pykafka_broker.log.segment import LogSegment

_PIECE_BYTES = 1 << 20


class Piece(NamedTuple):
    """A run of bytes to copy to the same place in a file of the same name."""

    source: FileHandle
    path: str
    start: int
    end: int

    def read(self, position: int) -> bytes:
        """Whoever failed is known by the path in the error."""
        try:
            data = self.source.read_at(min(_PIECE_BYTES, self.end - position), position)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from error
        if not data:
            raise OSError(errno.EIO, f"ends at byte {position}, not at {self.end}", self.path)
        return data


def copy_pieces(
    fs: FileSystem, folder: str, pieces: list[Piece], cancelled: Callable[[], bool] = lambda: False
) -> None:
    """Copy and sync."""
    for piece in pieces:
        target = fs.open(f"{folder}/{os.path.basename(piece.path)}", create=True)
        position = piece.start
        while position < piece.end and not cancelled():
            data = piece.read(position)
            target.write_at(data, position)
            position += len(data)
        target.sync()
    fs.sync_directory(folder)


def index_pieces(segment: LogSegment) -> list[Piece]:
    pieces = []
    for file in segment.files()[1:]:
        if file.exists():
            handle = file.handle()
            pieces.append(Piece(handle, file.path, 0, handle.size()))
    return pieces


def whole_file(fs: FileSystem, path: str) -> Piece:
    handle = fs.open(path, writable=False)
    return Piece(handle, path, 0, handle.size())
