"""The connections of a simulated node, and their server.

Rule: requests come as frames to the router, one after the other on each connection, as `server/connection.py` does it;
the buffer of a request is wiped when its handler has returned. A listener with SASL has the real connections of
`server/` over a stream of bytes without a socket (`StreamEnd`). What the control API needs of a `Server` and its turns
is here too, so that it opens on a simulated node as on a real one. Apart from `node`, as `server/` is apart from
`broker/`: a node starts, ends and has a disk; its server knows connections and turns.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pykafka_broker.broker.broker import Broker
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.controller_routes import ControllerRouter
from pykafka_broker.broker.requests.router import PendingReply, new_router
from pykafka_broker.broker.waiting.future import Parked, Purgatory
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import Buffer
from pykafka_broker.server.channel import FrameReader, RequestMemory
from pykafka_broker.server.connection import Dispatching
from pykafka_broker.server.event_loop import SCRATCH_BYTES, BufferPool, ResponseBatch
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.transport import READ, WRITE, FilePiece
from pykafka_broker.testing.simulation.link import flat
from pykafka_broker.testing.simulation.network import End
from pykafka_broker.testing.simulation.timeline import Host, Step

if TYPE_CHECKING:
    from pykafka_broker.testing.simulation.node import SimNode

_SCRATCH = memoryview(bytearray(SCRATCH_BYTES))  # nothing in it survives the call in which it was filled
_FRAMES_A_TURN = 256
_LOOK_MS = 30_000  # the next deadline of a node that has none
NewConnection = Callable[[End, ConnectionContext], Any]


class SimTurns:
    """The turns of a node (`EventLoop`). loop: asyncio's, where there is one."""

    def __init__(self, host: Host) -> None:
        self.loop: Any = None
        self.clock = host.clock
        self.call_soon = host.soon
        self.run = host.turn
        self.observers: list[Step] = []  # called at the end of each turn
        self.scratch = _SCRATCH
        self.buffers = BufferPool()
        self.share = _FRAMES_A_TURN
        self.answers = ResponseBatch()
        self.in_parts = 0
        self.rests = False  # no client is served
        self._host = host
        self._streams: dict[int, StreamEnd] = {}
        self._numbers = itertools.count()
        self._rested: list[Step] = []

    # -- streams, by a number in the place of a descriptor

    def attach(self, stream: StreamEnd) -> int:
        number = next(self._numbers)
        self._streams[number] = stream
        return number

    def watch(self, source: Any, fd: int, events: int) -> None:
        self._streams[fd].source = source
        self.change(fd, events)

    def change(self, fd: int, events: int) -> None:
        self._streams[fd].events = events
        self._host.soon(self._streams[fd].serve)

    def forget(self, fd: int) -> None:
        self._streams.pop(fd).source = None

    # -- rest

    def pause(self) -> None:
        """Serve no client until `resume`."""
        self.rests = True

    def resume(self) -> None:
        self.rests = False
        rested, self._rested = self._rested, []
        for serve in rested:
            self._host.soon(serve)

    def serve_later(self, serve: Step) -> None:
        """Call `serve` after the rest."""
        self._rested.append(serve)


class SimServer:
    """The server of a node's process (`Server`)."""

    nobody_yields = stopping = killed = False

    def __init__(self, node: SimNode, broker: Broker) -> None:
        self.broker = broker
        self.turns: Any = SimTurns(node)
        self._router = new_router(broker.services)
        self.router: Dispatching = self._router  # or one in front of it
        self.admit: Callable[[Any, ConnectionContext], bool] | None = None
        self.request_memory = RequestMemory(0, node.soon)
        self._node = node
        self._connections: dict[int, Any] = {}
        self._makers: dict[str, NewConnection] = {}

    @property
    def purgatory(self) -> Purgatory:
        return self.broker.services.purgatory

    def ways(self) -> dict[ApiKey, tuple[int, int]]:
        return self._router.ways()

    def frame_reader(self, stall: Step) -> FrameReader:
        return FrameReader(_SCRATCH, self.turns.buffers, self.broker.config.socket_request_max_bytes)

    # -- connections

    def listen(self, listener: Listener) -> SimDoor:
        """Return the door of a listener."""
        self._makers[listener.name] = self._maker_for(listener)
        return SimDoor(self._node, self, listener)

    def _maker_for(self, listener: Listener) -> NewConnection:
        if listener.for_controllers:
            router = ControllerRouter(self.broker.services)
            return lambda end, context: Served(self._node, self, end, context, router)
        if listener.has_sasl:
            from pykafka_broker.server.named_connection import sasl_connections

            serving: Any = self
            new_connection, check = sasl_connections(listener.name, serving)
            self.broker.check_listeners_by([check])
            return lambda end, context: new_connection(serving, StreamEnd(self.turns, end), context)
        return lambda end, context: Served(self._node, self, end, context)

    def serve(self, end: End, context: ConnectionContext) -> None:
        """Serve a client that has been let in."""
        self._connections[context.id] = self._makers[context.listener](end, context)
        end.hear_again()

    def turn_away(self, end: End, context: ConnectionContext) -> None:
        end.close()

    def forget(self, connection: Any, why: str) -> None:
        """Forget a connection that has ended."""
        if self._connections.pop(connection.context.id, None) is not None:
            self.broker.connection_closed(connection.context)

    @property
    def connections(self) -> Iterable[Any]:
        """Return the connections of clients and of other nodes."""
        return self._connections.values()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def connection(self, id: int) -> Any:
        return self._connections.get(id)

    # -- time, as the control API moves it

    def hold_timer(self) -> None:
        self._node.arm_anew()

    def release_timer(self) -> None:
        self._node.arm_anew()

    def next_deadline(self) -> int:
        deadline = self.broker.next_deadline()
        return self.turns.clock.now + _LOOK_MS if deadline is None else deadline

    def do_due(self) -> None:
        self.broker.on_deadline()
        self._node.settle()

    def look_now(self) -> None:
        self.broker.look_now()


class SimDoor:
    """A listener of a node."""

    def __init__(self, node: SimNode, server: SimServer, listener: Listener) -> None:
        self.host: Host = node
        self._node = node
        self._server = server
        self._listener = listener

    def accept(self, end: End) -> None:
        context = self._node.next_connection(self._listener)
        if self._server.admit is None or self._server.admit(end, context):
            self._server.serve(end, context)


class Served:
    """A connection of a client or of another node. router: of a listener for controllers."""

    def __init__(
        self,
        node: SimNode,
        server: SimServer,
        end: End,
        context: ConnectionContext,
        router: Dispatching | None = None,
    ) -> None:
        self.context = context
        self._node = node
        self._server = server
        self._end = end
        self._own_router = router
        self._waiting: deque[bytes] = deque()
        self._parked: PendingReply | None = None
        end.ear = self

    def on_frame(self, frame: bytes) -> None:
        self._waiting.append(frame)
        self._serve()

    def on_end(self, why: str) -> None:
        self._waiting.clear()
        if self._parked is not None:
            pending, self._parked = self._parked, None
            self._server.purgatory.cancel(pending.future)
        self._server.forget(self, why)

    def hurry(self) -> None:
        """Answer a fetch that waits with the records at hand."""
        if self._parked is not None and self._parked.yields and isinstance(self._parked.future, Parked):
            self._server.purgatory.hurry(self._parked.future, self._node.clock.now)

    def _serve(self) -> None:
        while self._waiting and self._end.open:
            if self._server.turns.rests:
                self._server.turns.serve_later(self._serve)
                return
            if self._parked is not None:
                self.hurry()
                if self._parked is not None:
                    return
            self._dispatch(self._waiting.popleft())

    def _dispatch(self, frame: bytes) -> None:
        buffer = bytearray(frame)
        router = self._own_router or self._server.router
        try:
            result = router.dispatch(self.context, memoryview(buffer)[4:])
        except FrameError as error:
            self._refuse(error)
            return
        finally:
            buffer[:] = bytes(len(buffer))
        if isinstance(result, PendingReply):
            self._parked = result
            result.future.add_done_callback(self._on_reply)
        elif result is not None:
            self.send(result)

    def _on_reply(self, _: object) -> None:
        pending, self._parked = self._parked, None
        if pending is None or not self._end.open:
            return
        try:
            pieces = pending.pieces()
        except FrameError as error:
            self._refuse(error)
            return
        if pieces:
            self.send(pieces)
        self._node.soon(self._serve)

    def send(self, pieces: list[Any]) -> None:
        """Send a frame, or the part of one that a fault leaves."""
        try:
            self._end.send(flat(pieces))
        except OSError as error:  # of the disk that records come from
            self.close(str(error))

    def close(self, why: str) -> None:
        """Close the connection."""
        self._end.close()
        self.on_end(why)

    def _refuse(self, error: FrameError) -> None:
        wanted = "acks=0" in str(error) or "fault " in str(error)  # all that a client hears of it then is the end
        if not wanted:
            self._node.violations.append(f"{self._node.name} refused a frame of {self._end.far.host.name}: {error}")
        self.close(str(error))


class StreamEnd:
    """A side of a connection as a stream of bytes (`Transport`), with the channel that reads it.

    source: the channel; None once it is closed. events: what it waits for.
    """

    read_on, write_on = READ, WRITE
    has_buffered = False

    def __init__(self, turns: SimTurns, end: End) -> None:
        self.source: Any = None
        self.events = 0
        self._turns = turns
        self._end = end
        self._arrived = bytearray()
        self._unsent = bytearray()
        self._over = False
        self._number = turns.attach(self)
        end.ear = self

    # -- from the network

    def on_frame(self, frame: bytes) -> None:
        self._arrived += frame
        self.serve()

    def on_end(self, why: str) -> None:
        self._over = True
        self.serve()

    def serve(self) -> None:
        """Tell the channel of bytes that have arrived, once a turn as long as it reads."""
        if self.source is None or not self.events & READ or not (self._arrived or self._over):
            return
        if self._turns.rests:
            self._turns.serve_later(self.serve)
            return
        self.source.on_ready(READ)
        if self._arrived or self._over:
            self._turns.call_soon(self.serve)

    # -- from the channel

    def has_input(self) -> bool:
        return bool(self._arrived)

    def recv_into(self, target: memoryview) -> int:
        if not self._arrived and not self._over:
            raise BlockingIOError
        count = min(len(target), len(self._arrived))
        target[:count] = self._arrived[:count]
        del self._arrived[:count]
        return count

    def send(self, data: Buffer, flags: int) -> int:
        unsent = self._unsent
        unsent += data
        while len(unsent) >= 4 and len(unsent) >= (size := 4 + int.from_bytes(unsent[:4], "big")):
            self._end.send(bytes(unsent[:size]))
            del unsent[:size]
        return len(data)

    def send_file(self, piece: FilePiece) -> int:
        whole: Any = piece
        return self.send(whole.read(), 0)

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        self._end.close()


__all__ = ["SimDoor", "Served", "SimServer", "SimTurns", "StreamEnd"]
