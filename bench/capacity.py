"""The cost of large clusters for one controller: of a metadata record, a heartbeat and a partition.

    python -m bench.capacity --brokers 100 --partitions 200000

Rule: a real controller is asked by frames through its router, as brokers and tools ask it, and writes real records to
real files; only the sockets are left out, and the syncs, which are the disk's. Brokers are light: they register, send
heartbeats and fetch, and all share one image. CPU is that of this process.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from interop.answers.requests import create, new_topic
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.image_records import image_records
from pykafka_broker.cluster.metadata_log import Replay
from pykafka_broker.cluster.snapshot import snapshot_pieces
from pykafka_broker.log.checkpoints import METADATA_TOPIC_ID
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from pykafka_broker.records.header import iter_batches
from pykafka_broker.testing import KafkaBroker
from tests.broker.controller_node import NOW, ControllerNode, Waiting

OF_A_TOPIC = 1_000
LED_BY_ONE = 4  # topics that broker 1 leads: with its share of the others it leads 6,000 partitions
ROUNDS = 2_000
Row = tuple[str, float, str]


def cpu_ms(step: Callable[[], Any]) -> float:
    begun = time.process_time()
    step()
    return (time.process_time() - begun) * 1000


def resident_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def replay(image: MetadataImage, data: Any) -> None:
    """Apply the records of batches to an image."""
    applied = Replay(image, MetadataDelta())
    for header, batch in iter_batches(data):
        applied.checked("here", header, batch)


def read_by_broker(snapshot: Path) -> tuple[float, float]:
    """Return the CPU in ms, and the bytes by which the process has grown."""
    data, image, before = snapshot.read_bytes(), MetadataImage(), resident_bytes()
    spent = cpu_ms(lambda: replay(image, data))
    return spent, resident_bytes() - before


class Capacity:
    """A controller with brokers and partitions, and what it costs."""

    def __init__(self, directory: Path, brokers: int, partitions: int) -> None:
        self._directory, self._brokers, self._topics = directory, brokers, partitions // OF_A_TOPIC
        self._now = NOW
        settings = {
            "metadata.log.max.record.bytes.between.snapshots": str(1 << 40),
            "broker.session.timeout.ms": "9000",
        }
        self._node = ControllerNode(directory, **settings)
        self._node.join(*range(1, brokers + 1))

    # -- at the controller

    def _create(self, name: str, leader: int = 0) -> None:
        node = self._node
        answer = node.ask(create(self._wanted(name, leader)), 7)
        while isinstance(answer, Waiting) and not answer.is_answered:
            node.settle(self._now)
        result = (answer.reply if isinstance(answer, Waiting) else answer).topics[0]
        assert result.error_code == 0, result
        node.settle(self._now)

    def _wanted(self, name: str, leader: int) -> CreatableTopic:
        if not leader:
            return new_topic(name, OF_A_TOPIC, 3)
        others = [number for number in range(1, self._brokers + 1) if number != leader]
        places = {
            number: [leader, others[number % len(others)], others[(number + 1) % len(others)]]
            for number in range(OF_A_TOPIC)
        }
        return new_topic(name, -1, -1, assignments=places)

    def create_all(self) -> Iterator[Row]:
        log, before = self._node.metadata.log.log, resident_bytes()
        size, offset = log.segments.size_bytes, log.log_end_offset
        spent = [cpu_ms(lambda n=number: self._create(f"t{n}", n < LED_BY_ONE)) for number in range(self._topics)]  # type: ignore[misc]
        records = log.log_end_offset - offset
        yield "1,000 partitions created, at the controller", sum(spent) / len(spent), "ms"
        yield "the same, the slowest", max(spent), "ms"
        yield "a record of the metadata, at the controller", sum(spent) / records * 1000, "µs"
        yield "a record of the metadata, in the log", (log.segments.size_bytes - size) / records, "bytes"
        yield (
            "a partition in the image of the controller",
            (resident_bytes() - before) / (self._topics * OF_A_TOPIC),
            "bytes",
        )

    def beat(self, but: int = 0) -> None:
        applied = self._node.metadata.applied_offset
        for number, broker in self._node.image.brokers.items():
            if number != but:
                self._node.ask(BrokerHeartbeatRequest(number, broker.epoch, current_metadata_offset=applied))

    def heartbeats(self) -> Iterator[Row]:
        def beats() -> None:
            for _ in range(ROUNDS // self._brokers):
                self.beat()

        yield "a heartbeat, at the controller", cpu_ms(beats) / ROUNDS * 1000, "µs"

    def fetches(self) -> Iterator[Row]:
        """Measure the fetch of an observer: one small batch of the metadata."""
        log = self._node.metadata.log
        end = log.log.log_end_offset
        self._node.ask(create(new_topic("small", 1, 3)), 7)
        partition = FetchPartition(
            current_leader_epoch=1, fetch_offset=end, last_fetched_epoch=1, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            cluster_id=self._node.cluster_id,
            replica_state=ReplicaState(1),
            max_wait_ms=500,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        )
        answer = self._node.ask(request)
        assert answer.responses[0].partitions[0].records, answer
        spent = cpu_ms(lambda: [self._node.ask(request) for _ in range(ROUNDS)])
        yield "a fetch of a broker for a change, at the controller", spent / ROUNDS * 1000, "µs"

    def fencing(self) -> Iterator[Row]:
        node, log = self._node, self._node.metadata.log.log
        led = sum(p.leader == 1 for topic in node.image.topics.values() for p in topic.partitions.values())
        held = sum(1 in p.isr for topic in node.image.topics.values() for p in topic.partitions.values())
        for passed in range(1_000, 9_000, 1_000):  # in steps, as a controller that was away itself fences nobody
            node.on_deadline(self._now + passed)
        self.beat(but=1)
        self._now += 9_500
        before, size, offset = self.snapshot(), log.segments.size_bytes, log.log_end_offset
        spent = cpu_ms(self.fence)
        assert node.image.brokers[1].fenced
        yield f"a broker fenced that leads {led:,} partitions and has {held:,} in sync", spent, "ms"
        yield "records of that", log.log_end_offset - offset, ""
        size = log.segments.size_bytes - size
        yield "a change of a partition, in the log", size / (log.log_end_offset - offset), "bytes"
        data = log.read(offset, 1 << 30, log.log_end_offset)
        assert data is not None
        image = MetadataImage()
        replay(image, before)
        yield "the same, read by a broker", cpu_ms(lambda: replay(image, data.records.read())), "ms"

    def fence(self) -> None:
        """Fence broker 1, a portion of its partitions at a time, as the controller does it between heartbeats."""
        for _ in range(1_000):
            if self._node.image.brokers[1].fenced:
                return
            self._node.on_deadline(self._now)

    # -- at a broker

    def snapshot(self) -> bytes:
        node = self._node
        records = image_records(
            node.image,
            node.metadata.controller.partition_record_version(),
            node.metadata.controller.broker_record_version(),
        )
        return b"".join(bytes(piece) for piece in snapshot_pieces(records, now=self._now))

    def loading(self) -> Iterator[Row]:
        """Measure a snapshot, read in a process of its own as by a broker."""
        count = self._topics * OF_A_TOPIC
        file = self._directory / "snapshot"
        yield "a snapshot written, in slices", cpu_ms(lambda: file.write_bytes(self.snapshot())), "ms"
        yield "a snapshot", file.stat().st_size / 1e6, "MB"
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            spent, grown = pool.apply(read_by_broker, (file,))
        yield "a snapshot read by a broker that starts", spent, "ms"
        yield "a record of the metadata, at a broker", spent / count * 1000, "µs"
        yield "a partition in the image of a broker", grown / count, "bytes"

    def restart(self) -> Iterator[Row]:
        self._node.stop(self._now)
        spent = cpu_ms(lambda: ControllerNode(self._directory))
        yield "a controller started with all of this", spent, "ms"

    def rows(self) -> Iterator[Row]:
        for part in (self.create_all, self.heartbeats, self.fetches, self.loading, self.fencing, self.restart):
            yield from part()


def logs(partitions: int) -> Iterator[Row]:
    """Measure the memory of a partition, in the process of a broker: before its first record, and with its log open."""
    with KafkaBroker() as broker:
        broker.create_topic("warm", 1)
        broker.produce("warm", ["x"])
        before = psutil.Process(broker.pid).memory_info().rss
        for number in range(partitions // OF_A_TOPIC):
            broker.create_topic(f"t{number}", OF_A_TOPIC)
        created = psutil.Process(broker.pid).memory_info().rss
        for number in range(partitions // OF_A_TOPIC):
            broker.produce(f"t{number}", [{"value": "x", "partition": each} for each in range(OF_A_TOPIC)])
        opened = psutil.Process(broker.pid).memory_info().rss
        yield "a partition that a broker leads, before its first record", (created - before) / partitions, "bytes"
        yield "a partition that a broker leads, with a record", (opened - before) / partitions, "bytes"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.capacity", description=__doc__)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=200_000)
    parser.add_argument("--logs", type=int, default=5_000, help="partitions of the one broker whose logs are open")
    options = parser.parse_args()
    print(f"{options.brokers} brokers, {options.partitions:,} partitions with 3 replicas each")
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores\n\n| | |\n|---|--:|")
    with tempfile.TemporaryDirectory() as directory:
        for what, figure, unit in Capacity(Path(directory), options.brokers, options.partitions).rows():
            print(f"| {what} | {figure:,.4g} {unit} |", flush=True)
    for what, figure, unit in logs(options.logs):
        print(f"| {what} | {figure:,.4g} {unit} |", flush=True)


if __name__ == "__main__":
    main()
