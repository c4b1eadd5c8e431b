"""Sockets, signals and the one timer of a broker process.

Rule: here, and only here, are the event loop and the clock. The machines below are told the time; the timer is armed
for the earliest of their deadlines.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.broker.router import Router
from pykafka_broker.server.connection import Connection
from pykafka_broker.server.connection_quota import ConnectionQuota
from pykafka_broker.server.framing import BufferPool, FrameReader
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.request_memory import LimitedFrameReader, RequestMemory

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker
    from pykafka_broker.config import BrokerConfig

log = logging.getLogger(__name__)

SCRATCH_BYTES = 256 << 10
_ACCEPTED_AT_ONCE = 50
_IDLE_SWEEP_MS = 30_000
_GRACE_SECONDS = 5.0
_PAUSE_MS = 1_000  # after a defect at a deadline


def now_ms() -> int:
    """Epoch milliseconds."""
    return int(time.time() * 1000)


class Server:
    """Accepts connections for a broker and drives its deadlines."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        config = broker.config
        self.broker = broker
        self.loop = loop
        self.clock = broker.clock
        self.purgatory = broker.services.purgatory
        self.router = Router(broker.services)
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.buffers = BufferPool()
        self.request_memory = RequestMemory(config.queued_max_request_bytes, loop.call_soon)
        self._max_request_bytes: int = config.socket_request_max_bytes
        self._max_idle_ms: int = config.connections_max_idle_ms
        self._quota = ConnectionQuota(config, now_ms())
        self._buffer_sizes = (config.socket_receive_buffer_bytes, config.socket_send_buffer_bytes)
        self._backlog = _backlog(config)
        self._listening: list[tuple[socket.socket, Listener]] = []
        self._accepting = False
        self._connections: dict[int, Connection] = {}
        self._next_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for: int | None = None
        self._next_sweep = now_ms() + self._sweep_every()
        self._drained = asyncio.Event()
        self.stopping = False

    def frame_reader(self, stall: Callable[[], None]) -> FrameReader:
        """One for a connection, that calls `stall` where there is no memory for a request."""
        if not self.request_memory.is_limited:
            return FrameReader(self.scratch, self.buffers, self._max_request_bytes)
        return LimitedFrameReader(self.scratch, self.buffers, self._max_request_bytes, self.request_memory, stall)

    # -- listening

    def listen(self, listeners: list[Listener]) -> None:
        """Bind every listener; port 0 takes a free one and the listener learns it. Connections wait until `start`."""
        for listener in listeners:
            sock = _bind(listener.host, listener.port, self._backlog)
            listener.port = sock.getsockname()[1]
            if self._buffer_sizes[0] > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer_sizes[0])
            self._listening.append((sock, listener))

    def start(self) -> None:
        """Accept connections and arm the timer."""
        self._accept_on()
        self._arm(now_ms())

    def _accept_on(self) -> None:
        if not self._accepting and not self.stopping:
            self._accepting = True
            for sock, listener in self._listening:
                self.loop.add_reader(sock, self._on_connect, sock, listener)

    def _accept_off(self) -> None:
        if self._accepting:
            self._accepting = False
            for sock, _ in self._listening:
                self.loop.remove_reader(sock)

    def _on_connect(self, listening: socket.socket, listener: Listener) -> None:
        self._quota.follow(self.broker.config)
        for _ in range(_ACCEPTED_AT_ONCE):
            if self._quota.full:
                self._accept_off()  # until one has gone
                return
            if pause := self._quota.pause_ms(now_ms()):
                self._accept_off()
                self.loop.call_later(pause / 1000, self._accept_on)
                return
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._accept_failed(error)
                return
            self._adopt(sock, address, listener)

    def _accept_failed(self, error: OSError) -> None:
        log.error("a connection can't be accepted: %s", error)
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            self._accept_off()
            self.loop.call_later(0.2, self._accept_on)

    def _adopt(self, sock: socket.socket, address: tuple[str, int], listener: Listener) -> None:
        host = address[0]
        exceeded = self._quota.enter(host)
        if exceeded is not None:
            log.info("closing %s:%d: max.connections.per.ip is %d", host, address[1], exceeded)
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a request may wait for long: is anybody there?
        if self._buffer_sizes[1] > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._buffer_sizes[1])
        self._next_id += 1
        local = sock.getsockname()
        context = ConnectionContext(self._next_id, listener.name, (local[0], local[1]), (host, address[1]))
        log.debug("%s:%d connects to %s", host, address[1], listener.name)
        self._connections[context.id] = Connection(self, sock, context, now_ms())

    def forget(self, connection: Connection) -> None:
        """A connection has closed itself."""
        if self._connections.pop(connection.context.id, None) is None:
            return
        log.debug("%s:%d is disconnected", connection.context.client_host, connection.context.client_port)
        self._quota.leave(connection.context.client_host)
        self.broker.connection_closed(connection.context)
        if not self.stopping:
            self._arm(now_ms())
        if not self._connections:
            self._drained.set()
        self._accept_on()

    # -- time

    def settle(self, now: int) -> None:
        """After requests were served: answer those that waited for them, and see to the timer."""
        self.clock.set(now)
        self.broker.settle()
        self._arm(now)

    def _arm(self, now: int) -> None:
        deadline = self.broker.next_deadline()
        if deadline is None or deadline > self._next_sweep:
            deadline = self._next_sweep
        if self._armed_for is not None and self._armed_for <= deadline:
            return  # it fires early enough, and arms itself again
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = deadline
        self._timer = self.loop.call_later(max(0, deadline - now) / 1000, self._on_timer)

    def _on_timer(self) -> None:
        now = now_ms()
        self._timer = self._armed_for = None
        try:
            self.clock.set(now)
            self.broker.on_deadline()
            if now >= self._next_sweep:
                self._sweep_idle(now)
            self._accept_on()  # max.connections may have been raised
            self.broker.settle()
        except Exception:
            log.exception("a defect at a deadline")
            # What stumbled may be due still: without the pause it would be tried without end.
            self._armed_for = now + _PAUSE_MS
            self._timer = self.loop.call_later(_PAUSE_MS / 1000, self._on_timer)
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
        for connection in idle:
            connection.close()
        if idle:
            log.info(
                "closed %d connections that were idle for connections.max.idle.ms, %d", len(idle), self._max_idle_ms
            )

    # -- the end

    async def stop(self) -> None:
        """Accept nothing more, let answers that are on their way go out, then close every connection."""
        self.stopping = True
        self._accept_off()
        for sock, _ in self._listening:
            sock.close()
        self._listening = []
        for connection in list(self._connections.values()):
            if not connection.sending:
                connection.close()
        self._drained.clear()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), _GRACE_SECONDS)
        for connection in list(self._connections.values()):
            connection.close()
        if self._timer is not None:
            self._timer.cancel()


def _bind(host: str, port: int, backlog: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and host == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((host, port))
        sock.listen(backlog)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from error
    return sock


def _backlog(config: BrokerConfig) -> int:
    """Where nothing is set, as much as the system allows: with Kafka's 50 a burst of connections overruns the backlog,
    and those that were dropped try again only after a second.
    """
    name = "socket.listen.backlog.size"
    return config.socket_listen_backlog_size if name in config.static else socket.SOMAXCONN
