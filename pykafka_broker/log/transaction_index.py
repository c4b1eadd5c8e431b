"""The aborted transactions of a segment (`.txnindex`).

Rule: one entry for each transaction whose ABORT marker lies in this segment, in the order of the markers. A reader of
committed data asks for those that touch what it was given; `last_stable_offset` of an entry says from where on the
search may stop. A file whose entries can't be those of its segment is not believed.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from pykafka_broker.log.files import CachedFile

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class CorruptTransactionIndex(ValueError):
    """The file is not what it should be."""


class TransactionIndex:
    __slots__ = ("_base_offset", "_entries", "_ragged", "file", "unsynced")

    def __init__(self, file: CachedFile, base_offset: int = 0, *, fresh: bool) -> None:
        self.file = file
        self._base_offset = base_offset
        self._entries: list[AbortedTransaction] | None = [] if fresh else None
        self._ragged = False  # the file holds more than that
        self.unsynced = not fresh  # the file, if there is one, was written to since it was synced

    @property
    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = self._load()
        return self._entries

    def is_sound(self) -> bool:
        """Whether what the file says, if there is one, can be so."""
        try:
            self._entries = self.entries
        except CorruptTransactionIndex:
            return False
        return True

    def _load(self) -> list[AbortedTransaction]:
        size = self.file.size()
        if not size:
            return []
        data = self.file.handle().read_at(size, 0)
        if size % _ENTRY.size:
            raise CorruptTransactionIndex(f"{self.file.path} has {size} bytes, which are no whole entries")
        rows = list(_ENTRY.iter_unpack(data))
        if any(row[0] != _VERSION for row in rows):
            raise CorruptTransactionIndex(f"unknown version in {self.file.path}")
        entries = [AbortedTransaction(*row[1:]) for row in rows]
        before = self._base_offset - 1
        for entry in entries:
            if not before < entry.last_offset >= entry.first_offset:
                raise CorruptTransactionIndex(f"{self.file.path} can't have {entry}")
            before = entry.last_offset
        return entries

    def correct(self, entries: list[AbortedTransaction]) -> None:
        """Make sure that these are in the file, and on disk if they were not: what is right there is not touched, since
        what was synced of it would be at stake.
        """
        try:
            known = self._load()
        except CorruptTransactionIndex:
            known = None
        self._entries = entries
        if known != entries:
            self.replace(entries)
            self.file.handle().sync()

    def replace(self, entries: list[AbortedTransaction]) -> None:
        """Make the file anew."""
        self.unsynced = True
        handle = self.file.create()
        handle.truncate(0)
        handle.write_at(b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries), 0)
        self._entries = entries

    def append(self, transaction: AbortedTransaction) -> None:
        self.complete()
        entries = self.entries
        self._ragged = self.unsynced = True
        self.file.create().write_at(_ENTRY.pack(_VERSION, *transaction), len(entries) * _ENTRY.size)
        entries.append(transaction)
        self._ragged = False

    def truncate_to(self, offset: int) -> None:
        """Forget transactions that end at or after `offset`."""
        entries = self.entries
        if entries and entries[-1].last_offset >= offset:
            self._entries = [entry for entry in entries if entry.last_offset < offset]
            self._ragged = self.unsynced = True
            self.complete()

    def complete(self) -> None:
        """Make sure that the file holds what is known and nothing else."""
        if self._ragged:
            self.file.create().truncate(len(self.entries) * _ENTRY.size)
            self._ragged = False

    def collect(self, first_offset: int, upper_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Those that touch [first_offset, upper_offset), and whether later segments can't hold any more of them."""
        found = []
        for entry in self.entries:
            if entry.last_offset >= first_offset and entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return found, True
        return found, False

    def sync(self) -> None:
        if self.entries:
            self.file.handle().sync()
