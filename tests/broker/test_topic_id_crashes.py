"""Power cuts after every operation of a broker whose topics are deleted and made again under the same name.

A synced record is in a folder that says whose it is; what an earlier topic of that name left is never the later one's.
"""

from __future__ import annotations

import itertools
import zlib
from random import Random

import pytest

from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.topics import create_topics, delete_topics
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.checkpoints import PARTITION_METADATA, read_partition_metadata
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from pykafka_broker.testing.simulation.disk import CrashFileSystem
from tests.broker.driven import DrivenBroker
from tests.broker.support import batch
from tests.log.crash.seen import Seen
from tests.log.crash.workload import Threads

NOW = 1_700_000_000_000
SETTINGS = {"log.dirs": "/data/logs", "node.id": "1", "log.cleaner.enable": "false"}
STARTS = itertools.count(1)
FOLDER = "/data/logs/t-0"


def started(fs: CrashFileSystem) -> DrivenBroker:
    ids = itertools.count(1000 * next(STARTS))
    broker = DrivenBroker(
        BrokerConfig(SETTINGS), new_uuid=lambda: next(ids).to_bytes(16, "big"), new_session_id=lambda: 1, fs=fs
    )
    broker.start(NOW)
    return broker


class Life:
    """The life of a topic name: the records written to the topic that has the name now."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.threads = Threads(self.random)
        self.fs = CrashFileSystem()
        self.broker = started(self.fs)
        self.broker.logs.submit = self.threads.submit
        self.written: dict[bytes, bytes | None] = {}  # by record value: the id of the topic it was written to
        self.synced: set[bytes] = set()
        self.topic_id: bytes | None = None
        self.seen = Seen()
        self.checked = 0

    def create(self) -> None:
        request = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
        self.commit(create_topics(self.broker.metadata.controller, request, 7).records)
        self.topic_id = self.broker.image.topic_id("t")

    def delete(self) -> None:
        self.synced.clear()
        self.topic_id = None
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=30_000)
        self.commit(delete_topics(self.broker.metadata.controller, request, 5).records)

    def commit(self, records: list[ApiMessageAndVersion]) -> None:
        """Commit records and wait for the answer, which comes with their sync; other syncs may still be under way."""
        broker = self.broker
        answered: list[OSError | None] = []
        broker.commit_metadata(records)
        broker.logs.flush(broker.metadata.log.log, NOW, answered.append)
        while not answered:
            assert self.threads.step()

    def write(self, *, sync: bool) -> None:
        log = self.broker.partition_log("t", 0)
        value = b"%d" % len(self.written)
        self.written[value] = self.broker.image.topic_id("t")
        log.append(batch(value, timestamp=NOW), NOW)
        if sync:
            self.broker.logs.flush(log, NOW, lambda error: self.answered(value))

    def answered(self, value: bytes) -> None:
        if self.written[value] == self.topic_id:
            self.synced.add(value)

    def crash(self, what: str) -> None:
        self.checked += 1
        seed = zlib.crc32(what.encode()) + self.checked
        for fs in (self.fs.after_crash(), *(self.fs.after_crash(seed + each) for each in range(8))):
            if self.seen.is_new(fs, (self.topic_id, frozenset(self.synced))):
                self.check(fs, what)

    def check(self, fs: CrashFileSystem, what: str) -> None:
        if self.synced:
            named = read_partition_metadata(fs, f"{FOLDER}/{PARTITION_METADATA}")
            assert named == self.topic_id, what
        broker = started(fs)
        if broker.image.topic_id("t") is None:
            return
        topic_id, found = broker.image.topic_id("t"), values(broker)
        assert found >= self.synced, what
        assert {self.written[value] for value in found} <= {topic_id}, f"{what}: {found} of an earlier topic"
        assert read_partition_metadata(fs, f"{FOLDER}/{PARTITION_METADATA}") == topic_id, what

    def run(self) -> None:
        self.fs.on_operation = self.crash
        for _ in range(4):
            self.create()
            self.steps()
            for _ in range(self.random.randrange(1, 4)):
                self.write(sync=self.random.random() < 0.3)
                self.steps()
            self.delete()
            self.steps()

    def steps(self) -> None:
        for _ in range(self.random.randrange(4)):
            self.threads.step()


def values(broker: DrivenBroker) -> set[bytes]:
    log = broker.partition_log("t", 0)
    found, offset = set(), log.log_start_offset
    while (read := log.read(offset, 1 << 20, log.high_watermark)) is not None:
        for header, data in iter_batches(read.records.read()):
            found |= {bytes(record.value or b"") for record in iter_records(data, header)}
            offset = header.next_offset
    return found


@pytest.mark.whole
@pytest.mark.parametrize("seed", [3, 16])  # the second has seen records of an earlier topic
def test_a_crash_after_every_operation(seed: int) -> None:
    life = Life(seed)
    life.run()
    assert life.checked > 40
    assert len(life.written) > 2
