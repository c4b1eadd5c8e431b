"""A member of a consumer group, by the classic protocol or by KIP-848's.

Rule: what is assigned and revoked is told to a `Holder`, which has given up what is revoked when its call returns; only
then does anybody else get it. `run` goes on until it is cancelled or refused for good; `leave` says goodbye.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from pykafka_broker.client.assignors import ASSIGNORS, Subscriber
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, Refused, check
from pykafka_broker.client.group_settings import GroupSettings
from pykafka_broker.coordinators.groups.consumer_protocol import read_assignment, read_subscription, write_assignment
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.enums import CoordinatorType, TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from pykafka_broker.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from pykafka_broker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from pykafka_broker.protocol.runtime import Message

_LINE = "group"
_LOOKED_AT_EVERY_MS = 30_000  # whether topics and their partitions are still those that were shared out
_ELSEWHERE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NETWORK_EXCEPTION,
)
_FORGOTTEN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
_NO_GENERATION = -1

Topics = Callable[[], Awaitable[dict[str, int]]]  # subscribed ones that are there, and how many partitions they have


class Holder(Protocol):
    """Who reads what is assigned."""

    async def revoke(self, partitions: Iterable[TopicPartition]) -> None: ...

    async def assign(self, partitions: Iterable[TopicPartition]) -> None: ...

    def lose(self) -> None:
        """Everything, to somebody who may have it already."""


class Line:
    """Requests to the coordinator of a group, over a connection of its own."""

    def __init__(self, client: Client, group_id: str) -> None:
        self._client = client
        self._group_id = group_id
        self._node: int | None = None

    async def ask(self, request: Message, timeout_ms: int, versions: tuple[int, int]) -> Any:
        """The answer, or None if there was none and another attempt may find another coordinator."""
        if self._node is None:
            self._node = await self._client.coordinator(CoordinatorType.GROUP, self._group_id)
        try:
            return await self._client.ask_once(
                request, self._node, versions=versions, timeout_ms=timeout_ms, line=_LINE
            )
        except LinkError:
            self.moved()
            return None

    def moved(self) -> None:
        self._node = None


class ClassicMember:
    """By JoinGroup, SyncGroup and Heartbeat, rebalancing eagerly, as Java's RangeAssignor has it."""

    def __init__(self, client: Client, settings: GroupSettings, topics: Topics, holder: Holder) -> None:
        self.member_id = ""
        self.generation = _NO_GENERATION
        self._client = client
        self._settings = settings
        self._topics = topics
        self._holder = holder
        self._line = Line(client, settings.group_id)
        self._held: list[TopicPartition] = []

    async def run(self) -> None:
        while True:
            topics = await self._topics()
            joined = await self._join(topics)
            held = None if joined is None else await self._sync(joined, topics)
            if held is None:
                await asyncio.sleep(self._client.backoff_ms / 1000)
                continue
            self._held = held
            await self._holder.assign(held)
            lost = await self._stay(topics)
            if lost:
                self._holder.lose()
            else:
                await self._holder.revoke(held)
            self._held = []

    async def _join(self, topics: dict[str, int]) -> Any | None:
        """The answer when all have come; None if another attempt is to be made."""
        settings = self._settings
        metadata = b"\0\1" + ConsumerProtocolSubscription(sorted(topics)).encode(1)
        request = JoinGroupRequest(
            settings.group_id,
            settings.session_timeout_ms,
            settings.rebalance_timeout_ms,
            self.member_id,
            settings.instance_id,
            "consumer",
            [JoinGroupRequestProtocol(name, metadata) for name in settings.assignors],
        )
        highest = 9 if settings.instance_id is not None else 7
        lowest = 5 if settings.instance_id is not None else 1
        answer = await self._line.ask(request, settings.rebalance_timeout_ms + 5_000, (lowest, highest))
        code = ErrorCode.NETWORK_EXCEPTION if answer is None else answer.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return await self._join(topics)
        if self._again(code):
            return None
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def _again(self, code: int) -> bool:
        """Whether there is no place in the group at the moment. Raises Refused if there won't be."""
        if code in _ELSEWHERE:
            self._line.moved()
        elif code in _FORGOTTEN:
            self.member_id, self.generation = "", _NO_GENERATION
        elif code != ErrorCode.REBALANCE_IN_PROGRESS:
            check(code)
            return False
        return True

    async def _sync(self, joined: Any, topics: dict[str, int]) -> list[TopicPartition] | None:
        settings = self._settings
        request = SyncGroupRequest(
            settings.group_id,
            self.generation,
            self.member_id,
            settings.instance_id,
            assignments=await self._share_out(joined, topics) if joined.leader == self.member_id else [],
        )
        answer = await self._line.ask(request, settings.rebalance_timeout_ms + 5_000, (0, 4))
        if self._again(ErrorCode.NETWORK_EXCEPTION if answer is None else answer.error_code):
            return None
        if not answer.assignment:
            return []
        assigned = read_assignment(bytes(answer.assignment)).assigned_partitions
        return [TopicPartition(each.topic, index) for each in assigned for index in each.partitions]

    async def _share_out(self, joined: Any, topics: dict[str, int]) -> list[SyncGroupRequestAssignment]:
        """As the leader: what each member gets."""
        members = [
            Subscriber(
                each.member_id, frozenset(read_subscription(bytes(each.metadata)).topics), each.group_instance_id
            )
            for each in joined.members
        ]
        wanted = frozenset().union(*(each.topics for each in members))
        counts = {topic: count for topic, count in topics.items() if topic in wanted}
        if missing := sorted(wanted - counts.keys()):
            answer = await self._client.metadata(missing)
            counts |= {each.name: len(each.partitions) for each in answer.topics if each.name and each.partitions}
        shares = ASSIGNORS[joined.protocol_name](members, counts)
        return [SyncGroupRequestAssignment(member, _written(held)) for member, held in shares.items()]

    async def _stay(self, topics: dict[str, int]) -> bool:
        """Until there is a rebalance; whether what was held is lost already."""
        settings = self._settings
        looked = self._client.deadline(0)
        request = HeartbeatRequest(settings.group_id, self.generation, self.member_id, settings.instance_id)
        while True:
            await asyncio.sleep(settings.heartbeat_interval_ms / 1000)
            answer = await self._line.ask(
                request, settings.session_timeout_ms, (0 if not settings.instance_id else 3, 4)
            )
            code = ErrorCode.NETWORK_EXCEPTION if answer is None else answer.error_code
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                return False
            if self._again(code) and code in _FORGOTTEN:
                return True
            now = self._client.deadline(0)
            if now - looked >= min(_LOOKED_AT_EVERY_MS, settings.metadata_max_age_ms):
                looked = now
                if await self._topics() != topics:
                    return False

    async def leave(self) -> None:
        """Unless it is a static member, which may come back."""
        if not self.member_id or self._settings.instance_id is not None:
            return
        request = LeaveGroupRequest(self._settings.group_id, members=[MemberIdentity(self.member_id)])
        older = LeaveGroupRequest(self._settings.group_id, self.member_id)
        try:
            await self._line.ask(request, 5_000, (3, 5))
        except Refused:  # Kafka before 2.4
            await self._line.ask(older, 5_000, (0, 2))
        except ClientError:
            pass  # it will be missed soon
        self.member_id = ""


def _written(held: Iterable[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in held:
        topics.setdefault(topic, []).append(partition)
    return write_assignment(ConsumerProtocolAssignment([AssignedTopic(*each) for each in topics.items()]), 1)
