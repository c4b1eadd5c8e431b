"""From a frame to a reply.

Rule: whatever a request holds, this connection gets an answer or a `FrameError`, and no other connection notices.
`except Exception` stands here: what a handler raises beyond `ApiError` is our bug, is logged with the request's header,
and is answered with UNKNOWN_SERVER_ERROR.

A handler module below `broker/api/` declares itself:

    @handles(ApiKey.LIST_OFFSETS)
    def list_offsets(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:

It returns the response, a `Parked`, or None where the protocol has no answer (Produce with acks=0). The buffer behind
a request's `records` belongs to the connection and is used again after the handler has returned: copy what must
outlive it.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Any

from pykafka_broker.broker.context import ConnectionContext, RequestContext
from pykafka_broker.broker.failure import whole_request_failure
from pykafka_broker.broker.purgatory import Parked, Uncommitted
from pykafka_broker.broker.routes import ROUTES
from pykafka_broker.errors import ApiError, FrameError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import DecodeError, EncodeError, read_uvarint

log = logging.getLogger(__name__)

Handler = Callable[[Any, RequestContext, Any], Any]
Pieces = list[Any]  # bytes-like objects and file slices, to be sent in order

_HEADER = Struct(">hhi")
_CLIENT_ID_LENGTH = Struct(">h")
_SIZE_AND_CORRELATION = Struct(">ii")
_HANDLERS: dict[int, Handler] = {}
_NOT_OF_COORDINATORS = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ELECT_LEADERS,
    }
)


def handles(api_key: ApiKey) -> Callable[[Handler], Handler]:
    """Declare the handler of an API; `broker/routes.py` names its module and versions."""

    def register(handler: Handler) -> Handler:
        _HANDLERS[api_key] = handler
        return handler

    return register


class Endpoint:
    """One API as this broker serves it: its versions, codec and handler."""

    __slots__ = (
        "api_key",
        "flexible_from",
        "handler",
        "header_v0",
        "max_version",
        "min_version",
        "read",
        "response_flexible_from",
        "response_type",
    )

    def __init__(self, api_key: ApiKey) -> None:
        spec = SPECS[api_key]
        self.api_key = api_key
        if api_key in ROUTES:
            importlib.import_module(f"pykafka_broker.broker.api.{ROUTES[api_key].module}")
            self.handler = _HANDLERS[api_key]
            self.min_version, self.max_version = served_versions(api_key)
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


def _refuse(broker: Any, context: RequestContext, request: Any) -> Any:
    """An API of the protocol that this broker does not serve: whoever asks is told, where Kafka only hangs up."""
    raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def served_versions(api_key: ApiKey) -> tuple[int, int]:
    """The version range that is advertised and accepted."""
    route, spec = ROUTES[api_key], SPECS[api_key]
    lowest = spec.min_version if route.min_version is None else route.min_version
    highest = spec.stable_max_version if route.max_version is None else route.max_version
    return lowest, highest


class PendingReply:
    """A parked request and the header that its answer needs."""

    __slots__ = ("context", "endpoint", "parked")

    def __init__(self, parked: Parked, endpoint: Endpoint, context: RequestContext) -> None:
        self.parked = parked
        self.endpoint = endpoint
        self.context = context

    def pieces(self, reply: Any) -> Pieces:
        return encode_response(self.endpoint, self.context, reply)


class Router:
    """Dispatches the frames of all connections of one broker."""

    def __init__(self, broker: Any) -> None:
        self.broker = broker
        self._endpoints: dict[int, Endpoint] = {}

    def dispatch(self, connection: ConnectionContext, frame: memoryview, now: int) -> Pieces | PendingReply | None:
        """Serve one frame (without its length prefix).

        Returns the pieces of the response with the length prefix, a `PendingReply`, or None where there is no answer.
        Raises `FrameError` where the bytes make no sense.
        """
        try:
            api_key, version, correlation_id = _HEADER.unpack_from(frame)
        except StructError:
            raise FrameError(f"a request of {len(frame)} bytes has no header") from None
        endpoint = self._endpoints.get(api_key) or self._load(api_key)
        readable = endpoint.min_version <= version <= endpoint.max_version
        if not readable and endpoint.api_key is not ApiKey.API_VERSIONS:
            raise FrameError(
                f"{endpoint.api_key.name} version {version} is not served: "
                f"{endpoint.min_version} to {endpoint.max_version}"
            )
        client_id, body = _read_header_tail(frame, endpoint, version)
        context = RequestContext(api_key, version, correlation_id, client_id, connection, now)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %r", endpoint.api_key.name, context)
        if not readable:
            return self._call(endpoint, context, None)
        try:
            request, end = endpoint.read(frame, body, version)
        except DecodeError as error:
            raise FrameError(f"{endpoint.api_key.name} v{version} does not decode: {error}") from None
        if end > len(frame):
            raise FrameError(f"{endpoint.api_key.name} v{version} is cut short")
        try:
            return self._call(endpoint, context, request)
        except Uncommitted as uncommitted:
            request = endpoint.read(memoryview(bytearray(frame)), body, version)[0]  # the frame itself is soon another
            return self._call_again(endpoint, context, request, uncommitted)

    def _load(self, api_key: int) -> Endpoint:
        if api_key not in SPECS:
            raise FrameError(f"API key {api_key} is unknown")
        endpoint = self._endpoints[api_key] = Endpoint(ApiKey(api_key))
        return endpoint

    def _call(self, endpoint: Endpoint, context: RequestContext, request: Any) -> Pieces | PendingReply | None:
        reply = self._serve(endpoint, context, request)
        if reply is None:
            return None
        if isinstance(reply, Parked):
            if reply.answered:
                return encode_response(endpoint, context, reply.reply)
            return PendingReply(reply, endpoint, context)
        return encode_response(endpoint, context, reply)

    def _serve(self, endpoint: Endpoint, context: RequestContext, request: Any) -> Any:
        """What the handler says; a `Parked` is in the purgatory unless it has its answer."""
        purgatory = self.broker.purgatory
        purgatory.commits.clear()
        try:
            reply = endpoint.handler(self.broker, context, request)
        except (FrameError, Uncommitted):
            raise
        except Exception as error:
            reply = _failure(endpoint, context, request, error)
        if purgatory.commits and reply is not None:
            reply = self._when_committed(endpoint, context, request, reply)
        if isinstance(reply, Parked) and not reply.done:
            _guard(reply, endpoint, context, request)
            purgatory.park(reply)
        return reply

    def _when_committed(self, endpoint: Endpoint, context: RequestContext, request: Any, reply: Any) -> Parked:
        """The answer goes when the records that it rests on are on disk, or says that they are not."""
        parked = reply if isinstance(reply, Parked) else Parked(None)
        commits = list(self.broker.purgatory.commits)
        parked.hold(len(commits))
        if parked is not reply:
            parked.complete(reply)

        def committed(error: OSError | None) -> None:
            parked.let_go(None if error is None else _refused_by_disk(endpoint, context, request))

        for commit in commits:
            commit(committed)
        return parked

    def _call_again(
        self, endpoint: Endpoint, context: RequestContext, request: Any, uncommitted: Uncommitted
    ) -> Pieces | PendingReply:
        parked = Parked(None)

        def again(error: OSError | None) -> None:
            try:
                if error is not None:
                    reply = _refused_by_disk(endpoint, context, request)
                else:
                    reply = self._serve(endpoint, context, request)
            except FrameError as refused:
                reply = _NoAnswer(refused)
            except Uncommitted as still:
                still.commit(again)
                return
            if isinstance(reply, Parked) and not reply.answered:
                reply.on_reply = parked.complete
            else:
                parked.complete(reply.reply if isinstance(reply, Parked) else reply)

        uncommitted.commit(again)
        if parked.answered:  # the log is lost, and that is known at once
            return encode_response(endpoint, context, parked.reply)
        return PendingReply(parked, endpoint, context)


def _failure(endpoint: Endpoint, context: RequestContext, request: Any, error: Exception) -> Any:
    """The answer to a request whose handler raised."""
    if isinstance(error, ApiError):
        code, message = error.code, error.message
    else:
        log.error("a defect while serving %s: %r", endpoint.api_key.name, context, exc_info=error)
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
    return whole_request_failure(endpoint.response_type, code, message, request, context.api_version)


def _refused_by_disk(endpoint: Endpoint, context: RequestContext, request: Any) -> Any:
    """The answer where what it rests on could not be synced: a coordinator's log, the metadata, or a partition."""
    code = ErrorCode.KAFKA_STORAGE_ERROR if endpoint.api_key in _NOT_OF_COORDINATORS else ErrorCode.NOT_COORDINATOR
    try:
        return _failure(endpoint, context, request, ApiError(code))
    except FrameError as refused:
        return _NoAnswer(refused)


class _NoAnswer:
    """Stands for an answer that there is not: whoever waits for it has its connection closed."""

    __slots__ = ("_error",)

    def __init__(self, error: FrameError) -> None:
        self._error = error

    def write(self, version: int, w: Callable[[Any], object]) -> None:
        raise self._error


def _guard(parked: Parked, endpoint: Endpoint, context: RequestContext, request: Any) -> None:
    """What a parked request raises later is its own answer, not the trouble of whoever woke it."""

    def guarded(step: Callable[[int], Any]) -> Callable[[int], Any]:
        def take(now: int) -> Any:
            try:
                return step(now)
            except FrameError as error:
                return _NoAnswer(error)
            except Exception as error:
                try:
                    return _failure(endpoint, context, request, error)
                except FrameError as refused:
                    return _NoAnswer(refused)

        return take

    if parked.poll is not None:
        parked.poll = guarded(parked.poll)
    if parked.expire is not None:
        parked.expire = guarded(parked.expire)


def encode_response(endpoint: Endpoint, context: RequestContext, reply: Any) -> Pieces:
    """Length prefix, header and body as pieces."""
    version = context.api_version if endpoint.min_version <= context.api_version <= endpoint.max_version else 0
    pieces: Pieces = [b""]
    if version >= endpoint.response_flexible_from:
        pieces.append(b"\x00")
    try:
        reply.write(version, pieces.append)
    except EncodeError:
        log.exception("a defect: the answer to %s can't be written: %r", endpoint.api_key.name, context)
        raise FrameError(f"no answer to {endpoint.api_key.name}") from None
    pieces[0] = _SIZE_AND_CORRELATION.pack(4 + sum(map(len, pieces)), context.correlation_id)
    return pieces


def _read_header_tail(frame: memoryview, endpoint: Endpoint, version: int) -> tuple[str | None, int]:
    """Client id and tagged fields of the request header; returns the client id and where the body starts."""
    if endpoint.header_v0 and version == 0:
        return None, 8
    try:
        (length,) = _CLIENT_ID_LENGTH.unpack_from(frame, 8)
        position = 10 + max(length, 0)
        if position > len(frame) or length < -1:
            raise FrameError(f"client id of {length} bytes in a request of {len(frame)}")
        client_id = None if length < 0 else str(frame[10:position], "utf-8")
        if version >= endpoint.flexible_from:
            position = _skip_tagged_fields(frame, position)
    except (StructError, UnicodeDecodeError, DecodeError) as error:
        raise FrameError(f"the header of a {endpoint.api_key.name} request does not decode: {error}") from None
    return client_id, position


def _skip_tagged_fields(frame: memoryview, position: int) -> int:
    if position < len(frame) and frame[position] == 0:
        return position + 1
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        _tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
        if position > len(frame):
            raise FrameError(f"a tagged field of {size} bytes in a request of {len(frame)}")
    return position


__all__ = ["Endpoint", "PendingReply", "Pieces", "Router", "encode_response", "handles", "served_versions"]
