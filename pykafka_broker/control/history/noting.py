"""The router that writes the history of a broker, and its beginning and end.

Rule: while no history is wanted, the router in its place knows nothing of histories. The noting router notes what
clients were told: an answer that a fault took away or changed is noted as the client got it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
from functools import partial
from time import perf_counter_ns
from typing import Any

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.control.control import Control
from pykafka_broker.control.history.entries import (
    BODY,
    MOST_BYTES,
    RECORDED,
    SHORT_BYTES,
    WHOLE,
    HistoryFile,
    ThinRequest,
    thin_request,
)
from pykafka_broker.control.observed_router import Answer, ObservedRouter
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.traffic.exchange import KEPT_REQUEST_BYTES, Entry, Exchange, Kept, Mark
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import Pieces

_EMPTY_BYTES = 100  # an answer to a fetch up to here has no batch
_BATCHES_FROM = 4  # the first version of Fetch whose answers have batches, and no shorter messages
_RECORDED = frozenset(bytes([key]) for key in RECORDED)


class _Recorded(Exchange):
    """An exchange with the request as the history keeps it."""

    thin: ThinRequest


class NotingRouter(ObservedRouter):
    """An observed router that writes a history."""

    def __init__(self, history: HistoryFile, *parts: Any) -> None:
        """Write a history from now on. parts: of the observed router."""
        super().__init__(*parts)
        self.history = history
        self._observe = super().dispatch
        self._pieces: Pieces | None = None  # of a long answer that is noted next
        self._written = False  # whether what is noted next is in the history already
        self._note = self._note_both

    def dispatch(self, connection: ConnectionContext, frame: memoryview) -> Answer:
        """Serve a request as `Router.dispatch` does."""
        size = len(frame)
        if size > SHORT_BYTES and frame[1] in RECORDED and not self._faults.watching:
            return self._long_request(connection, frame, size)
        return self._observe(connection, frame)

    def _recorded(self, connection: ConnectionContext, frame: memoryview) -> Answer:
        if len(frame) > SHORT_BYTES and frame[1] in RECORDED:
            return self._disturbed(connection, frame)  # which notes it as the history keeps it
        return super()._recorded(connection, frame)

    def _note_both(self, entry: Entry) -> None:
        """Note an exchange in the log, and write it into the history."""
        self._recent.extend(entry)
        wall_ms, connection, frame, answer, _ = entry
        if self._written or frame[1:2] not in _RECORDED:
            self._written = False
        elif type(answer) is bytes:
            if len(answer) > _EMPTY_BYTES or frame[1] != ApiKey.FETCH or frame[3] < _BATCHES_FROM:
                self.history.note_small(wall_ms, self._clock.wall, connection, frame, answer, BODY)
        elif answer is None or self._pieces is not None:
            self.history.note(wall_ms, self._clock.wall, connection, ThinRequest(frame, len(frame)), self._pieces)
            self._pieces = None
        else:
            whole = b"".join(map(bytes, answer))
            if len(whole) > _EMPTY_BYTES or frame[1] != ApiKey.FETCH or frame[3] < _BATCHES_FROM:
                self.history.note_small(wall_ms, self._clock.wall, connection, frame, whole, WHOLE)

    def _long(self, answer: Pieces, request: bytes, size: int) -> tuple[Pieces, Kept]:
        self._pieces = answer if request[1] in RECORDED else None  # joined, most of it would count as records
        return super()._long(answer, request, size)

    def _long_request(self, connection: ConnectionContext, frame: memoryview, size: int) -> Answer:
        thin = thin_request(frame)  # before a log writes into the frame
        if size >= KEPT_REQUEST_BYTES:
            kept, mark = bytes(frame[:KEPT_REQUEST_BYTES]), Mark(size, None)
        else:
            kept, mark = thin.frame if thin.size == len(thin.frame) == size else bytes(frame), None
        exchange = _Recorded((self._clock.wall, connection, kept, None, perf_counter_ns()), mark=mark)
        exchange.thin = thin
        return self._serve_noted(exchange, frame)

    def _noted(self, exchange: Exchange, answer: Pieces | None) -> None:
        self._written = True
        super()._noted(exchange, answer)
        if exchange.api_key in RECORDED:
            thin = exchange.thin if isinstance(exchange, _Recorded) else thin_request(memoryview(exchange.frame))
            note_in(self.history, exchange, self._clock.wall, thin, answer)


def note_in(
    history: HistoryFile, exchange: Exchange, until_ms: int, request: ThinRequest, answer: Pieces | None
) -> None:
    """Write an exchange that was answered at `until_ms` into a history. A fetch without records tells nothing."""
    size = 0 if answer is None else sum(map(len, answer))
    if exchange.api_key == ApiKey.FETCH and exchange.version >= _BATCHES_FROM and size <= _EMPTY_BYTES:
        return
    history.note(exchange.wall_ms, until_ms, exchange.connection, request, answer)


class Histories:
    """The history of a broker, and whether there is one.

    path: where the history shall be; None for a temporary file. A file that is there is continued.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self._file: HistoryFile | None = None
        control.state.always.append(partial(self._begin_anew, whole=True))
        control.state.restored.append(partial(self._begin_anew, whole=False))

    @property
    def file(self) -> HistoryFile:
        """Return the history. Raises `Problem` 409 if none is written."""
        if self._file is None:
            raise Problem(
                409, "no history is written: start the broker with history=True or --history, or call start_history"
            )
        return self._file

    @property
    def running(self) -> bool:
        return self._file is not None

    def start(self, path: str | None = None, most_bytes: int = MOST_BYTES, *, whole: bool = False) -> None:
        """Write a history from now on. Does nothing if one is written already.

        Args:
            path: the file; None for a temporary one. A history that is in the file is continued.
            most_bytes: the size at which the history is full.
            whole: whether the broker has no data yet, so that the history has everything.
        """
        if self._file is not None:
            return
        own = path is None
        if path is None:
            handle, path = tempfile.mkstemp(prefix="pykafka-broker-history-")
            os.close(handle)
        try:
            self._file = HistoryFile(path, most_bytes, whole=whole)
        except OSError as error:
            if own:
                _remove(path)
            raise OSError(error.errno, error.strerror, path) from error
        if own:
            atexit.register(_remove, path)
        self._control.observing.observe_by(partial(NotingRouter, self._file))
        self._control.inside.on_answer = self._note_inside

    def stop(self) -> None:
        """Write no further entries, and forget the history."""
        if self._file is None:
            return
        self._control.observing.observe_by(ObservedRouter)
        self._control.inside.on_answer = None
        self._file.close()
        _remove(self._file.path)
        self._file = None

    def _begin_anew(self, *, whole: bool) -> None:
        """Forget all entries, since the broker's data are others now."""
        if self._file is not None:
            self._file.clear(whole=whole)

    def _note_inside(self, context: ConnectionContext, frame: memoryview, answer: Pieces) -> None:
        if self._file is not None and frame[1] in RECORDED - {ApiKey.FETCH}:
            now = self._control.services.clock.wall
            exchange = Exchange((now, context, bytes(frame), None, 0))
            note_in(self._file, exchange, now, thin_request(frame), answer)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
