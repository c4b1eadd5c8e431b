"""Recordings of two versions of an application."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from pykafka_broker.cli import main
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.compression import GZIP, NONE
from pykafka_broker.records.conversion import build_message_set
from pykafka_broker.records.record import BatchRecord
from pykafka_broker.steps import at_once
from pykafka_broker.testing import KafkaBroker, compare_recordings
from pykafka_broker.testing.compared_answers import differing
from pykafka_broker.testing.recording import Recording
from tests.testing.test_masking import exchange
from tests.testing.test_partial_recordings import zstd_message

TIMEOUT_S = 60
Bill = Callable[[int], bytes]


def recorded(path: Path, bill: Bill, orders: int = 4) -> Path:
    """Record an application that reads orders and writes bills in transactions."""
    with KafkaBroker(in_process=True) as broker:
        for topic in ("orders", "billed"):
            broker.create_topic(topic)
        broker.produce("orders", [str(number) for number in range(4)])
        broker.start_recording()
        servers = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "biller"}
        reading = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer, producer = Consumer({**servers, **reading}), Producer({**servers, "transactional.id": "bills"})
        producer.init_transactions(TIMEOUT_S)
        consumer.subscribe(["orders"])
        for number in range(orders):
            order = consumer.poll(TIMEOUT_S)
            assert order is not None
            producer.begin_transaction()
            producer.produce("billed", bill(number), key=order.value())
            producer.commit_transaction(TIMEOUT_S)
            consumer.commit(message=order, asynchronous=False)
        consumer.close()
        broker.save_recording(path)
    return path


@pytest.mark.parametrize(("version", "codec"), [(2, NONE), (2, GZIP), (3, NONE)])
def test_records_of_all_formats_are_compared(version: int, codec: int) -> None:
    """Produce up to v2 has sets of messages, which are no batches."""

    def wrote(value: bytes) -> Recording:
        records = [BatchRecord(0, 1_000, b"k", value)]
        if version < 3:
            data = at_once(build_message_set(records, 1, codec=codec))
        else:
            builder = BatchBuilder()
            builder.extend(records)
            data = bytes(builder.build())
        produced = TopicProduceData("orders", partition_data=[PartitionProduceData(0, data)])
        asked = ProduceRequest(None, 1, 1000, [produced])
        told = ProduceResponse([TopicProduceResponse("orders", partition_responses=[PartitionProduceResponse(0)])])
        return Recording([], [exchange(asked, told, version)])

    assert list(differing(wrote(b"paid"), wrote(b"paid"))) == []
    assert list(differing(wrote(b"paid"), wrote(b"owed"))) == [
        "shop writes orders-0, number 1: recorded b'k': b'paid', now b'k': b'owed'"
    ]


def test_records_that_can_not_be_read_are_no_difference() -> None:
    told = ProduceResponse([TopicProduceResponse("orders", partition_responses=[PartitionProduceResponse(0)])])
    produced = TopicProduceData("orders", partition_data=[PartitionProduceData(0, zstd_message())])
    both = Recording([], [exchange(ProduceRequest(None, 1, 1000, [produced]), told, 2)])
    assert list(differing(both, both)) == []


def test_what_a_new_version_writes_otherwise_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = recorded(tmp_path / "old.jsonl", lambda number: b"paid")
    same = recorded(tmp_path / "same.jsonl", lambda number: b"paid")
    assert main(["replay", str(old), "--compare", str(same)]) == 0
    assert capsys.readouterr().out == "the clients wrote and committed the same\n"
    other = recorded(tmp_path / "other.jsonl", lambda number: b"owed" if number == 2 else b"paid", orders=3)
    told = [
        "biller writes billed-0, number 3: recorded b'2': b'paid', now b'2': b'owed'",
        "bills ends transactions, number 4: recorded commit, now nothing",
        "billing commits orders-0, number 1: recorded 4, now 3",
    ]
    assert main(["replay", str(old), "--compare", str(other)]) == 3
    assert capsys.readouterr().out.splitlines() == told[:1]
    assert main(["replay", str(old), "--compare", str(other), "--all"]) == 3
    assert capsys.readouterr().out.splitlines() == told
    assert compare_recordings(old, other) == told
    assert compare_recordings(old, same) == []


def test_recordings_without_a_write_or_a_commit_are_not_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = tmp_path / "silent.jsonl"
    with KafkaBroker(in_process=True) as broker:
        broker.start_recording()
        broker.save_recording(silent)
    says = "neither recording has a write or a commit that was acknowledged: nothing could differ"
    with pytest.raises(ValueError, match=f"^{says}$"):
        compare_recordings(silent, silent)
    assert main(["replay", str(silent), "--compare", str(silent)]) == 1
    assert capsys.readouterr().err == f"pykafka-broker replay: {says}\n"
