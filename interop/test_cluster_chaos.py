"""After random outages of a cluster's nodes, acknowledged records are there once, in their order; transactions are
whole; a copy has everything once; and the replicas are equal, byte by byte.

Forty seconds of it in the ordinary run, twenty minutes with --slow (`--chaos-minutes`, `--chaos-seed`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from interop.chaos import Chaos, await_whole, directories
from interop.cluster_clients import create
from interop.copier_process import CopierProcess
from interop.crew import COMES_BACK, CONSUMER_PROTOCOL, Crew, Kind
from interop.numbered import (
    PARTITIONS,
    NumberedProducer,
    check_no_gaps,
    check_once_in_order,
    check_places,
    key_of,
    read_all,
)
from interop.numbered_transactions import NumberedTransactions, check_markers_in
from pykafka_broker.testing import KafkaBroker, KafkaCluster

pytestmark = pytest.mark.ours_only

SHORT_S = 40.0
NUMBERED, COPIED, TRANSACTIONAL = "numbered", "copied", ["transactions-a", "transactions-b"]
TOPICS = [NUMBERED, COPIED, *TRANSACTIONAL]
MEMBER = Kind("confluent", {**COMES_BACK, **CONSUMER_PROTOCOL})
HEALS_WITHIN_S = STARTS_WITHIN_S = 120.0
CONFIG = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
}


BROKERS = 4  # one more than a partition has replicas, so that they can be moved


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaCluster]:
    with new_cluster(tmp_path / "cluster") as running:
        yield running


def new_cluster(home: Path, log_level: str = "info") -> KafkaCluster:
    """Return a cluster whose brokers have two disks each, and time to start on a busy machine."""
    disks = {
        number: {"log.dirs": ",".join(str(home / f"node-{number}" / disk) for disk in ("a", "b"))}
        for number in range(1, BROKERS + 1)
    }
    return KafkaCluster(
        BROKERS, config=CONFIG, configs=disks, data_dir=home, log_level=log_level, start_timeout_s=STARTS_WITHIN_S
    )


class ClusterCrew(Crew):
    """A crew that looks up offsets through a client, which finds the right broker."""

    def _asked(self) -> tuple[Consumer, list[TopicPartition]]:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": self.group, "log_level": 0}
        return Consumer(settings), [TopicPartition(self.topic, number) for number in range(self._partitions)]

    def committed(self) -> dict[int, int]:
        consumer, places = self._asked()
        with closing(consumer):
            return {each.partition: each.offset for each in consumer.committed(places, timeout=20)}

    def log_ends(self) -> dict[int, int]:
        consumer, places = self._asked()
        with closing(consumer):
            return {each.partition: consumer.get_watermark_offsets(each, timeout=20)[1] for each in places}


class Clients:
    """An idempotent producer, transactions, a group, and a copy of what the producer writes."""

    def __init__(self, cluster: KafkaCluster, files: Path, stack: ExitStack) -> None:
        self._where = cluster.bootstrap_servers
        for topic in TOPICS:
            create(self._where, topic, PARTITIONS, 3)
        self.crew = stack.enter_context(ClusterCrew(self._where, "crew", files, PARTITIONS, pause_s=0.1, replicas=3))
        self.crew.start(MEMBER)
        self.crew.start(MEMBER)
        # One request at a time: where the second of two is refused because the first was, librdkafka 2.16 takes a new
        # epoch and sends again what other partitions have already (its issue 4953).
        self._producer = NumberedProducer(
            self._where,
            [NUMBERED],
            burst=6,
            pause_s=0.15,
            enable_idempotence=True,
            max_in_flight=1,
            message_timeout_ms=300_000,
        )
        self._transactions = NumberedTransactions(self._where, TRANSACTIONAL, "chaos", 0.05)
        self._copier = CopierProcess(self._where, NUMBERED, COPIED, files / "copier.log")
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._watch_over)
        self._watch.start()
        stack.callback(self._end_copier)
        self._producer.resume()
        stack.callback(self._producer.pause)
        self._transactions.start()

    def _watch_over(self) -> None:
        while not self._ended.wait(0.2):
            self._copier.ensure_running()
            self.crew.replace_the_dead()
        self._copier.kill()

    def _end_copier(self) -> None:
        self._ended.set()
        self._watch.join()

    def finish(self) -> str:
        """Check that everything acknowledged is there once; return a line that counts it."""
        self._producer.pause()
        self._producer.finish()
        self._transactions.finish()
        self._transactions.check()
        acknowledged = self._producer.acknowledged[NUMBERED]
        found = read_all(self._where, NUMBERED)
        check_places(found, acknowledged)
        check_once_in_order(found)
        check_no_gaps(found)
        self._check_copy([[number for _, number in log] for log in found])
        self._end_copier()
        self.crew.finish(120)
        committed = len(self._transactions.committed)
        return f"{len(acknowledged):,} records, {committed:,} transactions; given up: {self._transactions.given_up}"

    def _check_copy(self, wanted: list[list[int]]) -> None:
        """Check that the copy has every number once, and those of each key in order; wait as long as more come."""
        count, before, deadline = sum(map(len, wanted)), 0, time.monotonic() + HEALS_WITHIN_S
        while len(found := copies(self._where)) < count and time.monotonic() < deadline:
            if len(found) > before:
                before, deadline = len(found), time.monotonic() + HEALS_WITHIN_S
            time.sleep(1)
        assert sorted(found) == sorted(number for log in wanted for number in log), self._copier.log[-3_000:]
        last: dict[bytes, int] = {}
        for number in found:
            key = key_of(number)
            assert last.get(key, -1) < number, f"the copy has {number} behind {last[key]}"
            last[key] = number


def copies(bootstrap: str) -> list[int]:
    """Return what is committed of the copy: the numbers of one partition after the other."""
    logs = read_all(bootstrap, COPIED, isolation_level="read_committed")
    return [number for log in logs for _, number in log]


def check_equal(cluster: KafkaCluster, topic: str, partition: int) -> None:
    """Check that all replicas hold the same bytes, whatever their segments."""
    holders = cluster.partition(topic, partition)["replicas"]
    name = f"{topic}-{partition}"
    deadline = time.monotonic() + HEALS_WITHIN_S
    while True:
        held: list[bytes] = []
        with suppress(FileNotFoundError):  # a replica is just exchanged for its copy on another disk
            held = [bytes_in(each / name for each in directories(cluster.broker(node))) for node in holders]
        if len(set(held)) == 1 and held[0]:
            return
        assert time.monotonic() < deadline, f"{name} on {holders}: {[len(each) for each in held]} bytes"
        time.sleep(0.2)


def folder_of(broker: KafkaBroker, topic: str, partition: int) -> Path:
    return next(each for disk in directories(broker) if (each := disk / f"{topic}-{partition}").exists())


def bytes_in(folders: Iterable[Path]) -> bytes:
    return b"".join(path.read_bytes() for folder in folders for path in sorted(folder.glob("*.log")))


def stays_whole(cluster: KafkaCluster, files: Path, seed: int, seconds: float) -> None:
    with ExitStack() as stack:
        clients = Clients(cluster, files, stack)
        chaos = Chaos(cluster, seed, dict.fromkeys(TOPICS, PARTITIONS))
        chaos.go_on(seconds)
        chaos.heal()
        print(dict(chaos.happened), dict(chaos.refused), sep="\n")
        await_whole(cluster, HEALS_WITHIN_S)
        print(clients.finish())
        assert chaos.has_worked
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            check_equal(cluster, topic, partition)
    places = [(topic, partition) for topic in TRANSACTIONAL for partition in range(PARTITIONS)]
    leaders = [cluster.broker(cluster.leader_of(*place)) for place in places]
    for node in cluster.brokers:  # a running one may move a replica to another disk
        node.stop()
    for leader, place in zip(leaders, places, strict=True):
        check_markers_in(folder_of(leader, *place))
    for node_id, node in cluster.nodes.items():
        assert "Traceback" not in node.log_path.read_text(errors="replace"), f"node {node_id}: {node.log_path}"


@pytest.mark.timeout(400)
def test_what_befalls_a_cluster(cluster: KafkaCluster, tmp_path: Path, chaos_seed: int) -> None:
    stays_whole(cluster, tmp_path, chaos_seed, SHORT_S)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_twenty_minutes(cluster: KafkaCluster, tmp_path: Path, chaos_seed: int, chaos_minutes: float) -> None:
    stays_whole(cluster, tmp_path, chaos_seed + 1, chaos_minutes * 60)
