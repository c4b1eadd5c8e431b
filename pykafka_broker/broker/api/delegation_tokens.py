"""CreateDelegationToken, DescribeDelegationToken v0-v3, RenewDelegationToken, ExpireDelegationToken v0-v2 (KIP-48).

Behaviour: a token is for a client that has said who it is, and on a listener without authentication none has:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, whatever was asked for. Versions: 3 names the requester too (KIP-373).
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from pykafka_broker.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from pykafka_broker.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from pykafka_broker.protocol.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from pykafka_broker.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from pykafka_broker.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from pykafka_broker.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from pykafka_broker.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse

_REQUESTER_FROM = 3
_NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@handles(ApiKey.CREATE_DELEGATION_TOKEN)
def create_delegation_token(
    services: Services, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    kind, _, name = context.connection.principal.partition(":")
    response = CreateDelegationTokenResponse(
        _NOT_ALLOWED,
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    if context.api_version >= _REQUESTER_FROM:
        response.token_requester_principal_type = kind
        response.token_requester_principal_name = name
    return response


@handles(ApiKey.DESCRIBE_DELEGATION_TOKEN)
def describe_delegation_token(
    services: Services, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(_NOT_ALLOWED)


@handles(ApiKey.RENEW_DELEGATION_TOKEN)
def renew_delegation_token(
    services: Services, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(_NOT_ALLOWED, expiry_timestamp_ms=-1)


@handles(ApiKey.EXPIRE_DELEGATION_TOKEN)
def expire_delegation_token(
    services: Services, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(_NOT_ALLOWED, expiry_timestamp_ms=-1)
