"""`check` from Python: raised and returned, of one broker and of a cluster, with and without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pykafka_broker.control.history import outlines
from pykafka_broker.testing import (
    AnomaliesFound,
    AsyncKafkaBroker,
    ControlError,
    KafkaBroker,
    KafkaCluster,
    RemoteBroker,
    WaitTimeout,
    cluster_traffic,
)
from pykafka_broker.testing.controlled import Controlled
from pykafka_broker.testing.history import Questions


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(history=True) as broker:
        yield broker


def produce(broker: Controlled, topic: str, *keys: str) -> None:
    producer = Producer({**broker.client_config("confluent"), "client.id": "app", "linger.ms": 0})
    for key in keys:
        producer.produce(topic, b"v", key=key.encode())
        assert producer.flush(30) == 0


def consume(broker: Controlled, topic: str, count: int, commit: int) -> None:
    settings = {"group.id": "group", "auto.offset.reset": "earliest", "enable.auto.commit": False, "client.id": "c"}
    consumer = Consumer({**broker.client_config("confluent"), **settings})
    consumer.subscribe([topic])
    for _ in range(count):
        assert consumer.poll(30) is not None
    consumer.commit(offsets=[TopicPartition(topic, 0, commit)], asynchronous=False)
    consumer.close()


def test_a_finding_is_an_assertion_error_with_its_lines(broker: KafkaBroker) -> None:
    broker.create_topic("in")
    broker.create_topic("out")
    produce(broker, "in", "a", "b")
    produce(broker, "out", "b")
    broker.check()
    with pytest.raises(AssertionError) as raised:
        broker.check(input="in", output="out")
    assert isinstance(raised.value, AnomaliesFound)
    (found,) = raised.value.findings
    assert str(raised.value) == "an anomaly\n" + "\n".join(found.lines)
    assert found.lines[0] == "lost: in-0@0 has no output"
    assert broker.check(input="in", output="out", raises=False) == [found]
    assert broker.check(input="in", output="out", allow=["lost"]) == []


def test_a_function_says_what_belongs_together(broker: KafkaBroker) -> None:
    broker.produce("in", [("a", "1"), ("b", "2"), ("skip", "3")])
    broker.produce("out", [("A", "1"), ("B", "2")])
    broker.check(
        input="in", output="out", key=lambda record: {"skip": None}.get(str(record.key), str(record.key).lower())
    )
    broker.check(input="in", output="out", key="value", allow=["lost"])
    with pytest.raises(AnomaliesFound, match="in-0@2 has no output"):
        broker.check(input="in", output="out", key="value")


def test_of_many_findings_the_first_are_shown(broker: KafkaBroker) -> None:
    broker.produce("in", [(str(number), "x") for number in range(30)])
    broker.create_topic("out")
    with pytest.raises(AnomaliesFound, match="30 anomalies\nlost: in-0@0") as raised:
        broker.check(input="in", output="out")
    assert str(raised.value).endswith("\nand 10 more")
    assert len(raised.value.findings) == 30


def test_a_key_that_moved_when_partitions_were_added_has_lost_its_order(broker: KafkaBroker) -> None:
    broker.create_topic("in")
    broker.create_topic("out", 2)
    produce(broker, "in", "a", "b")
    broker.add_partitions("in", total=2)
    producer = Producer({**broker.client_config("confluent"), "linger.ms": 0})
    producer.produce("in", b"later", key=b"a", partition=1)
    assert producer.flush(30) == 0
    for value in (b"later", b"v"):
        producer.produce("out", value, key=b"a", partition=0)
        assert producer.flush(30) == 0
    question: Any = {"input": "in", "output": "out", "key": lambda each: (each.key, each.value), "raises": False}
    assert [each.anomaly for each in broker.check(**question)] == ["lost"]
    assert [each.anomaly for each in broker.check(**question, order="key")] == ["lost", "out of order"]
    producer.produce("out", b"v", key=b"b", partition=1)
    assert producer.flush(30) == 0
    (found,) = broker.check(**question, order="key")
    assert found.text == "out-0@1 is of in-0@0, and is behind out-0@0 of in-1@0, which came later"
    (split,) = broker.check(**question, order=lambda _: "all", allow=["out of order"])
    assert split.anomaly == "split key"


def test_half_an_application_is_refused(broker: KafkaBroker) -> None:
    with pytest.raises(TypeError, match="input and output are given together"):
        broker.check(input="in")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"order": "key"}, "order is of an application: input and output are missing"),
        ({"key": "/id"}, "key is of an application: input and output are missing"),
        ({"guarantee": "at_least_once"}, "guarantee is of an application: input and output are missing"),
        (
            {"input": "in", "output": "out", "seen_by": "g"},
            "seen_by is of the whole history: leave out input and output",
        ),
        (
            {"input": "in", "output": "out", "forbid": ["write cycle"]},
            "forbid is of the whole history: leave out input",
        ),
        ({"input": "in", "output": "out", "empty_ok": True}, "empty_ok is of the whole history: leave out input"),
    ],
)
def test_a_question_that_would_not_be_checked_is_refused(asked: Questions, says: str) -> None:
    with pytest.raises(TypeError, match=f"^{says}"):
        RemoteBroker("http://127.0.0.1:1").check(**asked)


@pytest.mark.parametrize(
    ("asked", "kind", "says"),
    [
        ({"forbid": ["write cycel"]}, ValueError, "forbid must be one of .*; did you mean write cycle"),
        ({"allow": ["abortd read"]}, ValueError, "allow must be one of .*; did you mean aborted read"),
        ({"seen_by": ["g"]}, TypeError, r"seen_by must be the name of a group, not \['g'\]"),
        ({"input": "in", "output": "out", "key": 5}, TypeError, "key must be an expression such as 'key' or '/id'"),
        ({"input": "in", "output": "out", "order": 5}, TypeError, "order must be an expression such as 'key'"),
        ({"allow": "unseen"}, TypeError, r"allow must be a list of names: allow=\['unseen'\]"),
        (
            {"input": "in", "output": "out", "guarantee": "exactly-once"},
            ValueError,
            "guarantee must be one of .*; did you mean exactly_once",
        ),
    ],
)
def test_a_misspelt_name_is_refused(asked: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=f"^{says}"):
        RemoteBroker("http://127.0.0.1:1").check(**asked)


def test_a_check_that_could_find_nothing_is_refused() -> None:
    with KafkaBroker(in_process=True, history=True) as broker:
        broker.create_topic("empty")
        with pytest.raises(ValueError, match=r"^nothing was recorded: no client has produced, fetched or committed"):
            broker.check()
        assert broker.check(empty_ok=True) == []
        with pytest.raises(ControlError, match=r"^nothing was recorded: .*; empty_ok allows that$"):
            broker.control.call("POST", "/check", {})
        assert broker.control.call("POST", "/check", {"empty_ok": True}) == []
        with pytest.raises(ValueError, match="the topics of group g never had a record: it could not have missed any"):
            broker.check(seen_by="g")
        broker.produce("in", ["1"])
        with pytest.raises(ValueError, match="no input record has an id, and there is no output: nothing could be"):
            broker.check(input="in", output="empty", key=lambda record: None)
        with pytest.raises(ValueError, match="topic in is input and output"):
            broker.check(input="in", output="in", key="value")
        broker.produce("empty", ["1"])
        with pytest.raises(AnomaliesFound, match="empty-0@0 belongs to no input"):
            broker.check(input="in", output="empty", key=lambda record: None)


def test_a_history_outlives_a_killed_broker(broker: KafkaBroker) -> None:
    broker.create_topic("in")
    produce(broker, "in", "a", "b", "c")
    consume(broker, "in", 3, 3)
    broker.kill()
    broker.start()
    produce(broker, "in", "d")
    broker.check()
    consume(broker, "in", 1, 4)
    broker.check(seen_by="group")
    assert broker.check(seen_by="other", raises=False) != []


def test_a_history_that_begins_later_accuses_nobody_of_what_came_before() -> None:
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("in")
        produce(broker, "in", "a", "b", "c")
        broker.history.start()
        consume(broker, "in", 3, 3)
        broker.history.clear()
        produce(broker, "in", "d")
        consume(broker, "in", 1, 4)
        broker.check()
        broker.history.stop()
        with pytest.raises(ControlError, match="no history is written"):
            broker.check()


def test_the_asynchronous_form_finds_the_same() -> None:
    asyncio.run(_ask_asynchronously())


async def _ask_asynchronously() -> None:
    async with AsyncKafkaBroker(history=True) as broker:
        await broker.produce("in", [("a", "1")])
        await broker.create_topic("out")
        await broker.check()
        with pytest.raises(AnomaliesFound, match="lost: in-0@0 has no output"):
            await broker.check(input="in", output="out")
        await broker.history.clear()


@pytest.fixture(scope="module")
def shared() -> Iterator[KafkaCluster]:
    with KafkaCluster(history=True, in_process=True) as running:
        yield running


@pytest.fixture
def cluster(shared: KafkaCluster) -> KafkaCluster:
    shared.reset()
    return shared


def test_the_histories_of_a_cluster_are_one(cluster: KafkaCluster) -> None:
    cluster.create_topic("in", 3)
    cluster.create_topic("out", 3)
    produce(cluster, "in", *"abcdef")
    produce(cluster, "out", *"abcde")
    cluster.check()
    (found,) = cluster.check(input="in", output="out", raises=False)
    assert found.anomaly == "lost"
    assert "by app" in found.way[0]


def test_the_history_of_a_broker_that_does_not_run_counts(cluster: KafkaCluster) -> None:
    cluster.create_topic("moved")
    leader = cluster.leader_of("moved")
    produce(cluster, "moved", "a", "b", "c")
    consume(cluster, "moved", 3, 3)
    cluster.broker(leader).kill()
    cluster.wait_for_leader("moved")
    try:
        cluster.check(seen_by=None)
        assert [each.text for each in cluster.check(seen_by="group", raises=False) if each.topic == "moved"] == []
    finally:
        cluster.broker(leader).start()


def test_a_write_that_no_follower_had_is_lost_with_its_leader(cluster: KafkaCluster) -> None:
    cluster.create_topic("weak", config={"min.insync.replicas": 1, "unclean.leader.election.enable": True})
    leader = cluster.leader_of("weak")
    others = sorted({1, 2, 3} - {leader})
    producer = Producer({**cluster.client_config("confluent"), "client.id": "app", "acks": 1})
    produce(cluster, "weak", "kept")
    for each in others:
        cluster.broker(each).kill()
    producer.produce("weak", b"lost")
    assert producer.flush(30) == 0
    cluster.broker(leader).kill()
    for each in others:
        cluster.broker(each).start()
    cluster.wait_for_leader("weak")
    found = [each for each in cluster.check(raises=False) if each.topic == "weak"]
    cluster.broker(leader).start()
    assert [each.anomaly for each in found] == ["lost write"]
    assert "weak-0@1 was produced at" in found[0].text
    assert found[0].text.endswith("and acknowledged, and the log ends at 1")


def test_a_write_that_followers_do_not_have_yet_is_not_lost(cluster: KafkaCluster) -> None:
    cluster.create_topic("hasty", config={"min.insync.replicas": 1})
    leader = cluster.broker(cluster.leader_of("hasty"))
    cluster.clock.freeze()  # the followers stay in sync, however long it takes
    with cluster.faults.on(cluster.leader_of("hasty")).add(api="Fetch", hang=True):  # of followers
        settings = {**cluster.client_config("confluent"), "acks": 1, "client.id": "app", "linger.ms": 0}
        producer = Producer(settings)
        producer.produce("hasty", b"quick")
        assert producer.flush(30) == 0
        assert leader.partition("hasty", 0)["high_watermark"] == 0  # or the test tests nothing
        assert cluster.check() == []
    cluster.clock.resume()
    cluster.wait_for_isr("hasty")
    assert cluster.check() == []


def test_logs_that_a_broker_does_not_tell_are_no_sound_ones(
    cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("orders", 3, replication_factor=1)
    for _ in range(3):
        produce(cluster, "orders", "a", "b", "c")
    assert cluster.check() == []
    rows = KafkaBroker._rows

    def told(self: KafkaBroker, part: str) -> list[dict[str, Any]]:
        if part == "logs" and self is cluster.broker(2):
            raise ConnectionResetError("no answer")
        return rows(self, part)

    monkeypatch.setattr(KafkaBroker, "_rows", told)
    monkeypatch.setattr(cluster_traffic, "_LED_S", 0)
    with pytest.raises(WaitTimeout, match="the logs are unknown: no answer"):
        cluster.check()


def test_a_partition_that_nobody_leads_is_not_checked(cluster: KafkaCluster) -> None:
    cluster.create_topic("alone", replication_factor=1)
    cluster.create_topic("kept", config={"min.insync.replicas": 1})
    leader = cluster.leader_of("alone")
    cluster.move_leader("kept", leader)
    for topic in ("alone", "kept"):
        produce(cluster, topic, "a")
    cluster.broker(leader).kill()
    (found,) = cluster.check(raises=False)  # another broker leads the other topic by now
    assert found.lines == ["not checked: alone-0 could not be checked: it has no leader"]
    assert cluster.check(allow=["not checked"]) == []
    cluster.broker(leader).start()
    cluster.wait_for_leader("alone")
    assert cluster.check() == []


def test_logs_with_too_many_batches_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with KafkaBroker(in_process=True, history=True) as broker:
        produce(broker, "long", "a", "b", "c")
        produce(broker, "short", "a")
        assert broker.check() == []
        monkeypatch.setattr(outlines, "_MOST_BATCHES", 2)
        (found,) = broker.check(raises=False)
        assert found.text == "long-0 could not be checked: the logs have more than 2 batches"


def test_a_topic_that_was_deleted_and_made_again_is_checked_as_it_is_now(broker: KafkaBroker) -> None:
    for _ in range(3):
        broker.create_topic("again")
        produce(broker, "again", "a", "b")
        consume(broker, "again", 2, 2)
        broker.delete_topic("again")
    assert broker.check() == []
    broker.create_topic("again")
    produce(broker, "again", "a")
    assert broker.check() == []
