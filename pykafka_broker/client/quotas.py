"""Quotas of users, clients and addresses (KIP-546).

Rule: an entity is a type and a name for each of its parts, in Kafka's words: `user`, `client-id`, `ip`; the name None
is the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import check
from pykafka_broker.protocol.enums import QuotaMatch
from pykafka_broker.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from pykafka_broker.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest


class Quotas(NamedTuple):
    """Of one entity: its parts, and the values of its quotas."""

    entity: dict[str, str | None]
    values: dict[str, float]


async def describe_quotas(client: Client, parts: Sequence[tuple[str, QuotaMatch, str | None]]) -> list[Quotas]:
    """Of entities that have exactly these parts. Raises Refused."""
    request = DescribeClientQuotasRequest([ComponentData(*each) for each in parts], strict=True)
    answer = await client.ask(request, call="describeClientQuotas")
    check(answer.error_code, answer.error_message)
    return [
        Quotas(
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: value.value for value in sorted(each.values, key=lambda value: value.key)},
        )
        for each in answer.entries or []
    ]


async def alter_quotas(client: Client, entity: Mapping[str, str | None], changes: Mapping[str, float | None]) -> None:
    """None removes one. Raises Refused."""
    parts = [EntityData(kind, name) for kind, name in entity.items()]
    ops = [OpData(key, 0.0 if value is None else value, value is None) for key, value in changes.items()]
    request = AlterClientQuotasRequest([EntryData(parts, ops)])
    answer = await client.ask_controller(request, call="alterClientQuotas")
    for each in answer.entries:
        check(each.error_code, each.error_message)
