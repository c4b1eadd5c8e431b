"""The history that a broker writes: what clients were told, whatever befell their requests on the way."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64decode
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.testing.control_client import ControlClient
from tests.control.raw_client import raw_client


def produce(broker: KafkaBroker, value: bytes = b"v", count: int = 1, **settings: Any) -> None:
    own = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({**broker.client_config("confluent"), "client.id": "app", "retry.backoff.ms": 1, **own})
    for _ in range(count):
        producer.produce("t", value, partition=0)
    assert producer.flush(60) == 0


def consume(broker: KafkaBroker, count: int) -> None:
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "client.id": "reader"}
    consumer = Consumer({**broker.client_config("confluent"), **settings})
    consumer.subscribe(["t"])
    for _ in range(count):
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
    consumer.close()


def facts(broker: KafkaBroker, kind: str, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in broker._histories()[0] if row["kind"] == kind]


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    broker.create_topic("t")
    return "t"


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"drop": "before"}, (False, "", -1)),
        ({"drop": "after"}, (False, "", -1)),
        ({"cut": True}, (False, "", -1)),
        ({"error": "NOT_ENOUGH_REPLICAS"}, (True, "NOT_ENOUGH_REPLICAS", -1)),
        ({"error": "REQUEST_TIMED_OUT", "applied": True}, (True, "REQUEST_TIMED_OUT", -1)),
    ],
    ids=str,
)
def test_an_answer_is_written_down_as_the_client_got_it(broker: KafkaBroker, fault: Any, told: Any) -> None:
    broker.faults.add(api="Produce", times=1, **fault)
    produce(broker)
    first, second = facts(broker, "produced", "answered", "error", "offset")
    assert first == told or first == (True, told[1], 0)
    assert second[:2] == (True, "")
    broker.check(allow=["duplicate"])


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("faulty", [False, True])
@pytest.mark.parametrize(("size", "count"), [(10, 1), (5_000, 1), (100_000, 1), (1_000, 500)])
def test_long_requests_and_answers_are_read_from_their_headers(
    broker: KafkaBroker, size: int, count: int, faulty: bool
) -> None:
    if faulty:  # the way of a request under faults is another one
        broker.faults.add(api="Metadata", client_id="nobody", error="UNKNOWN_SERVER_ERROR")
    produce(broker, bytes(size), count, linger_ms=50)
    consume(broker, count)
    produced = facts(broker, "produced", "count", "offset", "error")
    assert sum(each[0] for each in produced) == count
    assert {each[2] for each in produced} == {""}
    broker.check(seen_by="g")
    broker.clear_requests()


@pytest.mark.usefixtures("topic")
def test_with_other_data_the_history_begins_anew(broker: KafkaBroker) -> None:
    broker.snapshot("empty")
    produce(broker)
    broker.restore("empty")
    assert facts(broker, "history", "whole") == [(False,)]
    broker.check(empty_ok=True)
    broker.reset()
    assert facts(broker, "history", "whole") == [(True,)]


@pytest.mark.usefixtures("topic")
def test_a_group_whose_offsets_are_deleted_begins_anew(broker: KafkaBroker) -> None:
    """Records that the group then leaves out would count as skipped."""
    broker.commit("g", "t", 0)
    partition = OffsetDeleteRequestPartition(0)
    request = OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", [partition])])
    with raw_client(broker) as client:
        assert client.ask(request, 0).error_code == 0
    assert facts(broker, "group reset", "group") == [("g",)]


def test_a_deletion_is_written_down_of_a_long_answer_to_a_short_request(broker: KafkaBroker) -> None:
    """The records of a topic that was deleted and made again would count as lost."""
    broker.create_topic("t")
    produce(broker)
    with raw_client(broker) as client:
        names = ["t", *(f"none-{number}" for number in range(80))]
        answer = client.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=30_000), 5)
    assert len(answer.encode(5)) > 4_096
    assert [topic for topic, error in facts(broker, "deleted", "topic", "error") if not error] == ["t"]
    broker.create_topic("t")
    broker.check()


@pytest.mark.parametrize("by_id", [False, True])
def test_a_deletion_without_an_answer_may_have_been_one(broker: KafkaBroker, by_id: bool) -> None:
    broker.create_topic("t")
    produce(broker)
    broker.faults.add(api="DeleteTopics", drop="after")
    topic_id = b64decode(broker.topic("t")["topic_id"] + "==", altchars=b"-_")
    state = DeleteTopicState(None, topic_id) if by_id else DeleteTopicState("t")
    with raw_client(broker) as client:
        client.send(DeleteTopicsRequest(topics=[state], timeout_ms=30_000), 6)
        assert client.socket.recv(1) == b""
    assert facts(broker, "deleted", "topic", "answered") == [("" if by_id else "t", False)]
    broker.check()


@pytest.mark.usefixtures("topic")
def test_the_request_log_goes_on(broker: KafkaBroker) -> None:
    produce(broker, bytes(2_000))
    seen = broker.requests("Produce", client_id="app", bodies=True)[-1]
    assert seen["request_bytes"] > 2_000
    assert seen["request"] is not None
    assert seen["response"] is not None


@pytest.mark.usefixtures("topic")
def test_what_came_in_a_pause_is_written_down_when_it_is_answered(broker: KafkaBroker) -> None:
    broker.faults.add(api="Fetch", times=3, delay_ms=50)
    produce(broker, count=3)
    consume(broker, 3)
    broker.check(seen_by="g")


def test_a_request_that_waits_when_the_history_ends_is_answered() -> None:
    with KafkaBroker(history=True) as broker:
        broker.create_topic("t")
        settings = {"group.id": "g", "fetch.wait.max.ms": 30_000}
        consumer = Consumer({**broker.client_config("confluent"), **settings})
        consumer.assign([TopicPartition("t", 0, 0)])
        assert consumer.poll(0) is None
        broker.wait_for_request("Fetch")
        ControlClient(broker.control_url).call("DELETE", "/history")
        broker.produce("t", ["v" * 200])
        message = consumer.poll(60)
        assert message is not None
        assert message.value() == b"v" * 200
        consumer.close()


def test_a_fetch_without_records_is_not_written_down(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    produce(broker)
    consume(broker, 1)
    size = facts(broker, "history", "size_bytes")
    settings = {"group.id": "g2", "client.id": "idle", "auto.offset.reset": "latest", "fetch.wait.max.ms": 10}
    consumer = Consumer({**broker.client_config("confluent"), **settings})
    consumer.subscribe(["t"])
    while not consumer.assignment():
        assert consumer.poll(0.1) is None
    broker.wait_for_request("Fetch", client_id="idle", n=20, timeout=30)
    consumer.close()
    assert facts(broker, "history", "size_bytes")[0][0] - size[0][0] < 2_000


@pytest.mark.parametrize("faulty", [False, True])
def test_a_fetch_of_a_short_message_is_written_down(faulty: bool) -> None:
    """Before there were batches, a message of a few bytes had little around it."""
    with KafkaBroker(history=True, config={"pykafka.emulate": "0.10.2"}) as broker:
        broker.create_topic("t")
        broker.produce("t", ["v"])
        if faulty:
            broker.faults.add(api="Metadata", client_id="nobody", error="UNKNOWN_SERVER_ERROR")
        wanted = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)]
        asked = FetchRequest(max_wait_ms=30_000, min_bytes=1, topics=[FetchTopic("t", partitions=wanted)])
        with raw_client(broker) as client:
            assert len(client.ask(asked, 2).encode(2)) < 100
        assert facts(broker, "fetched", "topic", "position", "base") == [("t", 0, 0)]


def test_a_fetch_of_compressed_messages_begins_where_the_client_asked() -> None:
    """Messages that are compressed together have the offset of the last one in front."""
    with KafkaBroker(history=True, config={"pykafka.emulate": "0.10.2"}) as broker:
        broker.create_topic("t", config={"compression.type": "gzip"})
        broker.produce("t", ["v" * 30] * 10)
        wanted = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)]
        with raw_client(broker) as client:
            client.ask(FetchRequest(max_wait_ms=30_000, min_bytes=1, topics=[FetchTopic("t", partitions=wanted)]), 2)
        assert facts(broker, "fetched", "position", "base") == [(0, 0)]


def test_a_broker_without_a_history_imports_nothing_of_it() -> None:
    code = """if True:
        import sys
        from pykafka_broker.testing import KafkaBroker
        for history in (False, True):
            with KafkaBroker(in_process=True, history=history) as broker:
                broker.create_topic("orders")
                print("pykafka_broker.control.history.noting" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
