"""What not every operating system has: the plainer ways do the same."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from pykafka_broker import platform
from pykafka_broker.server.transport import listening
from pykafka_broker.testing import ControlError, KafkaBroker, KafkaCluster

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


@pytest.mark.linux("only Linux plays another system")
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


@pytest.mark.linux("only Linux plays another system")
@pytest.mark.parametrize("where", ["macos", "windows"])
def test_the_state_of_a_broker_is_exchanged_elsewhere(where: str) -> None:
    with BrokerElsewhere(where) as broker:
        broker.produce("orders", ["1", "2"])
        broker.snapshot("two")
        broker.produce("orders", ["3"])
        broker.restore("two")
        assert [each.value for each in broker.records("orders")] == ["1", "2"]
        broker.snapshot("two")
        broker.reset()
        assert broker.topics() == []
        broker.restore("two")
        assert [each.value for each in broker.records("orders")] == ["1", "2"]


@pytest.mark.linux("only Linux plays another system")
def test_tools_carry_every_letter_on_windows() -> None:
    letters = "ä→ő"
    with BrokerElsewhere("windows") as broker:
        broker.create_topic("letters")
        tool_on_windows("console-producer", broker, given=letters)
        outcome = tool_on_windows("console-consumer", broker, "--from-beginning", "--max-messages", "1", "--json")
        assert json.loads(outcome)["value"] == letters


def tool_on_windows(name: str, broker: KafkaBroker, *options: str, given: str = "") -> str:
    where = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "letters"]
    command = [sys.executable, str(ELSEWHERE), "windows", name, *where, *options]
    outcome = subprocess.run(command, input=given.encode(), capture_output=True, check=False)
    assert outcome.returncode == 0, outcome.stderr.decode()
    return outcome.stdout.decode()


@pytest.mark.posix("imitates Windows")
def test_a_broker_that_gets_no_signal_is_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no way to send one without a console."""

    def refused(self: object, number: int) -> None:
        raise OSError(6, "The handle is invalid")

    with KafkaBroker() as broker:
        with monkeypatch.context() as context:
            context.setattr(subprocess.Popen, "send_signal", refused)
            broker.stop()
        assert "stopping" in broker.log
        assert broker.data_dir.is_dir()


def test_a_listener_without_the_option_has_its_port_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "NEEDS_REUSEADDR", False)
    with listening("127.0.0.1", 0, 5, -1) as first:
        assert not first.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        with pytest.raises(OSError, match="in use"):
            listening("127.0.0.1", first.getsockname()[1], 5, -1)


def test_a_cluster_starts_where_no_port_can_be_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka_broker.testing.cluster.SHARES_BOUND_PORTS", False)
    with KafkaCluster(1) as cluster:
        assert cluster.broker(1).topics() == []


def test_topics_differ_in_more_than_case_where_the_file_system_ignores_case(tmp_path: Path) -> None:
    (tmp_path / ".LOCK").touch()  # which the broker would call .lock
    with KafkaBroker(data_dir=tmp_path, in_process=True) as broker:
        broker.create_topic("Orders")
        with pytest.raises(ControlError, match="'orders' collides with existing topic: Orders"):
            broker.create_topic("orders")
        broker.delete_topic("Orders")
        broker.create_topic("orders")
        assert [each["name"] for each in broker.topics()] == ["orders"]


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
