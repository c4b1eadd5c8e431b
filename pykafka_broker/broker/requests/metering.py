"""The requests of clients, counted against their quotas (Kafka: ClientRequestQuotaManager).

Rule: a request is counted when it is answered, and the answer goes out first: every answer with a throttle time tells
how long the client has to wait, and for so long nothing more is read from the connection (KIP-219), whether the client
waits or not. A fetch above the quota gets an empty answer, and its bytes do not count. A request is charged with the
time of the broker's work and of the socket: for reading the request, and for sending the answer before (KIP-124).
Without quotas this module is not imported: `Services.quotas` is None, and the router looks at nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any

from pykafka_broker.broker.requests.context import NO_CONNECTION, RequestContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply
from pykafka_broker.broker.requests.router import Endpoint
from pykafka_broker.broker.waiting.future import Work
from pykafka_broker.cluster.controller import Spend, unlimited
from pykafka_broker.cluster.image import QuotaEntity
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.fetch_response import FetchResponse
from pykafka_broker.protocol.messages.share_fetch_request import ShareFetchRequest
from pykafka_broker.protocol.runtime import EncodeError, Pieces
from pykafka_broker.security.quotas.client_quotas import (
    FETCHED_BYTES,
    PRODUCED_BYTES,
    AddressQuotas,
    ClientQuotas,
    Mutations,
    QuotaMetadata,
    quotas_of_addresses,
)
from pykafka_broker.security.quotas.rate import Windows

if TYPE_CHECKING:
    from pykafka_broker.broker.services import Services
    from pykafka_broker.security.hooks.quota_callback import HookedQuotas


# Brokers ask these of each other.
_EXEMPT = frozenset(
    (
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    )
)
_FETCHES = frozenset((ApiKey.FETCH, ApiKey.SHARE_FETCH))
_TOLD_LAST = frozenset((ApiKey.PRODUCE, ApiKey.DESCRIBE_DELEGATION_TOKEN))
# APIs that may change topics, and the first version whose clients know THROTTLING_QUOTA_EXCEEDED. Where a request for
# something else creates topics, those above the quota stay missing, and the client is not held up.
_STRICT_FROM = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
_CREATING = {ApiKey.METADATA: 0, ApiKey.STREAMS_GROUP_HEARTBEAT: 0}
_FIELD = Struct(">i")
_UNLIKELY = b"\x7f\x12\x34\x56"


class MeteredContext(RequestContext):
    """A request that is counted.

    began_ns: the begin of its present work, None while the request waits; spent_ns: the time of its work before;
    is_replication: a follower's, which no quota holds up; mutations: the limit of changes of topics, where there is a
    limit.
    """

    __slots__ = ("began_ns", "bytes", "is_replication", "mutations", "spent_ns", "user")

    def __init__(self, of: RequestContext, size: int, began_ns: int) -> None:
        super().__init__(of.api_key, of.api_version, of.correlation_id, of.client_id, of.connection, of.now)
        self.bytes = size
        self.began_ns: int | None = began_ns
        self.spent_ns = 0
        self.is_replication = False
        self.mutations: Mutations | None = None
        self.user = of.connection.principal, of.client_id or ""

    def spending(self) -> Spend:
        return unlimited if self.mutations is None else self.mutations.spend


class Metering:
    """Counts of the requests of a broker, against `quotas`."""

    def __init__(
        self, services: Services, quotas: ClientQuotas, addresses: AddressQuotas, hook: HookedQuotas | None = None
    ) -> None:
        self.quotas = quotas
        self._addresses = addresses
        self._hook = hook
        self._services = services
        self._clock = services.clock
        self._endpoints: dict[int, MeteredEndpoint] = {}

    def follow(self, client_quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> bool:
        """Replace the quotas; return whether there are any."""
        if self._hook is None:
            self.quotas.source = QuotaMetadata(client_quotas)
        else:
            self._hook.follow(client_quotas)
        self._addresses.quotas = quotas_of_addresses(client_quotas)
        return bool(self.quotas.source or self._addresses.quotas)

    def connection_throttle_ms(self, host: str) -> int:
        return self._addresses.throttle_ms(host, self._clock.now)

    def metered(self, endpoint: Endpoint, context: RequestContext, size: int) -> tuple[Endpoint, RequestContext]:
        """Return endpoint and context that count a request of `size` bytes; requests from inside are not counted."""
        connection = context.connection
        if connection.id == NO_CONNECTION or not connection.authenticated or endpoint.api_key in _EXEMPT:
            return endpoint, context
        found = self._endpoints.get(endpoint.api_key)
        if found is None or found.inner is not endpoint:
            found = self._endpoints[endpoint.api_key] = MeteredEndpoint(endpoint, self)
        metered = MeteredContext(context, size, self._services.nanoseconds())
        if connection.network_ns is None:
            self._services.time_network(connection.id)
        else:
            metered.spent_ns, connection.network_ns = connection.network_ns, 0
        strict_from = _STRICT_FROM.get(endpoint.api_key, _CREATING.get(endpoint.api_key))
        if strict_from is not None:
            strict = context.api_version >= strict_from
            metered.mutations = self.quotas.mutations(*metered.user, context.now, strict=strict)
        return found, metered

    def works(self, context: MeteredContext) -> None:
        """Begin to charge the request with time."""
        if context.began_ns is None:
            context.began_ns = self._services.nanoseconds()

    def rests(self, context: MeteredContext) -> None:
        """Charge the request with the time since `works`."""
        if context.began_ns is not None:
            context.spent_ns += self._services.nanoseconds() - context.began_ns
            context.began_ns = None

    def most_bytes(self, context: RequestContext) -> int | None:
        """Return the limit of a fetch."""
        return self.quotas.most_bytes(FETCHED_BYTES, context.connection.principal, context.client_id or "")

    def answered(self, context: MeteredContext, answer_bytes: int, told_ms: int = 0) -> int:
        """Count an answered request; return for how long the client is muted.

        told_ms: the throttle time in the answer of a controller, which mutes nobody: it has the broker's connection.
        """
        api_key, now, quotas, user = context.api_key, self._clock.now, self.quotas, context.user
        self.rests(context)
        if context.is_replication:
            return 0
        throttle_ms = max(told_ms, quotas.record_time(*user, context.spent_ns, now))
        if api_key == ApiKey.PRODUCE:
            throttle_ms = max(throttle_ms, quotas.record(PRODUCED_BYTES, *user, context.bytes, now))
        elif api_key in _FETCHES:
            throttle_ms = max(throttle_ms, quotas.record(FETCHED_BYTES, *user, answer_bytes, now))
            if throttle_ms:
                quotas.take_back(FETCHED_BYTES, *user, answer_bytes, now)
        elif context.mutations is not None and api_key in _STRICT_FROM:
            throttle_ms = max(throttle_ms, context.mutations.throttle_ms)
        if throttle_ms and not context.connection.forwarded:
            self._services.mute(context.connection.id, now + throttle_ms)
        return throttle_ms

    def withheld(self, response: Any) -> Any:
        """Return the empty answer in the place of a fetch's.

        Records acquired by a share group stay acquired, and come again when their lock ends, as with Kafka.
        """
        if isinstance(response, FetchResponse):
            return FetchResponse(session_id=self._services.fetch_sessions.withdraw(response.session_id))
        for topic in response.responses:
            for partition in topic.partitions:
                partition.records, partition.acquired_records = b"", []
        return response


def metering_of(services: Services, hook: HookedQuotas | None) -> Metering:
    """Return the metering of a broker with its first quotas, or with a class that decides about quotas."""
    config = services.config
    windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
    controller_windows = Windows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000)
    source = QuotaMetadata({}) if hook is None else hook
    quotas = ClientQuotas(source, windows, controller_windows, is_of_4_4=config.is_of_4_4)
    return Metering(services, quotas, AddressQuotas(windows), hook)


class MeteredEndpoint(Endpoint):
    """An API whose requests are counted."""

    def __init__(self, inner: Endpoint, metering: Metering) -> None:
        vars(self).update(vars(inner))
        self.inner = inner
        self._metering = metering
        self.handler = self._handle

    def _handle(self, services: Services, context: RequestContext, request: Any) -> Any:
        """Serve a request, and charge it with the time of all its slices."""
        handle = self._fetch if self.api_key in _FETCHES else self.inner.handler
        reply = handle(services, context, request)
        if isinstance(reply, Work) and isinstance(context, MeteredContext):
            reply.measure = partial(self._metering.works, context), partial(self._metering.rests, context)
        return reply

    def _fetch(self, services: Services, context: RequestContext, request: FetchRequest | ShareFetchRequest) -> Any:
        if isinstance(request, FetchRequest) and max(request.replica_id, request.replica_state.replica_id) >= 0:
            if isinstance(context, MeteredContext):
                context.is_replication = True
            return self.inner.handler(services, context, request)
        most = self._metering.most_bytes(context)
        if most is not None:
            request.max_bytes = min(request.max_bytes, most)
        return self.inner.handler(services, context, request)

    def encode(self, context: RequestContext, reply: Any) -> Pieces:
        if not isinstance(context, MeteredContext):
            return self.inner.encode(context, reply)
        self._metering.works(context)
        pieces = self.inner.encode(context, reply)
        told_ms = getattr(reply, "throttle_time_ms", 0)
        throttle_ms = self._metering.answered(context, sum(map(len, pieces)) - 4, told_ms)
        if throttle_ms == told_ms:
            return pieces
        if context.api_key in _FETCHES and not reply.error_code:
            reply = self._metering.withheld(reply)
        return throttled(self.inner, context, reply, pieces, throttle_ms)

    def needs_no_answer(self, context: RequestContext) -> None:
        if isinstance(context, MeteredContext):
            self._metering.answered(context, 0)

    def waits(self, context: RequestContext) -> None:
        if isinstance(context, MeteredContext):
            self._metering.rests(context)


def throttled(endpoint: Endpoint, context: RequestContext, reply: Any, pieces: Pieces, throttle_ms: int) -> Pieces:
    """Return the answer with its throttle time; `pieces` are those of `reply` without."""
    throttle_ms = min(throttle_ms, 0x7FFFFFFF)
    if hasattr(reply, "throttle_time_ms"):
        told_ms, reply.throttle_time_ms = reply.throttle_time_ms, throttle_ms
        try:
            return endpoint.encode(context, reply)
        finally:
            reply.throttle_time_ms = told_ms  # the reply may be given again
    if isinstance(reply, EncodedReply) and context.api_key == ApiKey.API_VERSIONS:  # the field stands behind a list
        response, _ = endpoint.response_type.read(reply.body, 0, context.api_version)
        return throttled(endpoint, context, response, [], throttle_ms)
    return _patched(endpoint, context, pieces, throttle_ms)


def _patched(endpoint: Endpoint, context: RequestContext, pieces: Pieces, throttle_ms: int) -> Pieces:
    """Return encoded pieces with the throttle time: in most answers the first field, in `_TOLD_LAST` the last."""
    at = _position(endpoint.response_type, context.api_version)
    if at is None or len(pieces) == 1:
        return pieces
    index = 1 if at >= 0 else len(pieces) - 1  # behind the header
    piece = bytearray(pieces[index])
    start = at if at >= 0 else len(piece) + at
    if start >= 0 and piece[start : start + 4] == bytes(4):
        _FIELD.pack_into(piece, start, throttle_ms)
        pieces[index] = piece
    return pieces


def _position(response_type: Any, version: int) -> int | None:
    """Return the position of the throttle time in an answer: from the beginning, or from the end if negative."""
    response = response_type()
    if not hasattr(response, "throttle_time_ms"):
        return None
    (response.throttle_time_ms,) = _FIELD.unpack(_UNLIKELY)
    try:
        written: bytes = response.encode(version)
    except EncodeError:
        return None
    at = written.find(_UNLIKELY)
    if at < 0:
        return None
    return at - len(written) if response_type.API_KEY in _TOLD_LAST else at
