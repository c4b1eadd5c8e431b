"""Clients that are held up, since they are above their quota.

Rule: one deadline for all of them; who is due goes on in the next turn, among all others. Who has gone is forgotten.
"""

from __future__ import annotations

import heapq
import socket
from typing import Protocol

_ROOM = 64  # for places in the queue of those who have gone


class Mutable(Protocol):
    """A connection."""

    def mute(self) -> None:
        """Serve nothing more."""

    def unmute(self) -> None:
        """Go on."""


class TurnedAway:
    """A socket that is closed when its time is over. Nothing of it is read."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def mute(self) -> None:
        """It never speaks."""

    def unmute(self) -> None:
        self._sock.close()


class Muting:
    """Who is muted, and until when."""

    def __init__(self) -> None:
        self._muted: dict[int, tuple[int, Mutable]] = {}
        self._queue: list[tuple[int, int]] = []  # (until, id), the earliest first; some are not so any more

    def __len__(self) -> int:
        return len(self._muted)

    def mute(self, id: int, connection: Mutable, until_ms: int) -> None:
        """The longer of two times counts."""
        before = self._muted.get(id)
        if before is not None and before[0] >= until_ms:
            return
        connection.mute()
        self._muted[id] = until_ms, connection
        heapq.heappush(self._queue, (until_ms, id))
        if len(self._queue) > 2 * len(self._muted) + _ROOM:
            self._queue = sorted((until, id) for id, (until, _) in self._muted.items())

    def forget(self, id: int) -> None:
        """It has gone."""
        self._muted.pop(id, None)

    @property
    def next_deadline(self) -> int | None:
        """When the next one is due."""
        queue = self._queue
        while queue and self._until(queue[0][1]) != queue[0][0]:
            heapq.heappop(queue)
        return queue[0][0] if queue else None

    def _until(self, id: int) -> int | None:
        muted = self._muted.get(id)
        return None if muted is None else muted[0]

    def on_deadline(self, now: int) -> None:
        """Let those go on whose time is over."""
        while (due := self.next_deadline) is not None and due <= now:
            _, id = heapq.heappop(self._queue)
            self._muted.pop(id)[1].unmute()

    def release_all(self) -> None:
        """Let everybody go on: what was counted is forgotten."""
        muted, self._muted, self._queue = self._muted, {}, []
        for _, connection in muted.values():
            connection.unmute()
