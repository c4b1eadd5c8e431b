"""Requests of clients, as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Producer

from pykafka_broker.control.traffic.readable import as_json
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.record import BatchRecord
from pykafka_broker.testing import KafkaBroker


def records_of(request: Mapping[str, Any]) -> Any:
    return request["request"]["topic_data"][0]["partition_data"][0]["records"]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_records_inside_a_produce_are_shown_on_demand(broker: KafkaBroker, codec: str) -> None:
    topic = f"inside-{codec}"
    broker.create_topic(topic)
    producer = Producer(broker.client_config("confluent") | {"linger.ms": 1000, "compression.type": codec})
    producer.produce(topic, "v", "k", timestamp=5, headers={"trace": b"abc"})
    producer.produce(topic, b"\xff", None, timestamp=6)
    producer.produce(topic, None, "gone", timestamp=7)
    assert producer.flush(30) == 0
    (plain,) = broker.requests("Produce", topic=topic, bodies=True)
    assert records_of(plain).endswith(" bytes")
    (seen,) = broker.requests("Produce", topic=topic, bodies=True, records=True)
    (batch,) = records_of(seen)
    assert (batch["count"], batch["is_transactional"]) == (3, False)
    assert batch["records"] == [
        {"timestamp": 5, "key": "k", "value": "v", "headers": [{"name": "trace", "value": "abc"}]},
        {"timestamp": 6, "key": None, "value": "/w==", "headers": []},
        {"timestamp": 7, "key": "gone", "value": None, "headers": []},
    ]


def test_records_that_are_not_whole_are_told_by_their_size() -> None:
    batch = bytes(build_batch([BatchRecord(value=b"v" * 100)]))
    for damaged in (batch[:-1] + b"w", batch[:-1], batch + b"\0", bytes(len(batch)), b"\0" * 3):
        shown = as_json(PartitionProduceData(0, damaged), records=True)
        assert shown["records"] == f"{len(damaged)} bytes"


def test_long_batches_and_values_are_cut() -> None:
    batch = build_batch([BatchRecord(offset, value=b"v" * 2000) for offset in range(150)])
    (shown,) = as_json(PartitionProduceData(0, bytes(batch)), records=True)["records"]
    assert (shown["count"], len(shown["records"]), len(shown["records"][0]["value"])) == (150, 100, 1024)
