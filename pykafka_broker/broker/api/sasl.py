"""SaslHandshake v0-v1 and SaslAuthenticate v0-v2 (KIP-43, KIP-152, KIP-368).

Behaviour: they are steps of the connection's exchange (`security/sasl/exchange.py`). On a listener that asks for no
authentication both say ILLEGAL_SASL_STATE, and the connection goes on: a client that was set up for SASL by mistake
learns what is wrong, instead of seeing its connection end.
Versions: 1 of the handshake has its tokens wrapped in SaslAuthenticate; 1 of that tells how long the session lasts.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from pykafka_broker.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from pykafka_broker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from pykafka_broker.protocol.messages.sasl_handshake_response import SaslHandshakeResponse


@handles(ApiKey.SASL_HANDSHAKE)
def sasl_handshake(services: Services, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    login = context.connection.login
    if login is None:
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
    return login.handshake(request.mechanism, context.api_version)


@handles(ApiKey.SASL_AUTHENTICATE)
def sasl_authenticate(
    services: Services, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    login = context.connection.login
    if login is None:
        return SaslAuthenticateResponse(
            ErrorCode.ILLEGAL_SASL_STATE, "this listener authenticates nobody, so there is nothing to go on with"
        )
    return login.authenticate(request.auth_bytes, context.api_version)
