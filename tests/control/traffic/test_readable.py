"""Requests of clients, as people read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from interop.raw import RawClient
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.readable import api_keys, as_json, error_code, line, seen
from pykafka_broker.protocol.messages.alter_client_quotas_request import OpData
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.compression import GZIP, NONE
from pykafka_broker.records.record import BatchRecord, Headers
from pykafka_broker.testing import KafkaBroker


def records_of(request: Mapping[str, Any]) -> Any:
    return request["request"]["topic_data"][0]["partition_data"][0]["records"]


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_records_inside_a_produce_are_shown_on_demand(broker: KafkaBroker, codec: int) -> None:
    topic = f"inside-{codec}"
    broker.create_topic(topic)
    records = [
        BatchRecord(0, 5, b"k", b"v", [("trace", b"abc")]),
        BatchRecord(1, 6, None, b"\xff"),
        BatchRecord(2, 7, b"gone", None),
    ]
    partition = PartitionProduceData(0, bytes(build_batch(records, codec=codec)))
    sent = [TopicProduceData(topic, partition_data=[partition])]
    with RawClient(broker.bootstrap_servers) as client:
        client.call(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=sent), 9)
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
    headers: Headers = [("no text: \udcff", None)]
    batch = build_batch([BatchRecord(offset, value=b"v" * 2000, headers=headers) for offset in range(150)])
    (shown,) = as_json(PartitionProduceData(0, bytes(batch)), records=True)["records"]
    assert (shown["count"], len(shown["records"]), len(shown["records"][0]["value"])) == (150, 100, 1024)
    assert shown["records"][0]["headers"] == [{"name": "no text: \ufffd", "value": None}]


def test_a_request_is_one_line_whatever_its_client_calls_itself() -> None:
    """Control characters in names are escaped: a client could else forge lines or move a terminal's cursor."""
    name = "a\n12:00:00.000 Fetch\x1b[2J\u202e"
    frame = b"\0\x12\0\0\0\0\0\1" + len(name.encode()).to_bytes(2, "big") + name.encode()
    connection = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))
    connection.principal = "User:a\nb"
    told = line(seen(Exchange((0, connection, frame, None, 0)), bodies=False))
    assert told.isprintable()
    assert "a\\n12:00:00.000 Fetch\\x1b[2J\\u202e User:a\\nb 127.0.0.1:50000" in told


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_told_as_text(value: float) -> None:
    told = as_json(OpData("producer_byte_rate", value, False))
    assert json.dumps(told, allow_nan=False) == json.dumps(
        {"key": "producer_byte_rate", "value": str(value), "remove": False}
    )


@pytest.mark.parametrize("api", ["9" * 5000, "99999", "Prodce"])
def test_an_api_that_is_none_is_refused(api: str) -> None:
    with pytest.raises(Problem, match="there is no API"):
        api_keys([api])


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("LEADER", "did you mean LEADER_NOT_AVAILABLE or NOT_LEADER_OR_FOLLOWER or "),
        ("NotLeaderException", "did you mean NOT_LEADER_OR_FOLLOWER"),
        ("TIMED", "did you mean REQUEST_TIMED_OUT"),
        ("qq", "names are Kafka's, such as UNKNOWN_SERVER_ERROR and OFFSET_OUT_OF_RANGE"),
    ],
)
def test_an_unknown_error_is_told_with_a_few_names(error: str, says: str) -> None:
    with pytest.raises(Problem, match=says) as refused:
        error_code(error)
    assert len(refused.value.detail) < 300


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "not_leader_or_follower", "NotLeaderOrFollower", 6])
def test_an_error_may_be_spelt_as_an_api(error: str | int) -> None:
    assert error_code(error) == 6


def test_an_unknown_api_is_told_with_a_few_names() -> None:
    with pytest.raises(Problem, match="there is no API poll; names are Kafka's, such as Produce and Fetch"):
        api_keys("poll")
    with pytest.raises(
        Problem, match=r"there is no API Offset; did you mean OffsetFetch or ListOffsets or OffsetDelete"
    ):
        api_keys("Offset")
