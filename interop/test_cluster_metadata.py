"""The metadata of a cluster of Kafka's on nodes of ours: snapshots, nodes of both kinds, disks that come and go."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from interop.cluster_clients import brokers_told_by, consumed, create, in_sync, leaders, partitions_of, produce
from interop.kafka_cluster import OURS, THEIRS, KafkaCluster
from interop.waiting import eventually

pytestmark = [pytest.mark.ours_only, pytest.mark.java]
OFTEN = {"metadata.log.max.record.bytes.between.snapshots": "4000"}


def snapshots(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "__cluster_metadata-0").glob("*.checkpoint"))


def everywhere(partitions: int, replicas: list[int]) -> dict[int, list[int]]:
    return {number: list(replicas) for number in range(partitions)}


def leads(node_id: int, address: str, topic: str) -> bool:
    return node_id in leaders(address, topic)


def test_a_new_broker_begins_with_the_leaders_snapshot_and_keeps_its_own(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path, brokers=[OURS], config=OFTEN) as cluster:
        at = cluster.broker(1).address
        for number in range(10):
            create(at, f"t{number}", 10, 1)
        eventually(lambda: len(snapshots(tmp_path / "controller-101" / "data")) > 0, True)
        second = cluster.add_broker(OURS, 2)
        second.start()
        eventually(lambda: "The metadata begins with the leader's snapshot up to" in second.log, True)
        eventually(lambda: brokers_told_by(second.address), {1, 2})
        assert len(partitions_of(second.address, "t7")) == 10
        own = cluster.broker(1).directory / "data-0"
        eventually(lambda: len(snapshots(own)) > 0, True)
        cluster.broker(1).restart()
        eventually(lambda: brokers_told_by(at), {1, 2})
        produce(at, "t3", range(20))
        assert consumed(at, "t3", 10, 20) == list(range(20))


def test_brokers_of_both_kinds_serve_one_topic(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path, brokers=[OURS, THEIRS, OURS], log_dirs=2) as cluster:
        at = cluster.bootstrap_servers
        create(at, "mixed", 6, 3, min_insync_replicas="2")
        produce(at, "mixed", range(600))
        eventually(lambda: in_sync(at, "mixed"), everywhere(6, [1, 2, 3]))
        for node_id in (2, 1):
            cluster.broker(node_id).kill()
            rest = ",".join(cluster.broker(other).address for other in (1, 2, 3) if other != node_id)
            eventually(partial(leads, node_id, rest, "mixed"), False)
            produce(rest, "mixed", range(node_id * 1000, node_id * 1000 + 300))
            cluster.broker(node_id).start()
            eventually(lambda: in_sync(at, "mixed"), everywhere(6, [1, 2, 3]), 60)
        acknowledged = [*range(600), *range(1000, 1300), *range(2000, 2300)]
        assert consumed(at, "mixed", 6, len(acknowledged)) == acknowledged


def test_a_disk_that_was_wiped_is_filled_again(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path, brokers=[OURS, OURS], log_dirs=2) as cluster:
        at = cluster.bootstrap_servers
        create(at, "wiped", 8, 2)
        produce(at, "wiped", range(400))
        eventually(lambda: in_sync(at, "wiped"), everywhere(8, [1, 2]))
        broker = cluster.broker(2)
        broker.kill()
        shutil.rmtree(broker.directory / "data-1")
        broker.start()
        eventually(lambda: in_sync(at, "wiped"), everywhere(8, [1, 2]))
        assert consumed(at, "wiped", 8, 400) == list(range(400))
