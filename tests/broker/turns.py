"""A broker whose long work goes on when the test says so, and what its turns do, by counting."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.broker.waiting.future import Future, Slices
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.runtime import Message
from tests.broker.api.real_broker import RealBroker
from tests.broker.frames import frame_of
from tests.coordinators.steps import garbage_kept


@contextlib.contextmanager
def _counting(turns: list[int]) -> Iterator[None]:
    """Count function calls meanwhile, in the last of these turns."""

    def called(frame: Any, event: str, argument: Any) -> None:
        turns[-1] += event in ("call", "c_call")

    with garbage_kept():
        sys.setprofile(called)
        try:
            yield
        finally:
            sys.setprofile(None)


class SlowBroker(RealBroker):
    """A broker whose slices of long work are done one by one, when the test says so."""

    def start(self) -> None:
        super().start()
        self.next: list[Callable[[], None]] = []
        services = self.broker.services
        services.slices = services.node.slices = Slices(self.next.append)
        services.node.replicas.slices = services.slices

    def turns(self, api_key: ApiKey, version: int, body: bytes) -> Iterator[Future[Any]]:
        """Send a request and yield before each turn that it takes."""
        pending = self.broker.dispatch(self.connection, frame_of(api_key, version, body), self.now)
        while isinstance(pending, PendingReply) and not pending.future.done:
            yield pending.future
            self.take_turn()
        answer = pending.pieces() if isinstance(pending, PendingReply) else pending
        assert answer
        self.answer = b"".join(answer)

    def take_turn(self) -> None:
        due, self.next[:] = list(self.next), []
        assert due, "nobody goes on with it"
        for step in due:
            step()

    def calls(self, request: Message, version: int) -> list[int]:
        """Return how many functions each turn of a request calls: the same number on any machine, busy or idle.

        `reply` has the answer afterwards.
        """
        api_key, body = ApiKey(request.API_KEY), request.encode(version)
        turns = [0]
        with _counting(turns):
            for _ in self.turns(api_key, version, body):
                turns.append(0)
        self.reply = self._decoded(api_key, version)
        return turns

    def counted_turn(self) -> list[int]:
        """Return how many functions the next turn calls."""
        turns = [0]
        with _counting(turns):
            self.take_turn()
        return turns

    def answered(self, request: Message, version: int) -> Any:
        """Send a request and return its answer, after as many turns as it takes."""
        api_key = ApiKey(request.API_KEY)
        for _ in self.turns(api_key, version, request.encode(version)):
            pass
        return self._decoded(api_key, version)

    def _decoded(self, api_key: ApiKey, version: int) -> Any:
        spec = SPECS[api_key]
        head = 8 + spec.response_header_version(version)
        return spec.response_class().decode(self.answer[head:], version)
