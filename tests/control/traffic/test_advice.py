"""Advice: bad habits are found, good ones and single requests are not."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.control.traffic.advice import Adviser
from pykafka_broker.control.traffic.exchange import Exchange, encoded_response
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.heartbeat_response import HeartbeatResponse
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest
from pykafka_broker.protocol.messages.join_group_response import JoinGroupResponse
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.server.link_codec import encode_request
from tests.broker.support import batch
from tests.control.traffic.known import ORDERS_ID

START_MS = 1_700_000_000_000


class Log:
    """A log of exchanges of clients, each `step_ms` after the one before."""

    def __init__(self, step_ms: int = 1000) -> None:
        self.adviser = Adviser()
        self.step_ms = step_ms
        self.count = 0

    def add(
        self,
        request: Message,
        version: int,
        response: Message | None = None,
        *,
        client_id: Any = "shop",
        connection: int = 1,
        broker: str = "127.0.0.1",
    ) -> None:
        self.count += 1
        frame = b"".join(encode_request(request, version, self.count, client_id))[4:]
        answer: Any = None
        if response is not None:
            spec = SPECS[request.API_KEY]
            answer = tuple(encoded_response(response, spec, version, self.count) or ())
        context = ConnectionContext(connection, "PLAINTEXT", (broker, 9092), ("127.0.0.1", 5000 + connection))
        entry = START_MS + self.count * self.step_ms, context, frame, answer, 1000
        self.adviser.note(Exchange(entry, self.count))

    def found(self) -> dict[str, str]:
        return {each["rule"]: each["seen"] for each in self.adviser.advice()}


def produce(records: int = 5, acks: int = -1, producer_id: int = 7, partition: int = 0) -> ProduceRequest:
    data = bytes(batch(*[b"v"] * records, producer_id=producer_id, producer_epoch=0, base_sequence=0))
    return ProduceRequest(
        acks=acks, topic_data=[TopicProduceData("orders", partition_data=[PartitionProduceData(partition, data)])]
    )


def commit(offset: int) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        "g", topics=[OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, offset)])]
    )


def metadata_of(partitions: int) -> MetadataResponse:
    there = [MetadataResponsePartition(partition_index=index) for index in range(partitions)]
    return MetadataResponse(topics=[MetadataResponseTopic(name="orders", topic_id=ORDERS_ID, partitions=there)])


@pytest.fixture
def log() -> Log:
    return Log()


def test_good_habits_get_no_advice(log: Log) -> None:
    log.add(MetadataRequest([]), 12, metadata_of(2))
    for number in range(40):
        log.add(produce(partition=number % 2), 9)
        log.add(commit(number * 50), 8)
        log.add(HeartbeatRequest("g", 1, "m"), 4, HeartbeatResponse())
    assert log.found() == {}


def test_versions_that_are_gone(log: Log) -> None:
    log.add(HeartbeatRequest("g", 1, "m"), 0)
    log.add(produce(), 2)
    log.add(produce(), 3)
    assert log.found() == {"old-version": "1 Produce requests of version 2"}
    [found] = log.adviser.advice()
    assert found["client_id"] == "shop"
    assert "since Kafka 4.0, which begins with 3 (KIP-896)" in found["since"]
    assert found["requests"] == [2]


@pytest.mark.parametrize(("acks", "says"), [(1, "the leader alone"), (0, "nobody")])
def test_acks(log: Log, acks: int, says: str) -> None:
    log.add(produce(acks=acks), 9)
    assert log.found()["acks"].startswith(f"1 of 1 Produce requests with acks={acks}: {says}")


def test_a_producer_without_idempotence(log: Log) -> None:
    log.add(produce(producer_id=-1), 9)
    assert log.found() == {"no-idempotence": "1 of 1 batches without a producer id: a retry may write them twice"}


def test_batches_of_one_record(log: Log) -> None:
    for _ in range(19):
        log.add(produce(records=1), 9)
    assert log.found() == {}
    log.add(produce(records=1), 9)
    assert log.found() == {"single-records": "20 of 20 batches have one record, up to 20 a minute"}
    for _ in range(10):
        log.add(produce(records=9), 9)
    assert log.found() == {}


def test_a_key_that_is_always_the_same(log: Log) -> None:
    log.add(MetadataRequest([]), 12, metadata_of(3), client_id="admin")
    for _ in range(25):
        log.add(produce(partition=2), 9)
    assert log.found() == {"one-partition": "125 of 125 records for topic orders go to partition 2 of 3"}


def test_a_key_that_is_always_the_same_where_topics_have_ids(log: Log) -> None:
    for _ in range(25):
        request = produce(partition=2)
        request.topic_data[0].topic_id = ORDERS_ID
        log.add(request, 13)
    assert log.found() == {}
    log.add(MetadataRequest([]), 12, metadata_of(3), client_id="admin")
    assert log.found() == {"one-partition": "125 of 125 records for topic orders go to partition 2 of 3"}


def test_a_topic_of_one_partition_has_one(log: Log) -> None:
    log.add(MetadataRequest([]), 12, metadata_of(1), client_id="admin")
    for _ in range(25):
        log.add(produce(), 9)
    assert log.found() == {}


def test_a_commit_for_each_record(log: Log) -> None:
    for offset in range(30):
        log.add(commit(offset), 8)
    assert log.found() == {
        "commit-a-record": "29 of 29 commits are one record further than the one before, up to 29 a minute"
    }


def test_commits_of_several_topics_by_id_are_told_apart(log: Log) -> None:
    for number in range(60):
        request = commit(number)
        request.topics[0].topic_id = ORDERS_ID if number % 2 else bytes(15) + b"2"
        log.add(request, 10)
    assert log.found() == {}


def test_fetches_that_bring_nothing(log: Log) -> None:
    request = FetchRequest(topics=[FetchTopic("orders", partitions=[FetchPartition(0)])])
    empty = FetchResponse(responses=[FetchableTopicResponse("orders", partitions=[PartitionData(0, records=b"")])])
    busy = Log(step_ms=10)
    for _ in range(600):
        log.add(request, 11, empty)
        busy.add(request, 11, empty)
    assert log.found() == {}
    assert busy.found() == {"empty-fetches": "600 fetches within a minute came back without records"}
    spread = Log(step_ms=100)  # a consumer of several brokers asks each of them
    for number in range(600):
        spread.add(request, 11, empty, broker=f"10.0.0.{number % 3}")
    assert spread.found() == {}


def test_metadata_and_joins_again_and_again(log: Log) -> None:
    for _ in range(61):
        log.add(MetadataRequest([]), 12, metadata_of(1))
    for _ in range(4):
        log.add(JoinGroupRequest("g"), 7, JoinGroupResponse())
    assert log.found() == {
        "metadata": "60 Metadata requests within a minute",
        "rebalances": "4 JoinGroup requests within a minute",
    }


def test_a_connection_for_each_record(log: Log) -> None:
    for connection in range(9):
        log.add(produce(), 9, connection=connection)
    assert log.found() == {}
    log.add(produce(), 9, connection=10)
    assert log.found() == {"connection-a-record": "10 of 10 connections were made for one Produce request"}


@pytest.mark.parametrize("client_id", [None, ""])
def test_clients_without_an_id(log: Log, client_id: str | None) -> None:
    log.add(commit(1), 8, client_id=client_id)
    assert log.found() == {"no-client-id": "1 connection without a client id"}


def test_errors_that_are_repeated(log: Log) -> None:
    for _ in range(10):
        log.add(HeartbeatRequest("g", 1, "m"), 4, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        log.add(HeartbeatRequest("g", 1, "m"), 4, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    log.add(JoinGroupRequest("g"), 7, JoinGroupResponse(error_code=ErrorCode.INVALID_SESSION_TIMEOUT))
    assert log.found() == {
        "same-error": "10 Heartbeat requests were answered UNKNOWN_MEMBER_ID, up to 10 a minute",
        "session-timeout": "1 JoinGroup requests were refused: INVALID_SESSION_TIMEOUT",
    }


@pytest.mark.parametrize("cut", [5, 16, 40, 60])
def test_a_batch_that_is_damaged_is_passed_over(log: Log, cut: int) -> None:
    request = produce(producer_id=-1)
    records = bytearray(request.topic_data[0].partition_data[0].records or b"")
    records[8:12] = b"\xff\xff\xff\xff"  # its length
    for damaged in (bytes(records), bytes(records[:cut])):
        request.topic_data[0].partition_data[0].records = damaged
        log.add(request, 9)
    assert log.found() == {}


def test_an_old_message_format_is_found(log: Log) -> None:
    request = produce()
    records = bytearray(request.topic_data[0].partition_data[0].records or b"")
    records[16] = 1  # the magic
    request.topic_data[0].partition_data[0].records = bytes(records)
    log.add(request, 3)
    assert log.found() == {"old-message-format": "1 batches in a message format before 0.11"}


def test_a_request_that_makes_no_sense_is_passed_over(log: Log) -> None:
    context = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 5000))
    log.adviser.note(Exchange((START_MS, context, b"\0\0\0\x09\0\0\0\1\0\4shop", None, 0), 1))
    log.adviser.note(Exchange((START_MS, context, b"\x7f\x7f\0\x09\0\0\0\1\0\4shop", None, 0), 2))
    log.adviser.note(Exchange((START_MS, context, b"", None, 0), 3))
    assert set(log.found()) <= {"no-client-id"}
