"""Features that some operating systems lack, and the plainer ways that replace them there."""

from __future__ import annotations

import ctypes
import json
import ntpath
import os
import signal
import socket
import subprocess
import sys
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from pykafka_broker import platform
from pykafka_broker.server.transport import listening
from pykafka_broker.testing import ControlError, KafkaBroker, KafkaCluster

ELSEWHERE = Path(__file__).with_name("elsewhere.py")


class BrokerElsewhere(KafkaBroker):
    """A broker whose Python lacks what Python lacks on another system."""

    def __init__(self, where: str) -> None:
        super().__init__({"log.segment.bytes": 1 << 20, "compression.type": "lz4"})
        self.where = where

    def _command(self) -> list[str]:
        command = super()._command()
        options = command[command.index("pykafka_broker") + 1 :]
        return [sys.executable, str(ELSEWHERE), self.where, *options]


@pytest.mark.whole
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
def test_a_topic_on_windows_may_have_the_longest_name(tmp_path: Path) -> None:
    """A folder's path may be longer than 259 characters, also below a snapshot and beside the data."""
    name = "x" * 249
    with BrokerElsewhere("windows") as broker:
        broker.create_topic(name)
        broker.produce(name, ["1", "2"])
        broker.snapshot("two")
        assert broker.snapshots()[0]["size_bytes"] > 0
        broker.stop()
        broker.start()
        broker.produce(name, ["3"])
        broker.restore("two")
        assert [each.value for each in broker.records(name)] == ["1", "2"]
        broker.delete_snapshot("two")
        broker.delete_topic(name)
        broker.reset()
        assert broker.topics() == []
        assert "cannot find the path" not in broker.log


@pytest.mark.linux("only Linux plays another system")
def test_a_long_path_without_its_mark_is_not_found_on_windows(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 249)
    path.write_text("there")
    code = "import elsewhere, os, sys; elsewhere.limit_paths(); path = sys.argv[1]; "
    code += "print(os.stat(elsewhere.MARK + path).st_size); os.stat(path)"
    command = [sys.executable, "-c", code, str(path)]
    outcome = subprocess.run(command, cwd=ELSEWHERE.parent, capture_output=True, text=True, check=False)
    assert outcome.stdout == "5\n"
    assert "FileNotFoundError: [Errno 2] The system cannot find the path specified" in outcome.stderr


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("C:/data/orders-0", "\\\\?\\C:\\data\\orders-0"),
        ("C:\\data\\.\\con.orders-0", "\\\\?\\C:\\data\\con.orders-0"),
        ("\\\\server\\share\\data", "\\\\?\\UNC\\server\\share\\data"),
        ("\\\\?\\C:\\data/orders-0", "\\\\?\\C:\\data\\orders-0"),
    ],
)
def test_a_path_as_windows_takes_it_whatever_its_length(path: str, taken: str) -> None:
    assert platform._extended(path, ntpath) == taken


@pytest.mark.whole
@pytest.mark.posix("imitates Windows")
def test_a_cluster_is_copied_where_processes_are_suspended_by_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no SIGSTOP, so its processes are suspended by calls of its own library with a process's handle."""
    made: list[tuple[str, int]] = []

    class Library:
        """A stand-in for kernel32 and ntdll, whose handles are the process's id plus one."""

        def __init__(self, name: str, **_: object) -> None:
            self.OpenProcess = lambda access, inherit, pid: pid + 1
            self.CloseHandle = partial(call, "close", None)
            self.NtSuspendProcess = partial(call, "suspend", signal.SIGSTOP)
            self.NtResumeProcess = partial(call, "resume", signal.SIGCONT)

    def call(name: str, number: int | None, handle: ctypes.c_void_p) -> int:
        assert handle.value is not None
        made.append((name, handle.value - 1))
        if number is not None:
            os.kill(handle.value - 1, number)
        return 0

    with KafkaCluster(1) as cluster:
        cluster.create_topic("orders")
        cluster.produce("orders", ["1"])
        monkeypatch.setattr(sys, "platform", "win32")
        monkeypatch.setattr(ctypes, "WinDLL", Library, raising=False)
        cluster.snapshot("one")
        monkeypatch.undo()
        pids = [node.pid for node in (cluster.broker(1), cluster.controller)]
        suspended, resumed = ([pid for name, pid in made if name == wanted] for wanted in ("suspend", "resume"))
        assert sorted(suspended) == sorted(resumed) == sorted(pids)
        assert [name for name, _ in made[1::2]] == ["close"] * len(made[::2])
        cluster.produce("orders", ["2"])
        cluster.restore("one")
        assert [each.value for each in cluster.records("orders")] == ["1"]


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
    """Windows can't send a signal without a console, so the broker is told to stop in another way."""

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
        "orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    try:
        numbers = [int(record.value[:9]) for record in islice(consumer, 300)]
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


def test_a_client_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    for system in (sys.platform, "another"):
        monkeypatch.setattr(sys, "platform", system)
        here, there = socket.socketpair()
        here.setblocking(False)
        assert not platform.has_gone(here)
        there.close()
        assert platform.has_gone(here)
        here.close()


@pytest.mark.linux("other systems do not tell")
def test_unread_bytes_do_not_hide_that_a_client_has_gone() -> None:
    here, there = socket.socketpair()
    there.send(b"a request")
    assert not platform.has_gone(here)
    there.close()
    assert platform.has_gone(here)
    here.close()
