"""How many connections there may be, and how fast new ones may come.

Rule: `max.connections` and `max.connection.creation.rate` keep the next one waiting in the backlog, so nobody is turned
away; one too many from an address (`max.connections.per.ip`) is accepted and closed, as with Kafka. All of them may
change at run time.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.values import invalid

log = logging.getLogger(__name__)

_OVERRIDES = "max.connections.per.ip.overrides"


class ConnectionQuota:
    """Counts the connections of all listeners. `ConfigError` if the configuration names a host that nobody knows."""

    def __init__(self, config: BrokerConfig, now: int) -> None:
        self._config = config
        self._per_ip_of = dict(_overrides(config))
        self._open: dict[str, int] = {}
        self._allowance = _burst(config)  # connections that may come at once
        self._counted = now

    @property
    def count(self) -> int:
        return sum(self._open.values())

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
        self._allowance = min(self._allowance, _burst(config))

    @property
    def full(self) -> bool:
        return self.count >= self._config.max_connections

    def pause_ms(self, now: int) -> int:
        """How long the next connection has to wait for `max.connection.creation.rate`: over `quota.window.num` windows
        of `quota.window.size.seconds` there may not be more.
        """
        rate: int = self._config.max_connection_creation_rate
        self._allowance = min(_burst(self._config), self._allowance + max(0, now - self._counted) * rate / 1000)
        self._counted = now
        return 0 if self._allowance >= 1 else int((1 - self._allowance) * 1000 / rate) + 1

    def enter(self, host: str) -> int | None:
        """Count a connection; the limit of its address if that is exceeded."""
        self._allowance -= 1
        limit: int = self._per_ip_of.get(host, self._config.max_connections_per_ip)
        here = self._open.get(host, 0)
        if here >= limit:
            return limit
        self._open[host] = here + 1
        return None

    def leave(self, host: str) -> None:
        left = self._open[host] - 1
        if left:
            self._open[host] = left
        else:
            del self._open[host]


def _burst(config: BrokerConfig) -> float:
    """Kafka's rate is a mean over all windows but the current one, so that many may come at once after a quiet time."""
    seconds = (config.quota_window_num - 1) * config.quota_window_size_seconds
    return float(config.max_connection_creation_rate * max(1, seconds))


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
