"""SaslHandshake v0-v1 and SaslAuthenticate v0-v2 on listeners that ask for no authentication.

Behaviour: both say ILLEGAL_SASL_STATE, and the connection goes on: a client that was set up for SASL by mistake learns
what is wrong, instead of seeing its connection end (KIP-43, KIP-152).
Versions: 1 of the handshake has its tokens wrapped in SaslAuthenticate; they make no difference here.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from pykafka_broker.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from pykafka_broker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from pykafka_broker.protocol.messages.sasl_handshake_response import SaslHandshakeResponse


@handles(ApiKey.SASL_HANDSHAKE)
def sasl_handshake(services: Services, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)


@handles(ApiKey.SASL_AUTHENTICATE)
def sasl_authenticate(
    services: Services, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        ErrorCode.ILLEGAL_SASL_STATE, "this listener authenticates nobody, so there is nothing to go on with"
    )
