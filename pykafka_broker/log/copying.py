"""Copying what is in a log's files to another directory.

Rule: a piece is a run of bytes that does not change any more, and a copy is synced before it counts.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import NamedTuple

from pykafka_broker.log.files import CachedFile
from pykafka_broker.log.filesystem import FileHandle, FileSystem
from pykafka_broker.log.segment import LogSegment

_PIECE_BYTES = 1 << 20


class Piece(NamedTuple):
    """A run of bytes to copy to the same place in a file of the same name. The file is opened when it has its turn, or
    a log of many segments would take all descriptors that there are; None: it is not needed any more. With no bytes in
    it, the file is made.
    """

    open: Callable[[], FileHandle | None]
    path: str
    start: int
    end: int

    def read(self, source: FileHandle, position: int) -> bytes:
        """Whoever failed is known by the path in the error."""
        try:
            data = source.read_at(min(_PIECE_BYTES, self.end - position), position)
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
        source = piece.open()
        if source is None:
            continue
        target = fs.open(f"{folder}/{os.path.basename(piece.path)}", create=True)
        position = piece.start
        while position < piece.end and not cancelled():
            data = piece.read(source, position)
            target.write_at(data, position)
            position += len(data)
        target.sync()
    fs.sync_directory(folder)


def segment_piece(file: CachedFile, start: int, end: int) -> Piece:
    """Of a file that retention may give another name, but does not remove while this is wanted."""

    def opened() -> FileHandle:
        try:
            return file.handle() if start < end else file.create()
        except FileNotFoundError:
            return file.handle()  # it was just getting the other name

    return Piece(opened, file.path, start, end)


def index_pieces(segment: LogSegment) -> list[Piece]:
    return [segment_piece(file, 0, file.size()) for file in segment.files()[1:] if file.exists()]


def whole_file(fs: FileSystem, path: str) -> Piece:
    """A small file, which is not missed if it goes meanwhile."""

    def opened() -> FileHandle | None:
        try:
            return fs.open(path, writable=False)
        except FileNotFoundError:
            return None

    return Piece(opened, path, 0, fs.stat(path).size)
