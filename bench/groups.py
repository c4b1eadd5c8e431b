"""The cost of groups whose members only send heartbeats, the wait for a new group's first record, and the cost of
transactions.
"""

import asyncio
import statistics
import time
from typing import Any

from confluent_kafka import Consumer, Producer

from bench.running import Running
from interop.raw import framed, request_bytes
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from pykafka_broker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from pykafka_broker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.response_header import ResponseHeader
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from pykafka_broker.protocol.runtime import Message

MEMBERS_EACH = 10
HEARTBEAT_S = 3.0
SETTLE_S = 60.0
MEASURE_S = 15.0
VERSION = 0  # of the consumer protocol's own bytes
NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class Connection:
    """A connection with one request at a time, in versions that every peer has."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def call(self, request: Message, version: int) -> Any:
        """Return the answer, once there is a coordinator to give it."""
        for _ in range(600):
            answer = await self._exchange(request, version)
            if answer.error_code not in NOT_YET:
                return answer
            await asyncio.sleep(0.1)
        raise RuntimeError(f"no coordinator: {ErrorCode(answer.error_code).name}")

    async def _exchange(self, request: Message, version: int) -> Any:
        self._writer.write(framed(request_bytes(request, version)))
        body = await self._reader.readexactly(int.from_bytes(await self._reader.readexactly(4), "big"))
        spec = SPECS[request.API_KEY]
        _, at = ResponseHeader.read(body, 0, spec.response_header_version(version))
        return spec.response_class().decode(memoryview(body)[at:], version)

    def close(self) -> None:
        self._writer.close()


class Member:
    """A member that reads nothing; `steady` is whether its last heartbeat found nothing to do."""

    def __init__(self, connection: Connection, group: str, topic: str) -> None:
        self.connection, self.group, self.topic = connection, group, topic
        self.member_id, self.epoch, self.steady = "", 0, False

    async def enter(self) -> None:
        """Do what comes before the first heartbeat, and again when the group moves."""

    async def beat(self) -> None:
        """Send a heartbeat."""

    async def run(self) -> None:
        await self.enter()
        while True:
            due = time.monotonic() + HEARTBEAT_S
            await self.beat()
            await asyncio.sleep(due - time.monotonic())


class ClassicMember(Member):
    """A member of the classic protocol; the leader gives each member one partition."""

    async def enter(self) -> None:
        metadata = ConsumerProtocolSubscription([self.topic]).encode(VERSION)
        protocols = [JoinGroupRequestProtocol("range", VERSION.to_bytes(2, "big") + metadata)]
        while True:
            request = JoinGroupRequest(self.group, 45_000, 60_000, self.member_id, None, "consumer", protocols)
            joined = await self.connection.call(request, 5)
            self.member_id, self.epoch = joined.member_id or self.member_id, joined.generation_id
            if joined.error_code == ErrorCode.NONE and await self._sync(joined):
                return

    async def _sync(self, joined: Any) -> bool:
        assignments = [
            SyncGroupRequestAssignment(
                member.member_id,
                VERSION.to_bytes(2, "big")
                + ConsumerProtocolAssignment([TopicPartition(self.topic, [number % MEMBERS_EACH])]).encode(VERSION),
            )
            for number, member in enumerate(joined.members)
        ]
        request = SyncGroupRequest(self.group, self.epoch, self.member_id, assignments=assignments)
        synced = await self.connection.call(request, 3)
        return bool(synced.error_code == ErrorCode.NONE)

    async def beat(self) -> None:
        answer = await self.connection.call(HeartbeatRequest(self.group, self.epoch, self.member_id), 3)
        self.steady = answer.error_code == ErrorCode.NONE
        if not self.steady:
            await self.enter()


class ConsumerMember(Member):
    """A member of the protocol of KIP-848, which says once what it wants, then what it has whenever that changes."""

    async def enter(self) -> None:
        self.steady = await self._send(
            ConsumerGroupHeartbeatRequest(
                self.group, "", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=[self.topic], topic_partitions=[]
            )
        )

    async def beat(self) -> None:
        self.steady = await self._send(ConsumerGroupHeartbeatRequest(self.group, self.member_id, self.epoch))

    async def _send(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        answer = await self.connection.call(request, 0)
        if answer.error_code != ErrorCode.NONE:
            raise RuntimeError(f"{ErrorCode(answer.error_code).name}: {answer.error_message}")
        self.member_id, self.epoch = answer.member_id or self.member_id, answer.member_epoch
        if answer.assignment is None:
            return True
        owned = [TopicPartitions(each.topic_id, each.partitions) for each in answer.assignment.topic_partitions]
        await self._send(ConsumerGroupHeartbeatRequest(self.group, self.member_id, self.epoch, topic_partitions=owned))
        return False


async def _heartbeats(run: Running, kind: type[Member], groups: int, topic: str) -> float:
    """Return the broker's share of a core while all members only send heartbeats."""
    opener = await Connection.open(run.port)
    await opener.call(FindCoordinatorRequest("bench-0"), 0)  # which creates the topic
    opener.close()
    members, tasks = [], []
    for number in range(groups):
        for _ in range(MEMBERS_EACH):
            members.append(kind(await Connection.open(run.port), f"bench-{number}", topic))
            tasks.append(asyncio.create_task(members[-1].run()))
        await asyncio.sleep(HEARTBEAT_S / groups)  # or all of them would send heartbeats at the same moment
    try:
        await _settled(members, tasks)
        cpu, begun = run.cpu_s(), time.perf_counter()
        await asyncio.sleep(MEASURE_S)
        share = (run.cpu_s() - cpu) / (time.perf_counter() - begun)
        await _settled(members, tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for member in members:
            member.connection.close()
    return share


async def _settled(members: list[Member], tasks: list[asyncio.Task[None]]) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not all(member.steady for member in members):
        for task in tasks:
            if task.done():
                task.result()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{sum(not member.steady for member in members)} members don't come to rest")
        await asyncio.sleep(0.1)


def heartbeats(run: Running, kind: type[Member], groups: int, topic: str) -> float:
    """Return percent of a core, for groups of ten members each and a heartbeat every three seconds."""
    return 100 * asyncio.run(_heartbeats(run, kind, groups, topic))


def first_message(run: Running, repeats: int, topic: str) -> float:
    """Return the median of milliseconds from subscribe() to the first message, each time in a new group."""
    producer = Producer({"bootstrap.servers": run.bootstrap, "log_level": 0})
    producer.produce(topic, b"the first")
    if producer.flush(20):
        raise RuntimeError("a record was not acknowledged")
    waits = []
    for number in range(repeats + 2):
        settings = {"bootstrap.servers": run.bootstrap, "group.id": f"first-{number}", "auto.offset.reset": "earliest"}
        begun = time.perf_counter()
        consumer = Consumer({**settings, "log_level": 0})
        consumer.subscribe([topic])
        message = consumer.poll(30)
        waits.append((time.perf_counter() - begun) * 1000)
        consumer.close()
        if message is None or message.error():
            raise RuntimeError(f"no message: {message and message.error()}")
    return statistics.median(waits[2:])  # the first two warm the broker


def transactions(run: Running, commits: int, topic: str) -> dict[str, float]:
    """Measure one producer that commits every hundred records."""
    producer = Producer(
        {"bootstrap.servers": run.bootstrap, "transactional.id": "bench", "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(30)

    def commit() -> None:
        producer.begin_transaction()
        for _ in range(100):
            producer.produce(topic, bytes(100))
        producer.commit_transaction(30)

    for _ in range(20):  # to warm the broker
        commit()
    cpu, begun = run.cpu_s(), time.perf_counter()
    for _ in range(commits):
        commit()
    taken = time.perf_counter() - begun
    return {"transactional_records_s": commits * 100 / taken, "commit_cpu_us": (run.cpu_s() - cpu) / commits * 1e6}
