"""The exchange of old segments for cleaned ones.

Rule: the new files are on disk before the exchange begins. Names change in an order from which a crash leaves either
all of the old segments or a `.swap` log, which is complete and takes its place at the next start.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pykafka_broker.log.compaction.request import CleanedSegment, CleanResult
from pykafka_broker.log.files import FileCache
from pykafka_broker.log.producer_state import forget_snapshot
from pykafka_broker.log.segment import CLEANED, SWAP, LogSegment, segment_name

if TYPE_CHECKING:
    from pykafka_broker.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

_LOG = ".log"
_SEGMENT_FILES = (_LOG, ".index", ".timeindex", ".txnindex")


class Swap:
    """The exchange of segments after a round of cleaning.

    Where a full disk refuses a step, `run` goes on with that step the next time; until then the log is read from
    whatever names its files have.
    """

    def __init__(self, log: PartitionLog, result: CleanResult, wall: int) -> None:
        present = {segment.base_offset: segment for segment in log.segments}
        made = [(_open(log, cleaned, wall), cleaned.replaces) for cleaned in result.segments]
        self.possible = all(new.log.exists() and all(base in present for base in bases) for new, bases in made)
        self._log = log
        self._truncations = log.truncations
        if self.possible:
            self._left = [([present[base] for base in bases], new) for new, bases in made]
        else:
            self._left = []
            for new, _ in made:
                new.discard()

    def run(self) -> None:
        """Exchange the segments, from the first unfinished exchange on.

        Raises:
            OSError: the disk refused a step.
        """
        while self._left:
            self._exchange(*self._left[0])
            self._left.pop(0)

    def _exchange(self, old: list[LogSegment], new: LogSegment) -> None:
        log = self._log
        if new.log.path.endswith(CLEANED):
            if log.truncations != self._truncations or not all(log.segments.holds(segment) for segment in old):
                new.discard()  # a truncation or retention came before this could go on
                return
            new.created_ms, new.written_ms = old[-1].created_ms, old[-1].written_ms  # the age for retention stays
            new.change_suffix(CLEANED, SWAP)
            log.segments.replace(old, [new])
        for segment in old:
            segment.mark_deleted()
            if segment.base_offset != new.base_offset:
                forget_snapshot(log.files.fs, log.directory, segment.base_offset)
        new.change_suffix(SWAP, "")
        log.segments_deleted(old)


def swap_in(log: PartitionLog, result: CleanResult, wall: int) -> bool:
    """Exchange the segments, and return whether the log still had all old segments in the same folder.

    Otherwise the cleaned files are thrown away.
    """
    swap = Swap(log, result, wall)
    swap.run()
    return swap.possible


def _open(log: PartitionLog, cleaned: CleanedSegment, wall: int) -> LogSegment:
    return LogSegment(
        log.files, log.directory, cleaned.base_offset, size=cleaned.size, created_ms=wall, fresh=False, suffix=CLEANED
    )


def finish_swaps(files: FileCache, directory: str, names: list[str], wall: int) -> list[str]:
    """Complete an interrupted exchange, and return the names of the files afterwards."""
    swapping = [name for name in names if name.endswith(SWAP)]
    for name in swapping:
        if name[:20].isdecimal() and name[20:] == _LOG + SWAP:
            _finish(files, directory, names, int(name[:20]), wall)
    for name in swapping:  # files of swaps that a crash stopped before the log's turn
        if files.fs.exists(f"{directory}/{name}"):
            files.fs.remove(f"{directory}/{name}")
    return files.fs.list_directory(directory) if swapping else names


def _finish(files: FileCache, directory: str, names: list[str], base: int, wall: int) -> None:
    stem = f"{directory}/{segment_name(base)}"
    size = files.fs.stat(stem + _LOG + SWAP).size
    swap = LogSegment(files, directory, base, size=size, created_ms=wall, fresh=False, suffix=SWAP)
    end = max(swap.end_offset(), base + 1)
    logger.warning("Completing the swap of %s, which goes up to offset %d", swap.log.path, end)
    for name in names:
        if name[:20].isdecimal() and name[20:] in _SEGMENT_FILES and base <= int(name[:20]) < end:
            files.fs.remove(f"{directory}/{name}")
    swap.change_suffix(SWAP, "")
    for file in swap.files():
        file.close()
