"""`kafka-delegation-tokens`.

Rule: a token's hash is printed only where Kafka's tool prints it too: it is what the user came for.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pykafka_broker.client.acls import split_principal
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.delegation_tokens import Token, create_token, describe_tokens, expire_token, renew_token
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.properties import long
from pykafka_broker.tools.frame import Tool, ToolParser, UsageError
from pykafka_broker.tools.usage import never_with, required

SUMMARY = "create, renew, expire and describe delegation tokens"
_ROW = "{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"
_OTHERS = {
    "create": ("hmac", "renew_time_period", "expiry_time_period"),
    "renew": ("renewer_principal", "max_life_time_period", "expiry_time_period", "owner_principal"),
    "expire": ("renewer_principal", "max_life_time_period", "renew_time_period", "owner_principal"),
    "describe": ("renew_time_period", "expiry_time_period", "hmac", "max_life_time_period"),
}


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.add_argument("--create", action="store_true", help="make a token")
    parser.add_argument("--renew", action="store_true", help="let a token live longer")
    parser.add_argument("--expire", action="store_true", help="end a token, at once or later")
    parser.add_argument("--describe", action="store_true", help="list tokens")
    parser.add_argument("--owner-principal", action="append", metavar="PRINCIPAL", help="owner, as User:name")
    parser.add_argument("--renewer-principal", action="append", metavar="PRINCIPAL", help="who may renew it")
    parser.add_argument(
        "--max-life-time-period", type=long, metavar="MS", help="how long it may live; -1: as configured"
    )
    parser.add_argument("--renew-time-period", type=long, metavar="MS", help="for how long; -1: as configured")
    parser.add_argument("--expiry-time-period", type=long, metavar="MS", help="when it shall end; -1: now")
    parser.add_argument("--hmac", metavar="BASE64", help="the hash of the token")


async def run(tool: Tool) -> int:
    chosen = tool.options
    actions = [each for each in _OTHERS if getattr(chosen, each)]
    if len(actions) != 1:
        raise UsageError("Command must include exactly one action: --create, --renew, --expire or --describe")
    required(tool, "bootstrap_server", "command_config")
    never_with(tool, actions[0], *_OTHERS[actions[0]])
    if actions[0] == "create":
        required(tool, "max_life_time_period")
    elif actions[0] != "describe":
        required(tool, "hmac", {"renew": "renew_time_period", "expire": "expiry_time_period"}[actions[0]])
    for each in (*(chosen.owner_principal or ()), *(chosen.renewer_principal or ())):
        split_principal(each)
    async with tool.connect() as client:
        await {"create": _create, "renew": _renew, "expire": _expire, "describe": _describe}[actions[0]](tool, client)
    return 0


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


async def _renew(tool: Tool, client: Client) -> None:
    hmac, period_ms = tool.options.hmac, tool.options.renew_time_period
    tool.print(f"Calling renew token operation with hmac :{hmac} , renew-time-period :{period_ms}")
    ends_ms = await renew_token(client, _bytes(hmac), period_ms)
    tool.print(f"Completed renew operation. New expiry date : {_date(ends_ms)}")
    tool.result = {"expires_ms": ends_ms}


async def _expire(tool: Tool, client: Client) -> None:
    hmac, period_ms = tool.options.hmac, tool.options.expiry_time_period
    tool.print(f"Calling expire token operation with hmac :{hmac} , expire-time-period :{period_ms}")
    ends_ms = await expire_token(client, _bytes(hmac), period_ms)
    tool.print(f"Completed expire operation. New expiry date : {_date(ends_ms)}")
    tool.result = {"expires_ms": ends_ms}


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
    """As `--json` shows it."""
    return token._asdict() | {"hmac": base64.b64encode(token.hmac).decode()}


def _listed(principals: Sequence[str]) -> str:
    return f"[{', '.join(principals)}]"


def _date(ms: int) -> str:
    """To the minute, in local time, as Kafka's tool shows it."""
    return datetime.fromtimestamp(ms / 1000).isoformat(timespec="minutes")


def _bytes(hmac: str) -> bytes:
    """Raises ClientError, which does not repeat it."""
    try:
        return base64.b64decode(hmac, validate=True)
    except (binascii.Error, ValueError):
        raise ClientError("--hmac is no base64") from None
