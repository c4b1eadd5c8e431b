"""The segments of one partition, in order of their base offsets.

Rule: there is always at least one, and only the last one, `active`, is written to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from pykafka_broker.log.segment import LogSegment

_MANY = 16


class Segments:
    __slots__ = ("_all", "_bases", "_sealed_bytes", "active", "untimed")

    def __init__(self, segments: list[LogSegment]) -> None:
        self._set(segments)

    def _set(self, segments: list[LogSegment]) -> None:
        self._all = segments
        self._bases = [segment.base_offset for segment in segments]
        self._sealed_bytes = sum(segment.size for segment in segments[:-1])
        self.active = segments[-1]
        # Whether it may take long to learn the greatest timestamps: many are loaded, and not yet asked for theirs.
        self.untimed = len(segments) > _MANY

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._all)

    def __getitem__(self, number: int) -> LogSegment:
        return self._all[number]

    @property
    def first(self) -> LogSegment:
        return self._all[0]

    @property
    def size_bytes(self) -> int:
        return self._sealed_bytes + self.active.size

    def number_of(self, offset: int) -> int:
        """Index of the segment whose range holds `offset`; -1 before the first."""
        return bisect_right(self._bases, offset) - 1

    def floor(self, offset: int) -> LogSegment:
        """The segment that holds `offset`, the first one if it lies before that."""
        return self._all[max(0, bisect_right(self._bases, offset) - 1)]

    def starting_from(self, offset: int) -> list[LogSegment]:
        """The segment that holds `offset` and all after it."""
        return self._all[max(0, self.number_of(offset)) :]

    def holds(self, segment: LogSegment) -> bool:
        """Whether it is one of them."""
        return self.floor(segment.base_offset) is segment

    def after(self, segment: LogSegment) -> LogSegment:
        """The one that follows it."""
        return self._all[self.number_of(segment.base_offset) + 1]

    def upper_offset(self, number: int, log_end_offset: int) -> int:
        """Where the range of that segment ends."""
        return self._bases[number + 1] if number + 1 < len(self._bases) else log_end_offset

    def with_end(self, number: int, log_end_offset: int) -> tuple[LogSegment, int] | None:
        """That segment and where its range ends; None after the last one."""
        segments, following = self._all, number + 1
        if following < len(segments):
            return segments[number], self._bases[following]
        return (segments[number], log_end_offset) if number < len(segments) else None

    def add(self, segment: LogSegment) -> None:
        self._sealed_bytes += self.active.size
        self._all.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def replace(self, old: list[LogSegment], new: list[LogSegment]) -> None:
        """Put `new` in the place of `old`; at least one segment must be left."""
        gone = set(map(id, old))
        kept = [segment for segment in self._all if id(segment) not in gone]
        self._set(sorted(kept + new, key=lambda segment: segment.base_offset))
