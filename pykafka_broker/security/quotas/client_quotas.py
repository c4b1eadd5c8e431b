"""The quotas of clients and of addresses: which one counts, what has been used, and how long a client has to wait.

Rule: of eight levels the first that is set counts, and it says whose use is counted together: a level with user and
client id counts each pair; one of users all clients of a user; one of client ids all users of a client id. Unlimited
use is not counted. A quota that changes holds from the next question on, with the use that was counted before. The
throttle for request time is never longer than one window, the others are as long as it takes.

The number of counters is bounded. A counter that equals a new one is forgotten; where clients make up names faster
than that, the older half of all counters is. A name may be as long as a client likes: a counter is found by the hash of
its name, which nobody can choose.

A connection above the quota of its address (`connection_creation_rate`) is refused, so it does not count. It is held
before it is closed, for one window at most, so that the client does not come again at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

from pykafka_broker.addresses import as_java_writes
from pykafka_broker.cluster.image import QuotaEntity
from pykafka_broker.cluster.quotas import CLIENT_ID, IP, USER
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.security.quotas.rate import LONGEST_MS, Rate, TokenBucket, Windows

_ABSENT = ""  # in place of a part that a level does not have; no client has an empty name
_Level = tuple[str | None, str | None]


class QuotaLimit(NamedTuple):
    """A client's quota.

    key: the name of its counter, as (user, client id); a part that the level does not have is empty.
    """

    quota: float
    key: Hashable


class Levels:
    """The quotas of a kind, for users and client ids. An empty name stands for a client without one."""

    __slots__ = ("_quotas", "_with_both", "_with_client", "_with_user")

    def __init__(self, quotas: Mapping[_Level, float]) -> None:
        self._quotas = quotas
        self._with_both = any(_ABSENT not in level for level in quotas)
        self._with_user = any(level[1] == _ABSENT for level in quotas)
        self._with_client = any(level[0] == _ABSENT for level in quotas)

    def find(self, user: str, client_id: str) -> QuotaLimit | None:
        """Return the client's quota, or None for an unlimited client."""
        get = self._quotas.get
        for name in (user, None):
            if self._with_both:
                quota = get((name, client_id)) if client_id else None
                quota = get((name, None)) if quota is None else quota
                if quota is not None:
                    return QuotaLimit(quota, (user, client_id))
            if self._with_user:
                quota = get((name, _ABSENT))
                if quota is not None:
                    return QuotaLimit(quota, (user, _ABSENT))
        if self._with_client:
            quota = get((_ABSENT, client_id))
            quota = get((_ABSENT, None)) if quota is None else quota
            if quota is not None:
                return QuotaLimit(quota, (_ABSENT, client_id))
        return None


def levels_of(client_quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> dict[str, Levels]:
    """Return the quotas of clients in the metadata, by kind; a kind without quotas is missing."""
    found: dict[str, dict[_Level, float]] = {}
    for entity, quotas in client_quotas.items():
        names = dict(entity)
        if IP not in names:
            level = (names.get(USER, _ABSENT), names.get(CLIENT_ID, _ABSENT))
            for kind, quota in quotas.items():
                found.setdefault(kind, {})[level] = quota
    return {kind: Levels(quotas) for kind, quotas in found.items()}


def quotas_of_addresses(client_quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> dict[str | None, float]:
    """Return the connections a second by address; the key None is for all other addresses."""
    return {
        None if name is None else as_java_writes(name): quotas[CONNECTIONS]
        for entity, quotas in client_quotas.items()
        for kind, name in entity
        if kind == IP and CONNECTIONS in quotas
    }


MOST = 1 << 14


C = TypeVar("C")


class Counters(Generic[C]):
    """Counters by name, made at the first use.

    Counters used since the last look are in `_young`. A look drops all others: they were not used for all windows.
    matters: returns whether such a counter still differs from a new one, and is kept; None if none does.
    """

    __slots__ = ("_look_at", "_matters", "_new", "_old", "_windows_ms", "_young")

    def __init__(self, new: Callable[[], C], windows_ms: int, matters: Callable[[C, int], bool] | None = None) -> None:
        self._new = new
        self._windows_ms = windows_ms
        self._matters = matters
        self._young: dict[int, C] = {}
        self._old: dict[int, C] = {}
        self._look_at = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, name: Hashable, now: int) -> C:
        key = hash(name)
        if now >= self._look_at:
            self._look(now)
        counter = self._young.get(key)
        if counter is None:
            counter = self._young[key] = self._old.pop(key, None) or self._new()
            if len(self._young) > MOST:
                self._old, self._young = self._young, {}
        return counter

    def _look(self, now: int) -> None:
        self._look_at = now + self._windows_ms
        matters = self._matters
        kept = [(key, each) for key, each in self._old.items() if matters(each, now)] if matters else []
        self._old, self._young = self._young, {}
        self._old.update(kept[: MOST - len(self._old)])


PRODUCED_BYTES = "producer_byte_rate"
FETCHED_BYTES = "consumer_byte_rate"
REQUEST_TIME = "request_percentage"  # of one thread
MUTATIONS = "controller_mutation_rate"
_PERCENT_OF_NS = 100 / 1e9


class QuotaSource(Protocol):
    """A source of quotas. False without any quota."""

    def __bool__(self) -> bool: ...

    def find(self, kind: str, principal: str, client_id: str) -> QuotaLimit | None:
        """Return the client's quota of a kind, or None for an unlimited client."""


class QuotaMetadata:
    """The quotas of the metadata: `kafka-configs --alter --entity-type users`."""

    def __init__(self, client_quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self._levels: Mapping[str, Levels] = levels_of(client_quotas)

    def __bool__(self) -> bool:
        return bool(self._levels)

    def find(self, kind: str, principal: str, client_id: str) -> QuotaLimit | None:
        levels = self._levels.get(kind)
        return None if levels is None else levels.find(principal.partition(":")[2], client_id)


class ClientQuotas:
    """The clients' use of quotas. `source` is replaced when quotas change."""

    def __init__(
        self, source: QuotaSource, windows: Windows, controller_windows: Windows, *, is_of_4_4: bool = True
    ) -> None:
        self.source = source
        self._longest_ms = LONGEST_MS if is_of_4_4 else 0
        self._windows = windows
        self._rates = {
            kind: Counters(partial(Rate, windows), windows.all_ms)
            for kind in (PRODUCED_BYTES, FETCHED_BYTES, REQUEST_TIME)
        }
        new_bucket = partial(TokenBucket, controller_windows)
        self._buckets = Counters(new_bucket, controller_windows.all_ms, TokenBucket.matters)

    def record(self, kind: str, principal: str, client_id: str, amount: float, now: int) -> int:
        """Record a use in bytes; return how long the client may not use more."""
        limit = self.source.find(kind, principal, client_id)
        if limit is None:
            return 0
        rate = self._rates[kind].get(limit.key, now)
        rate.record(amount, now)
        if not limit.quota:  # Kafka's throttle time is then too long for an answer, and came out as none before 4.4
            return self._windows.size_ms if kind == REQUEST_TIME else self._longest_ms
        return rate.throttle_ms(limit.quota, now)

    def record_time(self, principal: str, client_id: str, ns: int, now: int) -> int:
        """Record the time of a request; return how long the client may not use more."""
        return min(self.record(REQUEST_TIME, principal, client_id, ns * _PERCENT_OF_NS, now), self._windows.size_ms)

    def take_back(self, kind: str, principal: str, client_id: str, amount: float, now: int) -> None:
        """Take back a recorded use."""
        limit = self.source.find(kind, principal, client_id)
        if limit is not None:
            self._rates[kind].get(limit.key, now).record(-amount, now)

    def most_bytes(self, kind: str, principal: str, client_id: str) -> int | None:
        """Return how much may be used at once after a pause, or None without a limit.

        A quota that is not a number gives 0, as a cast does in Java: a fetch gets one batch.
        """
        limit = self.source.find(kind, principal, client_id)
        if limit is None:
            return None
        return 0 if math.isnan(limit.quota) else int(limit.quota * self._windows.free_ms / 1000)

    def mutations(self, principal: str, client_id: str, now: int, *, strict: bool) -> Mutations | None:
        """Return a request's allowance of topic changes, or None without a limit. `strict`: see `Mutations.spend`."""
        limit = self.source.find(MUTATIONS, principal, client_id)
        return None if limit is None else Mutations(self._buckets.get(limit.key, now), limit.quota, now, strict=strict)


class Mutations:
    """A request's allowance of created and deleted partitions (KIP-599)."""

    __slots__ = ("_bucket", "_now", "_quota", "_spent", "_strict", "throttle_ms")

    def __init__(self, bucket: TokenBucket, quota: float, now: int, *, strict: bool) -> None:
        self._bucket = bucket
        self._quota = quota
        self._now = now
        self._strict = strict
        self._spent = 0
        self.throttle_ms = 0  # of the whole request

    def spend(self, partitions: int) -> None:
        """Spend allowance for `partitions`.

        While the client is in debt, THROTTLING_QUOTA_EXCEEDED is raised where the client knows that error; an older
        client goes deeper into debt.
        """
        if self._strict and self._bucket.in_debt(self._quota, self._now):
            self.throttle_ms = self._bucket.throttle_ms(self._quota, self._now)
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._bucket.record(partitions, self._quota, self._now)
        self._spent += partitions
        if not self._strict:
            self.throttle_ms = self._bucket.throttle_ms(self._quota, self._now)


CONNECTIONS = "connection_creation_rate"


class AddressQuotas:
    """Rates of connections by address.

    `quotas` are connections a second by address; the key None is for each other address.
    """

    def __init__(self, windows: Windows) -> None:
        self.quotas: Mapping[str | None, float] = {}
        self._windows = windows
        self._rates = Counters(partial(Rate, windows), windows.all_ms)

    def throttle_ms(self, host: str, now: int) -> int:
        """Count a new connection; return 0 to admit, else how long to hold the socket."""
        quota = self.quotas.get(host, self.quotas.get(None))
        if quota is None:
            return 0
        rate = self._rates.get(host, now)
        rate.record(1, now)
        throttle_ms = rate.throttle_ms(quota, now)
        if throttle_ms:
            rate.record(-1, now)
        return min(throttle_ms, self._windows.size_ms)
