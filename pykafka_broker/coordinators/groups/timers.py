"""Deadlines of groups and members. Rule: setting a deadline anew, as every heartbeat does, costs one dict entry; the
heap is put right when an entry comes to its top.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

MEMBER_CLOCKS = ("session", "rebalance", "join", "sync")  # behind the name of a protocol they make kinds of deadlines


class TimerKey(NamedTuple):
    """What a deadline is for: `kind` says which of the machine's rules runs when it is reached."""

    kind: str
    group_id: str
    member_id: str = ""


class Timers:
    """A set of deadlines in epoch milliseconds, one for each key."""

    __slots__ = ("_deadlines", "_heap", "_queued")

    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, int] = {}
        self._queued: dict[TimerKey, int] = {}  # the earliest heap entry of each key; others of that key are stale
        self._heap: list[tuple[int, TimerKey]] = []

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._deadlines

    def set(self, key: TimerKey, deadline: int) -> None:
        """Replace the deadline of `key`."""
        self._deadlines[key] = deadline
        queued = self._queued.get(key)
        if queued is None or queued > deadline:
            self._queued[key] = deadline
            heapq.heappush(self._heap, (deadline, key))

    def cancel(self, key: TimerKey) -> None:
        """Forget `key`; unknown keys are fine."""
        self._deadlines.pop(key, None)

    def cancel_member(self, group_id: str, protocol: str, member_id: str) -> None:
        """Forget all deadlines that one protocol has set for a member."""
        for clock in MEMBER_CLOCKS:
            self._deadlines.pop(TimerKey(f"{protocol}-{clock}", group_id, member_id), None)

    def cancel_group(self, group_id: str, protocol: str) -> None:
        """Forget all deadlines that one protocol has set for a group."""
        kinds = f"{protocol}-"
        for key in [key for key in self._deadlines if key.group_id == group_id and key.kind.startswith(kinds)]:
            del self._deadlines[key]

    def deadline(self, key: TimerKey) -> int | None:
        return self._deadlines.get(key)

    def next_deadline(self) -> int | None:
        """The earliest deadline of all."""
        heap = self._heap
        while heap:
            queued, key = heap[0]
            if self._queued.get(key) != queued:
                heapq.heappop(heap)
                continue
            deadline = self._deadlines.get(key)
            if deadline == queued:
                return queued
            heapq.heappop(heap)
            if deadline is None:
                del self._queued[key]
            else:
                self._queued[key] = deadline
                heapq.heappush(heap, (deadline, key))
        return None

    def pop(self, now: int) -> TimerKey | None:
        """Take out one key whose deadline has been reached."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        _, key = heapq.heappop(self._heap)
        del self._queued[key], self._deadlines[key]
        return key
