"""The partition that a key belongs to, and the calls to and from a coordinator's log."""

from __future__ import annotations

import tracemalloc
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from pykafka_broker.broker.coordinators.coordinator_log import (
    SenselessRecord,
    partition_for,
    read_batches,
    replay_batch,
)
from pykafka_broker.broker.coordinators.shards import CoordinatorShards
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.compression import ZSTD
from pykafka_broker.records.header import read_header
from pykafka_broker.records.record import BatchRecord, iter_records
from tests.broker.raw_record import FRAME, raw_record
from tests.broker.support import NOW, LightBroker


@pytest.mark.parametrize(
    ("key", "partitions", "expected"),
    [
        ("", 50, 0),
        ("abc", 1_000_000, 96_354),
        ("hello world", 50, 1_794_106_052 % 50),
        ("group-7", 50, 293_427_305 % 50),
        ("polygenelubricants", 50, 0),  # its hash is the one int that has no absolute value
        ("\U0001f600", 1_000_000, 1_772_899 % 1_000_000),  # two UTF-16 units
        # as a real broker placed them
        ("epochs-run-out-512e86-v", 50, 32),
        ("before-kip-890-df9734-u", 50, 36),
    ],
)
def test_a_key_goes_where_java_puts_it(key: str, partitions: int, expected: int) -> None:
    assert partition_for(key, partitions) == expected


class Host:
    """A coordinator that knows nothing."""

    def load(self, number: int, partition: Partition) -> Iterator[int]:
        yield from ()

    def loaded(self, number: int, epoch: int) -> None:
        pass

    def unload(self, indexes: Collection[int]) -> None:
        pass


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    light = LightBroker(tmp_path)
    light.add("log")
    return light


@pytest.fixture
def shards(broker: LightBroker) -> CoordinatorShards:
    return CoordinatorShards(broker.whole.node, "log", Host())


def test_a_decision_is_one_batch(broker: LightBroker, shards: CoordinatorShards) -> None:
    decisions = [[raw_record(b"a", b"1"), raw_record(b"b", None)], [raw_record(b"a", b"2")]]
    for records in decisions:
        shards.append(0, records)
    found = [
        [(record.key, record.value, record.timestamp) for record in iter_records(batch, header)]
        for header, batch in read_batches(broker.partition_log("log", 0))
    ]
    assert found == [
        [(FRAME + b"a", FRAME + b"1", NOW), (FRAME + b"b", None, NOW)],
        [(FRAME + b"a", FRAME + b"2", NOW)],
    ]


def test_a_producer_that_is_named_makes_it_transactional(broker: LightBroker, shards: CoordinatorShards) -> None:
    shards.append(0, [raw_record(b"a", b"1")], producer_id=7, producer_epoch=3)
    ((header, _),) = read_batches(broker.partition_log("log", 0))
    assert (header.producer_id, header.producer_epoch, header.is_transactional) == (7, 3, True)
    assert broker.partition_log("log", 0).last_stable_offset == 0


def test_many_batches_are_read_in_order(broker: LightBroker, shards: CoordinatorShards) -> None:
    value = b"x" * 60_000
    for number in range(60):
        shards.append(0, [raw_record(b"%d" % number, value)])
    offsets = [header.base_offset for header, _ in read_batches(broker.partition_log("log", 0))]
    assert offsets == list(range(60))


@pytest.mark.parametrize(
    ("told", "tells"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_refusal_is_told_in_the_coordinators_words(
    shards: CoordinatorShards, monkeypatch: pytest.MonkeyPatch, told: ErrorCode, tells: ErrorCode
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ApiError(told)

    monkeypatch.setattr(PartitionLog, "append", refuse)
    with pytest.raises(ApiError) as raised:
        shards.append(0, [raw_record(b"a", b"1")])
    assert raised.value.code is tells


def test_a_log_that_is_not_there(broker: LightBroker) -> None:
    with pytest.raises(ApiError) as raised:
        CoordinatorShards(broker.whole.node, "other", Host()).append(0, [raw_record(b"a", b"1")])
    assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_bomb_makes_no_sense_and_takes_little_memory() -> None:
    bomb = memoryview(build_batch([BatchRecord(0, NOW, b"k", bytes(100 << 20))], codec=ZSTD))
    tracemalloc.start()
    with pytest.raises(SenselessRecord, match="grows beyond"):
        replay_batch(read_header(bomb), bomb, lambda record: None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20
