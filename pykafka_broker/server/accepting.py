"""Accepting connections on the listening sockets, within the limits on connections.

Rule: a connection above `max.connections` or `max.connection.creation.rate` waits in the backlog of its listener, with
all connections behind it; no connection is refused. A connection above the limit of its address
(`max.connections.per.ip`) is accepted and closed, as with Kafka. Clients can't take the connections of other nodes: a
listener for brokers alone is outside of the limits for all listeners (KIP-402), where the connection that has rested
longest makes room, and controllers' listeners have limits of their own. `max.connections` limits each listener too,
unless it has a value of its own. If the system allows fewer connections, the system's limit applies. All limits may
change at run time. Many simultaneous connections are accepted in several turns of the event loop.

The server alone reads this module: limits and backlog are a concept of their own.
"""

from __future__ import annotations

import errno
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from pykafka_broker.addresses import as_java_writes
from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.config.values import invalid
from pykafka_broker.platform import MOST_CONNECTIONS
from pykafka_broker.server.event_loop import EventLoop
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.transport import READ

log = logging.getLogger(__name__)

_MOST, _RATE = "max.connections", "max.connection.creation.rate"
_OVERRIDES = "max.connections.per.ip.overrides"


class ConnectionLimit:
    """The limits of one listener, or of all: open connections, and new connections a second. None is no limit."""

    __slots__ = ("_allowance", "_burst", "_counted", "_rate", "count", "most")

    def __init__(self, now: int) -> None:
        self.count = 0
        self.most: int | None = None
        self._rate: int | None = None
        self._burst = self._allowance = 0.0  # how many connections may come at once
        self._counted = now

    def set(self, most: int | None, rate: int | None, config: BrokerConfig) -> None:
        """Set the limits.

        The rate holds over `quota.window.num` windows of `quota.window.size.seconds`. Kafka's rate is a mean over all
        windows but the current one, so that many may come at once after a quiet time. With a rate of 0 each connection
        waits a second, as Kafka's longest pause is one.
        """
        seconds = (config.quota_window_num - 1) * config.quota_window_size_seconds
        first = self._rate is None
        self.most, self._rate = most, rate if rate is None else max(1, rate)
        self._burst = float(max(1, (rate or 0) * max(1, seconds)))
        self._allowance = (self._burst if rate else 0.0) if first else min(self._allowance, self._burst)

    @property
    def full(self) -> bool:
        """Return whether as many connections are open as allowed."""
        return self.most is not None and self.count >= self.most

    def pause_ms(self, now: int) -> int:
        """Return how long the next connection has to wait for the rate."""
        if self._rate is None:
            return 0
        self._allowance = min(self._burst, self._allowance + max(0, now - self._counted) * self._rate / 1000)
        self._counted = now
        return 0 if self._allowance >= 1 else int((1 - self._allowance) * 1000 / self._rate) + 1

    def enter(self) -> None:
        """Count a new connection against the rate."""
        self._allowance -= 1


class ConnectionQuota:
    """Counts of the connections of all listeners.

    Raises ConfigError if the configuration names a host that can't be looked up. Hosts that are set at run time are
    looked up in a thread; until their addresses are known, the old limits apply.

    Args:
        between_brokers: the name of the listener where brokers talk to each other, which is protected if there are
            others (Kafka: ConnectionQuotas.protectedListener).
    """

    def __init__(self, config: BrokerConfig, now: int, between_brokers: str = "") -> None:
        self._config = config
        self._between_brokers = between_brokers
        self._per_ip_of = dict(_overrides(config))
        self._lookup: Future[dict[str, int]] | None = None
        self._open: dict[str, int] = {}
        self._now = now
        self._all = ConnectionLimit(now)
        self._controllers = ConnectionLimit(now)  # all of the listeners for controllers
        self._listeners: dict[str, ConnectionLimit] = {}  # each listener alone, by name
        self._whole_of: dict[str, ConnectionLimit] = {}  # by name of a listener: `_all`, or `_controllers`
        self._set()

    @property
    def count(self) -> int:
        return self._all.count

    @property
    def is_exceeded(self) -> bool:
        """Return whether a connection of a protected listener has come where there was no room."""
        return self._all.most is not None and self._all.count > self._all.most

    def add(self, listener: str, *, for_controllers: bool = False) -> None:
        """Begin to count the connections of a listener."""
        self._listeners[listener] = ConnectionLimit(self._now)
        self._whole_of[listener] = self._controllers if for_controllers else self._all
        self._set()

    def makes_room(self, listener: str) -> bool:
        """Return whether connections of a listener may be closed for those of the protected listener."""
        return self._whole_of[listener] is self._all and not self._is_protected(listener)

    def _is_protected(self, listener: str) -> bool:
        of_brokers = sum(whole is self._all for whole in self._whole_of.values())
        return listener == self._between_brokers and of_brokers > 1

    def follow(self, config: BrokerConfig) -> None:
        """Apply limits changed at run time."""
        if self._lookup is not None and self._lookup.done():
            try:
                self._per_ip_of = self._lookup.result()
            except ValueError as error:
                log.warning("%s", error)
            self._lookup = None
        if config is self._config:
            return
        if config.max_connections_per_ip_overrides != self._config.max_connections_per_ip_overrides:
            self._lookup = Future()
            threading.Thread(target=_look_up, args=(config, self._lookup), daemon=True).start()
        self._config = config
        self._set()

    def _set(self) -> None:
        config = self._config
        most = min(config.max_connections, MOST_CONNECTIONS)
        for whole in (self._all, self._controllers):
            whole.set(most, config.max_connection_creation_rate, config)
        for name, limit in self._listeners.items():
            own = _own(config, name, _MOST)
            limit.set(config.max_connections if own is None else own, _own(config, name, _RATE), config)

    def full(self, listener: str) -> bool:
        """Return whether the next connection has to wait until another has closed."""
        return any(limit.full for limit in self._limits(listener))

    def _limits(self, listener: str) -> list[ConnectionLimit]:
        """Return the limits that hold up connections to a listener."""
        own = self._listeners[listener]
        return [own] if self._is_protected(listener) else [self._whole_of[listener], own]

    def pause_ms(self, listener: str, now: int) -> int:
        """Return how long the next connection has to wait for the rates."""
        return max(limit.pause_ms(now) for limit in self._limits(listener))

    def enter(self, host: str, listener: str) -> int | None:
        """Count a new connection.

        Returns:
            The limit of the address if the connection exceeds it: the connection then counts for the rates alone.
        """
        for each in self._limits(listener):
            each.enter()
        most: int = self._per_ip_of.get(host, self._config.max_connections_per_ip)
        here = self._open.get(host, 0)
        if here >= most:
            return most
        self._open[host] = here + 1
        for each in (self._whole_of[listener], self._listeners[listener]):
            each.count += 1
        return None

    def leave(self, host: str, listener: str) -> None:
        """Take a closed connection out of the counts."""
        for each in (self._whole_of[listener], self._listeners[listener]):
            each.count -= 1
        left = self._open[host] - 1
        if left:
            self._open[host] = left
        else:
            del self._open[host]


def _own(config: BrokerConfig, listener: str, key: str) -> int | None:
    """Return the value set for the listener alone, None without one."""
    if not any(name.endswith(key) for name in config.extras):
        return None
    from pykafka_broker.security.listener_settings import ListenerSettings

    settings = ListenerSettings(config, listener)
    try:
        return settings.get(key) if settings.text(key) is not None else None
    except ConfigError as error:
        log.warning("%s", error)
        return None


def _overrides(config: BrokerConfig) -> Iterator[tuple[str, int]]:
    """Yield addresses and limits of `max.connections.per.ip.overrides`: "host:count,host:count"."""
    text = config.max_connections_per_ip_overrides
    for entry in filter(None, map(str.strip, text.split(","))):
        host, _, count = entry.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # UnicodeError: no label of a host name can have this form
            raise invalid(_OVERRIDES, text, f"{host}: {getattr(error, 'strerror', None) or error}") from None
        found.sort(key=lambda each: each[0] != socket.AF_INET)  # Java takes a host's IPv4 address, if there is one
        yield as_java_writes(str(found[0][4][0])), int(count)


def _look_up(config: BrokerConfig, found: Future[dict[str, int]]) -> None:
    try:
        found.set_result(dict(_overrides(config)))
    except ValueError as error:
        found.set_exception(error)


_ACCEPTED_AT_ONCE = 50
_NO_ROOM_PAUSE_MS = 200  # when the system has no descriptor or memory for another connection

Adopt = Callable[[socket.socket, tuple[str, int], Listener], None]


class Accepting:
    """The listening sockets.

    Args:
        follow: called before limits are checked, to apply changed limits.
        adopt: called with each accepted connection.
        on_pause: called when there is a new deadline.
    """

    def __init__(
        self,
        turns: EventLoop,
        quota: ConnectionQuota,
        *,
        follow: Callable[[], None],
        adopt: Adopt,
        on_pause: Callable[[], None],
    ) -> None:
        self._turns = turns
        self._clock = turns.clock
        self._quota = quota
        self._follow = follow
        self._adopt = adopt
        self._acceptors: list[_Acceptor] = []
        self._on = False
        self.next_deadline: int | None = None  # until then new connections have to wait
        self._on_pause = on_pause

    def add(self, sock: socket.socket, listener: Listener) -> None:
        """Add a listening socket, watched at once if the others are."""
        self._quota.add(listener.name, for_controllers=listener.for_controllers)
        acceptor = _Acceptor(sock, listener, self._on_connect)
        self._acceptors.append(acceptor)
        if self._on:
            self._watch(acceptor)

    @property
    def listeners(self) -> list[Listener]:
        return [acceptor.listener for acceptor in self._acceptors]

    def go_on(self) -> None:
        """Accept connections from now on; after a pause, check for room again."""
        self._on = True
        for acceptor in self._acceptors:
            if not acceptor.watched:
                self._watch(acceptor)

    def close(self) -> None:
        """Accept no more connections, and close the sockets."""
        self._on = False
        acceptors, self._acceptors = self._acceptors, []
        for acceptor in acceptors:
            self._look_away(acceptor)
            acceptor.sock.close()

    def on_deadline(self, now: int) -> None:
        """Forget a past deadline."""
        if self.next_deadline is not None and now >= self.next_deadline:
            self.next_deadline = None

    def _watch(self, acceptor: _Acceptor) -> None:
        acceptor.watched = True
        self._turns.watch(acceptor, acceptor.sock.fileno(), READ)

    def _look_away(self, acceptor: _Acceptor) -> None:
        if acceptor.watched:
            acceptor.watched = False
            self._turns.forget(acceptor.sock.fileno())

    def _on_connect(self, acceptor: _Acceptor) -> None:
        self._follow()
        listener, quota, now = acceptor.listener, self._quota, self._clock.now
        for _ in range(_ACCEPTED_AT_ONCE):
            if quota.full(listener.name):
                self._look_away(acceptor)  # until another connection has closed
                return
            if pause := quota.pause_ms(listener.name, now):
                self._look_away(acceptor)
                self.next_deadline = min(self.next_deadline or now + pause, now + pause)
                self._on_pause()
                return
            try:
                sock, address = acceptor.sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._failed(error)
                return
            self._adopt(sock, address, listener)

    def _failed(self, error: OSError) -> None:
        log.error("a connection can't be accepted: %s", error)
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            for acceptor in self._acceptors:
                self._look_away(acceptor)
            self._turns.loop.call_later(_NO_ROOM_PAUSE_MS / 1000, self.go_on)


class _Acceptor:
    """A listening socket, as a source of connections."""

    def __init__(self, sock: socket.socket, listener: Listener, on_connect: Callable[[_Acceptor], None]) -> None:
        self.sock = sock
        self.listener = listener
        self.watched = False
        self._on_connect = on_connect

    def on_ready(self, events: int) -> None:
        self._on_connect(self)
