"""From a frame to a reply.

Rule: whatever a request holds, this connection gets an answer or a `FrameError`, and no other connection notices.
`except Exception` stands here and in `waiting/future.py` for the same reason: an exception of a handler that is no
`ApiError`, now or after a wait, is our bug, is logged with the request's header, and is answered with
UNKNOWN_SERVER_ERROR. A header that does not decode, or has more tagged fields than Kafka takes, is a `FrameError`.

A handler module below `broker/api/` declares itself:

    @handles(ApiKey.LIST_OFFSETS)
    def list_offsets(services: Services, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:

It returns the response, a `Future` of it (a `Parked` where something is polled), or None where the protocol has no
answer (Produce with acks=0). A handler that takes long is a generator (`handles_in_steps`). The handler of a forwarded
route decides for the controller instead:

    @handles(ApiKey.CREATE_TOPICS)
    def create_topics(controller: Controller, context: RequestContext, request: CreateTopicsRequest) -> Decision[...]:

The buffer behind a request's `records` belongs to the connection and is used again after the handler has returned: copy
what must outlive it.

A request that an emulated release did not serve closes its connection, as with Kafka; the brokers of a cluster have a
listener of their own, where nothing is emulated.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Hashable, Mapping, MutableMapping
from functools import partial, wraps
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka_broker.broker.requests.context import ConnectionContext, RequestContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply, WrittenReply
from pykafka_broker.broker.requests.routes import ROUTES, Route
from pykafka_broker.broker.waiting.future import Future, Lost, Parked, Purgatory, caught
from pykafka_broker.errors import ApiError, ClosedOnPurpose, FrameError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import (
    MOST_TAGGED_FIELDS,
    DecodeError,
    EncodeError,
    Message,
    Pieces,
    leaves,
    skip_counted_tags,
)

if TYPE_CHECKING:
    from pykafka_broker.broker.requests.emulation import Emulation
    from pykafka_broker.broker.services import Services

logger = logging.getLogger(__name__)

Handler = Callable[[Any, RequestContext, Any], Any]

_HEADER = Struct(">hhi")
_CLIENT_ID_LENGTH = Struct(">h")
_SIZE_AND_CORRELATION = Struct(">ii")
_WITH_TAGS = Struct(">iiB")  # the same and the count of tagged fields, which is 0
_UNSERVED = Route("")
_SHORT, _GENERAL = 0, 1  # ways, by their index in `Endpoint.way_counts`
_REMEMBERED_BYTES = 4096  # the answer to a longer request is not kept: few are longer


ShortWay = Callable[[Any, RequestContext, Any, int], Any]


class Table(NamedTuple):
    """The APIs of one kind of listener: their routes, and the handlers of imported modules."""

    routes: Mapping[ApiKey, Route]
    handlers: MutableMapping[int, Handler]


CLIENTS = Table(ROUTES, {})
_SHORT_WAYS: dict[int, ShortWay] = {}


def handles(api_key: ApiKey, table: Table = CLIENTS) -> Callable[[Handler], Handler]:
    """Declare the handler of an API; `broker/requests/routes.py` names its module and versions."""

    def register(handler: Handler) -> Handler:
        table.handlers[api_key] = handler
        return handler

    return register


def handles_in_steps(api_key: ApiKey, *, outlives_client: bool = False) -> Callable[[Handler], Handler]:
    """Declare the handler of an API whose answer takes long: a generator, whose return value is the response.

    outlives_client: the work is done to its end even if the client has gone.
    """

    def register(handler: Handler) -> Handler:
        @wraps(handler)
        def begin(services: Services, context: RequestContext, request: Any) -> Any:
            return services.slices.reply(handler(services, context, request), outlives_client=outlives_client)

        return handles(api_key)(begin)

    return register


def shortens(api_key: ApiKey) -> Callable[[ShortWay], ShortWay]:
    """Declare the short way of an API, in the module that its route names.

    The short way is called before the request is decoded, with the frame and the position of the body, where no quota
    and no authorizer is there. It returns the pieces of the answer with an empty piece in front, for the header; no
    pieces where the client wants no answer; a `Future` of a response, which has no error; or None for a request that
    goes the general way, as if nothing had been tried. Pieces that may still become an error in this turn are an
    `UnwrittenReply`.
    """

    def register(short_way: ShortWay) -> ShortWay:
        _SHORT_WAYS[api_key] = short_way
        return short_way

    return register


class Unwritable(FrameError):
    """An answer that can't be written: a defect, or a text that quotes more than a string may hold."""


class Endpoint:
    """An API as this broker serves it: versions, codec and handler."""

    def __init__(self, api_key: ApiKey, table: Table = CLIENTS) -> None:
        spec, route = SPECS[api_key], table.routes.get(api_key, _UNSERVED)
        self.api_key = api_key
        if route.module:
            importlib.import_module(f"pykafka_broker.broker.api.{route.module}")
            self.handler = _routed(table.handlers[api_key], route)
            self.min_version, self.max_version = served_versions(api_key, table.routes)
        else:
            self.handler = _refuse
            self.min_version, self.max_version = spec.min_version, spec.max_version
        self.short_way: ShortWay | None = None
        self.way_counts = [0, 0]  # requests that went the short and the general way, of an API that has both
        if route.short:
            importlib.import_module(f"pykafka_broker.broker.api.{route.short}")
            self.short_way = _SHORT_WAYS[api_key]
        self.read = spec.request_class().read
        self.response_type = spec.response_class()
        never = 1 << 15
        self.flexible_from = never if spec.flexible_from is None else spec.flexible_from
        # The answer to ApiVersions is read before versions are agreed on: its header stays plain (KIP-511).
        self.response_flexible_from = never if api_key is ApiKey.API_VERSIONS else self.flexible_from
        self.header_v0 = api_key is ApiKey.CONTROLLED_SHUTDOWN
        self.when_lost, self.remembered = route.when_lost, route.remembered
        self.any_version = api_key is ApiKey.API_VERSIONS  # a version that we don't know is answered all the same

    def encode(self, context: RequestContext, reply: Any) -> Pieces:
        """Return the answer: length prefix and header as one piece, then the pieces of the body.

        Raises:
            Unwritable: the version has no room for a value of the answer.
        """
        version = context.api_version if self.min_version <= context.api_version <= self.max_version else 0
        pieces: Pieces = [b""]
        try:
            reply.write(version, pieces.append)
        except EncodeError:
            logger.exception("a defect: the answer to %s can't be written: %r", self.api_key.name, context)
            raise Unwritable(f"no answer to {self.api_key.name}") from None
        return self.with_header(pieces, version, context.correlation_id)

    def with_header(self, pieces: Pieces, version: int, correlation_id: int) -> Pieces:
        """Put length prefix and header into the first piece, which is empty; return the pieces."""
        size = len(pieces[1]) if len(pieces) == 2 else sum(map(len, pieces))
        if version >= self.response_flexible_from:
            pieces[0] = _WITH_TAGS.pack(5 + size, correlation_id, 0)
        else:
            pieces[0] = _SIZE_AND_CORRELATION.pack(4 + size, correlation_id)
        return pieces

    def needs_no_answer(self, context: RequestContext) -> None:
        """Do nothing; with quotas, note that the client wants no answer. Called in the place of `encode`."""

    def waits(self, context: RequestContext) -> None:
        """Do nothing; with quotas, note that the request waits."""

    def decode(self, frame: memoryview | bytes, body: int, version: int) -> Any:
        """Return the request that begins at `body`. Raises FrameError."""
        try:
            request, end = self.read(frame, body, version)
        except DecodeError as error:
            raise FrameError(f"{self.api_key.name} v{version} does not decode: {error}") from None
        if end > len(frame):
            raise FrameError(f"{self.api_key.name} v{version} is cut short")
        return request


def read_header_tail(frame: memoryview | bytes, api: Endpoint, version: int) -> tuple[str | None, int]:
    """Return the client id and the position at which the body starts. Raises FrameError."""
    if api.header_v0 and version == 0:
        return None, 8
    try:
        (length,) = _CLIENT_ID_LENGTH.unpack_from(frame, 8)
        position = 10 + length if length > 0 else 10
        if position > len(frame):
            raise FrameError(f"client id of {length} bytes in a request of {len(frame)}")
        client_id = None if length < 0 else str(frame[10:position], "utf-8", "replace")
        if version >= api.flexible_from:
            has_none = position < len(frame) and frame[position] == 0
            position = position + 1 if has_none else skip_counted_tags(frame, position, MOST_TAGGED_FIELDS)[0]
    except (StructError, DecodeError) as error:
        raise FrameError(f"the header of a {api.api_key.name} request does not decode: {error}") from None
    return client_id, position


def _admitted(connection: ConnectionContext, api_key: int) -> bool:
    """Return whether a client that has not authenticated may ask now. Raises FrameError."""
    if connection.login is None:
        raise FrameError("the client has gone before it has authenticated")
    return connection.login.admits(api_key)


def _out_of_turn(endpoint: Endpoint, context: RequestContext, frame: memoryview | bytes, body: int) -> Any:
    """Return the answer to a request in the middle of an exchange of tokens."""
    version = context.api_version
    readable = endpoint.min_version <= version <= endpoint.max_version and len(frame) - body <= _REMEMBERED_BYTES
    request = endpoint.decode(frame, body, version) if readable else None
    try:
        return whole_request_failure(endpoint.response_type, ErrorCode.ILLEGAL_SASL_STATE, None, request, version)
    except FrameError:
        return endpoint.response_type()


def _routed(handler: Handler, route: Route) -> Handler:
    """Return the handler, by way of the controller where only the controller decides or knows the answer best."""
    if not (route.forwarded or route.relayed):
        return handler

    @wraps(handler)
    def routed(services: Services, context: RequestContext, request: Any) -> Any:
        if route.forwarded:
            return services.metadata.submit(context, request, handler)
        if services.node.metadata_follower is not None:
            return services.node.metadata_follower.relay(context, request)
        return handler(services, context, request)

    return routed


def _refuse(services: Services, context: RequestContext, request: Any) -> Any:
    """Refuse an API between nodes: the connection is closed, as in Kafka.

    An emulated release answers UNSUPPORTED_VERSION instead, since clients rely on what it offers.
    """
    if services.emulation is None:
        raise FrameError(f"API key {context.api_key} is not served")
    raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def served_versions(api_key: ApiKey, routes: Mapping[ApiKey, Route] = ROUTES) -> tuple[int, int]:
    """Return the lowest and the highest version that are advertised and accepted."""
    route, spec = routes[api_key], SPECS[api_key]
    lowest = spec.min_version if route.min_version is None else route.min_version
    highest = spec.stable_max_version if route.max_version is None else route.max_version
    return lowest, highest


def failure(endpoint: Endpoint, context: RequestContext, request: Any, error: Exception) -> Any:
    """Return the answer to a request whose handler raised, now or after a wait. Raises FrameError if there is none."""
    code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
    if isinstance(error, FrameError):
        raise error
    if isinstance(error, Lost):
        code = endpoint.when_lost
    elif isinstance(error, ApiError):
        code, message = error.code, error.message
    else:
        logger.error("a defect while serving %s: %r", endpoint.api_key.name, context, exc_info=error)
    if getattr(request, "acks", None) == 0:  # such a client takes any answer for that to its next request
        raise ClosedOnPurpose(f"a produce with acks=0 failed: {code.name}")
    return whole_request_failure(endpoint.response_type, code, message, request, context.api_version)


def whole_request_failure(
    response_type: type[Message], code: ErrorCode, message: str | None, request: Any, version: int
) -> Message:
    """Return a response to `request` that says `code`; `request` is None where it could not be read.

    Raises:
        FrameError: this version of the response has no room for the error.
    """
    for text in dict.fromkeys((message, None)):  # without a text where there is no room for it
        response = response_type.failed(request, code, text, version)
        if says(response, version, code):
            return response
        if request is not None:  # versions that have no field for the whole may have one for each item
            response = response_type()
            response.add_failed(request, code, text)
            if says(response, version, code):
                return response
    raise FrameError(f"{code.name} has no place in a {response_type.__name__} v{version}")


def says(response: Message, version: int, code: ErrorCode) -> bool:
    """Return whether the client can see the error: a version may lack the field for it, silently or not."""
    try:
        told = type(response).decode(response.encode(version), version)
    except EncodeError:
        return False
    return any(name.endswith("error_code") and value == code for _, name, value in leaves(told))


class PendingReply:
    """A request whose answer comes later. future: the response, or the reason for its absence."""

    __slots__ = ("context", "endpoint", "future", "request")

    def __init__(self, future: Future[Any], endpoint: Endpoint, context: RequestContext, request: Any) -> None:
        self.future = future
        self.endpoint = endpoint
        self.context = context
        self.request = request

    @property
    def yields(self) -> bool:
        """Return whether the answer may be given early, with the records at hand."""
        future = self.future
        return isinstance(future, Parked) and future.yields

    def response(self) -> Any:
        """Return the response, once the future is done. Raises FrameError where the connection is to be closed."""
        error = self.future.error
        return self.future.result() if error is None else failure(self.endpoint, self.context, self.request, error)

    def pieces(self) -> Pieces:
        """Return the pieces to send, none for a client that wants no answer. Raises FrameError."""
        response = self.response()
        if response is None:
            self.endpoint.needs_no_answer(self.context)
            return []
        if type(response) is WrittenReply:  # of a short way, which is tried without quotas alone
            pieces = [b"", *response.pieces[1:]]
            return self.endpoint.with_header(pieces, self.context.api_version, self.context.correlation_id)
        try:
            return self.endpoint.encode(self.context, response)
        except Unwritable:
            return _encoded_failure(self.endpoint, self.context, self.request)


def _encoded_failure(endpoint: Endpoint, context: RequestContext, request: Any) -> Pieces:
    """Return the answer in the place of one that can't be written. Raises FrameError if there is none."""
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    answer = whole_request_failure(endpoint.response_type, code, None, request, context.api_version)
    return endpoint.encode(context, answer)


def _follow(purgatory: Purgatory, outer: Future[Any], answer: Future[Any]) -> None:
    """Complete `outer` with `answer`, or with the future that `answer` leads to.

    The callbacks are partials: closures would refer to each other, and keep the request until a garbage collection.
    """
    arrived = partial(_arrived, purgatory, outer)
    if isinstance(answer, Parked) and not answer.done:
        purgatory.park(answer)
        outer.on_cancel = partial(purgatory.cancel, answer)
    else:
        outer.on_cancel = partial(answer.leave, arrived)
    answer.add_done_callback(arrived)


def _arrived(purgatory: Purgatory, outer: Future[Any], answer: Future[Any]) -> None:
    """Pass the outcome of `answer` on to `outer`."""
    if answer.error is not None:
        outer.fail(answer.error)
        return
    response = answer.result()
    if isinstance(response, Future) and not outer.done:
        _follow(purgatory, outer, response)
    else:
        outer.complete(response)


class Router:
    """A dispatcher of the frames of all connections of a broker (Kafka: KafkaApis)."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._endpoints: dict[int, Endpoint] = {}

    def serve(self, services: Services) -> None:
        """Serve further requests from another broker; pending answers of the former broker still come."""
        self._services = services

    def dispatch(self, connection: ConnectionContext, frame: memoryview | bytes) -> Pieces | PendingReply | None:
        """Serve a frame without its length prefix.

        The frame of a produce request is a writable memoryview: offsets are written into its batches.

        Returns the pieces of the response with the length prefix, a `PendingReply`, or None where there is no answer.
        Raises `FrameError` where the bytes make no sense.
        """
        try:
            api_key, version, correlation_id = _HEADER.unpack_from(frame)
        except StructError:
            raise FrameError(f"a request of {len(frame)} bytes has no header") from None
        endpoint = self._endpoints.get(api_key) or self._load(api_key)
        readable = endpoint.min_version <= version <= endpoint.max_version
        if not readable and not endpoint.any_version:
            raise FrameError(
                f"{endpoint.api_key.name} version {version} is not served: "
                f"{endpoint.min_version} to {endpoint.max_version}"
            )
        client_id, body = read_header_tail(frame, endpoint, version)
        services = self._services
        context = RequestContext(api_key, version, correlation_id, client_id, connection, services.clock.now)
        if services.quotas is not None:
            endpoint, context = services.quotas.metered(endpoint, context, len(frame))
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s %r", endpoint.api_key.name, context)
        if not connection.authenticated and not _admitted(connection, api_key):
            return endpoint.encode(context, _out_of_turn(endpoint, context, frame, body))
        key: Hashable = None  # under which the answer may be kept
        if endpoint.remembered and services.remembers and len(frame) - body <= _REMEMBERED_BYTES:
            key = (api_key, version, services.audience(connection), bytes(frame[body:]))
            known = services.replies.get(services.image, key)
            if known is not None:
                return endpoint.encode(context, known)
        request = None
        try:
            if endpoint.short_way is not None:
                if services.quotas is None and services.open_to_all:
                    short = endpoint.short_way(services, context, frame, body)
                    if short is not None:
                        endpoint.way_counts[_SHORT] += 1
                        if isinstance(short, list):
                            return endpoint.with_header(short, version, correlation_id) if short else None
                        if isinstance(short, Parked):
                            services.purgatory.park(short)
                        return PendingReply(short, endpoint, context, None)
                endpoint.way_counts[_GENERAL] += 1
            request = endpoint.decode(frame, body, version) if readable else None
            reply = endpoint.handler(services, context, request)
        except FrameError:
            raise
        except Exception as error:
            if request is None and readable:  # a defect of the short way
                request = endpoint.decode(frame, body, version)
            reply = failure(endpoint, context, request, error)
        if reply is None:
            endpoint.needs_no_answer(context)
            return None
        if isinstance(reply, Future):
            if key is not None:
                reply = reply.then(partial(self._remembering, key))
            return self._later(endpoint, context, request, reply)
        if key is not None and isinstance(reply, EncodedReply):
            services.replies.put(services.image, key, reply)
        try:
            return endpoint.encode(context, reply)
        except Unwritable:
            return _encoded_failure(endpoint, context, request)

    def _remembering(self, key: Hashable, reply: Any) -> Any:
        """Return the answer; keep it, if it is encoded already, for the next request with the same bytes."""
        if isinstance(reply, EncodedReply):
            self._services.replies.put(self._services.image, key, reply)
        return reply

    def answered(self, endpoint: Endpoint, context: RequestContext, request: Any) -> PendingReply:
        """Serve a request that was made in this process, and so is decoded already."""
        future: Future[Any] = Future()
        try:
            reply = endpoint.handler(self._services, context, request)
        except Exception as error:
            future.fail(caught(error))
        else:
            if isinstance(reply, Future):
                _follow(self._services.purgatory, future, reply)
            else:
                future.complete(reply)
        return PendingReply(future, endpoint, context, request)

    def ways(self) -> dict[ApiKey, tuple[int, int]]:
        """Return how many requests went the short and the general way, for each API that has both."""
        served = self._endpoints.values()
        return {
            each.api_key: (each.way_counts[_SHORT], each.way_counts[_GENERAL])
            for each in served
            if each.short_way is not None
        }

    def _load(self, api_key: int) -> Endpoint:
        endpoint = self._endpoints[api_key] = self._new_endpoint(api_key)
        return endpoint

    def _new_endpoint(self, api_key: int) -> Endpoint:
        if api_key not in SPECS:
            raise FrameError(f"API key {api_key} is unknown")
        return Endpoint(ApiKey(api_key))

    def _later(
        self, endpoint: Endpoint, context: RequestContext, request: Any, answer: Future[Any]
    ) -> Pieces | PendingReply | None:
        """Answer when the handler's future is done, which may be now."""
        purgatory = self._services.purgatory
        if isinstance(answer, Parked):  # its result is the response itself
            future: Future[Any] = answer
            if not answer.done:
                purgatory.park(answer)
        else:
            future = Future()
            _follow(purgatory, future, answer)
        pending = PendingReply(future, endpoint, context, request)
        if future.done:
            return pending.pieces() or None
        endpoint.waits(context)
        return pending


def new_router(services: Services) -> Router:
    """Return the router for the clients of a broker."""
    emulation = services.emulation
    return Router(services) if emulation is None else EmulatedRouter(services, emulation)


class EmulatedEndpoint(Endpoint):
    """An API as a release served it."""

    def __init__(self, api_key: ApiKey, emulation: Emulation) -> None:
        super().__init__(api_key)
        self.min_version, self.max_version = emulation.versions[api_key]
        self._emulation = emulation
        self.short_way = None  # its answers are not told in the release's codes
        self.handler = emulation.handler(api_key, self.handler)

    def encode(self, context: RequestContext, reply: Any) -> Pieces:
        return super().encode(context, self._emulation.translated(reply, self.response_type, context.api_version))


class EmulatedRouter(Router):
    """The router of a broker that passes for a release."""

    def __init__(self, services: Services, emulation: Emulation) -> None:
        super().__init__(services)
        self._emulation = emulation
        self._between_brokers = Router(services)

    def serve(self, services: Services) -> None:
        super().serve(services)
        self._between_brokers.serve(services)

    def dispatch(self, connection: ConnectionContext, frame: memoryview | bytes) -> Pieces | PendingReply | None:
        if self._services.emulation_for(connection) is None:
            return self._between_brokers.dispatch(connection, frame)
        return super().dispatch(connection, frame)

    def _new_endpoint(self, api_key: int) -> Endpoint:
        if api_key not in self._emulation.versions:
            raise FrameError(f"API key {api_key} is unknown to Kafka {self._emulation.release.name}")
        return EmulatedEndpoint(ApiKey(api_key), self._emulation)
