"""Replicas that catch up slowly, because somebody said so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.replication.replicating import WAIT_MS, Cluster
from tests.broker.support import batch

RATE = 100_000
SIZE = 50_000


def catching_up(path: Path, batches: int = 20, /, **config: str) -> Cluster:
    """Return a leader with half a megabyte of records and a follower that has to fetch them."""
    topic = {key: config.pop(key) for key in list(config) if key.endswith("_replicas")}
    cluster = Cluster(path, 2, replica_fetch_max_bytes=str(SIZE), **config)
    cluster.network.silent = {2}
    cluster.topic(1, 2, isr=(1,), **topic)
    for _ in range(batches):
        cluster[1].partition("t", 0).append(big_batch(), cluster.now)
    cluster.settle()
    cluster.network.silent = set()
    return cluster


def big_batch() -> bytearray:
    return batch(b"v" * (SIZE // 2))


def seconds_to_catch_up(cluster: Cluster) -> float:
    begin = cluster.now
    while cluster.partition_log(2).log_end_offset < 20:
        assert cluster.now < begin + 120_000, "it never catches up"
        cluster.wait(WAIT_MS // 5)
    return (cluster.now - begin) / 1000


@pytest.mark.parametrize(
    ("side", "replica"), [("leader", "0:1"), ("follower", "0:2"), ("leader", "*"), ("follower", "*")]
)
def test_a_rate_holds_the_catching_up_back(tmp_path: Path, side: str, replica: str) -> None:
    name = f"{side}_replication_throttled"
    cluster = catching_up(tmp_path, **{f"{name}_rate": str(RATE), f"{name}_replicas": replica})
    took = seconds_to_catch_up(cluster)
    free = 2  # seconds: one window, and what is under way when it is used up
    assert took >= 20 * SIZE / 2 / RATE - free
    assert cluster.content(1) == cluster.content(2)


@pytest.mark.parametrize("named", ["0:3", "1:2"])
def test_replicas_that_nobody_names_are_not_held_back(tmp_path: Path, named: str) -> None:
    cluster = catching_up(
        tmp_path,
        follower_replication_throttled_rate="1",
        leader_replication_throttled_rate="1",
        follower_replication_throttled_replicas=named,
        leader_replication_throttled_replicas=named,
    )
    assert seconds_to_catch_up(cluster) <= 2


def test_a_rate_of_little_holds_nobody_in_sync_back(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 2, leader_replication_throttled_rate="1", follower_replication_throttled_rate="1")
    cluster.topic(1, 2, leader_replication_throttled_replicas="*", follower_replication_throttled_replicas="*")
    for _ in range(5):
        cluster[1].partition("t", 0).append(big_batch(), cluster.now)
        cluster.settle()
    assert cluster.ends(1, 2) == [(5, 5)] * 2


@pytest.mark.parametrize("rate", ["0", "10"])
@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_rate_of_next_to_nothing_lets_next_to_nothing_through(tmp_path: Path, side: str, rate: str) -> None:
    """Kafka compares what was carried with the limit, and at first nothing was: a move of few records ends."""
    name = f"{side}_replication_throttled"
    cluster = catching_up(tmp_path, **{f"{name}_rate": rate, f"{name}_replicas": "*"})
    for _ in range(20):
        cluster.wait(WAIT_MS)
    assert 0 < cluster.partition_log(2).log_end_offset <= 2


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_who_has_all_is_in_sync_at_once(tmp_path: Path, side: str) -> None:
    """Records use the limit up, and a replica with all of them waits for nothing more."""
    name = f"{side}_replication_throttled"
    cluster = catching_up(tmp_path, 1, **{f"{name}_rate": "0", f"{name}_replicas": "*"})
    for _ in range(3):
        cluster.wait(WAIT_MS)
    assert cluster.partition_log(2).log_end_offset == 1
    assert set(cluster[1].partition("t", 0).isr) == {1, 2}


def test_what_waits_for_more_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record wakes the fetch that waits for more of them; only an answer carries anything."""
    cluster = catching_up(tmp_path, 1, replica_fetch_min_bytes=str(2 * SIZE), leader_replication_throttled_replicas="*")
    replication = cluster[1].services.replicas.replication
    assert replication is not None
    counted: list[int] = []
    monkeypatch.setattr(replication.leader_throttle, "record", lambda partition, size, now: counted.append(size))
    for _ in range(5):
        cluster.produce()
        cluster.settle()
    assert cluster.partition_log(2).log_end_offset == 0
    for _ in range(3):
        cluster.wait(WAIT_MS)
    assert sum(counted) == cluster.partition_log(2).segments.size_bytes == cluster.partition_log(1).segments.size_bytes
