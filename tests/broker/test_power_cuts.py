"""Power cuts after every operation on the disk of a whole broker that syncs every message.

What was answered is there, what readers have seen is there, and a transaction is all there or not at all; whatever a
power cut interrupts, nothing is undecided for ever.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Generator
from random import Random
from typing import Any

import pytest

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from pykafka_broker.testing.simulation.disk import CrashFileSystem
from tests.broker.driven import DrivenBroker
from tests.log.crash.seen import Seen

NOW = 1_700_000_000_000
TIMEOUT_MS = 60_000
PARTITIONS = 2
SEEDS = 2
SETTINGS = {
    "log.dirs": "/data/logs",
    "node.id": "1",
    "log.flush.interval.messages": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.cleaner.enable": "false",
}

Asking = Generator[tuple[Any, int], Any, None]


class Machine:
    """A broker on a disk. `jobs`: its syncs, which run in any order."""

    def __init__(self, fs: CrashFileSystem, *, inline: bool) -> None:
        self.jobs: list[Job] = []
        numbers = iter(range(1, 1 << 16))
        self.broker = DrivenBroker(
            BrokerConfig(SETTINGS),
            new_uuid=lambda: next(numbers).to_bytes(16, "big"),
            new_session_id=lambda: 1,
            submit=run_inline if inline else self.jobs.append,
            fs=fs,
        )
        self.broker.start(NOW)
        self.connection = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))

    def ask(self, request: Any, version: int, answered: Callable[[Any], None]) -> None:
        spec = SPECS[request.API_KEY]
        header = struct.pack(">hhih", request.API_KEY, version, 7, -1)
        if spec.request_header_version(version) == 2:
            header += b"\0"
        frame = memoryview(bytearray(header + request.encode(version)))
        found = self.broker.dispatch(self.connection, frame, NOW)

        def take(pieces: list[Any]) -> None:
            answer = b"".join(bytes(piece) for piece in pieces)[8 + spec.response_header_version(version) :]
            answered(spec.response_class().decode(answer, version))

        if isinstance(found, PendingReply):
            found.future.add_done_callback(lambda _: take(found.pieces()))
        else:
            assert found is not None
            take(found)
        self.broker.settle(NOW)

    def let_time_pass(self) -> None:
        """Let time pass until all transactions left undecided are decided."""
        for now in (NOW, NOW + TIMEOUT_MS, NOW + 2 * TIMEOUT_MS, NOW + 3 * TIMEOUT_MS):
            for _ in range(10):
                self.broker.on_deadline(now)


class World:
    """Two committers of offsets and two transactional producers, each with one request under way."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.fs = CrashFileSystem()
        self.machine = Machine(self.fs, inline=True)
        broker = self.machine.broker
        self.machine.ask(CreateTopicsRequest([CreatableTopic("t", PARTITIONS, 1)], 1000), 7, lambda answer: None)
        broker.create_missing_topics([CONSUMER_OFFSETS, TRANSACTION_STATE])
        broker.services.node.producer_ids.next_id()  # a block of ids is reserved
        broker.logs.submit = self.machine.jobs.append
        self.offsets: dict[str, int] = {}  # by group: the offset that was acknowledged as committed
        self.told: dict[bytes, bool] = {}  # by the value of a transaction's records: whether it was committed
        self.sent: dict[bytes, set[int]] = {}  # by value: the partitions that the transaction wrote to
        self.with_offsets: set[bytes] = set()  # values of transactions that commit offsets too
        self.asking: list[Asking | None] = []

    def promises(self) -> object:
        """Return what was promised so far, to be compared with another time."""
        sent = tuple((value, frozenset(partitions)) for value, partitions in self.sent.items())
        return sent, tuple(self.offsets.items()), tuple(self.told.items()), frozenset(self.with_offsets)

    def run(self, steps: int) -> None:
        clients = [self.commits("a"), self.commits("b"), self.transacts("x"), self.transacts("y")]
        self.asking = list(clients)
        self.idle: dict[int, Any] = dict.fromkeys(range(len(clients)))
        for _ in range(steps):
            choices = [*self.idle, *[-1] * len(self.machine.jobs)]
            number = self.random.choice(choices)
            if number >= 0:
                self.go_on(number, self.idle.pop(number))
            else:
                run_inline(self.machine.jobs.pop(self.random.randrange(len(self.machine.jobs))))

    def go_on(self, number: int, answer: Any) -> None:
        asking = self.asking[number]
        assert asking is not None
        request, version = asking.send(answer)
        self.machine.ask(request, version, lambda reply: self.idle.__setitem__(number, reply))

    def commits(self, group: str) -> Asking:
        offset = 0
        while True:
            offset += 1
            topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset)])
            answer = yield OffsetCommitRequest(group, -1, "", topics=[topic]), 8
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
            self.offsets[group] = offset

    def transacts(self, name: str) -> Asking:
        answer = yield InitProducerIdRequest(name, TIMEOUT_MS), 5
        assert answer.error_code == ErrorCode.NONE
        producer = answer.producer_id, answer.producer_epoch
        sequences: dict[int, int] = {}
        for number in range(1, 1000):
            value = f"{name}{number}".encode()
            self.sent[value] = set(self.random.sample(range(PARTITIONS), self.random.randrange(1, PARTITIONS + 1)))
            yield from self.produce(name, producer, value, sequences)
            if self.random.random() < 0.5:
                yield from self.commit_in_transaction(name, producer, number)
                self.with_offsets.add(value)
            commit = self.random.random() < 0.7
            answer = yield EndTxnRequest(name, *producer, commit), 5
            assert answer.error_code == ErrorCode.NONE
            self.told[value] = commit
            if (answer.producer_id, answer.producer_epoch) != producer:
                sequences.clear()
            producer = answer.producer_id, answer.producer_epoch

    def produce(self, name: str, producer: tuple[int, int], value: bytes, sequences: dict[int, int]) -> Asking:
        error = ErrorCode.CONCURRENT_TRANSACTIONS  # right after the end of one, as with Kafka
        while error == ErrorCode.CONCURRENT_TRANSACTIONS:
            data = []
            for partition in sorted(self.sent[value]):
                builder = BatchBuilder(
                    producer_id=producer[0],
                    producer_epoch=producer[1],
                    base_sequence=sequences.get(partition, 0),
                    transactional=True,
                )
                builder.append(None, value, NOW)
                data.append(PartitionProduceData(partition, bytes(builder.build())))
            answer = yield ProduceRequest(name, -1, 1000, [TopicProduceData("t", partition_data=data)]), 12
            errors = {one.error_code for one in answer.responses[0].partition_responses}
            assert len(errors) == 1, errors
            error = errors.pop()
        assert error == ErrorCode.NONE
        for partition in self.sent[value]:
            sequences[partition] = sequences.get(partition, 0) + 1

    def commit_in_transaction(self, name: str, producer: tuple[int, int], offset: int) -> Asking:
        partition = TxnOffsetCommitRequestPartition(1, offset)
        request = TxnOffsetCommitRequest(name, f"of {name}", *producer, -1, "", None)
        request.topics = [TxnOffsetCommitRequestTopic("t", partitions=[partition])]
        answer = yield request, 5
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def visible(machine: Machine) -> list[set[bytes]]:
    """Return the values that a reader of committed records gets from each partition."""
    found = []
    for partition in range(PARTITIONS):
        log = machine.broker.partition_log("t", partition)
        values = set()
        offset, end = log.log_start_offset, log.last_stable_offset
        aborted = log.aborted_transactions(offset, end)
        while (read := log.read(offset, 1 << 20, end)) is not None:
            for header, batch in iter_batches(read.records.read()):
                gone = any(
                    one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
                    for one in aborted
                )
                if not header.is_control and not gone:
                    values |= {bytes(record.value or b"") for record in iter_records(batch, header)}
            offset = read.end_offset
        found.append(values)
    return found


def check(fs: CrashFileSystem, world: World, seen: list[set[bytes]]) -> None:
    machine = Machine(fs, inline=True)
    machine.let_time_pass()
    broker = machine.broker
    assert all(directory.online for directory in broker.logs.directories)
    for partition in range(PARTITIONS):
        log = broker.partition_log("t", partition)
        assert log.last_stable_offset == log.log_end_offset, "a transaction hangs"
    found = visible(machine)
    for partition, values in enumerate(seen):
        assert values <= found[partition], "a reader has seen what is gone"
    for value, partitions in world.sent.items():
        there = {partition for partition in range(PARTITIONS) if value in found[partition]}
        assert there in (set(), partitions), f"{value!r} is only in {there} of {partitions}"
        if value in world.told:
            assert bool(there) is world.told[value], f"{value!r} ended otherwise"
    offsets = broker.groups.coordinator.offsets
    for group, offset in world.offsets.items():
        assert offset <= offsets.committed(group)["t"][0].offset <= offset + 1
    for name in "xy":
        assert not offsets.pending(f"of {name}")
        committed = offsets.committed(f"of {name}").get("t", {})
        last = committed[1].offset if committed else 0
        assert not last or any(f"{name}{last}".encode() in values for values in found), "offsets without their records"
        told = [value for value in world.with_offsets & world.told.keys() if world.told[value]]
        assert last >= max((int(value[1:]) for value in told if value[:1] == name.encode()), default=0)


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_crash_after_every_operation(seed: int) -> None:
    world = World(seed)
    checked = 0
    looked_at = Seen()

    def crash(what: str) -> None:
        nonlocal checked
        checked += 1
        seen = visible(world.machine)
        variant = (None, zlib.crc32(what.encode()) + checked)[checked % 2]
        fs = world.fs.after_crash(variant)
        if looked_at.is_new(fs, (world.promises(), *map(frozenset, seen))):
            check(fs, world, seen)

    world.fs.on_operation = crash
    world.run(200)
    assert checked > 250
    assert len(world.told) > 3
    assert min(world.offsets.values()) > 3
