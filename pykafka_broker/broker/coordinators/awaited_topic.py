"""A topic that the controller of a cluster makes, waited for by who needs it.

Rule: who waits is told when the topic is there, and after `WAIT_MS` in any case; whether it is there he then sees.
"""

from __future__ import annotations

from pykafka_broker.broker.node import Node
from pykafka_broker.broker.waiting.future import DONE, Future

WAIT_MS = 15_000


class AwaitedTopic:
    """The waits for one topic."""

    def __init__(self, node: Node, name: str) -> None:
        self._node = node
        self._name = name
        self._waiting: list[tuple[int, Future[None]]] = []

    @property
    def _is_there(self) -> bool:
        return self._name in self._node.image.topics

    def wait(self) -> Future[None]:
        """Return a future that is done when the topic is there, or after `WAIT_MS`."""
        if self._is_there:
            return DONE
        future: Future[None] = Future()
        self._waiting.append((self._node.clock.now + WAIT_MS, future))
        return future

    def on_metadata(self) -> None:
        if self._waiting and self._is_there:
            self._tell(len(self._waiting))

    def next_deadline(self) -> int | None:
        return self._waiting[0][0] if self._waiting else None

    def on_deadline(self, now: int) -> None:
        self._tell(sum(due <= now for due, _ in self._waiting))

    def _tell(self, count: int) -> None:
        told, self._waiting = self._waiting[:count], self._waiting[count:]
        for _, future in told:
            future.complete(None)
