"""Trouble for a cluster: at times of a seed or by itself, and everything is over at its end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from interop.waiting import eventually
from pykafka_broker.testing import BrokerError, KafkaCluster, WaitTimeout
from pykafka_broker.testing.data import NotReached, poll
from pykafka_broker.testing.trouble import KINDS, Blow, ClusterTrouble, check_kinds

LONG_MS = 600_000


@pytest.fixture(scope="module")
def whole_run() -> Iterator[KafkaCluster]:
    with KafkaCluster() as cluster:
        cluster.create_topic("orders", config={"min.insync.replicas": 1})
        yield cluster


@pytest.fixture
def cluster(whole_run: KafkaCluster) -> Iterator[KafkaCluster]:
    whole_run.clear_requests()
    yield whole_run
    whole_run.calm()


def produce(cluster: KafkaCluster, count: int = 1, acks: str = "1") -> None:
    producer = Producer({**cluster.client_config("confluent"), "client.id": "shop", "acks": acks})
    for number in range(count):
        producer.produce("orders", b"%d" % number)
        assert producer.flush(60) == 0


def await_a_try(trouble: ClusterTrouble) -> None:
    """Wait until the trouble was tried in vain."""
    eventually(lambda: bool(trouble._why_not), True)


def test_nothing_comes_before_a_client_and_all_is_over_when_it_is_calm(cluster: KafkaCluster) -> None:
    cluster.create_topic("quiet")
    leader = cluster.leader_of("orders")
    trouble = cluster.befall("kill", leader, for_ms=LONG_MS)
    with pytest.raises(
        WaitTimeout, match="0 troubles came, expected 1: time counts from the first request of a client"
    ):
        trouble.wait(timeout=0)
    produce(cluster)
    trouble.wait()
    assert not cluster.broker(leader).running
    cluster.calm()
    assert cluster.broker(leader).running
    assert sorted(cluster.isr("orders")) == [1, 2, 3]


def test_what_begins_ends_by_itself(cluster: KafkaCluster) -> None:
    trouble = cluster.befall("stop", 2, for_ms=1)
    produce(cluster)
    trouble.wait()
    cluster.wait_for_isr("orders")
    assert cluster.broker(2).running


def test_a_leader_moves(cluster: KafkaCluster) -> None:
    leader = cluster.leader_of("orders")
    follower = leader % 3 + 1
    trouble = cluster.befall("move_leader", follower, topic="orders")
    produce(cluster)
    trouble.wait()
    assert cluster.wait_for_leader("orders", other_than=leader) == follower
    assert trouble.came == [Blow("move_leader", follower, for_ms=1000, topic="orders")]


def test_a_broker_is_paused_and_cut_off(cluster: KafkaCluster) -> None:
    leader = cluster.leader_of("orders")
    trouble = cluster.befall("partition", leader, for_ms=LONG_MS)
    produce(cluster)
    trouble.wait()
    assert cluster.wait_for_leader("orders", other_than=leader) != leader
    cluster.calm()
    assert sorted(cluster.isr("orders")) == [1, 2, 3]
    cluster.befall("pause", 1, for_ms=LONG_MS).wait()


def test_a_seed_draws_the_same(cluster: KafkaCluster) -> None:
    first = cluster.trouble(["pause", "move_leader"], seed=3, mean_ms=100, most_down=3)
    produce(cluster)
    first.wait(4)
    first.end()
    again = cluster.trouble(["pause", "move_leader"], seed=3, mean_ms=100, most_down=3)
    again.wait(2)
    kept = [{(each.kind, each.after_ms) for each in trouble.came} for trouble in (first, again)]
    assert kept[0] & kept[1]
    assert all(one.after_ms <= other.after_ms for one, other in pairwise(first.came))
    assert {each.kind for each in first.came} <= {"pause", "move_leader"}


@pytest.mark.parametrize("kind", ["fill_disk", "break_disk"])
def test_a_disk_fails_and_is_mended(cluster: KafkaCluster, kind: str) -> None:
    leader = cluster.leader_of("orders")
    trouble = cluster.befall(kind, leader, for_ms=1)
    produce(cluster)
    trouble.wait()
    cluster.calm()
    produce(cluster, acks="all")  # with it all that came before is committed
    before = len(cluster.records("orders"))
    produce(cluster, acks="all")
    assert len(cluster.records("orders")) == before + 1
    assert sorted(cluster.isr("orders")) == [1, 2, 3]


def test_what_can_not_come_yet_comes_later_or_is_told() -> None:
    with KafkaCluster(2, controllers=0, in_process=True) as cluster:
        cluster.create_topic("orders")
        later = cluster.befall("move_leader", 2, topic="later")
        produce(cluster)
        await_a_try(later)
        with pytest.raises(
            WaitTimeout, match=r"0 troubles came, expected 1: move_leader of later-0 to broker 2: .*no "
        ):
            later.wait(timeout=0)
        cluster.create_topic("later")
        later.wait()
        assert [(each.topic, each.broker) for each in later.came] == [("later", 2)]
        assert cluster.wait_for_leader("later", other_than=1) == 2
        cluster.calm()
        never = cluster.befall("move_leader", 2, topic="orders", partition=7)
        running = cluster.befall("move_leader", 1, topic="orders")
        running.wait()
        await_a_try(never)
        with pytest.raises(WaitTimeout, match=r"^a trouble never came: move_leader of orders-7 to broker 2: .*7"):
            cluster.calm()
        never.end()
        cluster.befall("move_leader", 2, topic="typo", at={"api": "Produce"})
        produce(cluster)  # goes on, though the trouble has not come
        with pytest.raises(WaitTimeout, match="a trouble never came: move_leader of typo-0 to broker 2"):
            cluster.calm()
        of_nobody = cluster.befall("move_leader", 2, topic="orders", at={"api": "OffsetCommit", "group": "typo"})
        with pytest.raises(WaitTimeout, match="0 troubles came, expected 1: no request that matches `at` has come"):
            of_nobody.wait(timeout=0)
        with pytest.raises(WaitTimeout, match="never came: move_leader of orders-0 to broker 2: no request that"):
            cluster.calm()


def test_what_never_came_is_told_at_the_end_of_the_cluster() -> None:
    cluster = KafkaCluster(1, controllers=0, in_process=True).start()
    cluster.create_topic("orders")
    first = cluster.befall("move_leader", 1, topic="typo")
    produce(cluster)
    second = cluster.befall("move_leader", 1, topic="typo")
    for each in (first, second):
        await_a_try(each)
    with pytest.raises(WaitTimeout, match="0 troubles came, expected 1: move_leader of typo-0"):
        second.wait(timeout=0)
    with pytest.raises(WaitTimeout, match="a trouble never came: move_leader of typo-0"):
        cluster.close()
    assert not cluster.broker(1).running


def test_the_coordinator_moves_of_a_group_that_nobody_has_asked_for() -> None:
    with KafkaCluster(in_process=True) as cluster:
        cluster.create_topic("orders")
        trouble = cluster.befall("move_coordinator", 2, group="billing")
        produce(cluster)
        trouble.wait()
        assert cluster.coordinator("billing") == 2


def test_trouble_comes_at_a_request_which_waits(cluster: KafkaCluster) -> None:
    """The coordinator moves before the third commit is carried out, and the commit is not lost."""
    cluster.commit("billing", "orders", 0)
    other = cluster.coordinator("billing") % 3 + 1
    at = {"api": "OffsetCommit", "group": "billing", "nth": 3}
    trouble = cluster.befall("move_coordinator", other, group="billing", at=at)
    settings = {**cluster.client_config("confluent"), "group.id": "billing"}
    consumer = Consumer(settings)
    for offset in (1, 2):
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    assert trouble.came == []
    consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
    trouble.wait()
    consumer.close()
    assert cluster.coordinator("billing") == other
    assert [each.topic for each in trouble.came] == ["__consumer_offsets"]
    assert cluster.group("billing")["offsets"][0]["committed"] == 3
    assert cluster.faults.all() == []


def test_a_fault_that_was_removed_while_its_broker_was_away_does_not_come_again(cluster: KafkaCluster) -> None:
    with cluster.faults.add(api="Heartbeat", error="NOT_COORDINATOR"):
        trouble = cluster.befall("kill", 2, for_ms=LONG_MS)
        produce(cluster)
        trouble.wait()
    cluster.calm()
    assert cluster.faults.all() == []


def test_what_was_cleared_while_a_broker_was_away_does_not_come_again(cluster: KafkaCluster) -> None:
    cluster.faults.add(api="Heartbeat", error="NOT_COORDINATOR")
    cluster.faults.chaos(1, 0.5, api=["Heartbeat"])
    trouble = cluster.befall("kill", 2, for_ms=LONG_MS)
    produce(cluster)
    trouble.wait()
    cluster.faults.clear()
    cluster.calm()
    assert cluster.faults.all() == []
    assert not cluster.faults.on(1).chaos_state()["active"]
    with pytest.raises(BrokerError):  # its new process has known none
        cluster.faults.on(2).chaos_state()


def test_a_broker_that_was_killed_has_its_faults_again(cluster: KafkaCluster) -> None:
    refused = cluster.faults.on(2).add(api="Heartbeat", error="NOT_COORDINATOR", times=1)
    gone = cluster.faults.on(2).add(api="Heartbeat", error="NOT_COORDINATOR")
    kept = cluster.faults.on(2).add(api="Produce", client_id="nobody", nth=5, delay_ms=1)
    gone.remove()
    cluster.faults.on(2).chaos(7, 0.0001)
    cluster.befall("kill", 2, for_ms=1)
    produce(cluster)
    poll(lambda: _started_again(cluster), "broker 2 is not there", 60)
    cluster.calm()
    found = cluster.faults.on(2).all()
    assert [(each["api"], each["nth"], each["times"]) for each in found] == [
        (["Heartbeat"], None, 1),
        (["Produce"], 5, None),
    ]
    assert cluster.faults.on(2).chaos_state()["active"]
    assert kept.describe()["client_id"] == "nobody"
    kept.remove()
    refused.remove()
    cluster.faults.clear()


def _started_again(cluster: KafkaCluster) -> None:
    if not cluster.broker(2).running or len(cluster.faults.on(2).all()) < 2:
        raise NotReached


def test_lines_to_paste() -> None:
    held = Blow("kill", 2, 0, 800, at={"api": "Produce", "applied": True})
    assert held.line("c") == 'c.befall("kill", 2, at={"api": "Produce", "applied": True}, for_ms=800)'
    group = Blow("move_coordinator", 2, group="billing")
    assert group.line("c") == 'c.befall("move_coordinator", 2, group="billing", after_ms=0)'

    assert (
        Blow("kill", 2, 350, 800).line("kafka_cluster") == 'kafka_cluster.befall("kill", 2, after_ms=350, for_ms=800)'
    )
    moved = Blow("move_leader", 3, 20, 5, "orders", 1).line("kafka_cluster")
    assert moved == 'kafka_cluster.befall("move_leader", 3, topic="orders", partition=1, after_ms=20)'


def test_mistakes_are_told(cluster: KafkaCluster) -> None:
    with pytest.raises(ValueError, match="there is no trouble flood: there are kill, stop"):
        cluster.trouble(["flood"])
    with pytest.raises(ValueError, match="no trouble is named"):
        cluster.trouble([])
    with pytest.raises(ValueError, match=r"^kinds of trouble must be a list: \['kill'\]$"):
        cluster.trouble("kill")
    with pytest.raises(ValueError, match="n must be at least 1, not 0"):
        cluster.befall("pause", 2, after_ms=LONG_MS).wait(0)
    with pytest.raises(ValueError, match="mean_ms must be at least 1, not 0"):
        cluster.trouble(mean_ms=0)
    with pytest.raises(ValueError, match="most_down must be at least 1, not 0"):
        cluster.trouble(most_down=0)
    with pytest.raises(ValueError, match="9"):
        cluster.befall("kill", 9)
    with pytest.raises(ValueError, match="needs the topic"):
        cluster.befall("move_leader", 1)
    with pytest.raises(ValueError, match="partition must be at least 0, not -1"):
        cluster.befall("move_leader", 1, topic="orders", partition=-1)
    with pytest.raises(ValueError, match="after_ms must be at least 0, not -1"):
        cluster.befall("kill", 1, after_ms=-1)
    with pytest.raises(ValueError, match="kill is of a broker, not of a topic: leave out topic="):
        cluster.befall("kill", 1, topic="orders")
    with pytest.raises(TypeError, match="group must be a name, not 5"):
        cluster.befall("move_coordinator", 1, group=cast(Any, 5))
    with pytest.raises(ValueError, match="timeout is in seconds, at least 0 and at most 3600, not 5000"):
        cluster.befall("pause", 2, after_ms=LONG_MS).wait(timeout=5000)
    assert check_kinds(KINDS) == list(KINDS)
