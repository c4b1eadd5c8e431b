"""Kafka Connect standalone: lines of a file go through a topic into another file, each once, over restarts of both."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from interop.conftest import NewBroker
from interop.jars import connect_jars
from interop.java import QUICK_JVM, java_command
from interop.real_kafka import free_port

pytestmark = pytest.mark.java
TOPIC = "lines"
LINES = 500


class Connect:
    """`ConnectStandalone` with a file source and a file sink, as a process."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.source, self.sink = directory / "source.txt", directory / "sink.txt"
        self.source.touch()
        self._log = directory / "connect.log"
        converter = "org.apache.kafka.connect.storage.StringConverter"
        worker = {
            "bootstrap.servers": bootstrap,
            "key.converter": converter,
            "value.converter": converter,
            "offset.storage.file.filename": directory / "offsets",
            "offset.flush.interval.ms": 200,
            # After the default of 5 seconds each, Connect gives up a task's end and its offsets: lines come twice.
            "offset.flush.timeout.ms": 60_000,
            "task.shutdown.graceful.timeout.ms": 60_000,
            "plugin.discovery": "service_load",  # otherwise Connect searches every jar for half a minute
            "listeners": f"http://127.0.0.1:{free_port()}",
        }
        source = {"name": "from-file", "connector.class": "FileStreamSource", "file": self.source, "topic": TOPIC}
        sink = {"name": "to-file", "connector.class": "FileStreamSink", "file": self.sink, "topics": TOPIC}
        files = []
        for name, properties in (("worker", worker), ("source", source), ("sink", sink)):
            files.append(directory / f"{name}.properties")
            files[-1].write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        classpath = f"{os.environ.get('KAFKA_CONNECT_JARS') or connect_jars()}/*"
        jvm = (*QUICK_JVM, "-Xmx256m", "-cp", classpath)
        self._command = java_command(*jvm, "org.apache.kafka.connect.cli.ConnectStandalone", *map(str, files))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def stop(self) -> None:
        """Stop Connect as an operator does: it finishes the work under way and keeps its offsets."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(180)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def log(self) -> str:
        return self._log.read_text()[-3_000:] if self._log.exists() else ""


@pytest.fixture
def connects() -> Iterator[list[Connect]]:
    started: list[Connect] = []
    yield started
    for each in started:
        each.kill()


def test_every_line_once(new_broker: NewBroker, tmp_path: Path, connects: list[Connect]) -> None:
    broker = new_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(60)
    connect = Connect(broker.bootstrap_servers, tmp_path)
    connects.append(connect)
    written: list[str] = []

    def write() -> None:
        more = [f"line {len(written) + number}" for number in range(LINES)]
        written.extend(more)
        with connect.source.open("a") as file:
            file.writelines(f"{line}\n" for line in more)

    def await_lines() -> None:
        deadline = time.monotonic() + 180
        while arrived() < len(written) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert connect.sink.read_text().splitlines() == written, connect.log

    def arrived() -> int:
        return connect.sink.read_text().count("\n") if connect.sink.exists() else 0

    write()
    connect.start()
    await_lines()
    write()  # and in the middle of it
    connect.stop()
    write()
    connect.start()
    await_lines()
    broker.stop()
    write()
    broker.restart()
    write()
    await_lines()
