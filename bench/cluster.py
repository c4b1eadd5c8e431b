"""Three brokers and a controller, all of one peer: what replication costs, and how long a failover takes.

Rule: three replicas, acks=all, `min.insync.replicas` 2; the same client and the same timing for every peer. One node is
killed with kill -9; the time runs until the next record is acknowledged.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.running import load
from interop.kafka_cluster import OURS, THEIRS, KafkaCluster, Node

_KINDS = {"ours": OURS, "kafka": THEIRS}
_HEAPS = {"controller": "256m", "broker": "1g"}
_WITHIN_S = 120.0
Figures = dict[str, float]


class Nodes:
    """A cluster of one peer."""

    def __init__(self, peer: str, config: Mapping[str, str] | None = None) -> None:
        self.name, kind = peer, _KINDS[peer]
        settings = {"min.insync.replicas": "2", "default.replication.factor": "3", **(config or {})}
        self.cluster = KafkaCluster(controllers=[kind], brokers=[kind] * 3, config=settings)
        for node in self.cluster.nodes:
            node.heaps, node.jvm = _HEAPS, ()

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap_servers

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def await_brokers(self) -> None:
        """Wait until clients are told of all brokers."""
        deadline = time.monotonic() + _WITHIN_S
        while time.monotonic() < deadline:
            with contextlib.suppress(Exception):
                if len(self.admin().list_topics(timeout=5).brokers) == len(self.cluster.brokers):
                    return
            time.sleep(0.02)
        raise RuntimeError("the brokers did not come")

    def create(self, topic: str, partitions: int) -> None:
        admin = self.admin()  # what it has promised ends with it
        for future in admin.create_topics([NewTopic(topic, partitions, 3)]).values():
            future.result(_WITHIN_S)
        self.await_isr(topic, 3)

    def partitions(self, topic: str) -> list[Any]:
        return list(self.admin().list_topics(topic, timeout=10).topics[topic].partitions.values())

    def await_isr(self, topic: str, size: int) -> float:
        """Wait until each partition has `size` replicas in sync; return when that was."""
        deadline = time.monotonic() + _WITHIN_S
        while time.monotonic() < deadline:
            found = self.partitions(topic)
            if found and all(len(each.isrs) == size for each in found):
                return time.monotonic()
            time.sleep(0.01)
        raise RuntimeError(f"{topic} has not {size} replicas in sync")

    def leader(self, topic: str) -> Node:
        return self.cluster.broker(self.partitions(topic)[0].leader)

    def cpu_s(self) -> float:
        return float(sum(sum(psutil.Process(pid).cpu_times()[:4]) for pid in self._pids()))

    def memory_mb(self) -> float:
        return float(sum(psutil.Process(pid).memory_info().rss for pid in self._pids())) / 2**20

    def _pids(self) -> list[int]:
        return [node.process.pid for node in self.cluster.nodes if node.process is not None and node.runs]


@contextlib.contextmanager
def nodes(peer: str, config: Mapping[str, str] | None = None) -> Iterator[Nodes]:
    made = Nodes(peer, config)
    with made.cluster:
        made.await_brokers()
        yield made


def replicated(peer: str, records: int, round_trips: int) -> Figures:
    """Measure the start, memory, records of 1 KiB in and out, and one record in flight."""
    begun = time.monotonic()
    with nodes(peer) as run:
        figures = {"cluster_start_s": time.monotonic() - begun, "cluster_mb": run.memory_mb()}
        run.create("load", 4)
        load(run, "produce", "load", 4, records // 5, 1024, "linger.ms=5", "acks=all")  # Java's compiler warms up
        produced = load(run, "produce", "load", 4, records, 1024, "linger.ms=5", "acks=all")
        consumed = load(run, "consume", "load", 4, records, 1024)
        run.create("latency", 1)
        load(run, "latency", "latency", 1, round_trips // 2, 100, "linger.ms=0", "acks=all")
        one = load(run, "latency", "latency", 1, round_trips, 100, "linger.ms=0", "acks=all")
        return figures | {
            "cluster_produce_mb_s": produced["mb_per_s"],
            "cluster_produce_cpu_s_gb": produced["cpu_s_per_gb"],
            "cluster_consume_mb_s": consumed["mb_per_s"],
            "cluster_p50_ms": one["p50_ms"],
            "cluster_p99_ms": one["p99_ms"],
        }


def failover(peer: str, megabytes: int) -> Figures:
    """Measure how long a killed leader stops a producer, and how fast a follower catches up."""
    figures: Figures = {}
    for name, config in (("short", {}), ("default", _DEFAULT_TIMES)):
        with nodes(peer, config) as run:
            run.create("failover", 1)
            figures[f"failover_{name}_s"] = _acknowledged_again(run)
    with nodes(peer) as run:
        run.create("catch-up", 4)
        away = next(node for node in run.cluster.brokers if node is not run.leader("catch-up"))
        away.stop()
        run.await_isr("catch-up", 2)
        load(run, "produce", "catch-up", 4, megabytes * 1000, 1000, "linger.ms=5", "acks=all")
        away.launch()
        run.await_brokers()  # the node follows from then on
        begun = time.monotonic()
        figures["catch_up_mb_s"] = megabytes / (run.await_isr("catch-up", 3) - begun)
    return figures


_DEFAULT_TIMES = {"broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "2000"}


def _acknowledged_again(run: Nodes) -> float:
    producer = Producer(
        {
            "bootstrap.servers": run.bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "retry.backoff.ms": 50,
            "log_level": 0,
        }
    )
    told: list[float] = []

    def one() -> None:
        producer.produce("failover", b"x", on_delivery=lambda error, _: told.append(time.monotonic()))
        assert producer.flush(_WITHIN_S) == 0

    one()
    leader = run.leader("failover")
    leader.kill()
    killed = time.monotonic()
    one()
    return told[-1] - killed


def many_partitions(peer: str, count: int) -> Figures:
    """Measure a start with `count` partitions of three replicas each."""
    with nodes(peer) as run:
        begun = time.monotonic()
        run.create("many", count)
        created = time.monotonic() - begun
        run.cluster.stop()
        begun = time.monotonic()
        run.cluster.start()
        run.await_brokers()
        run.await_isr("many", 3)
        return {
            "cluster_many_create_s": created,
            "cluster_many_start_s": time.monotonic() - begun,
            "cluster_many_mb": run.memory_mb(),
        }
