"""From a frame to a reply.

Rule: whatever a request holds, this connection gets an answer or a `FrameError`, and no other connection notices.
`except Exception` stands here, in `waiting.py`, `purgatory.py` and `slices.py` for the same reason: what a handler
raises beyond `ApiError`, now or after a wait, is our bug, is logged with the request's header, and is answered with
UNKNOWN_SERVER_ERROR.

A handler module below `broker/api/` declares itself:

    @handles(ApiKey.LIST_OFFSETS)
    def list_offsets(services: Services, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:

It returns the response, a `Future` of it (a `Parked` where something is polled), or None where the protocol has no
answer (Produce with acks=0). The handler of a forwarded route decides for the controller instead:

    @handles(ApiKey.CREATE_TOPICS)
    def create_topics(controller: Controller, context: RequestContext, request: CreateTopicsRequest) -> Decision[...]:

The buffer behind a request's `records` belongs to the connection and is used again after the handler has returned: copy
what must outlive it.
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
from pykafka_broker.broker.requests.encoded_reply import EncodedReply
from pykafka_broker.broker.requests.failure import whole_request_failure
from pykafka_broker.broker.requests.request_header import read_header_tail
from pykafka_broker.broker.requests.routes import BETWEEN_NODES, ROUTES, Route
from pykafka_broker.broker.waiting.future import Future, Lost, caught
from pykafka_broker.broker.waiting.purgatory import Parked, Purgatory
from pykafka_broker.errors import ApiError, FrameError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import DecodeError, EncodeError

if TYPE_CHECKING:
    from pykafka_broker.broker.services import Services

log = logging.getLogger(__name__)

Handler = Callable[[Any, RequestContext, Any], Any]
Pieces = list[Any]  # bytes-like objects and file slices, to be sent in order

_HEADER = Struct(">hhi")
_SIZE_AND_CORRELATION = Struct(">ii")
_WITH_TAGS = Struct(">iiB")  # and no tagged fields
_REFUSED = Route("")
_MOST_REQUESTS = 256
_REMEMBERED_BYTES = 4096  # of a request; few are longer, and what is kept must not be many bytes


class Table(NamedTuple):
    """The APIs of one kind of listener: where they are, and who answers them once their modules are there."""

    routes: Mapping[ApiKey, Route]
    handlers: MutableMapping[int, Handler]


CLIENTS = Table(ROUTES, {})


def handles(api_key: ApiKey, table: Table = CLIENTS) -> Callable[[Handler], Handler]:
    """Declare the handler of an API; `broker/requests/routes.py` names its module and versions."""

    def register(handler: Handler) -> Handler:
        table.handlers[api_key] = handler
        return handler

    return register


class Endpoint:
    """One API as this broker serves it: its versions, codec and handler."""

    __slots__ = (
        "_requests",
        "any_version",
        "api_key",
        "decode",
        "flexible_from",
        "handler",
        "header_v0",
        "max_version",
        "min_version",
        "read",
        "remembered",
        "response_flexible_from",
        "response_type",
        "when_lost",
    )

    def __init__(self, api_key: ApiKey, table: Table = CLIENTS) -> None:
        spec, route = SPECS[api_key], table.routes.get(api_key)
        self.api_key = api_key
        if route is not None:
            importlib.import_module(f"pykafka_broker.broker.api.{route.module}")
            handler = table.handlers[api_key]
            self.handler = _placed(handler, route)
            self.min_version, self.max_version = served_versions(api_key, table.routes)
        else:
            self.handler = _refuse
            self.min_version, self.max_version = spec.min_version, spec.max_version
        self.read = spec.request_class().read
        self.response_type = spec.response_class()
        never = 1 << 15
        self.flexible_from = never if spec.flexible_from is None else spec.flexible_from
        # The answer to ApiVersions is read before versions are agreed on: its header stays plain (KIP-511).
        self.response_flexible_from = never if api_key is ApiKey.API_VERSIONS else self.flexible_from
        self.header_v0 = api_key is ApiKey.CONTROLLED_SHUTDOWN
        self.when_lost = _REFUSED.when_lost if route is None else route.when_lost
        self.remembered = route is not None and route.remembered
        self.decode = self._decode_once if route is not None and route.repeated else self.decode_anew
        self._requests: dict[tuple[int, bytes], Any] = {}  # by version and bytes, of what is repeated
        self.any_version = api_key is ApiKey.API_VERSIONS  # a version that we don't know is answered all the same

    def encode(self, context: RequestContext, reply: Any) -> Pieces:
        """Length prefix and header as one piece, then the body's."""
        version = context.api_version if self.min_version <= context.api_version <= self.max_version else 0
        pieces: Pieces = [b""]
        try:
            reply.write(version, pieces.append)
        except EncodeError:
            log.exception("a defect: the answer to %s can't be written: %r", self.api_key.name, context)
            raise FrameError(f"no answer to {self.api_key.name}") from None
        if version >= self.response_flexible_from:
            pieces[0] = _WITH_TAGS.pack(5 + sum(map(len, pieces)), context.correlation_id, 0)
        else:
            pieces[0] = _SIZE_AND_CORRELATION.pack(4 + sum(map(len, pieces)), context.correlation_id)
        return pieces

    def needs_no_answer(self, context: RequestContext) -> None:
        """In the place of `encode` where a client wants none."""

    def waits(self, context: RequestContext) -> None:
        """The request goes on later."""

    def decode_anew(self, frame: memoryview | bytes, body: int, version: int) -> Any:
        """The request that begins there. Raises FrameError."""
        try:
            request, end = self.read(frame, body, version)
        except DecodeError as error:
            raise FrameError(f"{self.api_key.name} v{version} does not decode: {error}") from None
        if end > len(frame):
            raise FrameError(f"{self.api_key.name} v{version} is cut short")
        return request

    def _decode_once(self, frame: memoryview | bytes, body: int, version: int) -> Any:
        """The same for what clients ask again and again. It is not to be changed."""
        if len(frame) - body > _REMEMBERED_BYTES:
            return self.decode_anew(frame, body, version)
        key = (version, bytes(frame[body:]))
        request = self._requests.get(key)
        if request is None:
            request = self.decode_anew(memoryview(key[1]), 0, version)
            if len(self._requests) >= _MOST_REQUESTS:
                self._requests.clear()
            self._requests[key] = request
        return request


def _admitted(connection: ConnectionContext, api_key: int) -> bool:
    """Whether a client that has not authenticated may ask this now. Raises FrameError."""
    if connection.login is None:
        raise FrameError("the client has gone before it has authenticated")
    return connection.login.admits(api_key)


def _out_of_turn(endpoint: Endpoint, context: RequestContext, frame: memoryview | bytes, body: int) -> Any:
    """The answer to what was asked in the middle of an exchange of tokens."""
    version = context.api_version
    readable = endpoint.min_version <= version <= endpoint.max_version and len(frame) - body <= _REMEMBERED_BYTES
    request = endpoint.decode_anew(frame, body, version) if readable else None
    try:
        return whole_request_failure(endpoint.response_type, ErrorCode.ILLEGAL_SASL_STATE, None, request, version)
    except FrameError:
        return endpoint.response_type()


def _placed(handler: Handler, route: Route) -> Handler:
    """Where it is served."""
    if route.relayed:
        return _relaying(handler)
    return _submitting(handler) if route.forwarded else handler


def _relaying(handler: Handler) -> Handler:
    """What a controller knows best is answered here where this node is one."""

    @wraps(handler)
    def relay(services: Services, context: RequestContext, request: Any) -> Any:
        if services.node.metadata_follower is not None:
            return services.node.metadata_follower.relay(context, request)
        return handler(services, context, request)

    return relay


def _submitting(decide: Handler) -> Handler:
    """What only a controller decides goes where the controller is."""

    @wraps(decide)
    def submit(services: Services, context: RequestContext, request: Any) -> Any:
        return services.metadata.submit(context, request, decide)

    return submit


def _refuse(services: Services, context: RequestContext, request: Any) -> Any:
    """An API of the protocol that this broker does not serve: whoever asks is told, where Kafka only hangs up. It hangs
    up on what no client ever asks. What an emulated release offered is refused in words all the same, since clients
    rely on the offer.
    """
    if services.emulation is None and (services.own.refusals or context.api_key in BETWEEN_NODES):
        raise FrameError(f"API key {context.api_key} is not served")
    raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def served_versions(api_key: ApiKey, routes: Mapping[ApiKey, Route] = ROUTES) -> tuple[int, int]:
    """The version range that is advertised and accepted."""
    route, spec = routes[api_key], SPECS[api_key]
    lowest = spec.min_version if route.min_version is None else route.min_version
    highest = spec.stable_max_version if route.max_version is None else route.max_version
    return lowest, highest


class PendingReply:
    """A request whose answer comes later, and what that needs. `future`: of the response, or of why there is none."""

    __slots__ = ("context", "endpoint", "future", "request")

    def __init__(self, future: Future[Any], endpoint: Endpoint, context: RequestContext, request: Any) -> None:
        self.future = future
        self.endpoint = endpoint
        self.context = context
        self.request = request

    @property
    def yields(self) -> bool:
        """Whether the answer may be given early, with what there is."""
        future = self.future
        return isinstance(future, Parked) and future.yields

    def response(self) -> Any:
        """Return the response, once the future is done. Raises FrameError where the connection is to be closed."""
        error = self.future.error
        return self.future.result() if error is None else failure(self.endpoint, self.context, self.request, error)

    def pieces(self) -> Pieces:
        """Return what is sent; nothing where the response is None: the client wants no answer. Raises FrameError."""
        response = self.response()
        if response is None:
            self.endpoint.needs_no_answer(self.context)
            return []
        return self.endpoint.encode(self.context, response)


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
        log.error("a defect while serving %s: %r", endpoint.api_key.name, context, exc_info=error)
    return whole_request_failure(endpoint.response_type, code, message, request, context.api_version)


def _follow(purgatory: Purgatory, outer: Future[Any], answer: Future[Any]) -> None:
    """Wait for `answer`, and for what it may lead to, in the name of `outer`.

    These are no closures: those would hold each other, and the request, until the garbage collector comes by.
    """
    arrived = partial(_arrived, purgatory, outer)
    if isinstance(answer, Parked) and not answer.done:
        purgatory.park(answer)
        outer.on_cancel = partial(purgatory.cancel, answer)
    else:
        outer.on_cancel = partial(answer.leave, arrived)
    answer.add_done_callback(arrived)


def _arrived(purgatory: Purgatory, outer: Future[Any], answer: Future[Any]) -> None:
    if answer.error is not None:
        outer.fail(answer.error)
        return
    response = answer.result()
    if isinstance(response, Future) and not outer.done:
        _follow(purgatory, outer, response)
    else:
        outer.complete(response)


class Router:
    """Dispatches the frames of all connections of one broker."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._endpoints: dict[int, Endpoint] = {}

    def serve(self, services: Services) -> None:
        """From now on requests are those of another broker. Who waits for an answer of the one before gets it still."""
        self._services = services

    def dispatch(self, connection: ConnectionContext, frame: memoryview | bytes) -> Pieces | PendingReply | None:
        """Serve one frame (without its length prefix). What is written into, as a produce request is, is no `bytes`.

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
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %r", endpoint.api_key.name, context)
        if not connection.authenticated and not _admitted(connection, api_key):
            return endpoint.encode(context, _out_of_turn(endpoint, context, frame, body))
        key: Hashable = None  # of an answer that may be known, or is worth to be
        if endpoint.remembered and services.remembers and len(frame) - body <= _REMEMBERED_BYTES:
            key = (api_key, version, services.audience(connection), bytes(frame[body:]))
            known = services.replies.get(services.image, key)
            if known is not None:
                return endpoint.encode(context, known)
        request = endpoint.decode(frame, body, version) if readable else None
        try:
            reply = endpoint.handler(services, context, request)
        except FrameError:
            raise
        except Exception as error:
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
        return endpoint.encode(context, reply)

    def _remembering(self, key: Hashable, reply: Any) -> Any:
        """Keep an answer that is worth it, and return it."""
        if isinstance(reply, EncodedReply):
            self._services.replies.put(self._services.image, key, reply)
        return reply

    def answered(self, endpoint: Endpoint, context: RequestContext, request: Any) -> PendingReply:
        """Serve a request that has never been a frame."""
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
        if isinstance(answer, Parked):  # which gives the response itself
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


__all__ = ["CLIENTS", "Endpoint", "PendingReply", "Pieces", "Router", "Table", "handles", "served_versions"]
