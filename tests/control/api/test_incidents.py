"""Incidents that a test causes in a cluster, and their effect on clients."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer

from interop.raw import RawClient
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.testing import BrokerError, ControlError, KafkaBroker
from pykafka_broker.testing.data import NotReached, poll
from tests.control.api.test_faults import Client

VERSIONS = ApiVersionsRequest("test", "1.0")


def test_a_leader_epoch_grows_by_one(broker: KafkaBroker) -> None:
    """Each bump adds one to the leader epoch, which may begin above 0 after an earlier reset."""
    broker.create_topic("epochs", partitions=2)
    with RawClient(broker.bootstrap_servers) as client:
        (topic,) = client.call(MetadataRequest([MetadataRequestTopic(name="epochs")], False), 9).topics
    begun = {partition.partition_index: partition.leader_epoch for partition in topic.partitions}
    assert [broker.bump_leader_epoch("epochs", 1) for _ in range(2)] == [begun[1] + 1, begun[1] + 2]
    assert broker.bump_leader_epoch("epochs") == begun[0] + 1
    broker.produce("epochs", ["still there"])
    broker.wait_for_records("epochs", 1)


@pytest.mark.parametrize(("topic", "partition", "says"), [("none", 0, "no topic none"), ("few", 3, "0 to 0, not 3")])
def test_what_is_not_there_has_no_leader(broker: KafkaBroker, topic: str, partition: int, says: str) -> None:
    if topic == "few" and not any(each["name"] == "few" for each in broker.topics()):
        broker.create_topic("few")
    with pytest.raises(ControlError, match=says) as refused:
        broker.bump_leader_epoch(topic, partition)
    assert refused.value.status == 404


@pytest.fixture
def consumer(broker: KafkaBroker, request: pytest.FixtureRequest) -> Iterator[KafkaConsumer]:
    broker.create_topic(request.node.name)
    consumer = KafkaConsumer(
        request.node.name,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=request.node.name,
        client_id=request.node.name,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
        enable_auto_commit=False,
        retry_backoff_ms=50,
    )
    consumer.partitions_for_topic(request.node.name)  # a leader that learns of them after its first poll joins again
    yield consumer
    consumer.close()


def read_one(consumer: KafkaConsumer) -> bytes:
    """Return the next record's value."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=5000, max_records=1).values():
            return bytes(records[0].value)
    raise AssertionError("nothing came")


def test_a_coordinator_goes_away_and_comes_back(broker: KafkaBroker, consumer: KafkaConsumer) -> None:
    group = topic = next(iter(consumer.subscription()))
    broker.produce(topic, ["before"])
    assert read_one(consumer) == b"before"
    consumer.commit()
    mark = broker.requests()[-1]["number"]
    broker.clock.freeze()
    try:
        broker.move_coordinator(group=group, away_ms=300)
        broker.wait_for_request(group=group, error="NOT_COORDINATOR", after=mark)  # of a heartbeat
    finally:
        broker.clock.resume()
    broker.produce(topic, ["after"])
    assert read_one(consumer) == b"after"
    consumer.commit()
    assert broker.lag(group) == 0
    with pytest.raises(ControlError, match="either group or transactional_id"):
        broker.move_coordinator()


def test_a_coordinator_is_away_for_a_time_of_the_clock(broker: KafkaBroker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        client.call(FindCoordinatorRequest(coordinator_keys=["clocked"]), 6)

        def answer() -> int:
            return client.call(HeartbeatRequest("clocked", 1, "nobody"), 4).error_code

        assert answer() == ErrorCode.UNKNOWN_MEMBER_ID
        broker.clock.freeze()
        try:
            broker.move_coordinator(group="clocked", away_ms=60_000)
            broker.clock.advance(seconds=59)
            assert answer() == ErrorCode.NOT_COORDINATOR
            broker.clock.advance(seconds=1)
            assert answer() == ErrorCode.UNKNOWN_MEMBER_ID
        finally:
            broker.clock.resume()


def test_a_member_whose_session_ends_joins_again(broker: KafkaBroker, consumer: KafkaConsumer) -> None:
    group = topic = next(iter(consumer.subscription()))
    broker.produce(topic, ["before"])
    assert read_one(consumer) == b"before"
    consumer.commit()
    (member,) = broker.group(group)["members"]
    broker.expire_member(group, consumer.config["client_id"])
    broker.produce(topic, ["after"])
    assert read_one(consumer) == b"after"
    deadline = time.monotonic() + 30
    while not (joined := broker.group(group)["members"]) and time.monotonic() < deadline:
        consumer.poll(timeout_ms=1000)  # it joins only when it is asked for records
    assert broker.requests(group=group, error="UNKNOWN_MEMBER_ID")
    assert joined[0]["member_id"] != member["member_id"]
    with pytest.raises(ControlError, match="nobody is no member of group"):
        broker.expire_member(group, "nobody")


def test_a_topic_is_compacted_now(broker: KafkaBroker) -> None:
    broker.create_topic("compacted", config={"cleanup.policy": "compact"})
    for number in range(5):
        broker.produce("compacted", [{"key": "k", "value": str(number)}])
    (size,) = broker.compact("compacted")
    assert size["log_end_offset"] == 5
    assert [record.value for record in broker.records("compacted")] == ["4"]
    broker.create_topic("kept")
    with pytest.raises(ControlError, match=r"cleanup\.policy of topic kept does not say compact"):
        broker.compact("kept")


def test_retention_is_applied_now(broker: KafkaBroker) -> None:
    broker.create_topic("old", config={"retention.ms": 1000})
    broker.produce("old", [{"value": "old", "timestamp": 1}])
    (size,) = broker.apply_retention("old")
    assert (size["log_start_offset"], size["log_end_offset"]) == (1, 1)
    assert broker.records("old") == []


def test_retention_that_the_disk_refuses_is_no_defect(broker: KafkaBroker) -> None:
    broker.create_topic("stays", config={"retention.ms": 1000})
    broker.produce("stays", [{"value": "old", "timestamp": 1}])
    broker.fill_disk()
    try:
        with pytest.raises(ControlError, match="KAFKA_STORAGE_ERROR") as refused:
            broker.apply_retention("stays")
        assert refused.value.status == 503
    finally:
        broker.free_disk()
    (size,) = broker.apply_retention("stays")
    assert size["log_start_offset"] == 1


def test_a_full_disk_refuses_and_has_room_again(broker: KafkaBroker) -> None:
    broker.create_topic("full")
    broker.produce("full", ["before"])
    broker.fill_disk()
    try:
        with pytest.raises(ControlError, match="KAFKA_STORAGE_ERROR"):
            broker.produce("full", ["refused"])
        assert [record.value for record in broker.records("full")] == ["before"]
    finally:
        broker.free_disk()
    broker.produce("full", ["after"])
    assert [record.value for record in broker.records("full")] == ["before", "after"]


def test_on_a_full_disk_nothing_is_exchanged(broker: KafkaBroker) -> None:
    """A restore or reset is refused: the broker would end, and no other broker could start in its place."""
    broker.create_topic("restored")
    broker.produce("restored", ["1"])
    broker.snapshot("room")
    broker.produce("restored", ["2"])
    broker.fill_disk()
    with pytest.raises(ControlError, match="nothing is changed, since there is no room"):
        broker.restore("room")
    with pytest.raises(ControlError, match="nothing is changed, since there is no room"):
        broker.reset(keep=["faults"])
    broker.free_disk()
    assert [record.value for record in broker.records("restored")] == ["1", "2"]
    broker.restore("room")
    assert [record.value for record in broker.records("restored")] == ["1"]
    assert not list(broker.data_dir.glob(".room*"))


def test_a_broken_disk_ends_a_broker_and_a_restart_mends_it() -> None:
    with KafkaBroker() as broker:
        broker.create_topic("broken")
        broker.produce("broken", ["before"])
        broker.break_disk()
        with pytest.raises(ControlError, match="nothing is changed, since there is no room"):
            broker.reset(keep=["faults"])
        with pytest.raises((ControlError, OSError, BrokerError)):
            broker.produce("broken", ["lost"])
        poll(lambda: _ended(broker), "it is running", 30)
        broker.start()
        broker.produce("broken", ["after"])
        assert [record.value for record in broker.records("broken")] == ["before", "after"]


def _ended(broker: KafkaBroker) -> None:
    if broker.running:
        raise NotReached("it is running")


def test_a_reset_ends_what_a_test_has_left(broker: KafkaBroker) -> None:
    """After a reset the full disk and the pause are over: the broker writes and answers."""
    broker.create_topic("left")
    broker.produce("left", ["1"])
    broker.fill_disk()
    broker.pause()
    broker.reset()
    assert broker.produce("left", ["1"]) == [(0, 0)]
    client = Client(broker, "next")
    try:
        assert client.ask(VERSIONS, 3) is not None
    finally:
        client.close()


def test_a_paused_broker_answers_when_it_goes_on(broker: KafkaBroker) -> None:
    early, late = Client(broker, "early"), None
    assert early.ask(VERSIONS, 3) is not None
    broker.pause()
    try:
        early.send(VERSIONS, 3)
        late = Client(broker, "late")
        late.send(VERSIONS, 3)
        for client in (early, late):
            client.socket.settimeout(0.1)
            with pytest.raises(TimeoutError):
                client.socket.recv(1)
            client.socket.settimeout(10)
        broker.faults.clear()
        assert broker.requests(client_id="late") == []
    finally:
        broker.unpause()
    for client in (early, late):
        assert client is not None
        assert client.socket.recv(4) != b""
        client.close()


def test_a_producer_goes_on_after_a_pause(broker: KafkaBroker) -> None:
    broker.create_topic("paused")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks="all")
    producer.send("paused", b"one").get(60)
    broker.pause()
    sent = producer.send("paused", b"two")
    broker.unpause()
    assert sent.get(60).offset == 1
    producer.close()
