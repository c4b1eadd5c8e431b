"""The leader epochs of a log and where each begins (Kafka: LeaderEpochFileCache; KIP-101, KIP-279, KIP-320).

Rule: entries (epoch, start offset) rise in both. An epoch gets its entry with its first batch: before that only the
leader knows of it. The file is rewritten whole, without a sync: the next sync of the log includes it, and where it is
lost or of another log, the batches tell the epochs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

from pykafka_broker.log.checkpoints import read_lines, write_lines
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.log.segments import Segments

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochs:
    """The leader epochs of one log, in memory and in a file.

    Attributes:
        current: the epoch that an append of the leader writes into its batches.
        unsynced: whether the file was written since the last sync.
    """

    __slots__ = ("_fs", "_path", "current", "entries", "unsynced")

    def __init__(self, fs: FileSystem, path: str, entries: list[tuple[int, int]]) -> None:
        self._fs = fs
        self._path = path
        self.entries = entries
        self.current = max(0, self.latest)
        self.unsynced = False

    @classmethod
    def load(cls, fs: FileSystem, path: str) -> LeaderEpochs:
        """Read the file. A missing or unreadable file counts as empty; `correct` takes the epochs from the batches."""
        try:
            entries = [(int(epoch), int(offset)) for epoch, offset in read_lines(fs, path)]
        except (FileNotFoundError, ValueError):
            entries = []
        if any(before[0] >= after[0] or before[1] > after[1] for before, after in pairwise(entries)):
            entries = []
        return cls(fs, path, entries)

    def correct(self, segments: Segments, log_start_offset: int, log_end_offset: int) -> bool:
        """Return whether the entries contradict the log's ends; if so, learn the epochs from the batches anew."""
        if self.entries:
            last_epoch = segments.active.last_epoch() if segments.active.size else None
            wrong = not self._can_be_of(log_start_offset, log_end_offset, last_epoch)
        else:
            wrong = segments.size_bytes > 0
        if wrong:
            self.entries = []
            self.learn(segments)
            if self.entries and self.entries[0][1] > log_start_offset:  # a cleaning has removed earlier records
                self.entries[0] = self.entries[0][0], log_start_offset
            self.current = max(0, self.latest)
        return wrong

    def _can_be_of(self, log_start_offset: int, log_end_offset: int, last_epoch: int | None) -> bool:
        """Return whether a log with the given ends and epoch of the last batch may have the entries."""
        (_, first), (_, last) = self.entries[0], self.entries[-1]
        if not first <= log_start_offset <= log_end_offset >= last:
            return False
        return last_epoch is None or self.epoch_at(log_end_offset - 1) == last_epoch

    def learn(self, segments: Iterable[LogSegment]) -> None:
        """Note the epochs of the batches in segments."""
        for segment in segments:
            if not segment.size or segment.last_epoch() <= self.latest:
                continue  # epochs only rise, so no epoch begins in this segment
            for batch in segment.scan():
                self.assign(batch.header.partition_leader_epoch, batch.header.base_offset)

    # -- look-ups

    @property
    def latest(self) -> int:
        return self.entries[-1][0] if self.entries else UNDEFINED_EPOCH

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

    def led_end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Answer as `end_offset_for`, for the leader, whose epoch begins with the leadership and not with a record."""
        if self.current > self.latest:  # nothing was appended in the leader's epoch yet
            if epoch == self.current or (UNDEFINED_EPOCH != epoch < self.current and not self.entries):
                return epoch, log_end_offset
            if self.latest < epoch < self.current:
                return self.latest, log_end_offset
        return self.end_offset_for(epoch, log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of the batch with `offset`, -1 for none."""
        index = bisect_right(self.entries, offset, key=lambda entry: entry[1])
        return self.entries[index - 1][0] if index else UNDEFINED_EPOCH

    def begins_at(self, log_end_offset: int) -> bool:
        """Return whether the newest epoch begins at the log's end: the first append of the epoch has failed."""
        return bool(self.entries) and self.entries[-1][1] >= log_end_offset

    # -- changes, in memory but for `begin`

    def lead(self, epoch: int) -> None:
        """Let the leader's appends carry the epoch from now on."""
        self.current = epoch

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note the epoch of batches from `start_offset` on, and return whether the epoch is new."""
        if self.entries and epoch <= self.entries[-1][0]:
            return False
        while self.entries and self.entries[-1][1] >= start_offset:
            self.entries.pop()
        self.entries.append((epoch, start_offset))
        return True

    def begin(self, epoch: int, start_offset: int) -> None:
        """Write down the epoch of the next batch, at `start_offset`. Raises OSError: the entries stay as they were."""
        before = list(self.entries)
        if self.assign(epoch, start_offset):
            try:
                self.write()
            except OSError:
                self.entries = before
                raise

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

    # -- the file

    def write(self) -> None:
        write_lines(self._fs, self._path, [(str(epoch), str(offset)) for epoch, offset in self.entries], sync=False)
        self.unsynced = True

    def rename(self, path: str) -> None:
        self._path = path
