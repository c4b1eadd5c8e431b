"""Kafka's transaction tools, which examine transactions of Java's producer."""

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from interop.conftest import NewBroker
from interop.java_tools import Outcome
from interop.java_transactions import JavaClients, JavaProducer
from interop.raw import RawClient, leader_of
from interop.targets import Target
from interop.waiting import eventually
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.record import BatchRecord

pytestmark = pytest.mark.java
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
)
T0 = [{"topic": "t", "partitionIds": [0]}]
FENCED = "ProducerFencedException|InvalidProducerEpochException"

NewProducer = Callable[..., JavaProducer]


@pytest.fixture
def tool(java: JavaClients, bootstrap: str) -> Callable[..., Outcome]:
    """A function that runs `kafka-transactions`, which has to succeed."""

    def run(*arguments: str, server: str = bootstrap) -> Outcome:
        outcome = java.run("kafka-transactions", "--bootstrap-server", server, *arguments)
        assert outcome.status == 0, f"{arguments}: {outcome.out}{outcome.err}"
        return outcome

    return run


@pytest.fixture
def new_producer(java: JavaClients, bootstrap: str) -> Iterator[NewProducer]:
    made: list[JavaProducer] = []

    def make(name: str, server: str = bootstrap, **config: object) -> JavaProducer:
        made.append(java.producer(server, name, **config))
        return made[-1]

    yield make
    for producer in made:
        producer.leave()


def table(outcome: Outcome) -> list[list[str]]:
    """Return the cells of a table that a tool printed, without its headings."""
    return [re.split(r"\s*\t\s*|\s{2,}", line.strip()) for line in outcome.lines[1:]]


def read(bootstrap: str, topic: str, isolation_level: str = "read_committed") -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[str] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error():
            break
        if message is not None:
            found.append((message.value() or b"").decode())
    consumer.close()
    return found


def test_a_transaction_as_the_tools_see_it(tool: Any, new_producer: NewProducer, topic: str, bootstrap: str) -> None:
    producer = new_producer("seen").begin().send(topic, "one", "two")
    ((_, coordinator, producer_id, state),) = [row for row in table(tool("list")) if row[0] == "seen"]
    assert state == "Ongoing"
    (row,) = table(tool("describe", "--transactional-id", "seen"))
    assert row[0] == coordinator
    assert row[1:5] == ["seen", producer_id, "0", "Ongoing"]
    assert row[-1] == f"{topic}-0"
    (open_row,) = table(tool("describe-producers", "--topic", topic, "--partition", "0"))
    assert open_row[:2] == [producer_id, "0"]
    assert open_row[3] == "1"
    assert open_row[-1] == "0"
    assert read(bootstrap, topic) == []
    producer.commit()
    eventually(lambda: [row[3] for row in table(tool("list")) if row[0] == "seen"], ["CompleteCommit"])
    (row,) = table(tool("describe", "--transactional-id", "seen"))
    # each end bumps the epoch (KIP-890)
    assert row[1:5] == ["seen", producer_id, "1", "CompleteCommit"]
    (row,) = table(tool("describe-producers", "--topic", topic, "--partition", "0"))
    assert row[:2] == [producer_id, "1"]
    assert row[-1] == "None"
    assert read(bootstrap, topic) == ["one", "two"]


def test_list_filters(tool: Any, new_producer: NewProducer, topic: str) -> None:
    new_producer("filter-open").begin().send(topic, "one")
    new_producer("filter-idle")
    by_pattern = tool("list", "--transactional-id-pattern", "filter-(open|idle)")
    assert sorted(row[0] for row in table(by_pattern)) == ["filter-idle", "filter-open"]
    assert "filter-open" in tool("list", "--duration-filter", "0").out
    assert "filter-open" not in tool("list", "--duration-filter", "600000").out


def test_force_terminate_aborts_and_fences(tool: Any, new_producer: NewProducer, topic: str, bootstrap: str) -> None:
    producer = new_producer("terminated").begin().send(topic, "never")
    tool("forceTerminateTransaction", "--transactionalId", "terminated")
    eventually(lambda: "Ongoing" in tool("describe", "--transactional-id", "terminated").out, False)
    with pytest.raises(Exception, match=FENCED):
        producer.send(topic, "too late").commit()
    assert read(bootstrap, topic) == []
    assert read(bootstrap, topic, "read_uncommitted") == ["never"]


def test_an_admin_fences(java: JavaClients, new_producer: NewProducer, topic: str, bootstrap: str) -> None:
    producer = new_producer("fenced").begin().send(topic, "never")
    java.fence(bootstrap, "fenced")
    with pytest.raises(Exception, match=FENCED):
        producer.send(topic, "too late").commit()
    new_producer("fenced").begin().send(topic, "again").commit()
    eventually(lambda: read(bootstrap, topic), ["again"])


def test_the_later_of_two_producers_wins(new_producer: NewProducer, topic: str, bootstrap: str) -> None:
    first = new_producer("twins").begin().send(topic, "from the first")
    second = new_producer("twins").begin().send(topic, "from the second")
    with pytest.raises(Exception, match=FENCED):
        first.commit()
    second.commit()
    eventually(lambda: read(bootstrap, topic), ["from the second"])


@pytest.fixture
def lenient(new_broker: NewBroker) -> Target:
    """A broker that lets old producers write to partitions that are not part of their transaction."""
    return new_broker(transaction_partition_verification_enable="false")


def hang(server: str, topic: str) -> int:
    """Leave a transaction open that no coordinator knows of; its records are an hour old. Returns the producer id."""
    with RawClient(leader_of(server, topic)) as client:
        producer = client.call(InitProducerIdRequest(None, 60_000), 4)
        stale = int(time.time() * 1000) - 3_600_000
        records = build_batch(
            [BatchRecord(0, stale, None, b"hanging")],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, bytes(records))])
        answer = client.call(ProduceRequest("lost", -1, 5_000, [data]), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        return int(producer.producer_id)


def test_a_hanging_transaction_is_found_and_aborted(java: JavaClients, tool: Any, lenient: Target) -> None:
    server = lenient.bootstrap_servers
    java.run("kafka-topics", "--bootstrap-server", server, "--create", "--topic", "t", "--partitions", "1")
    java.producer(server, "first").leave()  # makes the coordinator's topic, as the tool asks every coordinator
    producer_id = hang(server, "t")
    assert read(server, "t") == []
    (row,) = table(tool("find-hanging", "--topic", "t", server=server))
    assert row[:4] == ["t", "0", str(producer_id), "0"]
    tool("abort", "--topic", "t", "--partition", "0", "--start-offset", "0", server=server)
    assert table(tool("find-hanging", "--topic", "t", server=server)) == []
    new = java.producer(server, "next").begin().send("t", "after it")
    new.commit()
    new.leave()
    eventually(lambda: read(server, "t"), ["after it"])


@pytest.mark.one_broker("it looks into the files of one")
def test_our_log_in_the_hands_of_kafkas_readers(java: JavaClients, new_broker: NewBroker) -> None:
    broker = new_broker(transaction_state_log_num_partitions="1")
    server = broker.bootstrap_servers
    java.run("kafka-topics", "--bootstrap-server", server, "--create", "--topic", "t", "--partitions", "1")
    producer = java.producer(server, "read-me")
    producer.begin().send("t", "kept").commit()
    producer.begin().send("t", "dropped").abort()
    producer.leave()
    said = java.run(
        "kafka-console-consumer",
        *("--bootstrap-server", server, "--topic", "__transaction_state", "--from-beginning"),
        *("--max-messages", "7", "--timeout-ms", "60000"),
        *("--formatter", "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"),
    )
    assert said.out.count('"transactionalId":"read-me"') == 7, said.out + said.err
    broker.stop()
    folder = broker.data_dir / "__transaction_state-0"
    dumped = java.run(
        "kafka-dump-log", "--transaction-log-decoder", "--files", str(folder / "00000000000000000000.log")
    )
    assert dumped.status == 0, dumped.err
    values = [json.loads(found)["data"] for found in re.findall(r"payload: (.*)", dumped.out)]
    assert [(value["producerEpoch"], value["transactionStatus"]) for value in values] == [
        (0, EMPTY),
        (0, ONGOING),
        (1, PREPARE_COMMIT),
        (1, COMPLETE_COMMIT),
        (1, ONGOING),
        (2, PREPARE_ABORT),
        (2, COMPLETE_ABORT),
    ]
    assert [value["transactionPartitions"] for value in values[1:4]] == [T0, T0, []]
