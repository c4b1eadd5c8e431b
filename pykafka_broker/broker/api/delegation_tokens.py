"""CreateDelegationToken, DescribeDelegationToken v0-v3, RenewDelegationToken, ExpireDelegationToken v0-v2 (KIP-48).

Behaviour: requests are for clients that have authenticated, and not with a token; other clients are answered
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, whatever they ask for. Owner and renewers may renew and expire a token, without
any ACL. An empty list of owners is answered with no tokens, null with all tokens that the client may see. The times in
a refusal are -1 if this node refuses, and 0 if the controller refuses, as with Kafka. Versions: 3 names the requester
too, and may ask for a token of another owner (KIP-373).
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka_broker.broker.requests.context import ANONYMOUS, RequestContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply, Portions
from pykafka_broker.broker.requests.router import handles, handles_in_steps
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, R, Steps
from pykafka_broker.cluster import delegation_tokens as tokens
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from pykafka_broker.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from pykafka_broker.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from pykafka_broker.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from pykafka_broker.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from pykafka_broker.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from pykafka_broker.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from pykafka_broker.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from pykafka_broker.protocol.stored.delegation_token_record import DelegationTokenRecord
from pykafka_broker.steps import Pace

_REQUESTER_FROM = 3
_THROTTLE_TIME_BYTES = 4  # behind the tokens
_ITEMS_OF_A_TOKEN = 10
_USER = "User"
_NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@handles(ApiKey.CREATE_DELEGATION_TOKEN)
def create_delegation_token(
    services: Services, context: RequestContext, request: CreateDelegationTokenRequest
) -> Answer[CreateDelegationTokenResponse]:
    owner = requester = context.connection.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    code = _refusal_of_creation(services, context, request, owner)
    if code:
        refused = CreateDelegationTokenResponse(
            code, issue_timestamp_ms=-1, expiry_timestamp_ms=-1, max_timestamp_ms=-1
        )
        return _named(refused, context, owner)
    renewers = [f"{_USER}:{each.principal_name}" for each in request.renewers]
    wall = services.clock.wall

    def decide(controller: Controller, context: RequestContext, _: object) -> Decision[CreateDelegationTokenResponse]:
        try:
            made = tokens.create_token(controller, owner, requester, renewers, request.max_lifetime_ms, wall)
        except ApiError as error:
            return Decision([], _named(CreateDelegationTokenResponse(error.code), context, owner))
        token, proof = made.reply
        response = CreateDelegationTokenResponse(
            issue_timestamp_ms=token.issue_timestamp,
            expiry_timestamp_ms=token.expiration_timestamp,
            max_timestamp_ms=token.max_timestamp,
            token_id=token.token_id,
            hmac=proof,
        )
        return Decision(made.records, _named(response, context, owner))

    return services.metadata.submit(context, request, decide)


def _refusal_of_creation(
    services: Services, context: RequestContext, request: CreateDelegationTokenRequest, owner: str
) -> ErrorCode:
    if not _may_ask(services, context):
        return _NOT_ALLOWED
    if request.owner_principal_type is None and request.owner_principal_name:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka, which fails on the missing type
    if owner != context.connection.principal and not services.allows(
        context, AclOperation.CREATE_TOKENS, AclResourceType.USER, owner
    ):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if len(request.renewers) > tokens.MAX_RENEWERS:
        return ErrorCode.INVALID_REQUEST
    if any(renewer.principal_type != _USER for renewer in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return ErrorCode.NONE


def _named(
    response: CreateDelegationTokenResponse, context: RequestContext, owner: str
) -> CreateDelegationTokenResponse:
    """Add the owner to an answer, and the requester where the version has room."""
    response.principal_type, _, response.principal_name = owner.partition(":")
    if context.api_version >= _REQUESTER_FROM:
        kind, _, name = context.connection.principal.partition(":")
        response.token_requester_principal_type, response.token_requester_principal_name = kind, name
    return response


@handles_in_steps(ApiKey.DESCRIBE_DELEGATION_TOKEN)
def describe_delegation_token(
    services: Services, context: RequestContext, request: DescribeDelegationTokenRequest
) -> Steps[DescribeDelegationTokenResponse | EncodedReply]:
    if not _may_ask(services, context):
        return DescribeDelegationTokenResponse(_NOT_ALLOWED)
    secret_key = services.config.delegation_token_secret_key
    if secret_key is None:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = request.owners
    people = None if owners is None else {f"{owner.principal_type}:{owner.principal_name}" for owner in owners}
    response = Portions(DescribeDelegationTokenResponse, "tokens", context.api_version, _THROTTLE_TIME_BYTES)
    pace = Pace()
    for token in list(services.image.delegation_tokens.values()):
        items = _ITEMS_OF_A_TOKEN + len(token.renewers)
        if tokens.is_of(token, people) and _may_see(services, context, token):
            if response.add(_description(token, secret_key, context.api_version >= _REQUESTER_FROM), items):
                yield None
        elif pace.due(items):
            yield None
    return response.response()


def _may_see(services: Services, context: RequestContext, token: DelegationTokenRecord) -> bool:
    return (
        tokens.is_of(token, {context.connection.principal})
        or services.allows(context, AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id)
        or services.allows(context, AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner)
    )


def _description(token: DelegationTokenRecord, secret_key: str, with_requester: bool) -> DescribedDelegationToken:
    kind, _, name = token.owner.partition(":")
    renewers = [DescribedDelegationTokenRenewer(*renewer.split(":", 1)) for renewer in token.renewers]
    described = DescribedDelegationToken(
        kind,
        name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=tokens.token_hmac(secret_key, token.token_id),
        renewers=renewers,
    )
    if with_requester:
        kind, _, name = token.requester.partition(":")
        described.token_requester_principal_type, described.token_requester_principal_name = kind, name
    return described


@handles_in_steps(ApiKey.RENEW_DELEGATION_TOKEN)
def renew_delegation_token(
    services: Services, context: RequestContext, request: RenewDelegationTokenRequest
) -> Steps[Answer[RenewDelegationTokenResponse]]:
    period_ms, response = request.renew_period_ms, RenewDelegationTokenResponse
    return _change_expiry(services, context, request, tokens.renew_token, period_ms, response)


@handles_in_steps(ApiKey.EXPIRE_DELEGATION_TOKEN)
def expire_delegation_token(
    services: Services, context: RequestContext, request: ExpireDelegationTokenRequest
) -> Steps[Answer[ExpireDelegationTokenResponse]]:
    period_ms, response = request.expiry_time_period_ms, ExpireDelegationTokenResponse
    return _change_expiry(services, context, request, tokens.expire_token, period_ms, response)


def _change_expiry(
    services: Services,
    context: RequestContext,
    request: RenewDelegationTokenRequest | ExpireDelegationTokenRequest,
    change: Callable[[Controller, str, bytes, int, int], Decision[int]],
    period_ms: int,
    response: Callable[..., R],
) -> Steps[Answer[R]]:
    """Have the controller decide on a new time of expiry, by `tokens.renew_token` or `tokens.expire_token`."""
    if not _may_ask(services, context):
        return response(_NOT_ALLOWED, expiry_timestamp_ms=-1)
    secret_key = services.config.delegation_token_secret_key
    if secret_key is not None:
        yield from tokens.token_index(services.image, secret_key).learn(bytes(request.hmac))
    wall = services.clock.wall

    def decide(controller: Controller, context: RequestContext, _: object) -> Decision[R]:
        try:
            decision = change(controller, context.connection.principal, request.hmac, period_ms, wall)
        except ApiError as error:
            return Decision([], response(error.code))
        return Decision(decision.records, response(expiry_timestamp_ms=decision.reply))

    return services.metadata.submit(context, request, decide)


def _may_ask(services: Services, context: RequestContext) -> bool:
    """Return whether the client has authenticated, and not with a token."""
    connection = context.connection
    if connection.forwarded:
        return not connection.by_token
    listener = services.listeners.get(connection.listener)
    if listener is None or listener.protocol == "PLAINTEXT" or connection.by_token:
        return False
    return listener.protocol != "SSL" or connection.principal != ANONYMOUS
