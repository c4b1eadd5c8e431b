"""A running stream on three brokers whose leaders are killed, one after the other.

A wait is the time from the kill to the next record in the table. Whoever leads dies within a second to its peers, so
what takes longer is Kafka's client in Spark.
"""

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from interop.cluster_clients import create, in_sync, leaders
from interop.kafka_cluster import OURS, KafkaCluster
from pipeline import store
from tests.killed import stored_ids

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]
KILLS = 5
LONGEST_S = 45  # a call that the dead leader does not answer is over after 15 s, and the next one may be such a call


def test_waits_for_a_new_leader(
    make_settings: Any, make_context: Any, start_job: Any, event: Any, slow: bool,
    capsys: pytest.CaptureFixture[str], tmp_path: Path,
) -> None:  # fmt: skip
    if not slow:
        pytest.skip("--slow kills leaders for some minutes")
    kept = {"log.retention.ms": "-1", "offsets.topic.replication.factor": "3"}
    with KafkaCluster(tmp_path / "cluster", controllers=[OURS], brokers=[OURS] * 3, config=kept) as cluster:
        everybody = [node.id for node in cluster.brokers]
        settings = make_settings(bootstrap_servers=cluster.bootstrap_servers, trigger="asap")
        topic = settings.bronze_topic
        create(cluster.bootstrap_servers, topic, 1, 3, min_insync_replicas="2")
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        running = start_job(store.run, make_context(settings))
        sent, waits = 0, []

        def is_stored_when_sent() -> None:
            nonlocal sent
            producer.produce(topic, event(sent), timestamp=1714521600000)
            sent += 1
            assert producer.flush(120) == 0
            running.until(lambda: len(stored_ids(settings)) == sent)

        is_stored_when_sent()
        for _ in range(KILLS):
            leader = cluster.broker(leaders(cluster.bootstrap_servers, topic)[0])
            leader.kill()
            killed = time.monotonic()
            is_stored_when_sent()
            waits.append(round(time.monotonic() - killed, 1))
            leader.start()
            while in_sync(cluster.bootstrap_servers, topic)[0] != everybody:
                time.sleep(0.2)
        running.stop()
        assert sorted(stored_ids(settings)) == sorted(f"e{n}" for n in range(sent))
    with capsys.disabled():
        print(f"\nwaits after kills of leaders: {waits} s")
    assert max(waits) < LONGEST_S
