"""Envelope v0 (KIP-590): requests of clients that a broker forwards, since only a controller decides.

Behaviour: the request inside is served as if the client had sent it, with its own header, and the answer has the header
that the client expects. The broker needs the right CLUSTER_ACTION, and is believed about the client's principal and
address. PRINCIPAL_DESERIALIZATION_FAILURE if the principal can't be read, INVALID_REQUEST if the address can't be read
or the API is never forwarded, UNSUPPORTED_VERSION if version or body can't be read.
"""

from __future__ import annotations

import struct

from pykafka_broker.addresses import java_address
from pykafka_broker.broker.requests.context import ConnectionContext, RequestContext
from pykafka_broker.broker.requests.controller_routes import CONTROLLERS, FORWARDED
from pykafka_broker.broker.requests.router import PendingReply, handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer
from pykafka_broker.errors import ApiError, FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.default_principal_data import DefaultPrincipalData
from pykafka_broker.protocol.messages.envelope_request import EnvelopeRequest
from pykafka_broker.protocol.messages.envelope_response import EnvelopeResponse
from pykafka_broker.protocol.runtime import DecodeError, Pieces

_VERSION = struct.Struct(">h")
_LENGTH_PREFIX = 4
_NO_PORT = 0


@handles(ApiKey.ENVELOPE, CONTROLLERS)
def envelope(services: Services, context: RequestContext, request: EnvelopeRequest) -> Answer[EnvelopeResponse]:
    services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    client = _client_of(context.connection, request)
    frame = memoryview(bytes(request.request_data))
    if len(frame) < _VERSION.size or _VERSION.unpack_from(frame)[0] not in FORWARDED:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    try:
        answer = services.active_controller.dispatch(client, frame)
    except FrameError:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION) from None
    if not isinstance(answer, PendingReply):
        return _sealed(answer or [])
    return answer.future.settled().then(lambda _: _answer_of(answer))


def _answer_of(answer: PendingReply) -> EnvelopeResponse:
    try:
        return _sealed(answer.pieces())
    except FrameError:
        return EnvelopeResponse(None, ErrorCode.UNKNOWN_SERVER_ERROR)


def _sealed(answer: Pieces) -> EnvelopeResponse:
    return EnvelopeResponse(b"".join(bytes(piece) for piece in answer)[_LENGTH_PREFIX:])


def _client_of(broker: ConnectionContext, request: EnvelopeRequest) -> ConnectionContext:
    """Return the connection of the client behind a broker. Raises ApiError if name or address can't be read."""
    try:
        principal = request.request_principal or b""
        version = _VERSION.unpack_from(principal)[0]
        told = DefaultPrincipalData.decode(memoryview(principal)[_VERSION.size :], version)
    except (DecodeError, struct.error, LookupError):
        raise ApiError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE) from None
    try:
        host = java_address(bytes(request.client_host_address))
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST) from None
    local = broker.local_host, broker.local_port
    client = ConnectionContext(broker.id, broker.listener, local, (host, _NO_PORT), f"{told.type}:{told.name}")
    client.by_token = told.token_authenticated
    client.forwarded = True
    client.network_ns = 0  # the socket is the broker's: its time is not the client's
    return client
