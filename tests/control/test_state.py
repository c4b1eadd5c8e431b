"""The whole state of a broker in the hands of a test."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kafka import KafkaConsumer, KafkaProducer

from interop.raw import Closed, RawClient
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.testing import ControlError, KafkaBroker

PATIENCE_S = 30


@pytest.fixture(scope="module")
def one_broker() -> Iterator[KafkaBroker]:
    with KafkaBroker({"auto.create.topics.enable": False}) as broker:
        yield broker
        assert "ERROR" not in broker.log
        assert "Traceback" not in broker.log


@pytest.fixture
def broker(one_broker: KafkaBroker) -> KafkaBroker:
    for each in one_broker.snapshots():
        one_broker.delete_snapshot(each["name"])
    one_broker.reset()
    return one_broker


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE_S
    while not (held := holds()) and time.monotonic() < until:
        time.sleep(0.02)
    return held


def values(broker: KafkaBroker, topic: str, isolation_level: str = "read_uncommitted") -> list[object]:
    return [record.value for record in broker.records(topic, isolation_level=isolation_level)]


def commit(broker: KafkaBroker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def leader_epoch(broker: KafkaBroker, topic: str) -> int:
    with RawClient(broker.bootstrap_servers) as client:
        answer = client.call(MetadataRequest([MetadataRequestTopic(name=topic)]), 12)
    return int(answer.topics[0].partitions[0].leader_epoch)


def new_producer_id(broker: KafkaBroker) -> int:
    with RawClient(broker.bootstrap_servers) as client:
        return int(client.call(InitProducerIdRequest(None), 4).producer_id)


# -- reset


def test_after_a_reset_there_is_nothing_and_the_same_cluster() -> None:
    with KafkaBroker() as broker:  # of its own: clients of kafka-python may leave a connection behind
        before = broker.control.call("GET", "/broker")
        made = broker.create_topic("t", 2)
        broker.produce("t", ["1", "2"])
        commit(broker, "g", "t", 1)
        broker.reset()
        assert broker.topics(internal=True) == []
        assert broker.groups() == []
        assert eventually(lambda: broker.control.call("GET", "/broker") == before | {"connections": 0})
        again = broker.create_topic("t", 2)
        assert again["topic_id"] != made["topic_id"]
        assert values(broker, "t") == []
        broker.produce("t", ["3"])
        assert values(broker, "t") == ["3"]


def test_no_producer_id_is_handed_out_a_second_time(broker: KafkaBroker) -> None:
    before = [new_producer_id(broker) for _ in range(3)]
    broker.snapshot("s")
    between = new_producer_id(broker)
    broker.reset()
    assert new_producer_id(broker) > max(*before, between)
    last = new_producer_id(broker)
    broker.restore("s")
    assert new_producer_id(broker) > last


def test_leader_epochs_never_fall(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    broker.snapshot("s")
    first = leader_epoch(broker, "t")
    broker.restore("s")
    second = leader_epoch(broker, "t")
    broker.restore("s")
    third = leader_epoch(broker, "t")
    assert first < second < third
    broker.reset()
    broker.create_topic("t")
    assert leader_epoch(broker, "t") >= third


def test_what_is_named_stays(broker: KafkaBroker) -> None:
    made = broker.create_topic("t", 3, {"retention.ms": 7_000})
    broker.produce("t", ["1"])
    commit(broker, "g", "t", 1)
    broker.reset(keep=["topics"])
    (kept,) = broker.topics(internal=True)
    assert (kept["partitions"], kept["config"]) == (made["partitions"], made["config"])
    assert kept["topic_id"] != made["topic_id"]
    assert values(broker, "t") == []
    assert broker.groups() == []
    broker.produce("t", ["2"])
    broker.reset()
    assert broker.topics() == []


@pytest.mark.parametrize("effect", [{"hang": True}, {"delay_ms": 600_000}], ids=str)
def test_what_stays_is_there_before_requests_that_a_fault_held(broker: KafkaBroker, effect: dict[str, Any]) -> None:
    """A held question would make a missing topic, with other settings."""
    broker.create_topic("t", 3)
    fault = broker.faults.add(api="Metadata", **effect)
    with RawClient(broker.bootstrap_servers, 30) as client:
        client.send(MetadataRequest([MetadataRequestTopic(name="t")], allow_auto_topic_creation=True), 12)
        fault.wait()
        broker.reset(keep=["topics"])
        (found,) = client.receive().topics
    assert (found.error_code, len(found.partitions)) == (0, 3)
    assert broker.topics()[0]["partitions"] == 3
    assert broker.requests("Metadata") == []


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_dynamic_configs_go_or_stay(broker: KafkaBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    resource = ConfigResource(ResourceType.BROKER, "1")

    def threads() -> str | None:
        (described,) = admin.describe_configs([resource]).values()
        return str(described.result(PATIENCE_S)["log.cleaner.threads"].value)

    (changed,) = admin.alter_configs(
        [ConfigResource(ResourceType.BROKER, "1", set_config={"log.cleaner.threads": "2"})]
    ).values()
    changed.result(PATIENCE_S)
    broker.reset(keep=["configs"])
    assert threads() == "2"
    broker.reset()
    assert threads() == "1"


def test_records_without_a_key_begin_with_the_same_partition(broker: KafkaBroker) -> None:
    broker.create_topic("t", 3)
    first = broker.produce("t", ["1"])
    broker.reset(keep=["topics"])
    assert broker.produce("t", ["1"]) == first


def test_what_can_not_be_kept_is_said(broker: KafkaBroker) -> None:
    with pytest.raises(ControlError, match=r"nonsense can't be kept; what can is acls, clock, configs, .*topics"):
        broker.reset(keep=["nonsense"])


def test_the_clock_is_back_at_the_time_that_it_is(broker: KafkaBroker) -> None:
    broker.clock.advance(days=400)
    broker.clock.freeze()
    broker.reset(keep=["clock"])
    assert broker.clock.now() - time.time() * 1000 > 399 * 86_400_000
    assert broker.clock.frozen
    broker.reset()
    assert abs(broker.clock.now() - time.time() * 1000) < 10_000
    assert not broker.clock.frozen


@pytest.mark.linux("counts descriptors in /proc")
def test_old_files_are_removed_and_none_stays_open(broker: KafkaBroker) -> None:
    def open_files() -> int:
        return len(os.listdir(f"/proc/{broker.pid}/fd"))

    before = open_files()
    for _ in range(5):
        for number in range(10):
            broker.create_topic(f"t{number}")
            broker.produce(f"t{number}", ["1"])
        broker.reset()
    assert eventually(lambda: not [name for name in os.listdir(broker.data_dir) if name.endswith("-delete")])
    assert eventually(lambda: open_files() <= before + 5)


# -- who is connected


def test_who_waits_is_answered(broker: KafkaBroker) -> None:
    """A reset answers a parked fetch and a member that waits for others to join."""
    topic_id = bytes.fromhex("00" * 16)
    broker.create_topic("t")
    with RawClient(broker.bootstrap_servers, 30) as fetching, RawClient(broker.bootstrap_servers, 30) as joining:
        described = fetching.call(MetadataRequest([MetadataRequestTopic(topic_id, "t")]), 12)
        topic_id = described.topics[0].topic_id
        wanted = [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(0, fetch_offset=0)])]
        fetching.send(FetchRequest(max_wait_ms=300_000, min_bytes=1, topics=wanted), 13)
        commit(broker, "g", "t", 0)
        protocol = [JoinGroupRequestProtocol("p", b"")]
        join = JoinGroupRequest("g", 60_000, 60_000, protocol_type="consumer", protocols=protocol)
        first = joining.call(join, 4)
        joining.send(JoinGroupRequest("g", 60_000, 60_000, first.member_id, None, "consumer", protocol), 4)
        broker.wait_for_request("Fetch", timeout=60)
        assert eventually(lambda: bool(broker.group("g")["members"]))
        broker.reset()
        told = fetching.receive().responses[0].partitions[0].error_code
        joined = joining.receive().error_code
        assert told == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert joined in (ErrorCode.NOT_COORDINATOR, ErrorCode.NONE)  # it may be done with its initial rebalance
        # and the connections serve on
        assert fetching.call(MetadataRequest([MetadataRequestTopic(name="t")]), 12).topics[0].error_code == (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert fetching.call(FetchRequest(topics=wanted), 13).responses[0].partitions[0].error_code == (
            ErrorCode.UNKNOWN_TOPIC_ID
        )


def create(name: str) -> MetadataRequest:
    """Return a request that creates the topic if it does not exist."""
    return MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)


def wait_on(topic: str) -> FetchRequest:
    return FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic, partitions=[FetchPartition(0)])])


def exchange(broker: KafkaBroker, how: str) -> None:
    if how == "reset":
        broker.reset()
    else:
        broker.restore("before")


@pytest.fixture(params=[True, False], ids=["strict", "quick"])
def creating(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    """A broker that creates topics on request, with a snapshot "before" of the time without topics."""
    with KafkaBroker(strict=request.param) as broker:
        broker.snapshot("before")
        broker.create_topic("t")
        yield broker
        assert "Traceback" not in broker.log


@pytest.mark.parametrize("how", ["reset", "restore"])
class TestReceivedBefore:
    """Requests that were sent before another broker took over: they change nothing in the new broker."""

    def test_behind_a_fetch_that_waits(self, creating: KafkaBroker, how: str) -> None:
        """Leave a parked fetch in front of CreateTopics, as a consumer that was just closed does."""
        for goes in (True, False):
            client = RawClient(creating.bootstrap_servers, 30)
            client.send(wait_on("t"), 11)
            client.send(create("t"), 8)
            if goes:
                client.close()
            time.sleep(0.1)
            exchange(creating, how)
            time.sleep(0.3)
            assert [topic["name"] for topic in creating.topics()] == []
            if not goes:
                client.receive()
                assert [topic.error_code for topic in client.receive().topics] == [0], "answered by the broker before"
                client.close()
            creating.create_topic("t")

    def test_behind_a_member_that_waits(self, creating: KafkaBroker, how: str) -> None:
        with RawClient(creating.bootstrap_servers, 30) as one, RawClient(creating.bootstrap_servers, 30) as two:
            protocol = [JoinGroupRequestProtocol("p", b"")]
            commit(creating, "g", "t", 0)
            join = JoinGroupRequest("g", 60_000, 60_000, protocol_type="consumer", protocols=protocol)
            member = one.call(join, 4).member_id
            one.call(JoinGroupRequest("g", 60_000, 60_000, member, None, "consumer", protocol), 4)
            other = two.call(join, 4).member_id
            two.send(JoinGroupRequest("g", 60_000, 60_000, other, None, "consumer", protocol), 4)
            two.send(create("made"), 8)
            assert eventually(lambda: len(creating.group("g")["members"]) == 2)
            exchange(creating, how)
            assert two.receive().error_code == ErrorCode.NOT_COORDINATOR
            with pytest.raises(Closed):
                two.receive()
        assert creating.topics() == []

    def test_not_read_yet(self, creating: KafkaBroker, how: str) -> None:
        """Many connections send at once, while the broker is stopped by another request."""
        clients = [RawClient(creating.bootstrap_servers, 30) for _ in range(20)]
        for client in clients:
            client.call(create("t"), 8)
        taking = threading.Thread(target=exchange, args=(creating, how))
        for number, client in enumerate(clients):
            client.send(create(f"made-{number}"), 8)
        taking.start()
        taking.join()
        for client in clients:
            client.receive()
            client.close()
        assert creating.topics() == []

    def test_a_client_that_sends_after_it_is_served_by_the_new_one(self, creating: KafkaBroker, how: str) -> None:
        with RawClient(creating.bootstrap_servers, 30) as client:
            client.send(wait_on("t"), 11)
            creating.wait_for_request("Fetch", timeout=60)
            exchange(creating, how)
            told = client.receive().responses[0].partitions[0].error_code
            assert told == ErrorCode.NOT_LEADER_OR_FOLLOWER, "whoever has nothing behind it is told to look again"
            client.call(create("new"), 8)
        assert [topic["name"] for topic in creating.topics()] == ["new"]


@pytest.mark.parametrize("how", ["reset", "restore"])
def test_a_producer_and_a_consumer_go_on_by_themselves(broker: KafkaBroker, how: str) -> None:
    broker.create_topic("t", 2)
    broker.snapshot("s")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    seen: list[bytes] = []
    done = threading.Event()

    def consume() -> None:
        consumer = KafkaConsumer(
            "t", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        )
        consumer.partitions_for_topic("t")  # a leader that learns of them after its first poll joins again
        while not done.is_set():
            for records in consumer.poll(1000).values():
                seen.extend(record.value for record in records)
        consumer.close()

    consuming = threading.Thread(target=consume)
    consuming.start()
    try:
        producer.send("t", b"before").get(PATIENCE_S)
        assert eventually(lambda: seen == [b"before"])
        if how == "reset":
            broker.reset(keep=["topics"])
        else:
            broker.restore("s")
        producer.send("t", b"after").get(PATIENCE_S)
        assert eventually(lambda: b"after" in seen)
    finally:
        done.set()
        consuming.join()
        producer.close()
    assert values(broker, "t") == ["after"]


def test_an_idempotent_producer_that_is_older_than_the_state_goes_on(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    broker.snapshot("empty")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    failed: list[object] = []
    for round in range(3):
        producer.produce("t", str(round), on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(PATIENCE_S) == 0
        broker.restore("empty")
    assert failed == []


def test_an_idempotent_producer_goes_on_whose_latest_records_are_undone(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True}
    producer = Producer(settings)
    failed: list[object] = []
    for value in ("before", "undone", "undone too"):
        producer.produce("t", value, on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(PATIENCE_S) == 0
        if value == "before":
            broker.snapshot("one")
    for value in ("after", "after all"):
        broker.restore("one")
        producer.produce("t", value, on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(PATIENCE_S) == 0
        assert values(broker, "t") == ["before", value]
    assert failed == []


def test_a_transaction_that_a_reset_has_ended_is_told_so_at_once(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x", "linger.ms": 500})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t", "first")
    producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t", "lost")
    assert eventually(lambda: len(broker.requests("AddPartitionsToTxn")) == 2)
    producer.poll(0.1)  # the answer reaches the producer, which lingers
    broker.reset(keep=["topics"])
    with pytest.raises(KafkaException, match="not currently assigned"):
        producer.commit_transaction(10)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_joins_again(broker: KafkaBroker, protocol: str) -> None:
    broker.create_topic("t")
    broker.produce("t", ["before"])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "group.protocol": protocol})
    consumer.subscribe(["t"])

    def next_value() -> bytes | None:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                return message.value()
        return None

    assert next_value() == b"before"
    broker.reset(keep=["topics"])
    broker.produce("t", ["after"])
    assert next_value() == b"after"
    consumer.close()


@pytest.mark.parametrize("heartbeat", [ConsumerGroupHeartbeatRequest, ShareGroupHeartbeatRequest])
def test_a_lost_group_is_never_said_to_be_missing(broker: KafkaBroker, heartbeat: Any) -> None:
    """A heartbeat to a lost group gets UNKNOWN_MEMBER_ID: with GROUP_ID_NOT_FOUND a member would give up for good."""
    with RawClient(broker.bootstrap_servers) as client:
        client.call(FindCoordinatorRequest(coordinator_keys=["g"]))
        beat = heartbeat("g", "m", member_epoch=3)
        assert eventually(lambda: client.call(beat).error_code == ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_who_commits_into_a_lost_group_is_to_join_again(broker: KafkaBroker, version: int) -> None:
    broker.create_topic("t")
    with RawClient(broker.bootstrap_servers) as client:
        topic = client.call(MetadataRequest([MetadataRequestTopic(name="t")]), 12).topics[0]
        wanted = OffsetCommitRequestTopic("t", topic.topic_id, [OffsetCommitRequestPartition(0, 1)])
        commit = OffsetCommitRequest("g", 3, "m", topics=[wanted])

        def answer() -> int:
            return int(client.call(commit, version).topics[0].partitions[0].error_code)

        client.call(FindCoordinatorRequest(coordinator_keys=["g"]))
        told = ErrorCode.ILLEGAL_GENERATION if version < 9 else ErrorCode.UNKNOWN_MEMBER_ID
        assert eventually(lambda: answer() == told)


# -- snapshots


def test_restored_it_is_what_it_was(broker: KafkaBroker) -> None:
    topic = broker.create_topic("t", 2, {"retention.ms": 7_000_000})
    broker.produce("t", [{"key": "k", "value": str(number)} for number in range(20)])
    commit(broker, "g", "t", 7)
    before = broker.records("t"), broker.group("g")["offsets"]
    broker.snapshot("s")
    for _ in range(2):
        broker.produce("t", ["later"])
        broker.create_topic("later")
        commit(broker, "g", "t", 1)
        broker.restore("s")
        assert (broker.records("t"), broker.group("g")["offsets"]) == before
        assert broker.topics() == [topic]
    assert broker.produce("t", [{"value": "next", "partition": 1}])[0][1] == len(broker.records("t", partition=1)) - 1


def test_a_transaction_that_was_open_is_open_again(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t", "1")
    assert producer.flush(PATIENCE_S) == 0
    broker.wait_for_transaction("x", "Ongoing")
    broker.snapshot("s")
    producer.commit_transaction(PATIENCE_S)
    assert values(broker, "t", isolation_level="read_committed") == ["1"]
    broker.restore("s")
    broker.wait_for_transaction("x", "Ongoing", timeout=PATIENCE_S)
    assert values(broker, "t") == ["1"]
    assert values(broker, "t", isolation_level="read_committed") == []
    after = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x"})
    after.init_transactions(PATIENCE_S)  # ends what was open
    broker.wait_for_transaction("x", "Empty", timeout=PATIENCE_S)
    assert values(broker, "t", isolation_level="read_committed") == []


def test_a_member_of_the_snapshot_that_is_gone_holds_nobody_up(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    broker.produce("t", ["1"])

    def member() -> KafkaConsumer:
        made = KafkaConsumer(
            "t",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            session_timeout_ms=60_000,
            max_poll_interval_ms=60_000,
        )
        made.partitions_for_topic("t")
        return made

    gone = member()
    assert gone.poll(PATIENCE_S * 1000)
    broker.wait_for_group("g", state="Stable", members=1, timeout=PATIENCE_S)
    broker.snapshot("s")
    gone.close()
    broker.restore("s")
    broker.wait_for_group("g", state="Stable", members=1, timeout=PATIENCE_S)
    other = member()
    try:
        assert eventually(lambda: other.poll(1000) is not None and bool(other.assignment()))
        broker.wait_for_group("g", state="Stable", members=1, timeout=PATIENCE_S)
    finally:
        other.close()


def test_a_snapshot_does_not_change_by_what_comes_after_it(broker: KafkaBroker) -> None:
    broker.create_topic("t", 1, {"segment.bytes": 1 << 20, "cleanup.policy": "compact,delete"})
    long_records(broker, "v")
    broker.snapshot("s")
    image = broker.data_dir / "snapshots" / "s"
    before = contents(image)
    for _ in range(2):
        long_records(broker, "w")
        broker.clock.advance(days=10)  # compaction and retention
        broker.restore("s")
        assert contents(image) == before
        assert len(broker.records("t")) == 30
        broker.clock.set(int(time.time() * 1000))


def long_records(broker: KafkaBroker, letter: str) -> None:
    """Produce more than three megabytes of records."""
    for _ in range(6):
        broker.produce("t", [{"key": str(number), "value": letter * 120_000} for number in range(5)])


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_records_are_byte_for_byte_what_they_were(broker: KafkaBroker) -> None:
    broker.create_topic("t", 1, {"segment.bytes": 1 << 20})
    long_records(broker, "v")

    def segments() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (broker.data_dir / "t-0").glob("*.log") if path.stat().st_size}

    before = segments()
    assert len(before) > 3
    broker.snapshot("s")
    long_records(broker, "w")
    broker.restore("s")
    assert segments() == before


def test_a_long_segment_is_not_copied(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    broker.produce("t", ["v" * 100_000 for _ in range(10)])
    broker.snapshot("s")
    broker.restore("s")
    names = sorted(path.name for path in (broker.data_dir / "t-0").glob("*.log"))
    assert names == [f"{0:020d}.log", f"{10:020d}.log"]
    for number, name in enumerate(names):
        mine, kept = broker.data_dir / "t-0" / name, broker.data_dir / "snapshots" / "s" / "t-0" / name
        assert os.path.samefile(mine, kept) == (number == 0)
    assert len(broker.records("t")) == 10


def test_snapshots_have_names(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    broker.produce("t", ["1"])
    taken = broker.snapshot("b")
    assert taken["name"] == "b"
    assert taken["size_bytes"] > 0
    broker.snapshot("a")
    assert [each["name"] for each in broker.snapshots()] == ["a", "b"]
    broker.produce("t", ["2"])
    broker.snapshot("a")
    broker.reset()
    broker.restore("a")
    assert values(broker, "t") == ["1", "2"]
    broker.delete_snapshot("a")
    with pytest.raises(ControlError, match="there is no snapshot a; there are b") as refused:
        broker.restore("a")
    assert refused.value.status == 404
    with pytest.raises(ControlError, match="letters, digits"):
        broker.snapshot("../x")


def test_one_that_is_damaged_is_not_restored(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    broker.produce("t", ["1"])
    broker.snapshot("s")
    (log,) = (broker.data_dir / "snapshots" / "s" / "__cluster_metadata-0").glob("*.log")
    log.write_bytes(b"nonsense" * 100)
    broker.produce("t", ["2"])
    with pytest.raises(ControlError, match="all is as before"):
        broker.restore("s")
    assert values(broker, "t") == ["1", "2"]
    broker.produce("t", ["3"])
    assert values(broker, "t") == ["1", "2", "3"]


def test_a_restart_on_the_old_data_that_fails_too_is_told_and_another_snapshot_helps() -> None:
    with KafkaBroker() as broker:
        broker.create_topic("t")
        broker.produce("t", ["1"])
        broker.snapshot("good")
        broker.snapshot("damaged")
        for folder in (broker.data_dir / "snapshots" / "damaged", broker.data_dir):
            (folder / "meta.properties").unlink()
            (folder / "meta.properties").write_text("version=7\n")
        with pytest.raises(ControlError, match="nor does the broker start on its old data") as refused:
            broker.restore("damaged")
        assert refused.value.status == 500
        assert "as before" not in str(refused.value)
        broker.restore("good")
        assert values(broker, "t") == ["1"]
        broker.produce("t", ["2"])
        assert values(broker, "t") == ["1", "2"]


def test_what_was_restored_outlives_a_kill() -> None:
    with KafkaBroker() as broker:
        broker.create_topic("t")
        broker.produce("t", ["1"])
        broker.snapshot("s")
        broker.produce("t", ["2"])
        broker.restore("s")
        broker.produce("t", ["3"])
        broker.kill()
        broker.start()
        assert values(broker, "t") == ["1", "3"]
        broker.restore("s")
        broker.restart()
        assert values(broker, "t") == ["1"]


# -- forks


def test_a_fork_goes_its_own_way(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    broker.produce("t", ["1"])
    commit(broker, "g", "t", 1)
    with broker.fork() as fork:
        assert fork.bootstrap_servers != broker.bootstrap_servers
        assert values(fork, "t") == ["1"]
        assert fork.group("g")["offsets"] == broker.group("g")["offsets"]
        fork.produce("t", ["2"])
        broker.produce("t", ["3"])
        assert values(fork, "t") == ["1", "2"]
        assert fork.snapshots() == []
        folder = fork.data_dir
    assert values(broker, "t") == ["1", "3"]
    assert not folder.exists()
    assert broker.snapshots() == []


def test_what_is_kept_is_a_list(broker: KafkaBroker) -> None:
    with pytest.raises(TypeError, match=r"keep=\['topics'\]"):
        broker.reset(keep="topics")


def test_logs_that_begin_inside_a_batch_or_a_transaction_are_kept_as_they_are(broker: KafkaBroker) -> None:
    """Deleted and aborted records do not come back with a snapshot, a fork, a restart or a dump."""
    for topic in ("inside", "within-aborted", "on-marker"):
        broker.create_topic(topic)
    broker.produce("inside", [str(n) for n in range(10)])
    for topic in ("within-aborted", "on-marker"):
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
        producer.init_transactions(PATIENCE_S)
        for commit in (False, True):
            producer.begin_transaction()
            for n in range(5):
                producer.produce(topic, f"{'kept' if commit else 'aborted'}-{n}")
            assert producer.flush(PATIENCE_S) == 0
            if commit:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)
        broker.wait_for_records(topic, 5, isolation_level="read_committed")
    starts = {"inside": 4, "within-aborted": 2, "on-marker": 5}
    for topic, start in starts.items():
        broker.delete_records(topic, before_offset=start)
    kept = [f"kept-{n}" for n in range(5)]
    expected = {"inside": [str(n) for n in range(4, 10)], "within-aborted": kept, "on-marker": kept}

    def check(found: KafkaBroker) -> None:
        for topic, left in expected.items():
            assert values(found, topic, "read_committed") == left
            [size] = found.apply_retention(topic)
            assert size["log_start_offset"] == starts[topic]
        assert len(values(found, "within-aborted")) == 3 + 5

    check(broker)
    broker.snapshot("trimmed")
    with broker.fork() as fork:
        check(fork)
        fork.restart()
        check(fork)
        dumped = fork.dump().splitlines()
    broker.delete_records("inside", before_offset=9)
    broker.restore("trimmed")
    check(broker)
    broker.reset()
    broker.seed(dumped)
    assert values(broker, "inside") == expected["inside"]
    assert values(broker, "within-aborted")[-5:] == kept


@pytest.mark.whole
def test_checkpoints_are_written_when_asked_for(tmp_path: Path) -> None:
    with KafkaBroker(data_dir=tmp_path) as broker:
        broker.create_topic("t")
        broker.produce("t", ["0", "1", "2"])
        broker.delete_records("t", 2)
        assert not (tmp_path / "log-start-offset-checkpoint").exists()
        broker.control.call("POST", "/checkpoints")
        assert "t 0 2" in (tmp_path / "log-start-offset-checkpoint").read_text()
        broker.kill()
        broker.start()
        assert values(broker, "t") == ["2"]
