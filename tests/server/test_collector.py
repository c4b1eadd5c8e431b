"""When the garbage collector is told to look away."""

from __future__ import annotations

import gc
from pathlib import Path

from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.server.collector import Collector
from tests.broker.test_many_partitions import TurningBroker, fetch, produce


class Watched:
    def __init__(self) -> None:
        self.now = 0.0
        self.frozen = 0
        self.collector = Collector(lambda: self.now, self.freeze)

    def freeze(self) -> None:
        self.frozen += 1

    def collection(self, generation: int, seconds: float) -> None:
        self.collector.on_collection("start", {"generation": generation})
        self.now += seconds
        self.collector.on_collection("stop", {"generation": generation})


def test_what_outlives_a_long_full_collection_is_not_looked_at_again() -> None:
    watched = Watched()
    watched.collection(2, 0.009)
    watched.collection(1, 0.5)
    assert watched.frozen == 0
    watched.collection(2, 0.011)
    assert watched.frozen == 1


def test_it_watches_from_the_start_to_the_stop() -> None:
    watched = Watched()
    watched.collector.start()
    assert watched.frozen == 1
    assert watched.collector.on_collection in gc.callbacks
    watched.collector.stop()
    assert watched.collector.on_collection not in gc.callbacks


def test_logs_go_without_a_collection(tmp_path: Path) -> None:
    """Or those of deleted topics would stay for good."""
    broker = TurningBroker(tmp_path)
    broker.add("t", 40)
    broker.ask(produce(range(40)), 9).answer()
    broker.ask(fetch(range(40)), 12).answer()
    gc.collect()
    gc.disable()
    try:
        before = logs_of("t", tmp_path)
        broker.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
        for _ in range(2):
            broker.now += 70_000
            broker.on_deadline(broker.now)
        assert (before, logs_of("t", tmp_path)) == (40, 0)
    finally:
        gc.enable()


def logs_of(topic: str, path: Path) -> int:
    """Count the logs of this test's broker: the process may still hold logs of other tests."""
    logs = [each for each in gc.get_objects() if isinstance(each, PartitionLog)]
    return sum(each.topic == topic and Path(each.directory).is_relative_to(path) for each in logs)
