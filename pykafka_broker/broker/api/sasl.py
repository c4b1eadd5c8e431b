"""SaslHandshake v0-v1 and SaslAuthenticate v0-v2 (KIP-43, KIP-152, KIP-368).

Behaviour: both are steps of the connection's exchange (`security/sasl/exchange.py`). On a listener without
authentication both say ILLEGAL_SASL_STATE, and the connection stays open: a client that was set up for SASL by mistake
reads what is wrong, instead of losing its connection.
Versions: 1 of the handshake has its tokens wrapped in SaslAuthenticate; 1 of SaslAuthenticate tells the session's
lifetime.
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
        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, "this listener does not authenticate clients")
    return login.authenticate(request.auth_bytes, context.api_version)
