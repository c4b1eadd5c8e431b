"""Members of groups: classic (JoinGroup, SyncGroup), consumer (KIP-848) and share groups (KIP-932).

Rule: assigned and revoked partitions are told to a `RebalanceListener`. When its call returns, the listener has given
up the revoked ones; only then may another member get them. `run` ends when it is cancelled, or when the group refuses
the member for good; `leave` leaves the group. The settings are Kafka's (Kafka docs, "Consumer Configs"), and so is the
order in which the leader of a classic group shares out partitions: by instance ids, then by member ids.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Protocol, Self

from pykafka_broker.client.cluster import COORDINATOR_ERRORS, Backoff, Client
from pykafka_broker.client.errors import ClientError, KafkaError, Unusable, check
from pykafka_broker.client.properties import flag, invalid, nonempty, number
from pykafka_broker.coordinators.groups.consumer_protocol import read_assignment, read_subscription, write_assignment
from pykafka_broker.peers import LinkError, Versions
from pykafka_broker.protocol.enums import CoordinatorType, TopicPartition, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from pykafka_broker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from pykafka_broker.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from pykafka_broker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from pykafka_broker.protocol.runtime import Message, new_uuid, uuid_text

logger = logging.getLogger(__name__)

# -- settings


_ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "range": "range",
    "roundrobin": "roundrobin",
}
_OF_JAVA = ("StickyAssignor", "CooperativeStickyAssignor")


class GroupSettings:
    def __init__(self, properties: Mapping[str, str]) -> None:
        self.group_id = properties.get("group.id", "")
        self.instance_id = nonempty(properties, "group.instance.id")
        self.new_protocol = _protocol(properties.get("group.protocol", "classic"))
        self.remote_assignor = properties.get("group.remote.assignor")
        self.session_timeout_ms = number(properties, "session.timeout.ms", 45_000)
        self.heartbeat_interval_ms = number(properties, "heartbeat.interval.ms", 3_000)
        self.rebalance_timeout_ms = poll_interval_ms(properties)
        self.metadata_max_age_ms = number(properties, "metadata.max.age.ms", 300_000, least=0)
        self.auto_commit = flag(properties, "enable.auto.commit", True)
        self.auto_commit_interval_ms = number(properties, "auto.commit.interval.ms", 5_000, least=0)
        self.exclude_internal_topics = flag(properties, "exclude.internal.topics", True)
        self.assignors = _assignors(properties.get("partition.assignment.strategy"))
        if not self.group_id:
            raise Unusable(
                "To use the group management or offset commit APIs, you must provide a valid group.id in the consumer "
                "configuration."
            )


def poll_interval_ms(properties: Mapping[str, str]) -> int:
    return number(properties, "max.poll.interval.ms", 300_000, least=1)


def _protocol(name: str) -> bool:
    if name.lower() not in ("classic", "consumer"):
        raise invalid("group.protocol", name, "String must be one of (case insensitive): CLASSIC, CONSUMER")
    return name.lower() == "consumer"


def _assignors(text: str | None) -> list[str]:
    """Return the assignors in the order of preference, without Java's sticky assignors."""
    if text is None:
        return ["range"]
    found = []
    for name in filter(None, (each.strip() for each in text.split(","))):
        if name in _ASSIGNORS:
            found.append(_ASSIGNORS[name])
        elif not name.endswith(_OF_JAVA):
            raise Unusable(f"{name} ClassNotFoundException exception occurred")
    if not found:
        raise Unusable("partition.assignment.strategy names neither RangeAssignor nor RoundRobinAssignor")
    return found


# -- the leader of a classic group shares out


class Subscriber(NamedTuple):
    """A member of a classic group and the subscribed topics; instance_id is None for a dynamic member."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None


Assignment = dict[str, list[TopicPartition]]


def _ordered(members: list[Subscriber]) -> list[Subscriber]:
    return sorted(members, key=lambda each: (each.instance_id is None, each.instance_id or "", each.member_id))


def assign_range(members: list[Subscriber], partitions: Mapping[str, int]) -> Assignment:
    """Give each subscriber of a topic a run of partitions; the first subscribers get more (Java: RangeAssignor)."""
    found: Assignment = {each.member_id: [] for each in members}
    for topic, count in sorted(partitions.items()):
        takers = [each for each in _ordered(members) if topic in each.topics]
        start = 0
        for index, taker in enumerate(takers):
            size = count // len(takers) + (index < count % len(takers))
            found[taker.member_id] += [TopicPartition(topic, each) for each in range(start, start + size)]
            start += size
    return found


def assign_round_robin(members: list[Subscriber], partitions: Mapping[str, int]) -> Assignment:
    """Give out the partitions in turn (Java: RoundRobinAssignor)."""
    found: Assignment = {each.member_id: [] for each in members}
    circle, position = _ordered(members), 0
    for topic, count in sorted(partitions.items()):
        if not any(topic in each.topics for each in members):
            continue
        for partition in range(count):
            while topic not in circle[position].topics:
                position = (position + 1) % len(circle)
            found[circle[position].member_id].append(TopicPartition(topic, partition))
            position = (position + 1) % len(circle)
    return found


ASSIGNORS: dict[str, Callable[[list[Subscriber], Mapping[str, int]], Assignment]] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
}


# -- the coordinator


_LINE = "group"
_LEAVE_MS = 5_000
_LOOKED_AT_EVERY_MS = 30_000  # how often topics and partitions are compared with the shared ones
_ELSEWHERE = COORDINATOR_ERRORS | {ErrorCode.NETWORK_EXCEPTION}
_FORGOTTEN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
_NO_GENERATION = -1

Topics = Callable[[], Awaitable[dict[str, int]]]  # existing subscribed topics, with their numbers of partitions


class RebalanceListener(Protocol):
    """The reader of assigned partitions (Kafka: ConsumerRebalanceListener)."""

    async def revoke(self, partitions: Iterable[TopicPartition]) -> None: ...

    async def assign(self, partitions: Iterable[TopicPartition]) -> None: ...

    def lose(self) -> None:
        """Drop all partitions at once, since another member may own the partitions already."""


class CoordinatorChannel:
    """Requests to a group's coordinator, over a separate connection."""

    def __init__(self, client: Client, group_id: str) -> None:
        self._client = client
        self._group_id = group_id
        self._node: int | None = None

    async def ask(self, request: Message, timeout_ms: int, versions: Versions) -> Any:
        """Return the answer, or None: then another attempt may find another coordinator."""
        if self._node is None:
            self._node = await self._client.until_answered(
                lambda: self._client.coordinator(CoordinatorType.GROUP, self._group_id)
            )
        try:
            return await self._client.ask_once(
                request, self._node, versions=versions, timeout_ms=timeout_ms, line=_LINE
            )
        except LinkError:
            self.forget()
            return None

    @property
    def is_known(self) -> bool:
        """Return whether the coordinator is known: a leaving member does not look for an unknown one."""
        return self._node is not None

    def forget(self) -> None:
        self._node = None


class Beside:
    """A call of the listener, beside which heartbeats go on; the end of the `async with` cancels it."""

    def __init__(self, call: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(call)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cancel()

    async def cancel(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    @property
    def has_ended(self) -> bool:
        """Return whether the call has ended and was not cancelled."""
        return self._task.done() and not self._task.cancelled()

    async def wait(self, timeout_ms: int) -> bool:
        """Wait for the end of the call; returns whether it came in time. Raises the error of the call."""
        await asyncio.wait([self._task], timeout=timeout_ms / 1000)
        if self._task.done():
            self._task.result()
        return self._task.done()

    async def sleep(self, time_ms: int) -> None:
        """Sleep, and raise an error of the call at once."""
        loop = asyncio.get_running_loop()
        until = loop.time() + time_ms / 1000
        await self.wait(time_ms)
        await asyncio.sleep(until - loop.time())


class Membership(Protocol):
    """A member of a group."""

    async def run(self) -> None: ...

    async def leave(self) -> None: ...


class PolledMembership:
    """A member of a group while its caller polls often enough (KIP-62).

    Args:
        interval_ms: the most between two polls, `max.poll.interval.ms`.
        lose: called when the member leaves, to drop all partitions.
    """

    def __init__(
        self, client: Client, member: Membership, group_id: str, interval_ms: int, lose: Callable[[], object]
    ) -> None:
        self._client = client
        self._member = member
        self._group_id = group_id
        self._interval_ms = interval_ms
        self._lose = lose
        self._polls = 0  # that are going on
        self._poll_by = 0  # the time at which the member leaves
        self._polled = asyncio.Event()

    @contextmanager
    def poll(self) -> Iterator[None]:
        """Note a poll, which lasts as long as the block."""
        self._polls += 1
        self._polled.set()
        try:
            yield
        finally:
            self._polls -= 1
            self._poll_by = self._client.deadline(self._interval_ms)

    async def run(self) -> None:
        """Run the member, out of the group where no poll comes, until cancelled. Raises ClientError."""
        self._poll_by = self._client.deadline(self._interval_ms)
        while True:
            async with Beside(self._member.run()) as running:
                while (left := self._interval_ms if self._polls else self._poll_by - self._client.deadline(0)) > 0:
                    await running.wait(left)
                self._polled.clear()
            why = f"no poll for max.poll.interval.ms ({self._interval_ms} ms)"
            logger.warning("the member leaves group %s until the next poll: %s", self._group_id, why)
            self._lose()
            await self._member.leave()
            await self._polled.wait()


class ClassicMembership:
    """A member by JoinGroup, SyncGroup and Heartbeat, with eager rebalances."""

    def __init__(self, client: Client, settings: GroupSettings, topics: Topics, holder: RebalanceListener) -> None:
        self.member_id = ""
        self.generation = _NO_GENERATION
        self._client = client
        self._settings = settings
        self._topics = topics
        self._holder = holder
        self._line = CoordinatorChannel(client, settings.group_id)

    async def run(self) -> None:
        backoff = Backoff(self._client)
        while True:
            topics = await self._topics()
            joined = await self._join(topics)
            held = None if joined is None else await self._sync(joined, topics)
            if held is None:
                await backoff.pause()
                continue
            backoff.reset()
            async with Beside(self._holder.assign(held)) as assigning:
                lost = await self._heartbeat(topics, assigning)
            if not assigning.has_ended:
                continue  # the partitions were never read
            if not lost:
                async with Beside(self._holder.revoke(held)) as revoking:
                    while not lost and not await revoking.wait(self._settings.heartbeat_interval_ms):
                        lost = await self._beat() in _FORGOTTEN
            if lost:
                self._holder.lose()

    async def _join(self, topics: dict[str, int]) -> Any | None:
        """Join, and return the answer when all members have joined; None if the member has to try again."""
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
        if self._must_rejoin(code):
            return None
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def _must_rejoin(self, code: int) -> bool:
        """Return whether the member has to join again. Raises KafkaError for a permanent error."""
        if code in _ELSEWHERE:
            self._line.forget()
        elif code in _FORGOTTEN:
            self.generation = _NO_GENERATION
            if code == ErrorCode.UNKNOWN_MEMBER_ID:  # else the group would wait for the old id till its session ends
                self.member_id = ""
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
            assignments=await self._assign(joined, topics) if joined.leader == self.member_id else [],
        )
        answer = await self._line.ask(request, settings.rebalance_timeout_ms + 5_000, (0, 4))
        if self._must_rejoin(ErrorCode.NETWORK_EXCEPTION if answer is None else answer.error_code):
            return None
        if not answer.assignment:
            return []
        assigned = read_assignment(bytes(answer.assignment)).assigned_partitions
        return [TopicPartition(each.topic, index) for each in assigned for index in each.partitions]

    async def _assign(self, joined: Any, topics: dict[str, int]) -> list[SyncGroupRequestAssignment]:
        """Compute the assignment of each member, as the leader of the group."""
        members = [
            Subscriber(
                each.member_id, frozenset(read_subscription(bytes(each.metadata)).topics), each.group_instance_id
            )
            for each in joined.members
        ]
        wanted = frozenset().union(*(each.topics for each in members))
        counts = {topic: count for topic, count in topics.items() if topic in wanted}
        if missing := sorted(wanted - counts.keys()):
            answer = await self._client.until_answered(lambda: self._client.metadata(missing))
            counts |= {each.name: len(each.partitions) for each in answer.topics if each.name and each.partitions}
        shares = ASSIGNORS[joined.protocol_name](members, counts)
        return [SyncGroupRequestAssignment(member, _written(held)) for member, held in shares.items()]

    async def _beat(self) -> int:
        """Send a heartbeat and return the error code of its answer. Raises KafkaError for a permanent error."""
        settings = self._settings
        request = HeartbeatRequest(settings.group_id, self.generation, self.member_id, settings.instance_id)
        versions = (0 if not settings.instance_id else 3, 4)
        answer = await self._line.ask(request, settings.session_timeout_ms, versions)
        code: int = ErrorCode.NETWORK_EXCEPTION if answer is None else answer.error_code
        self._must_rejoin(code)
        return code

    async def _heartbeat(self, topics: dict[str, int], assigning: Beside) -> bool:
        """Send heartbeats until a rebalance begins; returns whether the partitions are lost already."""
        settings = self._settings
        looked = self._client.deadline(0)
        while True:
            await assigning.sleep(settings.heartbeat_interval_ms)
            code = await self._beat()
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                return False
            if code in _FORGOTTEN:
                return True
            now = self._client.deadline(0)
            if now - looked >= min(_LOOKED_AT_EVERY_MS, settings.metadata_max_age_ms):
                looked = now
                if await self._topics() != topics:
                    return False

    async def leave(self) -> None:
        """Leave the group, unless the member is static and may come back, or the coordinator is unknown."""
        self.generation = _NO_GENERATION
        if not self.member_id or self._settings.instance_id is not None or not self._line.is_known:
            return
        request = LeaveGroupRequest(self._settings.group_id, members=[MemberIdentity(self.member_id)])
        older = LeaveGroupRequest(self._settings.group_id, self.member_id)
        with suppress(ClientError):  # the coordinator notices soon
            try:
                await self._line.ask(request, _LEAVE_MS, (3, 5))
            except KafkaError:  # Kafka before 2.4
                await self._line.ask(older, _LEAVE_MS, (0, 2))
        self.member_id = ""


def _written(held: Iterable[TopicPartition]) -> bytes:
    assigned = [AssignedTopic(*each) for each in by_topic(sorted(held)).items()]
    return write_assignment(ConsumerProtocolAssignment(assigned), 1)


# -- memberships by heartbeats


_LEAVING, _LEAVING_FOR_A_WHILE = -1, -2
_FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


class HeartbeatMembership:
    """A member of a group with assignments by the coordinator, in heartbeats. generation: the member epoch."""

    def __init__(self, client: Client, group_id: str, versions: Versions) -> None:
        self.member_id = uuid_text(new_uuid())
        self.generation = 0
        self.names: dict[bytes, str] = {}  # of topics, by id
        self._client = client
        self._group_id = group_id
        self._versions = versions
        self._line = CoordinatorChannel(client, group_id)
        self._unresolved: Any | None = None  # the last assignment, while a topic id of it is unknown

    @property
    def ids(self) -> dict[str, bytes]:
        """Return the ids of topics by name, of a topic that was created again the newest."""
        return {name: topic_id for topic_id, name in self.names.items()}

    async def _beat(self, request: Message) -> Any | None:
        """Send a heartbeat and return the answer, None if the member has to try again. Raises KafkaError."""
        answer = await self._line.ask(request, self._client.request_timeout_ms, self._versions)
        if answer is None or answer.error_code in _ELSEWHERE:
            self._line.forget()
            return None
        if answer.error_code not in _FENCED:
            check(answer.error_code, answer.error_message)
        return answer

    async def _assigned(self, answer: Any, topics: list[str] | None) -> set[TopicPartition] | None:
        """Return the partitions of the member, None if they are as before.

        The broker that is asked may not know a new topic yet: its id is looked up again after the next heartbeat.

        Args:
            topics: the topics to look at if an id is unknown, None for all.
        """
        assignment = self._unresolved if answer.assignment is None else answer.assignment
        if assignment is None:
            return None
        assigned = assignment.topic_partitions
        if any(each.topic_id not in self.names for each in assigned):
            found = await self._client.until_answered(lambda: self._client.metadata(topics))
            self.names |= {topic.topic_id: topic.name for topic in found.topics if topic.name}
        known = [(self.names[each.topic_id], each.partitions) for each in assigned if each.topic_id in self.names]
        self._unresolved = assignment if len(known) < len(assigned) else None
        return {TopicPartition(name, index) for name, partitions in known for index in partitions}

    async def _leave(self, request: Message) -> None:
        if self.generation > 0 and self._line.is_known:
            with suppress(ClientError):  # the coordinator notices soon
                await self._line.ask(request, _LEAVE_MS, self._versions)
        self.generation = 0


class ConsumerMembership(HeartbeatMembership):
    """A member by ConsumerGroupHeartbeat.

    Revoked partitions are named in the next heartbeat, whose answer brings partitions that others have given up.
    """

    def __init__(self, client: Client, settings: GroupSettings, topics: Topics, holder: RebalanceListener) -> None:
        super().__init__(client, settings.group_id, (0, 1))
        self._settings = settings
        self._topics = topics
        self._holder = holder
        self._held: set[TopicPartition] = set()
        self._target: set[TopicPartition] = set()
        self._reconciling: Beside | None = None

    async def run(self) -> None:
        self._unresolved, self.generation, self._held, self._target = None, 0, set(), set()
        try:
            await self._run()
        finally:
            await self._end_reconciliation()

    async def _run(self) -> None:
        backoff, changed, full = Backoff(self._client), False, True
        subscribed: list[str] = []
        while True:
            topics = sorted(await self._topics()) if full or not changed else subscribed
            answer = await self._heartbeat(topics if full or topics != subscribed else None, changed, full)
            if answer is None:
                full = True
                await backoff.pause()
                continue
            backoff.reset()
            if answer.error_code in _FENCED:
                await self._end_reconciliation()
                self._holder.lose()
                self._held, self._target = set(), set()
                self._unresolved, self.generation, changed, full = None, 0, False, True
                continue
            subscribed, full = topics, False
            self.generation = answer.member_epoch
            partitions = await self._assigned(answer, None)
            if partitions is not None:
                self._target = partitions
            if self._reconciling is None and (answer.assignment is not None or self._target != self._held):
                self._reconciling = Beside(self._reconcile(self._target))
            changed = self._reconciling is not None and await self._reconciling.wait(answer.heartbeat_interval_ms)
            if changed:
                self._reconciling = None
            # After a change, the next heartbeat says at once what the member has.
            if self._reconciling is None and (self._unresolved or not changed):
                await asyncio.sleep(answer.heartbeat_interval_ms / 1000)

    async def _end_reconciliation(self) -> None:
        if self._reconciling is not None:
            await self._reconciling.cancel()
            self._reconciling = None

    async def _heartbeat(self, topics: list[str] | None, changed: bool, full: bool) -> Any | None:
        """Send a heartbeat.

        Args:
            changed: the heartbeat names the partitions of the member.
            full: the heartbeat has all fields, so that its answer has the assignment: at the start, and after an answer
                that was lost, perhaps with a new assignment.
        """
        settings = self._settings
        request = ConsumerGroupHeartbeatRequest(
            settings.group_id,
            self.member_id,
            self.generation,
            settings.instance_id,
            rebalance_timeout_ms=settings.rebalance_timeout_ms if full else -1,
            subscribed_topic_names=topics,
            server_assignor=settings.remote_assignor if full else None,
            topic_partitions=self._owned() if changed or full else None,
        )
        return await self._beat(request)

    def _owned(self) -> list[TopicPartitions]:
        ids = self.ids
        return [TopicPartitions(ids[topic], indexes) for topic, indexes in by_topic(sorted(self._held)).items()]

    async def _reconcile(self, wanted: set[TopicPartition]) -> None:
        """Revoke and assign partitions."""
        lost, new = self._held - wanted, wanted - self._held
        if lost:
            await self._holder.revoke(lost)
        self._held = wanted
        if new or not self._held:
            await self._holder.assign(new)

    async def leave(self) -> None:
        """Leave the group; a static member announces a possible return."""
        settings = self._settings
        epoch = _LEAVING if settings.instance_id is None else _LEAVING_FOR_A_WHILE
        await self._leave(ConsumerGroupHeartbeatRequest(self._group_id, self.member_id, epoch, settings.instance_id))


class ShareGroupMembership(HeartbeatMembership):
    """A member by ShareGroupHeartbeat. on_assigned: called with all partitions of the member."""

    def __init__(
        self, client: Client, group_id: str, topics: list[str], on_assigned: Callable[[set[TopicPartition]], None]
    ) -> None:
        super().__init__(client, group_id, (1, 1))
        self._topics = topics
        self._on_assigned = on_assigned

    async def run(self) -> None:
        """Send heartbeats until cancelled. Raises KafkaError for a permanent error."""
        self._unresolved, self.generation = None, 0
        rack, backoff = self._client.properties.get("client.rack"), Backoff(self._client)
        full = True  # the answer has the assignment: the last answer, perhaps with a new one, may be lost
        while True:
            topics = sorted(self._topics) if full else None
            request = ShareGroupHeartbeatRequest(self._group_id, self.member_id, self.generation, rack, topics)
            answer = await self._beat(request)
            full = answer is None or answer.error_code in _FENCED
            if answer is None:
                await backoff.pause()
                continue
            backoff.reset()
            if answer.error_code in _FENCED:
                self._unresolved, self.generation = None, 0
                self._on_assigned(set())
            else:
                self.generation = answer.member_epoch
                if (partitions := await self._assigned(answer, self._topics)) is not None:
                    self._on_assigned(partitions)
                await asyncio.sleep(answer.heartbeat_interval_ms / 1000)

    async def leave(self) -> None:
        await self._leave(ShareGroupHeartbeatRequest(self._group_id, self.member_id, _LEAVING))
