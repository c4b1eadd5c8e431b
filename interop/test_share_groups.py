"""Share groups (KIP-932) with Java's share consumer and Kafka's own tools."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from interop.conftest import NewBroker
from interop.java_shares import JavaShareConsumer
from interop.java_tools import Outcome
from interop.java_transactions import JavaClients
from interop.targets import Target
from interop.waiting import eventually

pytestmark = pytest.mark.java
NewConsumer = Callable[..., JavaShareConsumer]


@pytest.fixture
def tool(java: JavaClients, bootstrap: str) -> Callable[..., Outcome]:
    """A function that runs a tool of Kafka, which has to succeed."""

    def run(name: str, *arguments: str, server: str = bootstrap) -> Outcome:
        outcome = java.run(name, "--bootstrap-server", server, *arguments)
        assert outcome.status == 0, f"{arguments}: {outcome.out}{outcome.err}"
        return outcome

    return run


@pytest.fixture
def group(topic: str, tool: Callable[..., Outcome]) -> str:
    """A share group with the name of its topic, which begins with the first record."""
    from_the_start(tool, topic)
    return topic


def from_the_start(tool: Callable[..., Outcome], group: str, server: str | None = None, **configs: str) -> None:
    settings = {"share.auto.offset.reset": "earliest", **{key.replace("_", "."): v for key, v in configs.items()}}
    pairs = ",".join(f"{key}={value}" for key, value in settings.items())
    where = {} if server is None else {"server": server}
    tool("kafka-configs", "--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", pairs, **where)


@pytest.fixture
def consumer(java: JavaClients, bootstrap: str) -> Iterator[NewConsumer]:
    made: list[JavaShareConsumer] = []

    def make(group: str, *topics: str, server: str = bootstrap, **config: object) -> JavaShareConsumer:
        made.append(JavaShareConsumer(java, server, group, list(topics or [group]), **config))
        return made[-1]

    yield make
    for one in made:
        one.close()


def send(bootstrap: str, topic: str, *values: str, **config: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    errors: list[Any] = []
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush()
    assert errors == [None] * len(values)


def read_until(consumer: JavaShareConsumer, count: int) -> list[str]:
    """Accept records until there are so many."""
    values: list[str] = []
    for _ in range(20):
        values += consumer.accept_all(5)
        if len(values) >= count:
            break
    return values


def start_offset(tool: Callable[..., Outcome], group: str, **where: str) -> list[str]:
    """Return the start offset and the lag of the only partition, as `kafka-share-groups` prints them."""
    lines = tool("kafka-share-groups", "--describe", "--offsets", "--group", group, **where).lines
    return next(line.split()[3:5] for line in lines if line.startswith(f"{group} "))


def test_console_consumer(tool: Callable[..., Outcome], bootstrap: str, topic: str, group: str) -> None:
    send(bootstrap, topic, *"abcde")
    read = tool(
        "kafka-console-share-consumer",
        *("--topic", topic, "--group", group, "--max-messages", "5", "--timeout-ms", "20000"),
    )
    assert read.lines == list("abcde")
    eventually(lambda: start_offset(tool, group)[1], "0")


def test_two_consumers_share_a_partition(
    consumer: NewConsumer, tool: Callable[..., Outcome], bootstrap: str, topic: str, group: str
) -> None:
    one, two = consumer(group, max_poll_records=10), consumer(group, max_poll_records=10)

    def assigned() -> int:
        members = tool("kafka-share-groups", "--describe", "--members", "--verbose", "--group", group).out
        return members.count(f"{topic}:0")

    eventually(lambda: one.poll(0.1) or two.poll(0.1) or assigned(), 2, 60)  # else the first might read everything
    values = [str(number) for number in range(400)]
    for first in range(0, 400, 10):
        send(bootstrap, topic, *values[first : first + 10])
    read: list[str] = []
    shares = [0, 0]
    for _ in range(200):
        for index, reader in enumerate((one, two)):
            got = reader.accept_all(0.2)
            shares[index] += len(got)
            read += got
        if len(read) >= 400:
            break
    assert sorted(read, key=int) == values  # each once
    assert min(shares) > 0


def test_release_reject_and_accept(
    consumer: NewConsumer, tool: Callable[..., Outcome], bootstrap: str, topic: str, group: str
) -> None:
    send(bootstrap, topic, "keep", "again", "never")
    reader = consumer(group)
    records = reader.poll()
    assert [(one.value(), one.deliveryCount().get()) for one in records] == [("keep", 1), ("again", 1), ("never", 1)]
    for record, how in zip(records, ("ACCEPT", "RELEASE", "REJECT"), strict=True):
        reader.acknowledge(record, how)
    assert not reader.commit()
    (again,) = reader.poll()
    assert (again.value(), again.deliveryCount().get()) == ("again", 2)
    assert start_offset(tool, group) == ["0", "1"]
    reader.acknowledge(again, "ACCEPT")
    assert not reader.commit()
    send(bootstrap, topic, "last")
    assert reader.accept_all() == ["last"]


def test_locks_are_renewed(consumer: NewConsumer, new_broker: NewBroker, tool: Callable[..., Outcome]) -> None:
    broker = new_broker(group_share_min_record_lock_duration_ms=1000, group_share_record_lock_duration_ms=9000)
    server = broker.bootstrap_servers
    send(server, "renewed", "slow")
    from_the_start(tool, "renewed", server)
    reader, other = consumer("renewed", server=server), consumer("renewed", server=server)
    (slow,) = reader.poll()
    for _ in range(5):  # together longer than a lock, and each so much shorter that a busy machine renews in time
        reader.acknowledge(slow, "RENEW")
        assert not reader.commit()
        assert other.poll(2) == []
        (slow,) = reader.poll()  # the client hands a renewed record out once more
    reader.acknowledge(slow, "ACCEPT")
    assert not reader.commit()
    assert other.poll(3) == []


def test_a_lock_that_ends_gives_the_record_to_another(
    consumer: NewConsumer, new_broker: NewBroker, tool: Callable[..., Outcome]
) -> None:
    broker = new_broker(group_share_min_record_lock_duration_ms=1000, group_share_record_lock_duration_ms=5000)
    server = broker.bootstrap_servers
    send(server, "locked", "it")
    from_the_start(tool, "locked", server)
    slow, quick = consumer("locked", server=server), consumer("locked", server=server)
    (it,) = slow.poll()
    from_the_start(tool, "locked", server, share_record_lock_duration_ms="60000")  # the second lock outlasts the test
    (same,) = quick.poll()
    assert (same.value(), same.deliveryCount().get()) == ("it", 2)
    slow.acknowledge(it, "ACCEPT")
    assert "InvalidRecordStateException" in str(slow.commit())
    quick.acknowledge(same, "ACCEPT")
    assert not quick.commit()


def test_closing_gives_back(consumer: NewConsumer, bootstrap: str, topic: str, group: str) -> None:
    send(bootstrap, topic, "a", "b")
    first = consumer(group)
    assert len(first.poll()) == 2
    first.close()
    assert [(one.value(), one.deliveryCount().get()) for one in consumer(group).poll()] == [("a", 2), ("b", 2)]


def test_only_committed_records(
    java: JavaClients, consumer: NewConsumer, tool: Callable[..., Outcome], bootstrap: str, topic: str
) -> None:
    from_the_start(tool, topic, share_isolation_level="read_committed")
    from_the_start(tool, f"{topic}-all")
    producer = java.producer(bootstrap, f"{topic}-id")
    producer.begin().send(topic, "yes").commit()
    producer.begin().send(topic, "no").abort()
    producer.begin().send(topic, "also").commit()
    producer.begin().send(topic, "undecided")
    assert read_until(consumer(topic), 2) == ["yes", "also"]
    assert read_until(consumer(f"{topic}-all", topic), 4) == ["yes", "no", "also", "undecided"]
    producer.commit()
    producer.leave()


@pytest.mark.parametrize("ends", ["restart", "crash"])
def test_a_broker_that_comes_back(
    consumer: NewConsumer, new_broker: NewBroker, tool: Callable[..., Outcome], target_name: str, ends: str
) -> None:
    """Released records come again after a restart or a kill of the broker, and accepted records do not.

    Kafka itself promises less after kill -9: on a busy machine it has been seen to begin anew.
    """
    broker: Target = new_broker()
    server = broker.bootstrap_servers
    send(server, "back", *"abcdef")
    from_the_start(tool, "back", server)
    reader = consumer("back", server=server)
    records = reader.poll()
    for record in records[:1] + records[2:4]:
        reader.acknowledge(record, "ACCEPT")
    for record in records[1:2] + records[4:]:
        reader.acknowledge(record, "RELEASE")
    assert not reader.commit()
    if ends == "crash":
        broker.kill()
    broker.restart()
    send(server, "back", "g")
    got: dict[str, int] = {}
    for _ in range(20):
        for record in reader.poll(3):
            got[record.value()] = record.deliveryCount().get()
            reader.acknowledge(record, "ACCEPT")
        reader.commit()
        if got.keys() >= set("befg"):
            break
    assert got.keys() >= set("befg")
    assert got["g"] == 1
    if (target_name, ends) != ("kafka", "crash"):
        assert got.keys() == set("befg")
    eventually(lambda: start_offset(tool, "back", server=server)[1], "0")


def test_share_groups_tool(
    consumer: NewConsumer, tool: Callable[..., Outcome], bootstrap: str, topic: str, group: str
) -> None:
    send(bootstrap, topic, *"abcd")
    reader = consumer(group, client_id="me")
    assert len(reader.accept_all()) == 4
    assert group in tool("kafka-share-groups", "--list").lines
    assert "Stable" in tool("kafka-share-groups", "--describe", "--state", "--verbose", "--group", group).out
    member = tool("kafka-share-groups", "--describe", "--members", "--verbose", "--group", group).lines[-1]
    assert "me" in member.split()
    assert f"{topic}:0" in member
    reader.close()
    eventually(lambda: "Empty" in tool("kafka-share-groups", "--describe", "--state", "--group", group).out, True)
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    assert tool("kafka-share-groups", *reset).lines[-1].split()[-1] == "0"
    assert start_offset(tool, group) == ["0", "4"]
    again = consumer(group)
    assert again.accept_all() == list("abcd")
    again.close()
    eventually(lambda: "Empty" in tool("kafka-share-groups", "--describe", "--state", "--group", group).out, True)
    tool("kafka-share-groups", "--delete-offsets", "--group", group, "--topic", topic)
    tool("kafka-share-groups", "--delete", "--group", group)
    assert group not in tool("kafka-share-groups", "--list").lines


@pytest.mark.one_broker("it looks into the files of one")
def test_kafka_reads_the_state_log(
    consumer: NewConsumer, new_broker: NewBroker, java: JavaClients, tool: Callable[..., Outcome]
) -> None:
    broker = new_broker(share_coordinator_state_topic_num_partitions=1)
    server = broker.bootstrap_servers
    send(server, "dumped", *"abc")
    from_the_start(tool, "dumped", server)
    reader = consumer("dumped", server=server)
    first = reader.poll()[0]
    reader.acknowledge(first, "ACCEPT")
    reader.commit()
    segment = broker.data_dir / "__share_group_state-0" / "00000000000000000000.log"
    dump = java.run("kafka-dump-log", "--share-group-state-decoder", "--files", str(segment)).out
    assert '"deliveryState":2' in dump
    assert '"groupId":"dumped"' in dump
    formatted = tool(
        "kafka-console-consumer",
        *("--topic", "__share_group_state", "--from-beginning", "--timeout-ms", "10000"),
        *("--formatter", "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"),
        server=server,
    )
    assert '"groupId":"dumped"' in formatted.out
