"""How many connections there may be, and how fast new ones may come, in all and on one listener.

Rule: `max.connections` and `max.connection.creation.rate` keep the next one waiting in the backlog, so nobody is turned
away; one too many from an address (`max.connections.per.ip`) is accepted and closed, as with Kafka. All of them may
change at run time.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.config.values import invalid

log = logging.getLogger(__name__)

_MOST, _RATE = "max.connections", "max.connection.creation.rate"
_OVERRIDES = "max.connections.per.ip.overrides"


class Limit:
    """For some connections: how many, and how many more a second; None is no limit of its own."""

    __slots__ = ("_allowance", "_burst", "_counted", "_rate", "count", "most")

    def __init__(self, now: int) -> None:
        self.count = 0
        self.most: int | None = None
        self._rate: int | None = None
        self._burst = self._allowance = 0.0  # connections that may come at once
        self._counted = now

    def set(self, most: int | None, rate: int | None, config: BrokerConfig) -> None:
        """Kafka's rate is a mean over all windows but the current one, so that many may come at once after a quiet
        time.
        """
        seconds = (config.quota_window_num - 1) * config.quota_window_size_seconds
        first = self._rate is None
        self.most, self._rate = most, rate
        self._burst = float((rate or 0) * max(1, seconds))
        self._allowance = self._burst if first else min(self._allowance, self._burst)

    @property
    def full(self) -> bool:
        return self.most is not None and self.count >= self.most

    def pause_ms(self, now: int) -> int:
        """How long the next connection has to wait: over `quota.window.num` windows of `quota.window.size.seconds`
        there may not be more.
        """
        if self._rate is None:
            return 0
        self._allowance = min(self._burst, self._allowance + max(0, now - self._counted) * self._rate / 1000)
        self._counted = now
        return 0 if self._allowance >= 1 else int((1 - self._allowance) * 1000 / self._rate) + 1

    def enter(self) -> None:
        self._allowance -= 1


class ConnectionQuota:
    """Counts the connections of all listeners. `ConfigError` if the configuration names a host that nobody knows."""

    def __init__(self, config: BrokerConfig, now: int) -> None:
        self._config = config
        self._per_ip_of = dict(_overrides(config))
        self._open: dict[str, int] = {}
        self._now = now
        self._all = Limit(now)
        self._listeners: dict[str, Limit] = {}  # by name
        self._set()

    @property
    def count(self) -> int:
        return self._all.count

    def add(self, listener: str) -> None:
        """Connections come there too."""
        self._listeners[listener] = Limit(self._now)
        self._set()

    def follow(self, config: BrokerConfig) -> None:
        """Heed what has changed at run time."""
        if config is self._config:
            return
        if config.max_connections_per_ip_overrides != self._config.max_connections_per_ip_overrides:
            try:
                self._per_ip_of = dict(_overrides(config))
            except ValueError as error:
                log.warning("%s", error)
        self._config = config
        self._set()

    def _set(self) -> None:
        config = self._config
        self._all.set(config.max_connections, config.max_connection_creation_rate, config)
        for name, limit in self._listeners.items():
            limit.set(_own(config, name, _MOST), _own(config, name, _RATE), config)

    def full(self, listener: str) -> bool:
        """Whether the next connection has to wait until one has gone."""
        return self._all.full or self._listeners[listener].full

    def pause_ms(self, listener: str, now: int) -> int:
        """How long the next connection has to wait for the rates."""
        return max(self._all.pause_ms(now), self._listeners[listener].pause_ms(now))

    def enter(self, host: str, listener: str) -> int | None:
        """Count a connection; the limit of its address if that is exceeded."""
        limits = self._all, self._listeners[listener]
        for each in limits:
            each.enter()
        most: int = self._per_ip_of.get(host, self._config.max_connections_per_ip)
        here = self._open.get(host, 0)
        if here >= most:
            return most
        self._open[host] = here + 1
        for each in limits:
            each.count += 1
        return None

    def leave(self, host: str, listener: str) -> None:
        for each in (self._all, self._listeners[listener]):
            each.count -= 1
        left = self._open[host] - 1
        if left:
            self._open[host] = left
        else:
            del self._open[host]


def _own(config: BrokerConfig, listener: str, key: str) -> int | None:
    """What is set for this listener alone."""
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
    """`max.connections.per.ip.overrides`: "host:count,host:count"."""
    text = config.max_connections_per_ip_overrides
    for entry in filter(None, map(str.strip, text.split(","))):
        host, _, count = entry.rpartition(":")
        try:
            address = socket.gethostbyname(host)
        except OSError as error:
            raise invalid(_OVERRIDES, text, f"{host}: {error.strerror}") from None
        yield address, int(count)
