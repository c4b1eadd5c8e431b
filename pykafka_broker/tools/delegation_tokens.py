"""`kafka-delegation-tokens`.

Rule: the HMAC of a token is its password. The HMAC is printed only where Kafka's tool prints it too, since the user
asked for it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pykafka_broker.client.acls import split_principal
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, check
from pykafka_broker.client.properties import long
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
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError

# -- tokens


_HIGHEST = 3  # version of CreateDelegationToken
_CALENDAR_CYCLE_MS = 146_097 * 86_400_000  # 400 years, after which the calendar repeats
_FOR_OTHERS = 3  # the first version with another owner (KIP-373)


class Token(NamedTuple):
    """A delegation token; times are milliseconds since the epoch."""

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
    """Create a token. owner: None for the user of the connection. Raises ClientError."""
    renewing = [CreatableRenewers(*split_principal(each)) for each in renewers]
    request = CreateDelegationTokenRequest(renewers=renewing, max_lifetime_ms=max_lifetime_ms)
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = split_principal(owner)
    versions = None if owner is None else (_FOR_OTHERS, _HIGHEST)
    made = await client.ask_controller(request, call="createDelegationToken", versions=versions, repeatable=False)
    check(made.error_code)
    times = made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms
    return Token(made.token_id, bytes(made.hmac), *_owner_and_requester(made), list(renewers), *times)


def _owner_and_requester(told: Any) -> tuple[str, str]:
    """Return both principals; a broker before KIP-373 names no requester, which is always the owner."""
    owner = f"{told.principal_type}:{told.principal_name}"
    requester = f"{told.token_requester_principal_type}:{told.token_requester_principal_name}"
    return owner, owner if requester == ":" else requester


async def describe_tokens(client: Client, owners: Sequence[str]) -> list[Token]:
    """Return the visible tokens of the owners, or of all owners for none. Raises ClientError."""
    request = DescribeDelegationTokenRequest([DescribeDelegationTokenOwner(*split_principal(each)) for each in owners])
    answer = await client.ask(request, call="describeDelegationToken")
    check(answer.error_code)
    found = []
    for each in answer.tokens:
        renewers = [f"{one.principal_type}:{one.principal_name}" for one in each.renewers]
        times = each.issue_timestamp, each.expiry_timestamp, each.max_timestamp
        found.append(Token(each.token_id, bytes(each.hmac), *_owner_and_requester(each), renewers, *times))
    return found


# -- the tool


_ROW = "{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"
# The flags that an action refuses.
_NEVER_WITH = {
    "create": ("hmac", "renew_time_period", "expiry_time_period"),
    "renew": ("renewer_principal", "max_life_time_period", "expiry_time_period", "owner_principal"),
    "expire": ("renewer_principal", "max_life_time_period", "renew_time_period", "owner_principal"),
    "describe": ("renew_time_period", "expiry_time_period", "hmac", "max_life_time_period"),
}
# The request of an action about a known token, and the flag with its time.
_CHANGES: dict[str, tuple[Callable[[bytes, int], Message], str]] = {
    "renew": (RenewDelegationTokenRequest, "renew_time_period"),
    "expire": (ExpireDelegationTokenRequest, "expiry_time_period"),
}


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.option("--create", "create a token")
    parser.option("--renew", "extend the life of a token")
    parser.option("--expire", "end a token, at once or later")
    parser.option("--describe", "list tokens")
    parser.option("--owner-principal PRINCIPAL ...", "owner, as User:name")
    parser.option("--renewer-principal PRINCIPAL ...", "who may renew it")
    parser.option("--max-life-time-period MS", "longest life of the token; -1: as configured", type=long)
    parser.option("--renew-time-period MS", "how long to extend it; -1: as configured", type=long)
    parser.option("--expiry-time-period MS", "time until the token expires; -1: none", type=long)
    parser.option("--hmac BASE64", "the hash of the token")


async def run(tool: Tool) -> None:
    chosen = tool.options
    actions = [each for each in _NEVER_WITH if getattr(chosen, each)]
    if len(actions) != 1:
        raise ToolUsageError("Command must include exactly one action: --create, --renew, --expire or --describe")
    action = actions[0]
    tool.required("bootstrap_server", "command_config")
    tool.never_with(action, *_NEVER_WITH[action])
    if action == "create":
        tool.required("max_life_time_period")
    elif action in _CHANGES:
        tool.required("hmac", _CHANGES[action][1])
    for each in (*(chosen.owner_principal or ()), *(chosen.renewer_principal or ())):
        split_principal(each)
    async with tool.connect() as client:
        if action in _CHANGES:
            await _change(tool, client, action)
        else:
            await {"create": _create, "describe": _describe}[action](tool, client)


async def _create(tool: Tool, client: Client) -> None:
    renewers, lifetime_ms = tool.options.renewer_principal or [], tool.options.max_life_time_period
    owner = (tool.options.owner_principal or [None])[0]
    tool.print(
        f"Calling create token operation with renewers :{_listed(renewers)} , max-life-time-period :{lifetime_ms}"
    )
    token = await create_token(client, owner, renewers, lifetime_ms)
    tool.print(f"Created delegation token with tokenId : {token.token_id}")
    _show(tool, [token])
    tool.result = _plain(token)


async def _change(tool: Tool, client: Client, word: str) -> None:
    kind, flag = _CHANGES[word]
    hmac, period_ms = tool.options.hmac, getattr(tool.options, flag)
    tool.print(f"Calling {word} token operation with hmac :{hmac} , {word}-time-period :{period_ms}")
    answer = await client.ask_controller(kind(_bytes(hmac), period_ms), call=f"{word}DelegationToken")
    check(answer.error_code)
    tool.print(f"Completed {word} operation. New expiry date : {_date(answer.expiry_timestamp_ms)}")
    tool.result = {"expires_ms": answer.expiry_timestamp_ms}


async def _describe(tool: Tool, client: Client) -> None:
    owners = tool.options.owner_principal or []
    whose = f"owners: {_listed(owners)}" if owners else "current user."
    tool.print(f"Calling describe token operation for {whose}")
    tokens = await describe_tokens(client, owners)
    tool.print(f"Total number of tokens : {len(tokens)}")
    _show(tool, tokens)
    tool.result = [_plain(each) for each in tokens]


def _show(tool: Tool, tokens: Sequence[Token]) -> None:
    tool.print()
    tool.print(_ROW.format("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE"))
    for each in tokens:
        times = map(_date, (each.issued_ms, each.expires_ms, each.max_ms))
        who = each.owner, each.requester, _listed(each.renewers)
        tool.print(_ROW.format(each.token_id, base64.b64encode(each.hmac).decode(), *who, *times))


def _plain(token: Token) -> dict[str, Any]:
    """Return a token in the form of `--json`: the HMAC in base64."""
    return token._asdict() | {"hmac": base64.b64encode(token.hmac).decode()}


def _listed(principals: Sequence[str]) -> str:
    return f"[{', '.join(principals)}]"


def _date(ms: int) -> str:
    """Return a time to the minute, in local time, as Kafka's tool prints times; a year may have five digits or more."""
    cycles, rest_ms = divmod(ms, _CALENDAR_CYCLE_MS)
    moment = datetime.fromtimestamp(rest_ms // 1000)
    return f"{moment.year + 400 * cycles:04}-{moment:%m-%dT%H:%M}"


def _bytes(hmac: str) -> bytes:
    """Decode an HMAC. Raises ClientError, without the HMAC in the text."""
    try:
        return base64.b64decode(hmac, validate=True)
    except (binascii.Error, ValueError):
        raise ClientError("--hmac is no base64") from None
