"""A client connection.

Rule: requests are served one after the other and answered in order. While an answer is parked, no further request of
this connection is served; other connections go on. A parked request that yields (a fetch) is answered as soon as
another arrives, unless `pykafka.strict.parked.fetch` says that none yields. A muted connection, whose client is above
its quota, gets the answers that are due; until its time has come nothing is read and no request is served, received
ones included. When another broker takes over, received requests are served first (`serve_received`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pykafka_broker.broker.broker import Broker
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.broker.waiting.future import Parked, Purgatory
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.runtime import Buffer, Pieces
from pykafka_broker.server.channel import Channel, FrameReader, RequestMemory
from pykafka_broker.server.event_loop import EventLoop, nanoseconds
from pykafka_broker.server.transport import FilePiece, Transport

_MOST_READS = 256  # when another broker takes over; without a bound a client could send for ever


class TimedTransport:
    """A transport measuring the time of the calls, for the quota of request time.

    Rule: only brokers with quotas have any, so other brokers pay nothing.
    """

    __slots__ = ("_context", "_inner")

    def __init__(self, inner: Transport, context: ConnectionContext) -> None:
        self._inner = inner
        self._context = context
        context.network_ns = 0

    @property
    def read_on(self) -> int:
        return self._inner.read_on

    @property
    def write_on(self) -> int:
        return self._inner.write_on

    @property
    def has_buffered(self) -> bool:
        return self._inner.has_buffered

    def has_input(self) -> bool:
        return self._inner.has_input()

    def recv_into(self, target: memoryview) -> int:
        return self._timed(self._inner.recv_into, target)

    def send(self, data: Buffer, flags: int) -> int:
        return self._timed(self._inner.send, data, flags)

    def send_file(self, piece: FilePiece) -> int:
        return self._timed(self._inner.send_file, piece)

    def fileno(self) -> int:
        return self._inner.fileno()

    def close(self) -> None:
        self._inner.close()

    def _timed(self, call: Callable[..., int], *arguments: object) -> int:
        begun = nanoseconds()
        try:
            return call(*arguments)
        finally:
            self._context.network_ns = (self._context.network_ns or 0) + nanoseconds() - begun


class Dispatching(Protocol):
    """A router, or a replacement with the same method."""

    def dispatch(self, connection: ConnectionContext, frame: memoryview) -> Pieces | PendingReply | None: ...


class Serving(Protocol):
    """The parts of the server a connection needs. Some are replaced while it runs, so none is copied."""

    @property
    def broker(self) -> Broker: ...
    @property
    def turns(self) -> EventLoop: ...
    @property
    def purgatory(self) -> Purgatory: ...
    @property
    def router(self) -> Dispatching: ...
    @property
    def request_memory(self) -> RequestMemory: ...
    @property
    def nobody_yields(self) -> bool: ...
    @property
    def stopping(self) -> bool: ...

    def frame_reader(self, stall: Callable[[], None]) -> FrameReader: ...
    def forget(self, connection: ClientConnection, why: str) -> None: ...


class ClientConnection(Channel):
    """A channel of a client's requests."""

    __slots__ = ("_late", "_parked", "_server", "_stalled", "context", "muted")

    def __init__(self, server: Serving, transport: Transport, context: ConnectionContext) -> None:
        self._server = server
        self._parked: PendingReply | None = None
        self.muted = self._stalled = False
        self._late: bytearray | None = None  # a frame that came together with the answer that muted the client
        self.context = context
        super().__init__(server.turns, transport, server.frame_reader(self._stall))

    @property
    def peer(self) -> str:
        return f"{self.context.client_host}:{self.context.client_port}"

    @property
    def waiting(self) -> bool:
        """Return whether a request is parked, or the client is muted."""
        return self._parked is not None or self.muted

    def hurry(self) -> None:
        """Answer a waiting fetch with the records at hand."""
        if self._parked is not None and self._parked.yields:
            self._hurry(self._parked, self._turns.clock.now)

    def _hurry(self, pending: PendingReply, now: int) -> None:
        if isinstance(pending.future, Parked):
            self._server.purgatory.hurry(pending.future, now)

    def serve_received(self) -> None:
        """Serve requests received by now, before another broker takes over.

        A client that is muted for its quota is served at once. A request behind one that waits for anything but
        records, or for its client to read, is dropped, and the connection is closed after the answer that is due.
        """
        try:
            if self.muted:
                self.muted = False
                self._hold_if_needed()
                self._serve_late()
            self._read_all(self._deliver)
            if not self.closed and (self._out or self.holds) and self._drop_received():
                self._close_after_answer()
        except Exception as error:
            self._failed(error)

    def _read_all(self, deliver: Callable[[memoryview], bool]) -> None:
        """Read until the socket has no more bytes, or no further request may be served."""
        reader = self._reader
        serves = deliver == self._deliver
        more = reader.has_waiting
        for _ in range(_MOST_READS):
            if self.holds and (reader.has_waiting or self._transport.has_input()):
                self.hurry()
            if self.closed or (serves and (self._out or self.holds)):
                return
            if more:
                more = reader.resume(deliver, self._turns.share)
            else:
                try:
                    count = self._transport.recv_into(reader.target())
                except (BlockingIOError, InterruptedError):
                    return
                if not count:
                    self._end_of_input()
                    return
                more = reader.received(count, deliver, self._turns.share)

    def _drop_received(self) -> bool:
        """Read and drop all received bytes; return whether a request was dropped."""
        dropped = self._late is not None or self._stalled

        def drop(frame: memoryview) -> bool:
            nonlocal dropped
            dropped = True
            return True

        if not self._stalled:
            self._read_all(drop)
        return dropped

    def _close_after_answer(self) -> None:
        if self.closed:
            return
        if self._parked is None:
            self.close("its requests were for a broker that has ended")
            return

        why = "its later requests were for a broker that has ended"
        self._parked.future.add_done_callback(lambda _: self.close(why))

    def _deliver(self, frame: memoryview) -> bool:
        if self._parked is not None:
            self._hurry(self._parked, self.last_active)
            if self.muted:
                self._late = bytearray(frame)
                return False
        if self.closed:
            return False
        result = self._server.router.dispatch(self.context, frame)
        if isinstance(result, PendingReply):
            return self._park(result)
        if result is not None:
            self.send(result)
        return not (self._out or self.holds)

    def _park(self, pending: PendingReply) -> bool:
        self._parked = pending
        pending.future.add_done_callback(self._on_reply)
        self._hold_if_needed()
        return not self.holds

    def _hold_if_needed(self) -> None:
        parked = self._parked
        self.holds = (
            self.muted or self._stalled or (parked is not None and (self._server.nobody_yields or not parked.yields))
        )

    def _on_reply(self, _: object) -> None:
        pending, self._parked = self._parked, None
        if pending is None or self.closed:
            return
        self.last_active = self._turns.clock.now
        self._hold_if_needed()
        try:
            pieces = pending.pieces()
        except FrameError as error:
            self.refuse(error)
            return
        if pieces:  # without pieces: a produce with acks=0
            self.send(pieces)
        self._go_on_if_needed()

    def mute(self) -> None:
        """Read nothing and serve nothing until `unmute`."""
        self.muted = self.holds = True

    def time_network(self) -> None:
        """Measure from now on how long the socket takes."""
        self._transport = TimedTransport(self._transport, self.context)

    def unmute(self) -> None:
        """Go on in the next turn with requests received meanwhile."""
        self.muted = False
        self.last_active = self._turns.clock.now
        self._hold_if_needed()
        self._go_on_soon()

    def _stall(self) -> None:
        """Stop reading, for lack of memory for the incoming request."""
        self._stalled = self.holds = True
        self._server.request_memory.wait(self._memory_there)

    def _memory_there(self) -> None:
        self._stalled = False
        self._hold_if_needed()
        self.go_on()

    def go_on(self) -> None:
        if self._server.stopping and not self._out:
            self.close("the broker ends")
            return
        self._serve_late()
        super().go_on()

    def _serve_late(self) -> None:
        if self._late is None or self.closed or self._out or self.holds:
            return
        late, self._late = self._late, None
        try:
            self._deliver(memoryview(late))
        except Exception as error:
            self._failed(error)

    def _lost(self, why: str) -> None:
        if self._parked is not None:
            pending, self._parked = self._parked, None
            self._server.purgatory.cancel(pending.future)
        self._server.forget(self, why)
