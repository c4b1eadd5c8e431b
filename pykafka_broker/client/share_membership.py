"""A member of a share group (KIP-932): it is told which partitions it may read."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, check
from pykafka_broker.client.membership import Line
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

_LEAVING = -1
_FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
_ELSEWHERE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
_VERSIONS = (1, 1)


class ShareMember:
    """By ShareGroupHeartbeat. on_assigned: is told all partitions that it has from now on."""

    def __init__(
        self, client: Client, group_id: str, topics: list[str], on_assigned: Callable[[set[TopicPartition]], None]
    ) -> None:
        self.member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self.topic_ids: dict[str, bytes] = {}
        self._client = client
        self._group_id = group_id
        self._topics = topics
        self._on_assigned = on_assigned
        self._line = Line(client, group_id)
        self._epoch = 0

    async def run(self) -> None:
        """Until it is cancelled. Raises Refused for what does not pass."""
        while True:
            topics = sorted(self._topics) if self._epoch == 0 else None
            request = ShareGroupHeartbeatRequest(
                self._group_id, self.member_id, self._epoch, self._client.properties.get("client.rack"), topics
            )
            answer = await self._line.ask(request, self._client.request_timeout_ms, _VERSIONS)
            if answer is None or answer.error_code in _ELSEWHERE:
                self._line.moved()
                await asyncio.sleep(self._client.backoff_ms / 1000)
                continue
            if answer.error_code in _FENCED:
                self._epoch = 0
                self._on_assigned(set())
                continue
            check(answer.error_code, answer.error_message)
            self._epoch = answer.member_epoch
            if answer.assignment is not None:
                self._on_assigned(await self._partitions(answer.assignment))
            await asyncio.sleep(answer.heartbeat_interval_ms / 1000)

    async def _partitions(self, assignment: Any) -> set[TopicPartition]:
        if not {each.topic_id for each in assignment.topic_partitions} <= set(self.topic_ids.values()):
            answer = await self._client.metadata(self._topics)
            self.topic_ids = {each.name: each.topic_id for each in answer.topics if each.name}
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        return {
            TopicPartition(names[each.topic_id], index)
            for each in assignment.topic_partitions
            for index in each.partitions
            if each.topic_id in names
        }

    async def leave(self) -> None:
        if self._epoch > 0:
            request = ShareGroupHeartbeatRequest(self._group_id, self.member_id, _LEAVING)
            with suppress(ClientError):  # it will be missed soon
                await self._line.ask(request, 5_000, _VERSIONS)
            self._epoch = 0
