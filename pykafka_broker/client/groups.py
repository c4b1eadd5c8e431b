"""Groups of all kinds, as each broker lists those that it coordinates."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import TimedOut, check
from pykafka_broker.protocol.messages.list_groups_request import ListGroupsRequest
from pykafka_broker.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse


async def list_groups(client: Client, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """Those in one of these states and of one of these types, by id. Raises Refused: states can be asked for since
    Kafka 2.6, types since 3.8.
    """
    try:
        await client.refresh(call="listGroups")
    except TimedOut:
        raise TimedOut("Failed to find brokers to send ListGroups") from None
    answers = await asyncio.gather(*(_of_one(client, node, states, types) for node in sorted(client.nodes)))
    found: dict[str, ListedGroup] = {}
    for answer in answers:
        check(answer.error_code)
        for group in answer.groups:
            found.setdefault(group.group_id, group)
    return [found[group_id] for group_id in sorted(found)]


async def _of_one(client: Client, node: int, states: Sequence[str], types: Sequence[str]) -> ListGroupsResponse:
    async def once() -> ListGroupsResponse:
        answer: ListGroupsResponse = await client.ask(
            ListGroupsRequest(list(states), list(types)), node, call="listGroups"
        )
        return answer

    found: ListGroupsResponse = await client.while_transient(once, lambda answer: int(answer.error_code))
    return found
