"""The quotas of clients: what each has used, and how long it has to wait.

Rule: what is unlimited is not counted. A quota that changes holds from the next question on, with what was counted
before. The throttle for request time is never longer than one window, the others are as long as it takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Protocol

from pykafka_broker.cluster.image import QuotaEntity
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.security.quotas.counters import Counters
from pykafka_broker.security.quotas.levels import Levels, Limit, levels_of
from pykafka_broker.security.quotas.rate import Rate, Windows
from pykafka_broker.security.quotas.token_bucket import TokenBucket

PRODUCED_BYTES = "producer_byte_rate"
FETCHED_BYTES = "consumer_byte_rate"
REQUEST_TIME = "request_percentage"  # of one thread
MUTATIONS = "controller_mutation_rate"
_PERCENT_OF_NS = 100 / 1e9


class Source(Protocol):
    """Who says which quota a client has. False where nobody has one."""

    def __bool__(self) -> bool: ...

    def find(self, kind: str, principal: str, client_id: str) -> Limit | None:
        """Its quota of this kind; None where it may do what it likes."""


class MetadataSource:
    """The quotas of the metadata: `kafka-configs --alter --entity-type users`."""

    __slots__ = ("_levels",)

    def __init__(self, client_quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self._levels: Mapping[str, Levels] = levels_of(client_quotas)

    def __bool__(self) -> bool:
        return bool(self._levels)

    def find(self, kind: str, principal: str, client_id: str) -> Limit | None:
        levels = self._levels.get(kind)
        return None if levels is None else levels.find(principal.partition(":")[2], client_id)


class ClientQuotas:
    """What clients have used of their quotas. `source` is exchanged when those change."""

    def __init__(self, source: Source, windows: Windows, controller_windows: Windows) -> None:
        self.source = source
        self._windows = windows
        self._rates = {
            kind: Counters(partial(Rate, windows), windows.all_ms)
            for kind in (PRODUCED_BYTES, FETCHED_BYTES, REQUEST_TIME)
        }
        self._buckets = Counters(partial(TokenBucket, controller_windows), controller_windows.all_ms, lasting=True)

    def record(self, kind: str, principal: str, client_id: str, amount: float, now: int) -> int:
        """It has used so much of that, in bytes; returns for how long it may not use more."""
        limit = self.source.find(kind, principal, client_id)
        if limit is None:
            return 0
        rate = self._rates[kind].get(limit.key, now)
        rate.record(amount, now)
        return rate.throttle_ms(limit.quota, now)

    def record_time(self, principal: str, client_id: str, ns: int, now: int) -> int:
        """The same for the time that a request has taken."""
        return min(self.record(REQUEST_TIME, principal, client_id, ns * _PERCENT_OF_NS, now), self._windows.size_ms)

    def take_back(self, kind: str, principal: str, client_id: str, amount: float, now: int) -> None:
        """It has not used them after all."""
        limit = self.source.find(kind, principal, client_id)
        if limit is not None:
            self._rates[kind].get(limit.key, now).record(-amount, now)

    def most_bytes(self, kind: str, principal: str, client_id: str) -> int | None:
        """Return how much may be used at once after a pause; None where there is no limit. A quota that is not a number
        gives 0, as a cast does in Java: a fetch gets one batch.
        """
        limit = self.source.find(kind, principal, client_id)
        if limit is None:
            return None
        return 0 if math.isnan(limit.quota) else int(limit.quota * self._windows.free_ms / 1000)

    def mutations(self, principal: str, client_id: str, now: int, *, strict: bool) -> Mutations | None:
        """What one request may change of topics; None where there is no limit. `strict`: see `Mutations.spend`."""
        limit = self.source.find(MUTATIONS, principal, client_id)
        return None if limit is None else Mutations(self._buckets.get(limit.key, now), limit.quota, now, strict=strict)


class Mutations:
    """How many partitions one request may create and delete (KIP-599)."""

    __slots__ = ("_bucket", "_now", "_quota", "_spent", "_strict", "throttle_ms")

    def __init__(self, bucket: TokenBucket, quota: float, now: int, *, strict: bool) -> None:
        self._bucket = bucket
        self._quota = quota
        self._now = now
        self._strict = strict
        self._spent = 0
        self.throttle_ms = 0  # of the whole request

    def spend(self, partitions: int) -> None:
        """So many are to be created or deleted. Where the client knows the error, THROTTLING_QUOTA_EXCEEDED is raised
        as long as it is in debt; an older one goes deeper into debt.
        """
        if self._strict and (wait := self._bucket.throttle_ms(self._quota, self._now)):
            self.throttle_ms = wait
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._bucket.record(partitions, self._quota, self._now)
        self._spent += partitions
        if not self._strict:
            self.throttle_ms = self._bucket.throttle_ms(self._quota, self._now)


__all__ = [
    "FETCHED_BYTES",
    "MUTATIONS",
    "PRODUCED_BYTES",
    "REQUEST_TIME",
    "ClientQuotas",
    "MetadataSource",
    "Mutations",
    "Source",
]
