"""Requests of clients on their way to the controller (KIP-590).

Rule: a request goes as it came, with its own header, the client's principal and address; the answer is the
controller's. Requests from inside the process go as this node's own. The client waits no longer than the request
allows. Imported by a broker whose controllers are other nodes; nodes alone never need the envelope.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.cluster.authorizer import INSIDE
from pykafka_broker.errors import ApiError
from pykafka_broker.peers import LinkError, NotServed, OnReply
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.default_principal_data import DefaultPrincipalData
from pykafka_broker.protocol.messages.envelope_request import EnvelopeRequest
from pykafka_broker.protocol.messages.envelope_response import EnvelopeResponse
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.messages.response_header import ResponseHeader
from pykafka_broker.protocol.runtime import DecodeError, Message, Pieces

_PRINCIPAL_VERSION = Struct(">h")
_TIMEOUT_MS = 30_000  # where the request has none of its own
Ask = Callable[[Message, OnReply, int], None]


def forward(ask: Ask, context: RequestContext, request: Message) -> Future[Message]:
    """Return the controller's answer."""
    answer: Future[Message] = Future()
    asked_ms = getattr(request, "timeout_ms", 0)
    timeout_ms = asked_ms if asked_ms > 0 else _TIMEOUT_MS
    if context.connection.principal == INSIDE:
        ask(request, lambda reply: _arrive(answer, _own_answer(reply)), timeout_ms)
    else:
        ask(sealed(context, request), lambda reply: _arrive(answer, _answer_in(context, reply)), timeout_ms)
    return answer


def _arrive(future: Future[Message], answer: Message | ApiError) -> None:
    if isinstance(answer, ApiError):
        future.fail(answer)
    else:
        future.complete(answer)


def sealed(context: RequestContext, request: Message) -> EnvelopeRequest:
    """Return the request in an envelope: with its header, the client's principal and address."""

    spec, version, connection = SPECS[context.api_key], context.api_version, context.connection
    pieces: Pieces = []
    header = RequestHeader(context.api_key, version, context.correlation_id, context.client_id)
    header.write(spec.request_header_version(version), pieces.append)
    request.write(version, pieces.append)
    kind, _, name = connection.principal.partition(":")
    principal = DefaultPrincipalData(kind, name, connection.by_token)
    import ipaddress  # 0.3 MB that a broker without clients does without

    address = ipaddress.ip_address(connection.client_host.partition("%")[0]).packed
    return EnvelopeRequest(b"".join(pieces), _PRINCIPAL_VERSION.pack(0) + principal.encode(0), address)


def _own_answer(reply: Message | LinkError) -> Message | ApiError:
    if isinstance(reply, LinkError):
        served = not isinstance(reply, NotServed)
        return ApiError(ErrorCode.REQUEST_TIMED_OUT if served else ErrorCode.UNSUPPORTED_VERSION)
    return reply


def _answer_in(context: RequestContext, reply: Message | LinkError) -> Message | ApiError:
    envelope = _own_answer(reply)
    if isinstance(envelope, ApiError):
        return envelope
    assert isinstance(envelope, EnvelopeResponse)
    if envelope.error_code == ErrorCode.UNSUPPORTED_VERSION:
        return ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if envelope.error_code or envelope.response_data is None:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    spec, version = SPECS[context.api_key], context.api_version
    try:
        _, body = ResponseHeader.read(envelope.response_data, 0, spec.response_header_version(version))
        return spec.response_class().decode(memoryview(envelope.response_data)[body:], version)
    except DecodeError:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
