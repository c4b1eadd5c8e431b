"""The connections of a simulated node, and their server.

Rule: connections are those of `server/`, over a stream of bytes without a socket (`StreamEnd`); the buffer of a
request is wiped when its handler has returned. A busy node (`SimNode.busy_ms`) serves several connections in one turn:
their answers leave together, as in `server/event_loop.py`. What the control API needs of a `Server` and its turns is
here too, so that it opens on a simulated node as on a real one. Apart from `node`, as `server/` is apart from
`broker/`: a node starts, ends and has a disk; its server knows connections and turns.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Iterable
from errno import EPIPE
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka_broker.broker.broker import Broker
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.controller_routes import ControllerRouter
from pykafka_broker.broker.requests.router import new_router
from pykafka_broker.broker.waiting.future import Purgatory
from pykafka_broker.errors import ClosedOnPurpose, FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import Buffer
from pykafka_broker.server.channel import FrameReader, RequestMemory
from pykafka_broker.server.connection import ClientConnection, Dispatching
from pykafka_broker.server.event_loop import FEW, SCRATCH_BYTES, BufferPool, ResponseBatch
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.server import ControllerServing
from pykafka_broker.server.transport import READ, WRITE, FilePiece
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

    def __init__(self, host: SimNode) -> None:
        self.loop: Any = None
        self.clock = host.clock
        self.call_soon = host.in_next_turn
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
        self._collected: dict[StreamEnd, None] | None = None  # with bytes, while more may come for them in this turn
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
        stream = self._streams[fd]
        stream.events = events
        self.look_again(stream)

    def forget(self, fd: int) -> None:
        self._streams.pop(fd).source = None

    def look_again(self, stream: StreamEnd) -> None:
        """Serve a stream in the next turn, if it still has bytes and wants them."""
        self._host.on_ready(stream.end, partial(self.serve_stream, stream))

    def serve_stream(self, stream: StreamEnd) -> None:
        """Serve a stream that has bytes, once everything is there that has come for the stream in this turn."""
        if self._collected is None:
            stream.serve()
        else:
            self._collected[stream] = None

    # -- turns for several connections

    def at_end(self, step: Step) -> bool:
        return self.answers.before(step)

    def serve(self, due: list[Step], ready: Collection[list[Step]]) -> None:
        """Take the steps that are due, then serve each connection once; `SimNode.settle` sends what was answered."""
        if len(ready) > 1:
            self.answers.gather(FEW + 1)  # with so many no real time decides
        for step in due:
            step()
        for steps in ready:
            self._collected = {}
            for step in steps:
                step()
            streams, self._collected = self._collected, None
            for stream in streams:
                stream.serve()

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
        broker.services.at_end_of_turn = self.turns.at_end
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

    def listen(self, listener: Listener) -> SimListener:
        self._makers[listener.name] = self._maker_for(listener)
        return SimListener(self._node, self, listener)

    def _maker_for(self, listener: Listener) -> NewConnection:
        serving: Any = self
        if listener.for_controllers:
            serving = ControllerServing(serving, ControllerRouter(self.broker.services))
        if listener.has_sasl:
            from pykafka_broker.server.named_connection import sasl_connections

            new_connection, check = sasl_connections(listener.name, serving)
            self.broker.check_listeners_by([check])
            return lambda end, context: new_connection(serving, StreamEnd(self.turns, end), context)
        return lambda end, context: SimConnection(serving, StreamEnd(self.turns, end), context)

    def serve(self, end: End, context: ConnectionContext) -> None:
        """Serve a client that has been let in."""
        self._connections[context.id] = self._makers[context.listener](end, context)
        end.deliver_again()

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


class SimListener:
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


class SimConnection(ClientConnection):
    """The connection of `server/`, which notes frames that make no sense, or can't be answered."""

    __slots__ = ()
    _transport: StreamEnd

    def refuse(self, error: FrameError) -> None:
        if not isinstance(error, ClosedOnPurpose):  # its client asked for that
            end = self._transport.end
            node: Any = end.host
            node.violations.append(f"{node.name} refused a frame of {end.far.host.name}: {error}")
        super().refuse(error)


class StreamEnd:
    """A side of a connection as a stream of bytes (`Transport`), with the channel that reads it.

    source: the channel; None once it is closed. events: what it waits for.
    """

    read_on, write_on = READ, WRITE
    has_buffered = False

    def __init__(self, turns: SimTurns, end: End) -> None:
        self.source: Any = None
        self.events = 0
        self.end = end
        self._turns = turns
        self._arrived = bytearray()
        self._unsent = bytearray()
        self._over = False
        self._read_bytes = 0  # by the last read, into what all share
        self._number = turns.attach(self)
        end.receiver = self

    # -- from the network

    def on_frame(self, frame: bytes) -> None:
        self._arrived += frame
        self._turns.serve_stream(self)

    def on_end(self, why: str) -> None:
        self._over = True
        self._turns.serve_stream(self)

    def serve(self) -> None:
        """Tell the channel of bytes that have arrived, once a turn as long as it reads."""
        if self.source is None or not self.events & READ or not (self._arrived or self._over):
            return
        if self._turns.rests:
            self._turns.serve_later(self.serve)
            return
        self.source.on_ready(READ)
        _SCRATCH[: self._read_bytes] = bytes(self._read_bytes)
        if self._arrived or self._over:
            self._turns.look_again(self)

    # -- from the channel

    def has_input(self) -> bool:
        return bool(self._arrived)

    def recv_into(self, target: memoryview) -> int:
        if not self._arrived and not self._over:
            raise BlockingIOError
        count = min(len(target), len(self._arrived))
        target[:count] = self._arrived[:count]
        del self._arrived[:count]
        self._read_bytes = count
        return count

    def send(self, data: Buffer, flags: int) -> int:
        if not self.end.open:
            raise BrokenPipeError(EPIPE, os.strerror(EPIPE))
        unsent = self._unsent
        unsent += data
        while len(unsent) >= 4 and len(unsent) >= (size := 4 + int.from_bytes(unsent[:4], "big")):
            self.end.send(bytes(unsent[:size]))
            del unsent[:size]
        return len(data)

    def send_file(self, piece: FilePiece) -> int:
        whole: Any = piece
        return self.send(whole.read(), 0)

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        self.end.close()
