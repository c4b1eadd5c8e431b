"""Members of share groups that only say that they are there: no client library of Python has such."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from pykafka_broker.client.cluster import Client
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

LEAVES = -1
_SETTLES_S = 20.0


def join_share_group(bootstrap: str, group: str, member_id: str, topics: Iterable[str]) -> None:
    """Until the member has its partitions; it stays as long as a session lasts."""
    asyncio.run(_join(bootstrap, group, member_id, sorted(topics)))


def leave_share_group(bootstrap: str, group: str, member_id: str) -> None:
    asyncio.run(_beat(bootstrap, ShareGroupHeartbeatRequest(group, member_id, LEAVES)))


async def _join(bootstrap: str, group: str, member_id: str, topics: list[str]) -> None:
    epoch = 0
    async with asyncio.timeout(_SETTLES_S):
        while True:
            named = topics if epoch == 0 else None
            answer = await _beat(bootstrap, ShareGroupHeartbeatRequest(group, member_id, epoch, None, named))
            epoch = answer.member_epoch
            if answer.assignment is not None and answer.assignment.topic_partitions:
                return
            await asyncio.sleep(0.1)


async def _beat(bootstrap: str, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    async with Client(bootstrap, client_id="reader") as client:
        answer: ShareGroupHeartbeatResponse = await client.ask_group(request.group_id, request)
        return answer
