"""A data directory with a bit of everything, ways to damage its files, and a look at what is left of it."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pykafka_broker.broker.coordinators.coordinator_log import partition_for
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.records.errors import TruncatedBatch
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from tests.broker.api.real_broker import RealBroker
from tests.broker.support import batch

SHARDS = 2
DATA = [("t", 0), ("t", 1), ("u", 0)]
SETTINGS = {
    "offsets.topic.num.partitions": str(SHARDS),
    "transaction.state.log.num.partitions": str(SHARDS),
    "share.coordinator.state.topic.num.partitions": str(SHARDS),
    "metadata.log.max.record.bytes.between.snapshots": "1500",
}
BATCHES = 12

Told = dict[str, object]  # what the broker serves, by name; an error's name for what it does not serve


def key_in(number: int, name: str) -> str:
    """Return a key of that shard."""
    return next(f"{name}{each}" for each in range(100) if partition_for(f"{name}{each}", SHARDS) == number)


def share_key_in(topic_id: bytes, number: int) -> ShareKey:
    keys = (ShareKey(f"s{each}", topic_id, 0) for each in range(100))
    return next(key for key in keys if partition_for(key.coordinator_key(), SHARDS) == number)


def make(directory: Path) -> RealBroker:
    """Run a broker on a new directory and store something of every kind there."""
    node = RealBroker(directory, **SETTINGS)
    for topic, partitions in (("t", 2), ("u", 1)):
        configs = [CreatableTopicConfig("segment.ms", "1000"), CreatableTopicConfig("index.interval.bytes", "100")]
        created = node.call(CreateTopicsRequest([CreatableTopic(topic, partitions, 1, [], configs)]), 7).topics[0]
        assert created.error_code == 0
    for number in range(BATCHES):
        node.now += 400
        for topic, partition in DATA:
            produce(
                node,
                topic,
                partition,
                batch(
                    b"%d" % number * 60,
                    b"x" * 60,
                    timestamp=node.now,
                    producer_id=900,
                    producer_epoch=0,
                    base_sequence=2 * number,
                ),
            )
    for number in range(SHARDS):
        _commit_offset(node, key_in(number, "g"))
        _transact(node, key_in(number, "x"), commit=number == 0)
        node.broker.shares.initialize(share_key_in(node.broker.image.topics["u"].id, number), 1, 5)
    deleted = DeleteRecordsRequest([DeleteRecordsTopic("u", [DeleteRecordsPartition(0, 3)])])
    assert node.call(deleted, 2).topics[0].partitions[0].error_code == 0
    for _ in range(3):
        node.now += 61_000
        node.broker.on_deadline(node.now)
    return node


def produce(node: RealBroker, topic: str, partition: int, records: Any, transactional_id: str | None = None) -> None:
    wanted = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, records)])
    answer = node.call(ProduceRequest(transactional_id, -1, 1000, [wanted]), 11)
    assert answer.responses[0].partition_responses[0].error_code == 0


def _commit_offset(node: RealBroker, group_id: str) -> None:
    node.broker.create_missing_topics(["__consumer_offsets"])
    wanted = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 7)])]
    answer = node.call(OffsetCommitRequest(group_id, topics=wanted), 8)
    assert answer.topics[0].partitions[0].error_code == 0


def begin_transaction(node: RealBroker, transactional_id: str) -> tuple[int, int]:
    """Begin a transaction with records in t-0; return its producer."""
    node.broker.create_missing_topics(["__transaction_state"])
    producer = node.call(InitProducerIdRequest(transactional_id, 60_000), 4)
    assert producer.error_code == 0
    who = (producer.producer_id, producer.producer_epoch)
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=who[0],
        v3_and_below_producer_epoch=who[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic("t", [0])],
    )
    node.call(added, 3)
    records = batch(
        b"in", b"transaction", producer_id=who[0], producer_epoch=who[1], base_sequence=0, transactional=True
    )
    produce(node, "t", 0, records, transactional_id)
    return who


def _transact(node: RealBroker, transactional_id: str, *, commit: bool) -> None:
    who = begin_transaction(node, transactional_id)
    assert node.call(EndTxnRequest(transactional_id, *who, commit), 3).error_code == 0


# -- what can be had


def told(node: RealBroker) -> Told:
    """Return all that was acknowledged, as far as the broker's answers tell it."""
    found: Told = {f"{topic}-{partition}": fetched(node, topic, partition) for topic, partition in DATA}
    for number in range(SHARDS):
        group = node.call(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(key_in(number, "g"), topics=None)]), 8
        ).groups[0]
        found[f"__consumer_offsets-{number}"] = (
            ErrorCode(group.error_code).name
            if group.error_code
            else [
                (topic.name, each.partition_index, each.committed_offset)
                for topic in group.topics
                for each in topic.partitions
            ]
        )
        asked = DescribeTransactionsRequest([key_in(number, "x")])
        state = node.call(asked, 0).transaction_states[0]
        found[f"__transaction_state-{number}"] = (
            ErrorCode(state.error_code).name if state.error_code else (state.transaction_state, state.producer_id)
        )
        found[f"__share_group_state-{number}"] = _share_state(node, number)
    return found


def _share_state(node: RealBroker, number: int) -> object:
    shares = node.broker.shares
    key = share_key_in(node.broker.image.topics["u"].id, number)
    refusal = shares.shards.refusal(key.coordinator_key())
    if refusal is not ErrorCode.NONE:
        return refusal.name
    state = shares.coordinator.summary(key)
    return None if state is None else state.start_offset


def fetched(node: RealBroker, topic: str, partition: int) -> object:
    """Return the values of all readable records by their offsets, or the reason why none is readable."""
    values: dict[int, bytes] = {}
    offset = 3 if topic == "u" else 0
    while True:
        wanted = [FetchTopic(topic, partitions=[FetchPartition(partition, fetch_offset=offset)])]
        answer = node.call(FetchRequest(topics=wanted, max_wait_ms=0, max_bytes=1 << 20, isolation_level=0), 11)
        data = answer.responses[0].partitions[0]
        if data.error_code and not values:
            return ErrorCode(data.error_code).name
        if data.error_code or not data.records:
            return values
        with contextlib.suppress(TruncatedBatch):  # clients pass over it too
            for header, each in iter_batches(memoryview(bytes(data.records))):
                if not header.is_control:
                    records = iter_records(each, header)
                    values |= {one.offset: bytes(one.value or b"") for one in records if one.offset >= offset}
                offset = header.next_offset


# -- damage


def _flipped(data: bytes, dice: random.Random, count: int = 1) -> bytes:
    changed = bytearray(data)
    for _ in range(count):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


Damage = Callable[[Path, random.Random], None]


def _rewrite(change: Callable[[bytes, random.Random], bytes]) -> Damage:
    def damage(path: Path, dice: random.Random) -> None:
        path.write_bytes(change(path.read_bytes(), dice))

    return damage


DAMAGES: dict[str, Damage] = {
    "removed": lambda path, dice: path.unlink(),
    "emptied": _rewrite(lambda data, dice: b""),
    "halved": _rewrite(lambda data, dice: data[: len(data) // 2]),
    "short of a byte": _rewrite(lambda data, dice: data[:-1]),
    "zeros": _rewrite(lambda data, dice: bytes(len(data))),
    "garbage": _rewrite(lambda data, dice: dice.randbytes(len(data))),
    "garbage behind": _rewrite(lambda data, dice: data + dice.randbytes(50)),
    **{f"flip {seed}": _rewrite(_flipped) for seed in range(4)},
}


def copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".lock"))
    return target


def files_of(directory: Path) -> Iterable[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
