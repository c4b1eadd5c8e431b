"""The files of a segment and their names.

Rule: the four of them bear the segment's base offset. A suffix says that they are not, or no longer, part of the log.
"""

from __future__ import annotations

from pykafka_broker.log.files import CachedFile, FileCache
from pykafka_broker.log.index import OffsetIndex, TimeIndex
from pykafka_broker.log.transaction_index import TransactionIndex

DELETED = ".deleted"
CLEANED = ".cleaned"  # written by a cleaning that is not finished
SWAP = ".swap"  # written by one that is, and about to take its place


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}"


class SegmentFiles:
    __slots__ = ("base_offset", "log", "offset_index", "time_index", "transactions")

    def __init__(self, cache: FileCache, directory: str, base_offset: int, fresh: bool, suffix: str) -> None:
        stem = f"{directory}/{segment_name(base_offset)}"
        self.base_offset = base_offset
        self.log = CachedFile(cache, f"{stem}.log{suffix}")
        self.offset_index = OffsetIndex(CachedFile(cache, f"{stem}.index{suffix}"), base_offset, fresh=fresh)
        self.time_index = TimeIndex(CachedFile(cache, f"{stem}.timeindex{suffix}"), base_offset, fresh=fresh)
        self.transactions = TransactionIndex(CachedFile(cache, f"{stem}.txnindex{suffix}"), base_offset, fresh=fresh)

    def files(self) -> tuple[CachedFile, ...]:
        return self.log, self.offset_index.file, self.time_index.file, self.transactions.file

    def mark_deleted(self) -> None:
        """Take the files out of the folder's set of segments; they are removed later. What failed can be done again."""
        for file in self.files():
            if not file.path.endswith(DELETED):
                file.rename(file.path + DELETED)

    def change_suffix(self, old: str, new: str) -> None:
        """Give the files other names, the log last: with it the others count. What failed can be done again."""
        for file in reversed(self.files()):
            if file.path.endswith(old):
                file.rename(file.path.removesuffix(old) + new)

    def discard(self) -> None:
        """Remove the files that an interrupted attempt may have left."""
        for file in self.files():
            if file.exists():
                file.remove()
                file.close()

    def sync(self) -> None:
        for file in self.files():
            if file.exists():
                file.handle().sync()

    def move_to(self, directory: str) -> None:
        """The folder has got another name."""
        for file in self.files():
            file.path = f"{directory}/{file.path.rpartition('/')[2]}"

    def remove(self) -> None:
        for file in self.files():
            file.remove()
