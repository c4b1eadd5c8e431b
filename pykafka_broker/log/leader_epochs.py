"""The leader epochs of a log and the offsets at which they begin (`leader-epoch-checkpoint`; Kafka:
LeaderEpochFileCache).

Rule: entries (epoch, start offset) rise in both. The file is rewritten whole whenever they change. (KIP-101, KIP-279,
KIP-320)
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from pykafka_broker.log.checkpoints import read_lines, write_lines
from pykafka_broker.log.filesystem import FileSystem

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
EPOCHS_FILE = "leader-epoch-checkpoint"


class LeaderEpochs:
    __slots__ = ("_fs", "_path", "entries")

    def __init__(self, fs: FileSystem, path: str, entries: list[tuple[int, int]]) -> None:
        self._fs = fs
        self._path = path
        self.entries = entries

    @classmethod
    def load(cls, fs: FileSystem, path: str) -> LeaderEpochs:
        """Read the file. A missing or unreadable file counts as empty; recovery takes the epochs from the batches."""
        try:
            entries = [(int(epoch), int(offset)) for epoch, offset in read_lines(fs, path)]
        except (FileNotFoundError, ValueError):
            entries = []
        if any(before[0] >= after[0] or before[1] > after[1] for before, after in pairwise(entries)):
            entries = []
        return cls(fs, path, entries)

    @property
    def latest(self) -> int:
        return self.entries[-1][0] if self.entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note the epoch of batches from `start_offset` on, and return whether the epoch is new."""
        if self.entries and epoch <= self.entries[-1][0]:
            return False
        while self.entries and self.entries[-1][1] >= start_offset:
            self.entries.pop()
        self.entries.append((epoch, start_offset))
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch at or below `epoch` and the epoch's end offset; (-1, -1) for none."""
        entries = self.entries
        if epoch == UNDEFINED_EPOCH or not entries:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == entries[-1][0]:
            return epoch, log_end_offset
        if epoch > entries[-1][0]:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        higher = bisect_right(entries, epoch, key=lambda entry: entry[0])
        if higher == 0:
            # KIP-279: an epoch older than all entries ends where the oldest entry starts
            return epoch, entries[0][1]
        return entries[higher - 1][0], entries[higher][1]

    def can_be_of(self, log_start_offset: int, log_end_offset: int, last_epoch: int | None) -> bool:
        """Return whether a log with the given ends and epoch of the last batch may have the entries."""
        (_, first), (_, last) = self.entries[0], self.entries[-1]
        if not first <= log_start_offset <= log_end_offset >= last:
            return False
        return last_epoch is None or self.epoch_at(log_end_offset - 1) == last_epoch

    def epoch_at(self, offset: int) -> int:
        index = bisect_right(self.entries, offset, key=lambda entry: entry[1])
        return self.entries[index - 1][0] if index else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget epochs starting at or after `end_offset`, and return whether any did."""
        kept = [entry for entry in self.entries if entry[1] < end_offset]
        changed = len(kept) < len(self.entries)
        self.entries = kept
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget epochs ending at or before `start_offset`; return whether any changed."""
        index = bisect_right(self.entries, start_offset, key=lambda entry: entry[1])
        if index == 0 or (index == 1 and self.entries[0][1] == start_offset):
            return False
        self.entries = [(self.entries[index - 1][0], start_offset), *self.entries[index:]]
        return True

    def clear(self) -> None:
        """Forget all epochs."""
        self.entries = []

    def write(self, *, sync: bool = True) -> None:
        write_lines(self._fs, self._path, [(str(epoch), str(offset)) for epoch, offset in self.entries], sync=sync)

    def rename(self, path: str) -> None:
        self._path = path
