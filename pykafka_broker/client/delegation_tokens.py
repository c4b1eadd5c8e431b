"""Delegation tokens: made, renewed, ended, listed.

Rule: the hash of a token is its password; it is in no text that this module makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pykafka_broker.client.acls import split_principal
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import check
from pykafka_broker.protocol.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from pykafka_broker.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from pykafka_broker.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from pykafka_broker.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest

_HIGHEST = 3  # of CreateDelegationToken
_FOR_OTHERS = 3  # since when it may be for another owner (KIP-373)


class Token(NamedTuple):
    """One of them; times are in milliseconds since the epoch."""

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: list[str]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def __repr__(self) -> str:
        return f"Token({self.token_id}, owner={self.owner})"


async def create_token(client: Client, owner: str | None, renewers: Sequence[str], max_lifetime_ms: int) -> Token:
    """owner: of whom it shall be, None for who asks. Raises ClientError."""
    renewing = [CreatableRenewers(*split_principal(each)) for each in renewers]
    request = CreateDelegationTokenRequest(renewers=renewing, max_lifetime_ms=max_lifetime_ms)
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = split_principal(owner)
    versions = None if owner is None else (_FOR_OTHERS, _HIGHEST)
    made = await client.ask_controller(request, call="createDelegationToken", versions=versions, repeatable=False)
    check(made.error_code)
    whose = f"{made.principal_type}:{made.principal_name}"
    requester = f"{made.token_requester_principal_type}:{made.token_requester_principal_name}"
    times = made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms
    asked_by = whose if requester == ":" else requester  # before KIP-373 it is always the owner
    return Token(made.token_id, bytes(made.hmac), whose, asked_by, list(renewers), *times)


async def renew_token(client: Client, hmac: bytes, period_ms: int) -> int:
    """When it ends now. Raises ClientError."""
    answer = await client.ask_controller(RenewDelegationTokenRequest(hmac, period_ms), call="renewDelegationToken")
    check(answer.error_code)
    return int(answer.expiry_timestamp_ms)


async def expire_token(client: Client, hmac: bytes, period_ms: int) -> int:
    """When it ends now. Raises ClientError."""
    answer = await client.ask_controller(ExpireDelegationTokenRequest(hmac, period_ms), call="expireDelegationToken")
    check(answer.error_code)
    return int(answer.expiry_timestamp_ms)


async def describe_tokens(client: Client, owners: Sequence[str]) -> list[Token]:
    """Those of these owners that one may see. Raises ClientError."""
    request = DescribeDelegationTokenRequest([DescribeDelegationTokenOwner(*split_principal(each)) for each in owners])
    answer = await client.ask(request, call="describeDelegationToken")
    check(answer.error_code)
    found = []
    for each in answer.tokens:
        owner = f"{each.principal_type}:{each.principal_name}"
        requester = f"{each.token_requester_principal_type}:{each.token_requester_principal_name}"
        renewers = [f"{one.principal_type}:{one.principal_name}" for one in each.renewers]
        times = each.issue_timestamp, each.expiry_timestamp, each.max_timestamp
        asked_by = owner if requester == ":" else requester
        found.append(Token(each.token_id, bytes(each.hmac), owner, asked_by, renewers, *times))
    return found
