"""Power cuts after every operation of a broker with two directories that creates topics and moves partitions about:
what was synced is there, in the directory that the metadata names, and with a directory gone, be it broken or removed
from `log.dirs`, nothing is begun anew.
"""

from __future__ import annotations

import itertools
import math
import zlib

import pytest

from pykafka_broker.cluster.topics import create_topics
from pykafka_broker.config import BrokerConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.testing.simulation.disk import CrashFileSystem, SimDirectory, SimFile
from tests.broker.driven import DrivenBroker
from tests.broker.support import batch
from tests.log.crash.seen import Seen

NOW = 1_700_000_000_000
SETTINGS = {"log.dirs": "/data/a,/data/b", "node.id": "1", "log.cleaner.enable": "false"}
STARTS = itertools.count(1)
Key = tuple[str, int]


def started(fs: CrashFileSystem, **settings: str) -> DrivenBroker:
    ids = itertools.count(1000 * next(STARTS))
    config = BrokerConfig(SETTINGS | {key.replace("_", "."): value for key, value in settings.items()})
    broker = DrivenBroker(config, new_uuid=lambda: next(ids).to_bytes(16, "big"), new_session_id=lambda: 1, fs=fs)
    broker.start(NOW)
    return broker


class Crashes:
    """The crashes of one workload. `synced`: the offset up to which each partition is said to be on disk."""

    def __init__(self) -> None:
        self.fs = CrashFileSystem()
        self.synced: dict[Key, int] = {}
        self.seen = Seen()
        self.checked = 0

    def crash(self, what: str) -> None:
        self.checked += 1
        seed = zlib.crc32(what.encode()) + self.checked
        checks = [
            (self.fs.after_crash(), self.check),
            (self.fs.after_crash(seed), self.check),
            (self.fs.after_crash(keep=True), self.check),
            (self.fs.after_crash(seed), self.check_removed),
        ]
        if self.checked % 3 == 0:
            checks.append((self.fs.after_crash(seed), self.check_without))
        for image, check in checks:
            if self.seen.is_new(image, (check.__name__, *self.synced.items())):
                check(image, what)

    def check(self, fs: CrashFileSystem, what: str) -> None:
        broker = started(fs)
        for key, end in self.synced.items():
            assert broker.partition_log(*key).log_end_offset >= end, what
        for topic in broker.image.topics.values():
            for number, partition in topic.partitions.items():
                directory = broker.logs.directory_of((topic.name, number))
                assert directory is not None, what
                assert partition.directory_of(1) == directory.id, what
                assert partition.leader == 1, what

    def check_without(self, fs: CrashFileSystem, what: str) -> None:
        """Check a start without the second directory, and one after it has come back."""
        data = fs._find("/data")
        assert isinstance(data, SimDirectory)
        away = data.entries.get("b")
        if away is None or not self.synced:
            return
        data.entries["b"] = SimFile()
        broker = started(fs)
        for key, end in self.synced.items():
            assert end_offset(broker, key) >= end, what
        data.entries["b"] = away
        self.check(fs, what)

    def check_removed(self, fs: CrashFileSystem, what: str) -> None:
        """Check a start with the second directory taken out of `log.dirs`, and one after it is put in again."""
        if not self.synced:
            return
        broker = started(fs, log_dirs="/data/a")
        for key, end in self.synced.items():
            assert end_offset(broker, key) >= end, what
        self.check(fs, what)


def end_offset(broker: DrivenBroker, key: Key) -> float:
    """Return a partition's log end offset, infinity if its directory is out of reach."""
    try:
        return broker.partition_log(*key).log_end_offset
    except ApiError as error:
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            return math.inf
        raise


@pytest.mark.whole
def test_a_crash_after_every_operation() -> None:
    crashes = Crashes()
    broker = started(crashes.fs)
    logs = broker.logs
    crashes.fs.on_operation = crashes.crash

    def write(key: Key) -> None:
        log = broker.partition_log(*key)
        log.append(batch(b"1", b"2", timestamp=NOW), NOW)
        end = log.log_end_offset
        logs.flush(log, NOW, lambda error: crashes.synced.update({key: end}))

    for name in ("t", "u"):
        effects = create_topics(broker.metadata.controller, CreateTopicsRequest([CreatableTopic(name, 2, 1)]), 7)
        broker.commit_metadata(effects.records)
        for number in range(2):
            write((name, number))
    for target in (1, 0):
        for number in range(2):
            logs.moves.start(("t", number), logs.directories[target])
            write(("t", number))
    assert crashes.checked > 150
    assert len(crashes.synced) == 4
