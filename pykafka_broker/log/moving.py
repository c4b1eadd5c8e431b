"""Moves of partitions to other log directories (AlterReplicaLogDirs, KIP-113).

Rule: the copy grows beside the loop in a folder that ends in `-future`; until the end the partition is served from its
old folder. When the copy has every record so far, the metadata is told of the new directory (KIP-858). Once the
metadata is synced, records that have come meanwhile are copied and synced at once. A marker in the folder says that the
copy is whole, and two renames exchange the folders.

A crash before the marker leaves the log in its old directory. A crash after the marker leaves it in one of the two
directories. If one of them is missing after the crash, no new log is begun: the metadata names the new directory by
then, and the copy is in it, whole or not.

Only the manager reads this module: a move is a subject of its own. A move acts on the whole manager: it exchanges one
of the manager's logs, stops at its cleanings, fails its directories and speaks to its listener.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pykafka_broker.log.checkpoints import (
    EPOCHS_FILE,
    GAP,
    LOG_START_OFFSETS,
    MOVED,
    PARTITION_METADATA,
    write_partition_metadata,
)
from pykafka_broker.log.filesystem import CachedFile, FileHandle, FileSystem, write_file
from pykafka_broker.log.jobs import Errand
from pykafka_broker.log.log_directory import LogDirectory, aside_name, future_name
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.producer_state import snapshot_name, snapshot_offsets
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.protocol.enums import PartitionKey

if TYPE_CHECKING:
    from pykafka_broker.log.flush import Waiter
    from pykafka_broker.log.manager import LogManager

logger = logging.getLogger(__name__)

_PIECE_BYTES = 1 << 20
_SMALL_BYTES = 64 << 10  # bytes that may be copied and synced while the loop waits
_PATIENT_ROUNDS = 10  # after so many rounds a small rest may be missing
_MOST_ROUNDS = 50  # a producer faster than the copy can't delay the move for ever


class Piece(NamedTuple):
    """A run of bytes, which do not change any more, to copy to the same place in a file of the same name.

    open: opens the file, or returns None if the copy does not need it any more. Files are opened one after the other,
    since a log of many segments would use up all descriptors. start, end: positions; a run of no bytes makes the file.
    """

    open: Callable[[], FileHandle | None]
    path: str
    start: int
    end: int

    def read(self, source: FileHandle, position: int) -> bytes:
        """Read on from `position`. The path in an OSError tells which side has failed."""
        try:
            data = source.read_at(min(_PIECE_BYTES, self.end - position), position)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from error
        if not data:
            raise OSError(errno.EIO, f"ends at byte {position}, not at {self.end}", self.path)
        return data


def _copy_pieces(
    fs: FileSystem, folder: str, pieces: list[Piece], cancelled: Callable[[], bool] = lambda: False
) -> None:
    """Copy the pieces and sync the copies."""
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


def _segment_piece(file: CachedFile, start: int, end: int) -> Piece:
    """Return a piece of a segment's file, which retention may rename but not remove while the piece is wanted."""

    def opened() -> FileHandle:
        try:
            return file.handle() if start < end else file.create()
        except FileNotFoundError:
            return file.handle()  # the file was just being renamed

    return Piece(opened, file.path, start, end)


def _index_pieces(segment: LogSegment) -> list[Piece]:
    """Return the indexes of a complete segment."""
    return [_segment_piece(file, 0, file.size()) for file in segment.files()[1:] if file.exists()]


def _whole_file(fs: FileSystem, path: str) -> Piece:
    """Return a piece of a small file, which may be deleted before the copy."""

    def opened() -> FileHandle | None:
        try:
            return fs.open(path, writable=False)
        except FileNotFoundError:
            return None

    return Piece(opened, path, 0, fs.stat(path).size)


def _remove_marker(fs: FileSystem, target: LogDirectory, folder: str) -> None:
    """Sync the folder's new name, then remove the marker."""
    fs.sync_directory(target.path)
    with contextlib.suppress(FileNotFoundError):
        fs.remove(f"{folder}/{MOVED}")


class Move:
    """A move of a partition to `target`."""

    def __init__(self, moves: Moves, key: PartitionKey, log: PartitionLog, target: LogDirectory) -> None:
        manager = moves.manager
        self.fs = manager.fs
        self.key = key
        self.log = log
        self.target = target
        self.cancelled = False
        self.announced = False  # the metadata names the new directory, or will soon
        self.needed = False  # the folder is the only whole copy, and the next start needs it
        self._manager = manager
        self._moves = moves
        self.folder = target.file(future_name(key, manager.new_uuid()))
        self._copied: dict[int, int] = {}  # copied bytes of the log, by base offset of the segment
        self._indexed: set[int] = set()  # segments whose other files are copied too
        self._rounds = 0
        self._truncations = log.truncations
        self._anew = False  # begin another move when this one has ended

    @property
    def offset_lag(self) -> int:
        """Return how many records the copy lacks, by whole segments."""
        for segment in self.log.segments:
            if self._copied.get(segment.base_offset, 0) < segment.size:
                return self.log.log_end_offset - segment.base_offset
        return 0

    @property
    def size_bytes(self) -> int:
        return sum(self._copied.values())

    def start(self) -> None:
        cleaner = self._manager.cleaner
        cleaner.finish_swaps()
        if cleaner.is_swapping(self.key):
            self.abort("its disk has no room to end a cleaning")
            return
        try:
            self.fs.make_directory(self.folder)
            write_partition_metadata(self.fs, f"{self.folder}/{PARTITION_METADATA}", self.log.topic_id)
            self.advance()
        except OSError as error:
            self.fail(error)

    def advance(self) -> None:
        """Copy new records, or finish."""
        if self.cancelled:
            self._remove_copy()
            return
        self._rounds += 1
        if self._is_cut:  # later appends may hide the cut
            self._begin_anew()
            return
        try:
            if not self.announced and (self._has_caught_up() or self._rounds >= _MOST_ROUNDS):
                self._moves.write_log_start(self)
                self._manager.submit(Errand(self._secure, self.fail, self._announce))
                return
            pieces = self._pieces()
            missing = sum(piece.end - piece.start for piece in pieces)
            if (missing > _SMALL_BYTES or not self.announced) and self._rounds < _MOST_ROUNDS:
                self._manager.submit(Errand(partial(self._copy, pieces), self.fail, self.advance))
                return
            self._finish(pieces)
        except OSError as error:
            self.fail(error)

    @property
    def _is_cut(self) -> bool:
        """Return whether the log was truncated since the copy began."""
        return self.log.truncations != self._truncations

    def _begin_anew(self) -> None:
        logger.info("%s-%d is copied to %s anew: the log was truncated", *self.key, self.target.path)
        self._anew = True
        self._end()

    def _copy(self, pieces: list[Piece]) -> None:
        _copy_pieces(self.fs, self.folder, pieces, lambda: self.cancelled)

    def _secure(self) -> None:
        """Sync the new folder and the topic id."""
        self.fs.open(f"{self.folder}/{PARTITION_METADATA}").sync()
        self.fs.sync_directory(self.folder)
        self.fs.sync_directory(self.target.path)

    def _announce(self) -> None:
        """Tell the metadata of the new directory, once the folder is synced."""
        if self.cancelled:
            self._remove_copy()
        else:
            self.announced = True
            self._manager.listener.moving(self.key, self.target, self.on_announced)

    def on_announced(self, error: OSError | None) -> None:
        """Go on when the metadata names the new directory, or end the move after an error.

        ENOENT: the metadata knows no such replica on this node any more, and this node will hear of that.
        """
        if error is None:
            self.advance()
        elif error.errno == errno.ENOENT:
            logger.info("%s-%d is not moved to %s: %s", *self.key, self.target.path, error.strerror)
            self._end()
        else:
            self.abort(f"the metadata can't be told: {error}")

    def _has_caught_up(self) -> bool:
        """Return whether the copy has every record so far, and the metadata may name the new directory.

        A Kafka that starts on these directories after a crash then takes the copy for the log, whole or not.
        """
        missing = sum(segment.size - self._copied.get(segment.base_offset, 0) for segment in self.log.segments)
        if any(segment.base_offset not in self._copied for segment in self.log.segments):
            return False
        return not missing or (missing <= _SMALL_BYTES and self._rounds > _PATIENT_ROUNDS)

    def _pieces(self) -> list[Piece]:
        pieces = []
        for segment in self.log.segments:
            done = self._copied.get(segment.base_offset, -1)
            if done < segment.size:  # an empty segment too: its name tells where the log continues
                pieces.append(_segment_piece(segment.log, max(0, done), segment.size))
                self._copied[segment.base_offset] = segment.size
            if segment is not self.log.segments.active and segment.base_offset not in self._indexed:
                self._indexed.add(segment.base_offset)
                pieces += _index_pieces(segment)
                snapshot = f"{self.log.directory}/{snapshot_name(segment.base_offset)}"
                if self.fs.exists(snapshot):
                    pieces.append(_whole_file(self.fs, snapshot))
        return pieces

    def _finish(self, pieces: list[Piece]) -> None:
        """Copy the last few bytes while the log stands still, and exchange the folders."""
        log, fs = self.log, self.fs
        log.seal()
        pieces += _index_pieces(log.segments.active)
        names = fs.list_directory(log.directory)
        for offset in set(snapshot_offsets(names)) - self._indexed:
            pieces.append(_whole_file(fs, f"{log.directory}/{snapshot_name(offset)}"))
        for name in {EPOCHS_FILE, GAP} & {*names}:
            pieces.append(_whole_file(fs, f"{log.directory}/{name}"))
        self._remove_obsolete_copies()
        _copy_pieces(fs, self.folder, pieces)
        write_file(fs, f"{self.folder}/{MOVED}", b"")
        fs.sync_directory(self.target.path)
        self._moves.exchange(self)

    def _remove_obsolete_copies(self) -> None:
        """Remove copies of segments which retention or a cleaning has taken from the log since."""
        present = {segment.base_offset for segment in self.log.segments}
        for name in self.fs.list_directory(self.folder):
            stem = name.partition(".")[0]
            if stem.isdecimal() and int(stem) not in present:
                self.fs.remove(f"{self.folder}/{name}")

    def cancel(self) -> None:
        """Cancel the move: the log was deleted, or goes to another directory."""
        self.cancelled = True

    def fail(self, error: OSError) -> None:
        """End the move, and take the failed directory offline.

        A source that has become shorter was cut, which says nothing against its disk: if there is more to the error,
        the next copy meets it again.
        """
        if self._is_cut:
            self.advance()
            return
        self.abort(str(error))
        self._manager.path_failed(str(error.filename or self.folder), error)

    def abort(self, reason: str) -> None:
        logger.error("%s-%d can't be moved to %s: %s", *self.key, self.target.path, reason)
        self._end()

    def _end(self) -> None:
        self.cancelled = True
        self._moves.forget(self)
        self._remove_copy()

    def _remove_copy(self) -> None:
        """Remove the copy; if the metadata was told of the move, only when the metadata names the old directory."""
        if self.announced:
            self._moves.withdraw(self, self._on_withdrawn)
        else:
            self._on_withdrawn(None)

    def _on_withdrawn(self, error: OSError | None) -> None:
        if error is None and not self.needed:  # the next start removes a folder that is left
            remove = partial(self.fs.remove_tree, self.folder)
            self._manager.submit(Errand(remove, lambda _: self._on_removed(), self._on_removed))

    def _on_removed(self) -> None:
        if self._anew and self.key not in self._moves and self._manager.loaded.get(self.key) is self.log:
            self._moves.start(self.key, self.target)


class Moves:
    """All unfinished moves."""

    def __init__(self, manager: LogManager) -> None:
        self.manager = manager
        self._moves: dict[PartitionKey, Move] = {}

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._moves

    def get(self, key: PartitionKey) -> Move | None:
        return self._moves.get(key)

    def start(self, key: PartitionKey, target: LogDirectory) -> None:
        """Move the partition to `target`; the present directory means to give up an unfinished move."""
        self.cancel(key)
        if self.manager.directory_of(key) is target:
            return
        move = self._moves[key] = Move(self, key, self.manager.get(*key), target)
        move.start()

    def cancel(self, key: PartitionKey) -> None:
        move = self._moves.pop(key, None)
        if move is not None:
            move.cancel()

    def cancel_of(self, directory: LogDirectory) -> None:
        """Cancel the moves out of a directory that went offline, and into it."""
        for key, move in list(self._moves.items()):
            if directory in (move.target, self.manager.directory_of(key)):
                self.cancel(key)

    def cancel_all(self) -> None:
        for key in list(self._moves):
            self.cancel(key)

    def forget(self, move: Move) -> None:
        if self._moves.get(move.key) is move:
            del self._moves[move.key]

    def withdraw(self, move: Move, waiter: Waiter) -> None:
        """Let the metadata name the log's directory again, unless another move has named a directory since."""
        manager, other = self.manager, self._moves.get(move.key)
        source = manager.directory_of(move.key)
        if source is None or (other is not None and other.announced):
            waiter(None)
        else:
            manager.listener.moving(move.key, source, waiter)

    def exchange(self, move: Move) -> None:
        """Make the whole and synced copy the log."""
        manager, key, target = self.manager, move.key, move.target
        source = manager.directory_of(key)
        assert source is not None
        cleaned_to = source.cleaner_offsets.get(key)
        self.write_log_start(move)
        aside, final = source.file(aside_name(key, manager.new_uuid())), target.partition_path(key)
        self._swap(move, source, aside, final)
        self.forget(move)
        manager.moved(key, aside, target).continue_in(final, manager.clock.now)
        if cleaned_to is not None:
            target.cleaner_offsets[key] = cleaned_to
        manager.submit(
            Errand(
                lambda: _remove_marker(move.fs, target, final), lambda error: manager.directory_failed(target, error)
            )
        )
        logger.info("%s-%d has moved to %s", *key, target.path)
        manager.listener.moved(key)

    def write_log_start(self, move: Move) -> None:
        """Write the log start into the target's checkpoint, in place of earlier entries for the partition.

        That is done before the metadata names the target. If both directories outlive a crash from then on, Kafka takes
        the copy for the log, and without the start the records that DeleteRecords took away would be back.
        """
        log, target, writer = move.log, move.target, self.manager.checkpoints
        self.manager.maintenance.drop_checkpoints(target, move.key)
        if log.log_start_offset > log.segments.first.base_offset:
            target.log_start_offsets[move.key] = log.log_start_offset
            writer.now(target.file(LOG_START_OFFSETS), dict(target.log_start_offsets))

    def _swap(self, move: Move, source: LogDirectory, aside: str, final: str) -> None:
        """Rename the old folder away, synced before the copy gets the name. A failure leaves the old log in place."""
        fs, original = move.fs, source.partition_path(move.key)
        for folder in (original, move.folder):
            self.manager.files.release_folder(folder)
        try:
            fs.rename(original, aside)
            fs.sync_directory(source.path)
            fs.rename(move.folder, final)
        except OSError:
            if not fs.exists(original):
                self._swap_back(move, source, aside, original)
            raise

    def _swap_back(self, move: Move, source: LogDirectory, aside: str, original: str) -> None:
        try:
            move.fs.rename(aside, original)
            move.fs.sync_directory(source.path)
        except OSError as error:
            move.needed = True
            self.manager.take_offline(source, error)
