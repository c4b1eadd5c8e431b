"""The time that a stream of Spark stands when the leader of its topic dies: three brokers of one peer, the pipeline's
job `store`, one record sent after each kill -9.

Rule: the same job, times and client for every peer. Kafka's brokers are its controllers, too, so a kill may take the
active one; ours have their controller in a process of its own, which lives on.
"""

import contextlib
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench.spark_session import session
from interop.cluster_clients import create, in_sync, leaders
from interop.kafka_cluster import OURS, THEIRS, KafkaCluster, Kind, Node
from interop.real_kafka import free_port
from pipeline import store
from pipeline.context import Context
from pipeline.kafka import Kafka
from pipeline.settings import Settings

BROKERS = 3
TOPIC = "failover"
WITHIN_S = 180.0
CONFIG = {"log.retention.ms": "-1", "offsets.topic.replication.factor": "3"}
EVENT = '{{"event_id": "{}", "event_time": "2024-05-01T00:00:00Z", "user_id": "u", "country": "de", "amount": 1.5}}'
AT_MS = 1714521600000


class CombinedCluster(KafkaCluster):
    """A cluster of real Kafkas, each of them a broker and a controller."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._ports = {node_id: free_port() for node_id in range(1, BROKERS + 1)}
        super().__init__(controllers=(), brokers=[THEIRS] * BROKERS, config=config)

    def _node(self, kind: Kind, role: str, node_id: int, port: int, config: Mapping[str, str]) -> Node:
        addresses = {node_id: f"127.0.0.1:{port}" for node_id, port in self._ports.items()}
        both = {
            "process.roles": "broker,controller",
            "listeners": f"{config['listeners']},CONTROLLER://{addresses[node_id]}",
            "controller.quorum.voters": ",".join(f"{voter}@{address}" for voter, address in addresses.items()),
        }
        return super()._node(kind, role, node_id, port, {**config, **both})


def cluster_of(peer: str, config: Mapping[str, str]) -> KafkaCluster:
    if peer == "ours":
        return KafkaCluster(controllers=[OURS], brokers=[OURS] * BROKERS, config=config)
    return CombinedCluster(config)


def standstill(peer: str, kills: int, config: Mapping[str, str] | None = None) -> dict[str, float]:
    """Return medians in seconds, from a kill to the acknowledgement of the next record, and until the table has it."""
    with cluster_of(peer, {**CONFIG, **(config or {})}) as cluster, tempfile.TemporaryDirectory() as folder:
        create(cluster.bootstrap_servers, TOPIC, 1, BROKERS, min_insync_replicas="2")
        settings = Settings(
            bootstrap_servers=cluster.bootstrap_servers, data_dir=folder, bronze_topic=TOPIC, trigger="asap"
        )
        with running(settings) as job:
            waits = [after_a_kill(cluster, settings, number, job) for number in range(1, kills + 1)]
    acknowledged, stored = zip(*waits, strict=True)
    return {
        "spark_failover_ack_s": statistics.median(acknowledged),
        "spark_failover_s": statistics.median(stored),
        "spark_failover_longest_s": max(stored),
    }


@contextlib.contextmanager
def running(settings: Settings) -> Iterator[threading.Thread]:
    """Run the job, which has stored the first record."""
    context = Context(session(), settings, Kafka(settings))
    job = threading.Thread(target=store.run, args=(context,))
    job.start()
    try:
        send(settings, 0)
        until_stored(settings, 1, job)
        yield job
    finally:
        context.stop.set()
        job.join()


def after_a_kill(cluster: KafkaCluster, settings: Settings, number: int, job: threading.Thread) -> tuple[float, float]:
    """Kill the leader; return the seconds until the next record is acknowledged, and until the table has it."""
    leader = cluster.broker(leaders(cluster.bootstrap_servers, TOPIC)[0])
    leader.kill()
    killed = time.monotonic()
    send(settings, number)
    acknowledged = time.monotonic()
    until_stored(settings, number + 1, job)
    stored = time.monotonic()
    leader.start()
    while len(in_sync(cluster.bootstrap_servers, TOPIC)[0]) < BROKERS:
        time.sleep(0.2)
    return acknowledged - killed, stored - killed


def send(settings: Settings, number: int) -> None:
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "acks": "all", "log_level": 0})
    producer.produce(TOPIC, EVENT.format(number), timestamp=AT_MS)
    if producer.flush(WITHIN_S):
        raise RuntimeError("a record was not acknowledged")


def until_stored(settings: Settings, records: int, job: threading.Thread) -> None:
    deadline = time.monotonic() + WITHIN_S
    while stored(settings) < records:
        if not job.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("Spark does not store the record")
        time.sleep(0.02)


def stored(settings: Settings) -> int:
    """Return how many records the job has stored."""
    path = Path(settings.path("pipeline.db"))
    if not path.exists():
        return 0
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'events'").fetchone():
            return 0
        found: Any = connection.execute("SELECT count(*) FROM events").fetchone()[0]
        return int(found)
