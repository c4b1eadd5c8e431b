"""The connections and the one timer of a broker process.

Rule: the lower layers get the time from here. At the end of each turn the one timer is armed for the earliest of their
deadlines.

The security protocol of a listener decides how its connections begin. The decision is made when the listener is bound,
so a mistake in a certificate or a password is reported before the first client comes. The modules for TLS and SASL are
imported by the first listener with TLS or SASL, and cost a plain listener nothing.

Clients above their quota are muted: one deadline serves all of them, and a client whose time is over is served in the
next turn, among all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykafka_broker.addresses import as_java_writes
from pykafka_broker.broker.channels import inter_broker_listener
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import Router, new_router
from pykafka_broker.cluster.controller import CheckListener
from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.server.accepting import Accepting, ConnectionQuota
from pykafka_broker.server.channel import FrameReader, LimitedFrameReader, RequestMemory
from pykafka_broker.server.connection import ClientConnection, Dispatching, Serving
from pykafka_broker.server.event_loop import EventLoop, nanoseconds
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.transport import PlainTransport, Transport, listening, prepare

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker
    from pykafka_broker.broker.waiting.future import Purgatory

_ROOM = 64  # queue entries of connections that have closed


class Mutable(Protocol):
    """A connection, as far as muting goes."""

    def mute(self) -> None:
        """Serve nothing more."""

    def unmute(self) -> None:
        """Go on."""


class RejectedConnection:
    """A socket to be closed later, and never read."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def mute(self) -> None:
        """Do nothing: the socket is never read."""

    def unmute(self) -> None:
        self._sock.close()


class Muting:
    """The muted connections, with the end of each."""

    def __init__(self) -> None:
        self._muted: dict[int, tuple[int, Mutable]] = {}
        self._queue: list[tuple[int, int]] = []  # (until, id), the earliest first; some are out of date

    def __len__(self) -> int:
        return len(self._muted)

    def mute(self, id: int, connection: Mutable, until_ms: int) -> None:
        """Mute a connection; the later of two ends counts."""
        before = self._muted.get(id)
        if before is not None and before[0] >= until_ms:
            return
        connection.mute()
        self._muted[id] = until_ms, connection
        heapq.heappush(self._queue, (until_ms, id))
        if len(self._queue) > 2 * len(self._muted) + _ROOM:
            self._queue = sorted((until, id) for id, (until, _) in self._muted.items())

    def forget(self, id: int) -> None:
        self._muted.pop(id, None)

    @property
    def next_deadline(self) -> int | None:
        """Return when the next connection is due."""
        queue = self._queue
        while queue and self._until(queue[0][1]) != queue[0][0]:
            heapq.heappop(queue)
        return queue[0][0] if queue else None

    def _until(self, id: int) -> int | None:
        muted = self._muted.get(id)
        return None if muted is None else muted[0]

    def on_deadline(self, now: int) -> None:
        """Unmute all due connections."""
        while (due := self.next_deadline) is not None and due <= now:
            _, id = heapq.heappop(self._queue)
            self._muted.pop(id)[1].unmute()

    def release_all(self) -> None:
        """Unmute all connections: the counts behind the throttling are gone."""
        muted, self._muted, self._queue = self._muted, {}, []
        for _, connection in muted.values():
            connection.unmute()


_BUILDER = "principal.builder.class"
NewTransport = Callable[[socket.socket], Transport]
NewConnection = Callable[[Serving, Transport, ConnectionContext], ClientConnection]


class ListenerSecurity(NamedTuple):
    """The layers between a socket of a listener and requests, and the server of the requests."""

    server: Serving
    new_transport: NewTransport
    new_connection: NewConnection
    checks: tuple[CheckListener, ...] = ()  # of settings altered at run time

    def connect(self, sock: socket.socket, context: ConnectionContext) -> ClientConnection:
        return self.new_connection(self.server, self.new_transport(sock), context)


def security_of(listener: Listener, server: Serving) -> ListenerSecurity:
    """Return how connections to a listener begin. Raises ConfigError if certificates or mechanisms can't be used."""
    new_transport: NewTransport = PlainTransport
    new_connection: NewConnection = ClientConnection
    checks: tuple[CheckListener, ...] = ()
    if listener.has_tls:
        from pykafka_broker.server.tls_listener import TlsListener

        tls = TlsListener(listener.name, server)
        new_transport, new_connection, checks = tls.new_transport, tls.new_connection, (tls.check,)
    if listener.has_sasl:  # the client's name is then that of its login
        from pykafka_broker.server.named_connection import sasl_connections

        new_connection, check = sasl_connections(listener.name, server)
        checks = (*checks, check)
    elif not listener.has_tls and _has_builder(listener, server.broker.config):
        from pykafka_broker.server.named_connection import NamedConnections

        new_connection = NamedConnections(listener.name, server).new_connection
    return ListenerSecurity(server, new_transport, new_connection, checks)


def _has_builder(listener: Listener, config: BrokerConfig) -> bool:
    """Return whether a class names the clients of a listener without authentication."""
    return _BUILDER in config.static or f"listener.name.{listener.name.lower()}.{_BUILDER}" in config.extras


log = logging.getLogger(__name__)

_IDLE_SWEEP_MS = 30_000
_CLOSED_AT_ONCE = 500
_GRACE_SECONDS = 5.0
_PAUSE_MS = 1_000  # after a defect at a deadline


class Server:
    """Accepts connections for a broker and drives the deadlines."""

    def __init__(self, broker: Broker, turns: EventLoop) -> None:
        config = broker.config
        self.broker = broker
        self.turns = turns
        self._router = new_router(broker.services)
        self.router: Dispatching = self._router  # or a replacement in front of it
        self.admit: Callable[[socket.socket, ConnectionContext], bool] | None = (
            None  # False: the callback serves or rejects the socket itself
        )
        self.purgatory = broker.services.purgatory
        self.nobody_yields = config.own.parked_fetch  # a fetch that waits keeps its connection, as in Kafka
        self.request_memory = RequestMemory(config.queued_max_request_bytes, turns.call_soon)
        self._loop = turns.loop
        self._clock = turns.clock
        self._max_request_bytes: int = config.socket_request_max_bytes
        self._max_idle_ms: int = config.connections_max_idle_ms
        self._quota = ConnectionQuota(config, self._clock.now, inter_broker_listener(config))
        self._accepting = Accepting(
            turns,
            self._quota,
            follow=lambda: self._quota.follow(self.broker.config),
            adopt=self._adopt,
            on_pause=self._see_what_is_due,
        )
        self._started = False
        self._connections: dict[int, ClientConnection] = {}
        self._securities: dict[str, ListenerSecurity] = {}  # by the name of the listener
        self._controllers: ControllerServing | None = None
        self._checks: list[CheckListener] = []  # of listeners whose settings may be altered
        self._next_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for: int | None = None
        self._held = False  # the clock is stopped
        self._next_sweep = self._due = self._clock.now + self._sweep_every()
        self._muting = Muting()
        self._drained = asyncio.Event()
        self.stopping = False
        self.killed = False
        self._attach(broker)

    def _attach(self, broker: Broker) -> None:
        """Give the broker what only sockets and turns have: muting of clients, fine time, and the end of a turn."""
        broker.services.mute, broker.services.nanoseconds = self.mute, nanoseconds
        broker.services.time_network = self._time_network
        broker.services.at_end_of_turn = self.turns.at_end

    def ways(self) -> dict[ApiKey, tuple[int, int]]:
        """Return how many requests went the short and the general way, for each API that has both."""
        return self._router.ways()

    def serve_received(self) -> None:
        """Serve requests sent by now, before another broker takes over.

        Otherwise the new broker's answers, or its topics, would meet requests from before. A request that can't be
        served at once is dropped with its connection.
        """
        for connection in list(self._connections.values()):
            connection.serve_received()

    def replace(self, broker: Broker) -> None:
        """Serve another, started broker from now on; clients stay connected.

        Requests that wait for the old broker are answered by its `fail_requests`.
        """
        self.broker = broker
        self.purgatory = broker.services.purgatory
        self._router.serve(broker.services)
        if self._controllers is not None:
            self._controllers.router.serve(broker.services)
        self._attach(broker)
        broker.check_listeners_by(self._checks)
        self._muting.release_all()

    def frame_reader(self, stall: Callable[[], None]) -> FrameReader:
        """Return a connection's frame reader, which calls `stall` for lack of memory."""
        turns = self.turns
        if not self.request_memory.is_limited:
            return FrameReader(turns.scratch, turns.buffers, self._max_request_bytes)
        return LimitedFrameReader(turns.scratch, turns.buffers, self._max_request_bytes, self.request_memory, stall)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def connections(self) -> Iterable[ClientConnection]:
        return self._connections.values()

    def connection(self, id: int) -> ClientConnection | None:
        return self._connections.get(id)

    @property
    def listeners(self) -> list[Listener]:
        return self._accepting.listeners

    def mute(self, id: int, until_ms: int) -> None:
        """Read nothing from client before `until_ms`; answers due go out."""
        connection = self._connections.get(id)
        if connection is not None:
            self._muting.mute(id, connection, until_ms)
            self._see_what_is_due()

    def _time_network(self, id: int) -> None:
        """Measure how long client's socket takes."""
        connection = self._connections.get(id)
        if connection is not None:
            connection.time_network()

    # -- listening

    def listen(self, listeners: list[Listener]) -> None:
        """Bind every listener; port 0 takes a free port, told to the listener. Connections wait until `start`.

        Raises ConfigError if certificates or mechanisms of a listener can't be used, and OSError for an address; no
        listener stays bound then.
        """
        try:
            for listener in listeners:
                self._listen(listener)
        except (ConfigError, OSError):
            self._accepting.close()
            raise
        self.broker.check_listeners_by(self._checks)

    def _listen(self, listener: Listener) -> None:
        config = self.broker.config
        self._securities[listener.name] = security = security_of(listener, self._serving(listener))
        self._checks += security.checks
        sock = listening(listener.host, listener.port, _backlog(config), config.socket_receive_buffer_bytes)
        listener.port = sock.getsockname()[1]
        self._accepting.add(sock, listener)

    def _serving(self, listener: Listener) -> Serving:
        if not listener.for_controllers:
            return self
        if self._controllers is None:
            from pykafka_broker.broker.requests.controller_routes import (
                ControllerRouter,  # few nodes have such a listener
            )

            self._controllers = ControllerServing(self, ControllerRouter(self.broker.services))
        return self._controllers

    def start(self) -> None:
        """Accept connections and arm the timer."""
        self.begin()
        self.accept()

    def begin(self) -> None:
        """Arm the timer, and accept no connection yet."""
        self.turns.settle = self._settle
        self._arm(self._clock.tick())

    def accept(self) -> None:
        """Accept waiting and future connections."""
        self._started = True
        self._accept_on()

    def _accept_on(self) -> None:
        if self._started and not self.stopping:
            self._accepting.go_on()

    def _adopt(self, sock: socket.socket, address: tuple[str, int], listener: Listener) -> None:
        host = as_java_writes(address[0])
        quotas = self.broker.services.quotas
        if quotas is not None and (hold_ms := quotas.connection_throttle_ms(host)):
            self._turn_away_later(sock, f"{host}:{address[1]}", hold_ms)
            return
        exceeded = self._quota.enter(host, listener.name)
        if exceeded is not None:
            log.info("closing %s:%d: max.connections.per.ip is %d", host, address[1], exceeded)
            sock.close()
            return
        try:
            prepare(sock, self.broker.config.socket_send_buffer_bytes)
            local = sock.getsockname()
        except OSError as error:  # macOS refuses options of a connection that its client has reset
            log.debug("closing %s:%d: %s", host, address[1], error)
            self._quota.leave(host, listener.name)
            sock.close()
            return
        self._next_id += 1
        context = ConnectionContext(self._next_id, listener.name, (local[0], local[1]), (host, address[1]))
        if self.admit is not None and not self.admit(sock, context):
            return
        self.serve(sock, context)

    def _turn_away_later(self, sock: socket.socket, peer: str, hold_ms: int) -> None:
        """Close the socket of an address above the rate after a while, so the client does not retry at once."""
        log.info("closing %s in %d ms: connections come too fast from there", peer, hold_ms)
        self._next_id += 1
        self._muting.mute(self._next_id, RejectedConnection(sock), self._clock.now + hold_ms)
        self._see_what_is_due()

    def serve(self, sock: socket.socket, context: ConnectionContext) -> None:
        """Serve an admitted client."""
        log.debug("%s:%d connects to %s", context.client_host, context.client_port, context.listener)
        try:
            self._connections[context.id] = self._securities[context.listener].connect(sock, context)
        except Exception:
            log.exception("closing %s:%d, which could not be served", context.client_host, context.client_port)
            self.turn_away(sock, context)
            return
        if self._quota.is_exceeded:
            self._close_the_longest_idle()

    def _close_the_longest_idle(self) -> None:
        """Make room for another broker's connection, as Kafka does."""
        others = (each for each in self._connections.values() if self._quota.makes_room(each.context.listener))
        idle = min(others, key=lambda each: each.last_active, default=None)
        if idle is not None:
            log.info("closing %s: max.connections is reached, and another broker connects", idle.peer)
            idle.close("it made room for another broker")

    def turn_away(self, sock: socket.socket, context: ConnectionContext) -> None:
        """Close the socket of a client after all."""
        self._quota.leave(context.client_host, context.listener)
        sock.close()

    def forget(self, connection: ClientConnection, why: str) -> None:
        """Forget a closed connection."""
        if self._connections.pop(connection.context.id, None) is None:
            return
        log.debug("%s is disconnected: %s", connection.peer, why)
        self._muting.forget(connection.context.id)
        self._quota.leave(connection.context.client_host, connection.context.listener)
        self.broker.connection_closed(connection.context)
        if not self._connections:
            self._drained.set()
        self._accept_on()

    # -- time

    def _settle(self) -> None:
        """End a turn: answer waiting requests, and arm the timer."""
        self._settle_broker()
        if not self.stopping:
            self._arm(self._clock.now)

    def _settle_broker(self) -> None:
        self.broker.settle()
        if self.turns.observers:
            for look in tuple(self.turns.observers):
                look()

    def _arm(self, now: int) -> None:
        deadline = self.broker.next_deadline()
        if deadline is None or deadline > self._due:
            deadline = self._due
        if self._armed_for is not None and self._armed_for <= deadline:
            return  # the timer fires early enough, and arms itself again
        if self._timer is not None:
            self._timer.cancel()
        if self._held and deadline > now:
            self._timer = self._armed_for = None
            return
        self._armed_for = deadline
        self._timer = self._loop.call_later(max(0, deadline - now) / 1000, self._on_timer)

    def hold_timer(self) -> None:
        """Stop with the clock: until `release_timer`, only work due by now is done."""
        self._held = True
        self._arm_anew()

    def release_timer(self) -> None:
        """Run again with the clock."""
        self._held = False
        self._arm_anew()

    def _arm_anew(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._armed_for = None
        if not self.stopping:
            self._arm(self._clock.now)

    def next_deadline(self) -> int:
        """Return when, by the clock, something of the broker or of the connections is due."""
        deadline = self.broker.next_deadline()
        return self._due if deadline is None else min(deadline, self._due)

    def do_due(self) -> None:
        """Do all due work, and answer requests after it."""
        now = self._clock.now
        try:
            self.broker.on_deadline()
        finally:
            if now >= self._due:
                self._do_own(now)
            self._accept_on()  # max.connections may have been raised
            self._settle_broker()

    def look_now(self) -> None:
        """Make periodic checks due now."""
        self.broker.look_now()
        self._next_sweep = self._clock.now
        self._see_what_is_due()

    def _see_what_is_due(self) -> None:
        """Compute the next deadline of the server itself."""
        due = (self._next_sweep, self._accepting.next_deadline, self._muting.next_deadline)
        self._due = min(each for each in due if each is not None)

    def _do_own(self, now: int) -> None:
        self._accepting.on_deadline(now)
        self._muting.on_deadline(now)
        if now >= self._next_sweep:
            self._sweep_idle(now)
        self._see_what_is_due()

    def _on_timer(self) -> None:
        now = self._clock.tick()
        self._timer = self._armed_for = None
        try:
            self.do_due()
        except Exception:
            log.exception("a defect at a deadline")
            # The failed step may still be due: without the pause it would be tried without end.
            self._armed_for = now + _PAUSE_MS
            self._timer = self._loop.call_later(_PAUSE_MS / 1000, self._on_timer)
            return
        self._arm(now)

    def _sweep_every(self) -> int:
        return max(100, min(_IDLE_SWEEP_MS, self._max_idle_ms // 4)) if self._max_idle_ms > 0 else _IDLE_SWEEP_MS

    def _sweep_idle(self, now: int) -> None:
        self._next_sweep = now + self._sweep_every()
        if self._max_idle_ms <= 0:
            return
        oldest = now - self._max_idle_ms
        idle = [c for c in self._connections.values() if c.last_active < oldest and not c.waiting]
        if len(idle) > _CLOSED_AT_ONCE:
            del idle[_CLOSED_AT_ONCE:]
            self._next_sweep = now  # in the next turn: thousands may have come together
        for connection in idle:
            connection.close("it was idle")
        if idle:
            log.info(
                "closed %d connections that were idle for connections.max.idle.ms, %d", len(idle), self._max_idle_ms
            )

    # -- the end

    def kill(self) -> None:
        """Close every connection without an answer and release the data directories, as kill -9 does.

        `stop` comes next; nothing more is written.
        """
        self.stopping = self.killed = True
        for connection in list(self._connections.values()):
            connection.close("the broker is killed")
        self.broker.hand_over()
        self.broker.fail_requests()

    async def stop(self) -> None:
        """Accept nothing more, let outgoing answers leave, then close every connection."""
        self.stopping = True
        self._accepting.close()
        for connection in list(self._connections.values()):
            if not connection.sending:
                connection.close("the broker ends")
        self._drained.clear()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), _GRACE_SECONDS)
        for connection in list(self._connections.values()):
            connection.close("the broker ends")
        self._muting.release_all()
        if self._timer is not None:
            self._timer.cancel()


class ControllerServing:
    """The server, for connections to a controller's listeners: all but the router, since other requests are served."""

    def __init__(self, server: Server, router: Router) -> None:
        self._server = server
        self.router = router
        self.turns = server.turns
        self.request_memory = server.request_memory
        self.nobody_yields = server.nobody_yields
        self.frame_reader = server.frame_reader
        self.forget = server.forget

    @property
    def broker(self) -> Broker:
        return self._server.broker

    @property
    def purgatory(self) -> Purgatory:
        return self._server.purgatory

    @property
    def stopping(self) -> bool:
        return self._server.stopping


def _backlog(config: BrokerConfig) -> int:
    """Return the backlog of listening sockets; by default as much as the system allows.

    With Kafka's 50 a burst of connections overruns the backlog, and clients that were dropped try again only after a
    second.
    """
    name = "socket.listen.backlog.size"
    return config.socket_listen_backlog_size if name in config.static else socket.SOMAXCONN
