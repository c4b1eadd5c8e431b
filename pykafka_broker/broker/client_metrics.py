"""Clients that push their metrics, and what they are asked to push (KIP-714).

Rule: a decision takes a request's values and the time, and answers with an error code; nothing here decodes what a
client has pushed. The state is in memory alone: a broker that knows nothing of a client accepts its push if the
subscription is the right one, because every broker computes the same id for it.

Subscriptions are the configs of the CLIENT_METRICS resources, of all that match a client together. A change of any of
them lets all clients begin anew. (Kafka: ClientMetricsManager)
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from crc32c import crc32c

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.waiting.future import Steps
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.config.java_regex import JavaRegexError, compile_java
from pykafka_broker.config.registry import client_metrics_keys
from pykafka_broker.config.values import parse_value
from pykafka_broker.coordinators.groups.java_order import in_hash_order
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import ZERO_UUID, uuid_text
from pykafka_broker.records.compression import decompress
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.steps import Pace

ALL_METRICS = "*"
ACCEPTED_COMPRESSION_TYPES = (4, 3, 1, 2)  # zstd, lz4, gzip, snappy: the best first
_RESERVED_ID = ZERO_UUID[:-1] + b"\1"
_UNKNOWN_SOFTWARE = "unknown"
_MOST_INSTANCES = 16_384  # as in Kafka; the client whose last request is oldest is forgotten
_MOST_PUSHES = 1_000  # clients whose last push is kept to be shown
_MOST_PUSHED_BYTES = 64 << 20  # of these pushes together
_MOST_WANTED = 100  # sets of subscriptions
_NEVER_MS = -1 << 62
# After these errors a client asks for its subscription at once, whatever the interval is.
_ASK_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_NO_CLIENT = re.compile("(?!)")
_QUANTIFIER = re.compile(r"(?<![*+?}])[*+?]|\{")  # `*?` and `*+` repeat once
_NESTED = re.compile(r"\)[*+{]|\\[1-9k]")  # a group that is repeated, or referred to
_MOST_TRIES = 1_000_000  # some milliseconds
_TRIES_AN_ITEM = 1_000
_ITEMS_OF_A_SUBSCRIPTION = 100  # to read it, most of a millisecond
_LONGEST_SLOW = 1_000  # characters that are matched state by state


class Expression:
    """An expression that has to fit an attribute as a whole, in bounded time, whatever a client calls itself.

    Python tries all ways in turn. Where these may be very many, all are followed at once, as for subscriptions of
    groups; an expression that can't be followed so (a look-ahead, a reference to a group) then fits no client.
    """

    def __init__(self, text: str) -> None:
        try:
            self._pattern = compile_java(text)
        except JavaRegexError:  # of another broker's log
            self._pattern = _NO_CLIENT
        self._text = text
        self._repeats = len(_QUANTIFIER.findall(text))
        self._is_nested = _NESTED.search(text) is not None

    def tries(self, attribute: str) -> int:
        """Return how many ways Python may have to try; more than `_MOST_TRIES` are all followed at once."""
        if self._is_nested:
            return _MOST_TRIES + 1
        tries: int = max(len(attribute), 2) ** (1 + self._repeats) << min(self._text.count("|"), 64)
        return tries

    def fits(self, attribute: str) -> bool:
        if self.tries(attribute) <= _MOST_TRIES:
            return self._pattern.fullmatch(attribute) is not None
        return len(attribute) <= _LONGEST_SLOW and self._fits_slowly(attribute)

    def _fits_slowly(self, attribute: str) -> bool:
        from pykafka_broker.coordinators.groups.re2 import RegexError, compile_regex  # hardly any expression needs it

        try:
            return self._pattern is not _NO_CLIENT and compile_regex(self._text).matches(attribute)
        except RegexError:
            return False


class Subscription(NamedTuple):
    """A CLIENT_METRICS resource. match: what has to fit as a whole, by selector."""

    metrics: list[str]
    interval_ms: int
    match: Mapping[str, Expression]

    def fits(self, attributes: Mapping[str, str]) -> bool:
        """Return whether a client with these attributes, by selector, is asked for the metrics."""
        return all(expression.fits(attributes[name]) for name, expression in self.match.items())

    def work(self, attributes: Mapping[str, str]) -> int:
        """Return what `fits` may have to do, in items of a `Pace`."""
        tries = sum(expression.tries(attributes[name]) for name, expression in self.match.items())
        return 1 + min(tries, _MOST_TRIES) // _TRIES_AN_ITEM


def subscription_of(configs: Mapping[str, str]) -> Subscription:
    """Return the subscription with these configs, which were checked when they were set."""
    keys = client_metrics_keys()
    values: dict[str, Any] = {
        name: parse_value(key, configs[name]) if name in configs else key.default for name, key in keys.items()
    }
    match = {}
    for pattern in values["match"]:
        name, _, expression = pattern.rstrip("=").partition("=")
        match[name.strip()] = Expression(expression.strip())
    return Subscription(values["metrics"], values["interval.ms"], match)


def attributes_of(instance_id: bytes, context: RequestContext) -> dict[str, str]:
    """Return what subscriptions select a client by."""
    connection = context.connection
    return {
        "client_instance_id": uuid_text(instance_id),
        "client_id": context.client_id or "",
        "client_software_name": connection.software_name or _UNKNOWN_SOFTWARE,
        "client_software_version": connection.software_version or _UNKNOWN_SOFTWARE,
        "client_source_address": connection.client_host,
        "client_source_port": str(connection.client_port),
    }


def subscription_id(instance_id: bytes, checksum: int) -> int:
    """Return the id of what a client is asked for, a signed number of 32 bits, as Kafka computes it.

    checksum: of the `WantedMetrics`.
    """
    halves = int.from_bytes(instance_id[:8], "big") ^ int.from_bytes(instance_id[8:], "big")
    found = (checksum ^ halves >> 32 ^ halves) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found


class WantedMetrics:
    """The metrics that some subscriptions ask for together, shared by clients: there may be thousands of either.

    checksum: of the metrics, in the order of a HashSet of Java, and the interval.
    """

    __slots__ = ("checksum", "interval_ms", "metrics")

    def __init__(self, subscriptions: list[Subscription]) -> None:
        wanted = dict.fromkeys(name for each in subscriptions for name in each.metrics)
        self.metrics = [ALL_METRICS] if ALL_METRICS in wanted else in_hash_order(wanted)
        default: Any = client_metrics_keys()["interval.ms"].default
        self.interval_ms: int = min((each.interval_ms for each in subscriptions), default=default)
        self.checksum = crc32c(f"[{', '.join(self.metrics)}]{self.interval_ms}".encode())


class ClientInstance:
    """A client with an id, since its first request or the last change of a subscription.

    connection_id: the connection of the first request, with which the client goes.
    """

    __slots__ = (
        "connection_id",
        "interval_ms",
        "last_error",
        "last_get_ms",
        "last_push_ms",
        "metrics",
        "subscription_id",
        "terminating",
        "version",
    )

    def __init__(self, connection_id: int, version: int, instance_id: bytes, wanted: WantedMetrics) -> None:
        self.connection_id = connection_id
        self.version = version
        self.metrics = wanted.metrics
        self.interval_ms = wanted.interval_ms
        self.subscription_id = subscription_id(instance_id, wanted.checksum)
        self.last_get_ms = self.last_push_ms = _NEVER_MS
        self.last_error = ErrorCode.NONE
        self.terminating = False

    def check_get(self, now: int) -> None:
        """Note a question for the subscription. Raises THROTTLING_QUOTA_EXCEEDED before the next interval."""
        last = max(self.last_get_ms, self.last_push_ms)
        if now - last < self.interval_ms and self.last_error not in _ASK_AGAIN:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self.last_get_ms = now
        self.last_error = ErrorCode.NONE

    def check_push(self, now: int, asked_id: int, terminating: bool, codec: int, size: int, max_bytes: int) -> None:
        """Note a push; the errors come in Kafka's order."""
        ended, self.terminating = self.terminating, terminating
        if ended:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if now - self.last_push_ms >= self.interval_ms:
            self.last_push_ms = now
        elif not terminating:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if asked_id != self.subscription_id:
            raise ApiError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if codec and codec not in ACCEPTED_COMPRESSION_TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if size > max_bytes:
            raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE)


class ClientPushes:
    """The pushes of a client.

    attributes: of the client, by selector. bytes: the size of all pushes, as sent. payload: the last push with metrics,
    OTLP's MetricsData, or nothing. time_ms: when the last push came, epoch. terminating: the client has said that this
    push is its last.
    """

    __slots__ = ("attributes", "bytes", "instance_id", "payload", "pushes", "terminating", "time_ms")

    def __init__(self, instance_id: bytes, attributes: Mapping[str, str]) -> None:
        self.instance_id = instance_id
        self.attributes = attributes
        self.pushes = self.bytes = 0
        self.payload = b""
        self.terminating = False
        self.time_ms = 0


class ClientMetricsManager:
    """The clients of a broker that push metrics, or ask for what to push.

    errors: refused requests since the start, by error. pushed: what was pushed, by client instance, also of clients
    that have gone.
    """

    def __init__(self, image: Callable[[], MetadataImage], max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.instances: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self.pushed: OrderedDict[bytes, ClientPushes] = OrderedDict()
        self.errors: Counter[ErrorCode] = Counter()
        self._image = image
        self._generation = -1  # of the image that the subscriptions were read from
        self._configs: dict[str, Mapping[str, str]] = {}
        self._subscriptions: dict[str, Subscription] = {}  # those read from the configs so far
        self._wanted: dict[tuple[object, ...], WantedMetrics] = {}  # by version and names of subscriptions
        self._of_connections: defaultdict[int, set[bytes]] = defaultdict(set)
        self._version = 0
        self._pushed_bytes = 0

    def subscribe(self, instance_id: bytes, context: RequestContext) -> Steps[ClientInstance]:
        """Answer a client's question for its subscription. Raises THROTTLING_QUOTA_EXCEEDED."""
        instance = yield from self._instance(instance_id, context)
        try:
            instance.check_get(context.now)
        except ApiError as error:
            self.errors[error.code] += 1
            raise
        return instance

    def push(
        self,
        instance_id: bytes,
        context: RequestContext,
        asked_id: int,
        terminating: bool,
        codec: int,
        metrics: bytes | memoryview,
        wall_ms: int,
    ) -> Steps[None]:
        """Accept a push and keep a copy of it.

        Raises:
            ApiError: INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID,
                UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE, or INVALID_RECORD where the metrics can't be
                decompressed or grow beyond `telemetry.max.bytes`.
        """
        instance: ClientInstance | None = None
        try:
            if instance_id in (ZERO_UUID, _RESERVED_ID):
                raise ApiError(ErrorCode.INVALID_REQUEST)
            instance = yield from self._instance(instance_id, context)
            instance.check_push(context.now, asked_id, terminating, codec, len(metrics), self.max_bytes)
            payload = self._payload(codec, metrics)
        except ApiError as error:
            if instance is not None:
                instance.last_error = error.code
            self.errors[error.code] += 1
            raise
        instance.last_error = ErrorCode.NONE
        self._keep(instance_id, context, terminating, len(metrics), payload, wall_ms)

    def connection_closed(self, connection_id: int) -> None:
        """Forget the clients that began on a connection."""
        for instance_id in self._of_connections.pop(connection_id, ()):
            del self.instances[instance_id]

    # -- subscriptions and clients

    def _instance(self, instance_id: bytes, context: RequestContext) -> Steps[ClientInstance]:
        """Return a client, in steps where it is new and there are many subscriptions."""
        self._follow()
        found = self.instances.get(instance_id)
        if found is None or found.version < self._version:
            version = self._version
            fitting = yield from self._fitting(attributes_of(instance_id, context))
            known = self.instances.get(instance_id)  # the client's connection may have gone meanwhile
            connection_id = context.connection.id if known is None else known.connection_id
            wanted = self._wanted_of(fitting, version)
            found = self.instances[instance_id] = ClientInstance(connection_id, version, instance_id, wanted)
            self._of_connections[connection_id].add(instance_id)
            if len(self.instances) > _MOST_INSTANCES:
                self._forget(*self.instances.popitem(last=False))
        self.instances.move_to_end(instance_id)
        return found

    def _fitting(self, attributes: Mapping[str, str]) -> Steps[dict[str, Subscription]]:
        """Return the subscriptions of now that fit a client, by name."""
        fitting, subscriptions, pace = dict[str, Subscription](), self._subscriptions, Pace()
        for name, configs in self._configs.items():
            each, items = subscriptions.get(name), 0
            if each is None:
                each, items = subscription_of(configs), _ITEMS_OF_A_SUBSCRIPTION
                subscriptions[name] = each
            if each.fits(attributes):
                fitting[name] = each
            if pace.due(items + each.work(attributes)):
                yield None
        return fitting

    def _wanted_of(self, fitting: Mapping[str, Subscription], version: int) -> WantedMetrics:
        key = version, *fitting
        found = self._wanted.get(key)
        if found is None:
            if len(self._wanted) >= _MOST_WANTED:
                self._wanted.clear()
            found = self._wanted[key] = WantedMetrics(list(fitting.values()))
        return found

    def _forget(self, instance_id: bytes, instance: ClientInstance) -> None:
        of_connection = self._of_connections[instance.connection_id]
        of_connection.discard(instance_id)
        if not of_connection:
            del self._of_connections[instance.connection_id]

    def _follow(self) -> None:
        """Read the configs of the subscriptions again if the metadata has changed."""
        image = self._image()
        if image.generation == self._generation:
            return
        self._generation = image.generation
        kind = ConfigResourceType.CLIENT_METRICS
        configs: dict[str, Mapping[str, str]] = {
            name: dict(image.config(kind, name)) for resource, name in image.configs if resource == kind
        }
        if configs != self._configs:
            before, known = self._configs, self._subscriptions
            self._subscriptions = {name: each for name, each in known.items() if configs.get(name) == before[name]}
            self._configs = configs
            self._version += 1

    # -- what was pushed

    def _payload(self, codec: int, metrics: bytes | memoryview) -> bytes:
        if not codec or not len(metrics):
            return bytes(metrics)
        try:
            return decompress(codec, metrics, self.max_bytes)
        except CorruptBatch:
            raise ApiError(ErrorCode.INVALID_RECORD) from None

    def _keep(
        self, instance_id: bytes, context: RequestContext, terminating: bool, size: int, payload: bytes, wall_ms: int
    ) -> None:
        kept = self.pushed.get(instance_id)
        if kept is None:
            kept = self.pushed[instance_id] = ClientPushes(instance_id, attributes_of(instance_id, context))
        self.pushed.move_to_end(instance_id)
        kept.pushes += 1
        kept.bytes += size
        kept.terminating = terminating
        kept.time_ms = wall_ms
        if payload:
            self._pushed_bytes += len(payload) - len(kept.payload)
            kept.payload = payload
        while len(self.pushed) > _MOST_PUSHES or self._pushed_bytes > _MOST_PUSHED_BYTES:
            self._pushed_bytes -= len(self.pushed.popitem(last=False)[1].payload)
