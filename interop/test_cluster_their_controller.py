"""Brokers of ours under the controllers of Apache Kafka: they register, are unfenced, and what only a
controller decides goes there.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import ConfigResource, NewPartitions, ResourceType

from interop.cluster_clients import (
    TIMEOUT_S,
    add_voter,
    admin_at,
    brokers_told_by,
    consumed,
    create,
    in_sync,
    leaders,
    partitions_of,
    produce,
    quorum_told_by,
)
from interop.kafka_cluster import OURS, THEIRS, KafkaCluster
from interop.raw import leader_of
from interop.waiting import eventually
from pykafka_broker.protocol.runtime import parse_uuid_text

pytestmark = [pytest.mark.ours_only, pytest.mark.java]
ALL = [1, 2, 3]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(
        tmp_path_factory.mktemp("one"), controllers=[THEIRS], brokers=[OURS] * 3, racks=["a", "b", "b"]
    ) as running:
        yield running


def test_they_are_registered_and_unfenced(cluster: KafkaCluster) -> None:
    eventually(lambda: [brokers_told_by(each.address) for each in cluster.brokers], [set(ALL)] * len(ALL))
    # The record that says so reaches a broker before the answer to the heartbeat that asked for it.
    told = "unfenced: clients are sent here from now on"
    eventually(lambda: [told in each.log for each in cluster.brokers], [True] * len(ALL))


def test_a_topic_of_three_replicas_is_told_by_all(cluster: KafkaCluster) -> None:
    create(cluster.bootstrap_servers, "three", 3, 3)
    for broker in cluster.brokers:
        leader_of(broker.address, "three")
    for broker in cluster.brokers:  # an admin client asks any of them
        assert len(set(leaders(broker.address, "three"))) > 1
        found = partitions_of(broker.address, "three")
        assert {number: sorted(each.replicas) for number, each in found.items()} == dict.fromkeys(range(3), ALL)


def test_records_are_acknowledged_by_all_and_read_once(cluster: KafkaCluster) -> None:
    create(cluster.bootstrap_servers, "records", 3, 3)
    produce(cluster.bootstrap_servers, "records", range(3000))
    eventually(lambda: in_sync(cluster.bootstrap_servers, "records"), dict.fromkeys(range(3), ALL), TIMEOUT_S)
    assert consumed(cluster.bootstrap_servers, "records", 3, 3000) == list(range(3000))


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_what_a_client_asks_is_decided_by_the_controller(cluster: KafkaCluster) -> None:
    at = cluster.bootstrap_servers
    admin = admin_at(at)
    create(at, "asked", 1, 3)
    for broker in cluster.brokers:
        leader_of(broker.address, "asked")
    with pytest.raises(KafkaException, match="already exists"):
        create(at, "asked", 1, 3)
    admin.create_partitions([NewPartitions("asked", 4)])["asked"].result(TIMEOUT_S)
    eventually(lambda: len(partitions_of(at, "asked")), 4, TIMEOUT_S)
    changed = ConfigResource(ResourceType.TOPIC, "asked", {"retention.ms": "7777"})
    admin.alter_configs([changed])[changed].result(TIMEOUT_S)
    asked = ConfigResource(ResourceType.TOPIC, "asked")
    eventually(
        lambda: admin.describe_configs([asked])[asked].result(TIMEOUT_S)["retention.ms"].value, "7777", TIMEOUT_S
    )
    admin.delete_topics(["asked"])["asked"].result(TIMEOUT_S)
    eventually(lambda: "asked" in admin.list_topics(timeout=TIMEOUT_S).topics, False, TIMEOUT_S)
    folders = [each.directory / "data-0" for each in cluster.brokers]
    eventually(lambda: [each for folder in folders for each in folder.glob("asked-[0-3]")], [])


def observers_told_by(address: str) -> list[int]:
    return sorted(each.replica_id for each in quorum_told_by(address).observers)


def test_any_broker_tells_of_the_quorum(cluster: KafkaCluster) -> None:
    for broker in cluster.brokers:
        # A controller tells of an observer once the broker has fetched from it.
        eventually(partial(observers_told_by, broker.address), ALL)
        quorum = quorum_told_by(broker.address)
        assert (quorum.leader_id, [each.replica_id for each in quorum.current_voters]) == (101, [101])


def test_a_group_has_its_coordinator(cluster: KafkaCluster) -> None:
    at = cluster.bootstrap_servers
    create(at, "grouped", 3, 3)
    produce(at, "grouped", range(100))
    settings = {"bootstrap.servers": at, "group.id": "crew", "auto.offset.reset": "earliest"}
    consumer, found = Consumer(settings), set()
    consumer.subscribe(["grouped"])

    def read() -> int:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            found.add(int(message.value() or b""))
        return len(found)

    eventually(read, 100)
    consumer.commit(asynchronous=False)
    consumer.close()
    assert len(partitions_of(at, "__consumer_offsets")[0].replicas) == 3


def test_a_broker_that_leaves_hands_over_first(cluster: KafkaCluster) -> None:
    create(cluster.bootstrap_servers, "handed", 3, 3)
    broker = cluster.broker(2)
    assert broker.stop(60) == 0
    marker = json.loads((broker.directory / "data-0" / ".kafka_cleanshutdown").read_text())
    assert marker["brokerEpoch"] > 0
    eventually(lambda: set(leaders(cluster.broker(1).address, "handed")) <= {1, 3}, True)
    broker.start()
    eventually(lambda: in_sync(cluster.bootstrap_servers, "handed"), dict.fromkeys(range(3), ALL))


def test_a_killed_broker_is_replaced_and_comes_back(cluster: KafkaCluster) -> None:
    at = cluster.bootstrap_servers
    create(at, "killed", 3, 3, min_insync_replicas="2")
    produce(at, "killed", range(300))
    cluster.broker(3).kill()
    rest = cluster.broker(1).address
    eventually(lambda: set(leaders(rest, "killed")) <= {1, 2}, True, TIMEOUT_S)
    produce(rest, "killed", range(300, 600))
    cluster.broker(3).start()
    eventually(lambda: in_sync(at, "killed"), dict.fromkeys(range(3), ALL))
    assert consumed(at, "killed", 3, 600) == list(range(600))


def test_a_controller_that_is_away_is_found_again(cluster: KafkaCluster) -> None:
    at = cluster.bootstrap_servers
    create(at, "meanwhile", 3, 3)
    for broker in cluster.brokers:
        leader_of(broker.address, "meanwhile")
    cluster.controller(101).kill()
    produce(at, "meanwhile", range(100), idempotent=False)  # an idempotent producer may have to ask for an id
    cluster.controller(101).start()
    create(at, "afterwards", 3, 3)
    assert consumed(at, "meanwhile", 3, 100) == list(range(100))
    eventually(partial(brokers_told_by, cluster.broker(1).address), set(ALL), TIMEOUT_S)


def test_a_node_of_another_cluster_ends_with_one_line(cluster: KafkaCluster) -> None:
    stranger = cluster.add_broker(OURS, 9, cluster_id="AAAAAAAAAAAAAAAAAAAAAw")
    stranger.launch()
    assert stranger.process is not None
    assert stranger.process.wait(TIMEOUT_S) == 1
    lines = [line for line in stranger.log.splitlines() if "CRITICAL" in line]
    assert len(lines) == 1
    assert "INCONSISTENT_CLUSTER_ID" in lines[0]
    cluster.brokers.remove(stranger)


def test_a_quorum_of_three_may_lose_its_leader(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path, controllers=[THEIRS] * 3, brokers=[OURS] * 2) as cluster:
        at = cluster.bootstrap_servers
        create(at, "before", 3, 2)
        cluster.controller(quorum_told_by(cluster.broker(1).address).leader_id).kill()
        produce(at, "before", range(50))
        create(at, "after", 3, 2)
        produce(at, "after", range(50))
        assert consumed(at, "before", 3, 50) == list(range(50))
        eventually(partial(brokers_told_by, cluster.broker(1).address), {1, 2}, TIMEOUT_S)


def test_a_dynamic_quorum_is_found_by_its_addresses(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path, controllers=[THEIRS], brokers=[OURS] * 2, dynamic=True) as cluster:
        at = cluster.bootstrap_servers
        create(at, "t", 3, 2)
        produce(at, "t", range(50))
        assert consumed(at, "t", 3, 50) == list(range(50))
        state = json.loads((cluster.broker(1).directory / "data-0/__cluster_metadata-0/quorum-state").read_text())
        assert (state["leaderId"], state["data_version"]) == (101, 1)


def test_controllers_that_came_later_are_found_too(tmp_path: Path) -> None:
    first = KafkaCluster(tmp_path, controllers=[THEIRS] * 3, brokers=[OURS] * 2, dynamic=True)
    for broker in first.brokers:  # these brokers know a single controller
        text = broker.properties.read_text()
        broker.properties.write_text(text.replace(first.bootstrap_controllers, first.controllers[0].address))
    with first as cluster:
        at = cluster.bootstrap_servers
        create(at, "before", 1, 2)
        for node in cluster.controllers[1:]:
            add_voter(cluster.broker(1).address, node.id, node.port, directory_id(node.directory / "data"))
        eventually(lambda: len(quorum_told_by(cluster.broker(2).address).current_voters), 3, TIMEOUT_S)
        create(at, "between", 1, 2)
        for broker in cluster.brokers:  # a broker that has heard of the topic has heard of the voters before
            leader_of(broker.address, "between")
        cluster.controller(101).kill()
        create(at, "after", 1, 2)
        produce(at, "after", range(50))
        assert consumed(at, "after", 1, 50) == list(range(50))


def directory_id(folder: Path) -> bytes:
    lines = (folder / "meta.properties").read_text().splitlines()
    return parse_uuid_text(next(line.partition("=")[2] for line in lines if line.startswith("directory.id=")))
