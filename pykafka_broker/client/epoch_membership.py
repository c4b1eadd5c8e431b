"""A member of a consumer group by KIP-848's protocol: the group coordinator decides, heartbeats carry everything.

Rule: as `membership`, whose `Holder` it tells; what it gives up is named in the next heartbeat, which then brings what
others gave up for it.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from contextlib import suppress
from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, check
from pykafka_broker.client.group_settings import GroupSettings
from pykafka_broker.client.membership import Holder, Line, Topics
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

_LEAVING, _LEAVING_FOR_A_WHILE = -1, -2
_FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
_ELSEWHERE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class EpochMember:
    """By ConsumerGroupHeartbeat."""

    def __init__(self, client: Client, settings: GroupSettings, topics: Topics, holder: Holder) -> None:
        self.member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self.generation = 0  # its epoch
        self._client = client
        self._settings = settings
        self._topics = topics
        self._holder = holder
        self._line = Line(client, settings.group_id)
        self._held: set[TopicPartition] = set()
        self._names: dict[bytes, str] = {}

    async def run(self) -> None:
        wait_ms, changed, subscribed = 0, True, None
        while True:
            await asyncio.sleep(wait_ms / 1000)
            topics = sorted(await self._topics()) if self.generation == 0 or not changed else subscribed
            answer = await self._beat(topics if topics != subscribed or not self.generation else None, changed)
            if answer is None:
                wait_ms = self._client.backoff_ms
                continue
            if answer.error_code in _FENCED:
                self._holder.lose()
                self._held.clear()
                self.generation, wait_ms, changed = 0, 0, True
                continue
            subscribed = topics
            self.generation = answer.member_epoch
            changed = answer.assignment is not None and await self._reconcile(answer.assignment)
            wait_ms = 0 if changed else answer.heartbeat_interval_ms

    async def _beat(self, topics: list[str] | None, changed: bool) -> Any | None:
        """The answer; None if another attempt is to be made."""
        settings, first = self._settings, self.generation == 0
        request = ConsumerGroupHeartbeatRequest(
            settings.group_id,
            self.member_id,
            self.generation,
            settings.instance_id,
            rebalance_timeout_ms=settings.rebalance_timeout_ms if first else -1,
            subscribed_topic_names=topics,
            server_assignor=settings.remote_assignor if first else None,
            topic_partitions=await self._owned() if changed else None,
        )
        answer = await self._line.ask(request, self._client.request_timeout_ms, (0, 1))
        if answer is None or answer.error_code in _ELSEWHERE:
            self._line.moved()
            return None
        if answer.error_code not in _FENCED:
            check(answer.error_code, answer.error_message)
        return answer

    async def _owned(self) -> list[TopicPartitions]:
        ids = {name: topic_id for topic_id, name in self._names.items()}
        found: dict[bytes, list[int]] = {}
        for each in sorted(self._held):
            found.setdefault(ids[each.topic], []).append(each.partition)
        return [TopicPartitions(*each) for each in found.items()]

    async def _reconcile(self, assignment: Any) -> bool:
        """Give up and take over; whether there is something to tell."""
        wanted: set[TopicPartition] = set()
        for each in assignment.topic_partitions:
            if each.topic_id not in self._names:
                answer = await self._client.metadata(None)
                self._names |= {topic.topic_id: topic.name for topic in answer.topics if topic.name}
            if each.topic_id in self._names:
                wanted.update(TopicPartition(self._names[each.topic_id], index) for index in each.partitions)
        lost, new = self._held - wanted, wanted - self._held
        if lost:
            await self._holder.revoke(lost)
        self._held = wanted
        if new or not self._held:
            await self._holder.assign(new)
        return True

    async def leave(self) -> None:
        """A static member says that it may come back."""
        if self.generation <= 0:
            return
        epoch = _LEAVING if self._settings.instance_id is None else _LEAVING_FOR_A_WHILE
        request = ConsumerGroupHeartbeatRequest(
            self._settings.group_id, self.member_id, epoch, self._settings.instance_id
        )
        with suppress(ClientError):  # it will be missed soon
            await self._line.ask(request, 5_000, (0, 1))
        self.generation = 0
