"""How fast connections may come from one address: `connection_creation_rate`.

Rule: one that is above the quota does not count, since it is turned away; it is held first, for one window at most, so
that it does not come again at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pykafka_broker.security.quotas.counters import Counters
from pykafka_broker.security.quotas.rate import Rate, Windows

CONNECTIONS = "connection_creation_rate"


class AddressQuotas:
    """`quotas` are connections a second by address; that of None is for each of the others."""

    def __init__(self, windows: Windows) -> None:
        self.quotas: Mapping[str | None, float] = {}
        self._windows = windows
        self._rates = Counters(partial(Rate, windows), windows.all_ms)

    def throttle_ms(self, host: str, now: int) -> int:
        """A connection comes: 0 if it may, else how long it is held."""
        quota = self.quotas.get(host, self.quotas.get(None))
        if quota is None:
            return 0
        rate = self._rates.get(host, now)
        rate.record(1, now)
        throttle_ms = rate.throttle_ms(quota, now)
        if throttle_ms:
            rate.record(-1, now)
        return min(throttle_ms, self._windows.size_ms)
