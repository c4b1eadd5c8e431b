"""The answers to a kind of batch, produced to a broker. Rule: only differences that a client can see are noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.records.header import read_header
from tests.broker.produced.kinds import Kind

VERSION = 12
CLOCK_FROM = 1_650_000_000_000  # kinds have earlier times, or such as no clock shows
CLOCK_TO = 1 << 50

Call = Callable[[Any, int], Any]


def ask(call: Call, kind: Kind) -> dict[str, Any]:
    """Produce a batch and note the answer; `call` takes a request and its version and returns the answer."""
    data = TopicProduceData(kind.topic, partition_data=[PartitionProduceData(0, memoryview(bytearray(kind.data)))])
    answer = call(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data]), VERSION)
    one = answer.responses[0].partition_responses[0]
    noted: dict[str, Any] = {"error": one.error_code}
    if one.error_message:
        noted["text"] = one.error_message
    if one.record_errors:
        noted["records"] = [error.batch_index for error in one.record_errors]
        noted["why"] = sorted({(error.batch_index_error_message or "").split(" ")[0] for error in one.record_errors})
    noted["log start"] = one.log_start_offset >= 0  # retention may have moved it
    if not one.error_code:
        noted["append time"] = _steady(one.log_append_time_ms)
        noted["written"] = _written(call, kind.topic, one.base_offset)
    return noted


def _steady(time: int) -> int | str:
    return "now" if CLOCK_FROM < time < CLOCK_TO else time


def _written(call: Call, topic: str, offset: int) -> list[int | str]:
    """Return attributes, count, last offset delta, base and max timestamp of the batch at that offset."""
    wanted = FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=1)])
    fetched = call(FetchRequest(max_wait_ms=5000, min_bytes=1, max_bytes=1, topics=[wanted]), VERSION)
    header = read_header(bytes(fetched.responses[0].partitions[0].records)[:61])
    assert header.base_offset == offset
    times = [_steady(header.base_timestamp), _steady(header.max_timestamp)]
    return [header.attributes, header.count, header.last_offset_delta, *times]
