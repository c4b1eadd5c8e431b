"""What not every operating system has: the plainer ways do the same."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from pykafka_broker import platform
from pykafka_broker.testing import KafkaBroker

ELSEWHERE = Path(__file__).with_name("elsewhere.py")


class BrokerElsewhere(KafkaBroker):
    """A broker whose Python lacks what that of another system lacks."""

    def __init__(self, where: str) -> None:
        super().__init__({"log.segment.bytes": 1 << 20, "compression.type": "lz4"})
        self.where = where

    def _command(self) -> list[str]:
        command = super()._command()
        options = command[command.index("pykafka_broker") + 1 :]
        return [sys.executable, str(ELSEWHERE), self.where, *options]


@pytest.mark.parametrize("where", ["macos", "windows"])
def test_a_broker_serves_stops_and_comes_back_elsewhere(where: str) -> None:
    with BrokerElsewhere(where) as broker:
        broker.create_topic("orders")
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        for number in range(300):
            producer.send("orders", b"%09d" % number * 1_000, key=b"%d" % (number % 7))
        producer.close()
        for end in (broker.stop, broker.kill):
            end()
            broker.start()
            assert consumed(broker) == 300
        broker.delete_topic("orders")


def consumed(broker: KafkaBroker) -> int:
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=10_000
    )
    try:
        numbers = [int(record.value[:9]) for record, _ in zip(consumer, range(300), strict=False)]
    finally:
        consumer.close()
    assert numbers == sorted(numbers)
    return len(numbers)


def test_a_write_at_a_place_leaves_the_rest(tmp_path: Path) -> None:
    fd = platform.open_file(str(tmp_path / "file"), os.O_RDWR | os.O_CREAT)
    for write, read in ((platform.write_at, platform.read_at), (platform._seek_and_write, platform._seek_and_read)):
        assert write(fd, b"abcdef", 0) == 6
        assert write(fd, b"XY", 2) == 2
        assert read(fd, 3, 1) == b"bXY"
        assert read(fd, 10, 4) == b"ef"
    os.close(fd)


def test_room_where_it_can_not_be_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fd = platform.open_file(str(tmp_path / "file"), os.O_RDWR | os.O_CREAT)
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    platform.allocate(fd, 1_000)
    assert os.fstat(fd).st_size == 1_000
    platform.allocate(fd, 10)
    assert os.fstat(fd).st_size == 1_000
    os.close(fd)


def test_disks_and_descriptors_without_the_calls_of_posix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    total, usable = platform.disk_usage(str(tmp_path))
    monkeypatch.delattr(os, "statvfs")
    monkeypatch.setattr(platform, "shutil", _Shutil(total, usable))
    assert platform.disk_usage(str(tmp_path)) == (total, usable)
    monkeypatch.setattr(platform, "resource", None)
    assert platform.open_files_limit() is None


class _Shutil:
    def __init__(self, total: int, free: int) -> None:
        self.total, self.free = total, free

    def disk_usage(self, path: str) -> _Shutil:
        return self
