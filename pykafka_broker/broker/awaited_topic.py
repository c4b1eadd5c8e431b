"""A topic that the controller of a cluster makes, waited for by who needs it.

Rule: who waits is told when the topic is there, and after `WAIT_MS` in any case; whether it is there he then sees.
"""

from __future__ import annotations

from pykafka_broker.broker.node import Node
from pykafka_broker.broker.reply import NOTHING, After, Waiter

WAIT_MS = 15_000


class AwaitedTopic:
    """`after` is what to wait for."""

    def __init__(self, node: Node, name: str) -> None:
        self._node = node
        self._name = name
        self._waiting: list[tuple[int, Waiter]] = []

    @property
    def after(self) -> After:
        return NOTHING if self.is_committed(0) else ((self, 0),)

    def is_committed(self, offset: int) -> bool:
        return self._name in self._node.image.topics

    def when_committed(self, offset: int, waiter: Waiter) -> None:
        if self.is_committed(offset):
            waiter(None)
        else:
            self._waiting.append((self._node.clock.now + WAIT_MS, waiter))

    def on_metadata(self) -> None:
        if self._waiting and self.is_committed(0):
            self._tell(len(self._waiting))

    def next_deadline(self) -> int | None:
        return self._waiting[0][0] if self._waiting else None

    def on_deadline(self, now: int) -> None:
        self._tell(sum(due <= now for due, _ in self._waiting))

    def _tell(self, count: int) -> None:
        told, self._waiting = self._waiting[:count], self._waiting[count:]
        for _, waiter in told:
            waiter(None)
