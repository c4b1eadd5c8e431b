"""Clients that read from the replica that is closest to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.replication.node_replication import closest_replica
from pykafka_broker.config.problems import RACK_AWARE
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.fetch_response import PartitionData
from tests.broker.replication.replicating import Cluster

VERSION = 18
BIG = 1 << 20


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    cluster = Cluster(tmp_path, replica_selector_class=RACK_AWARE)
    for node in cluster.nodes.values():
        for number, rack in ((1, "a"), (2, "b"), (3, "b")):
            node.image.brokers[number].rack = rack
    cluster.topic(1, 2, 3)
    cluster.produce(count=2)
    cluster.settle()
    return cluster


def fetched(cluster: Cluster, node: int, offset: int, rack: str = "", version: int = VERSION) -> PartitionData:
    (answer,) = cluster.asked(node, asked(cluster, offset, rack, version), version)
    (topic,) = answer.responses
    (data,) = topic.partitions
    return data


def asked(cluster: Cluster, offset: int, rack: str = "", version: int = VERSION, **options: Any) -> FetchRequest:
    wanted = [FetchPartition(0, -1, offset, partition_max_bytes=BIG)]
    topic_id = cluster[1].image.topics["t"].id
    topic = FetchTopic(topic_id=topic_id, partitions=wanted) if version >= 13 else FetchTopic("t", partitions=wanted)
    fields: dict[str, Any] = {"min_bytes": 1, "max_bytes": BIG, "session_epoch": -1, "rack_id": rack} | options
    return FetchRequest(topics=[topic], **fields)


def test_a_client_is_sent_to_a_replica_in_its_rack(cluster: Cluster) -> None:
    data = fetched(cluster, 1, 0, "b")
    assert (data.error_code, data.preferred_read_replica, len(data.records)) == (0, 2, 0)
    data = fetched(cluster, 2, 0, "b")
    assert (data.preferred_read_replica, data.high_watermark) == (-1, 2)
    assert bytes(data.records) == cluster.content(1)


@pytest.mark.parametrize("rack", ["a", "c", ""])
def test_others_read_from_the_leader(cluster: Cluster, rack: str) -> None:
    data = fetched(cluster, 1, 0, rack)
    assert (data.preferred_read_replica, bytes(data.records)) == (-1, cluster.content(1))


def test_the_answer_that_sends_a_client_away_does_not_wait(cluster: Cluster) -> None:
    request = asked(cluster, 2, "b", max_wait_ms=500)
    (answer,) = cluster.asked(1, request, VERSION)
    assert answer.responses[0].partitions[0].preferred_read_replica == 2


def test_a_replica_without_what_is_asked_for_is_none(cluster: Cluster) -> None:
    image, partition = cluster[1].image, cluster.replica(1)
    assert closest_replica(partition, 3, "b", image) == -1
    followers = partition.followers
    assert followers is not None
    second, third = followers.get(2), followers.get(3)
    assert second is not None
    assert third is not None
    second.log_start_offset = 1
    assert closest_replica(partition, 0, "b", image) == 3
    image.brokers[3].fenced = True
    assert closest_replica(partition, 0, "b", image) == -1


def test_a_replica_out_of_sync_is_none(cluster: Cluster) -> None:
    cluster.refuse = ErrorCode.INELIGIBLE_REPLICA
    cluster.change("t", isr=[1, 3])
    cluster.settle()
    assert cluster.ends() == [(2, 2)] * 3
    assert fetched(cluster, 1, 0, "b").preferred_read_replica == 3
    cluster.change("t", isr=[1])
    cluster.settle()
    data = fetched(cluster, 1, 0, "b")
    assert (data.preferred_read_replica, bytes(data.records)) == (-1, cluster.content(1))


def test_a_follower_serves_what_it_knows_to_be_committed(cluster: Cluster) -> None:
    committed = cluster.content(1)
    cluster.network.silent = {3}
    cluster.produce()
    cluster.settle()
    assert cluster.ends(2) == [(3, 2)]
    assert bytes(fetched(cluster, 2, 0).records) == committed
    assert fetched(cluster, 2, 2).error_code == 0
    assert fetched(cluster, 2, 3).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert fetched(cluster, 2, 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_client_that_waits_at_a_follower_gets_what_is_committed(cluster: Cluster) -> None:
    answers = cluster.asked(2, asked(cluster, 2, max_wait_ms=500), VERSION)
    assert answers == []
    cluster.produce()
    cluster.settle()
    assert len(answers[0].responses[0].partitions[0].records)


def test_clients_that_can_not_be_sent_read_from_the_leader_only(cluster: Cluster) -> None:
    assert fetched(cluster, 2, 0, version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_without_the_class_nobody_is_sent_anywhere(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    for number, rack in ((1, "a"), (2, "b"), (3, "b")):
        cluster[1].image.brokers[number].rack = rack
    cluster.topic(1, 2, 3)
    cluster.produce()
    cluster.settle()
    assert fetched(cluster, 1, 0, "b").preferred_read_replica == -1
