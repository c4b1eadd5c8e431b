"""Apache Kafka itself as a process. Rule: it offers the same few members as `pykafka_broker.testing.KafkaBroker`, so a
test that passes against one can be pointed at the other.
"""

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from io import StringIO
from itertools import count, islice
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.guard import Guard
from interop.jars import KAFKA_VERSION
from interop.java import QUICK_JVM, java_command, kafka_classpath
from pykafka_broker.cli.format import main as format_storage
from pykafka_broker.config.properties import format_properties

CLUSTER_ID = "DlucevI8RBOIwwbz5AzpFA"
# One node can't hold three replicas, and tests don't wait for members to come; else Kafka's defaults.
SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


# The kernel gives ports below 32768 to nobody by itself. Each process claims a block of them for as long as it lives:
# the workers of a run, and of other checkouts tested at the same time, never choose the same port.
_FIRST_PORT, _END_OF_PORTS, PORTS_EACH = 10_000, 32_500, 500
_offsets = count()


@cache
def _claimed_block() -> socket.socket:
    """Return a socket bound to the first port of a block, which no other process can claim while this one lives."""
    for port in range(_FIRST_PORT, _END_OF_PORTS, PORTS_EACH):
        claim = socket.socket()
        try:
            claim.bind(("127.0.0.1", port))
            return claim
        except OSError:
            claim.close()
    raise OSError(f"all blocks of ports from {_FIRST_PORT} to {_END_OF_PORTS} are claimed")


def free_port() -> int:
    """Return a port that nobody listens on, and that stays free while a broker there is started or restarted."""
    first: int = _claimed_block().getsockname()[1] + 1
    for offset in islice(_offsets, PORTS_EACH - 1):
        port = first + offset % (PORTS_EACH - 1)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port
    raise OSError(f"none of the ports {first} to {first + PORTS_EACH - 2} is free")


def answers_api_versions(port: int, timeout_s: float = 1.0) -> bool:
    """Return whether something that speaks Kafka listens: the first answer is what "started" means here."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as s:
            s.settimeout(timeout_s)
            body = struct.pack(">hhih", 18, 0, 1, 1) + b"b"
            s.sendall(struct.pack(">i", len(body)) + body)
            return len(s.recv(4, socket.MSG_WAITALL)) == 4
    except OSError:
        return False


def run_format(arguments: Sequence[str]) -> None:
    """Run our `format`, silently."""
    with contextlib.redirect_stdout(StringIO()):
        code = format_storage(arguments)
    assert code == 0, f"{' '.join(arguments)}: {code}"


class RealKafka:
    """One node of Apache Kafka, broker and controller in one process; `data_dir` is its log directory. `standalone`:
    its quorum is a dynamic one, with kraft.version 1 (KIP-853). `release`: the version of Kafka; `plugins`: a folder
    with classes that the config names.
    """

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        *,
        directory: Path | None = None,
        port: int | None = None,
        heap: str = "512m",
        standalone: bool = False,
        jvm: Sequence[str] = QUICK_JVM,
        release: str = KAFKA_VERSION,
        plugins: Path | None = None,
    ) -> None:
        self._owns_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="real-kafka-"))
        self.data_dir = self.directory / "logs"
        self.log_path = self.directory / "broker.log"
        self.port = port or free_port()
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None
        self._jvm = [f"-Xmx{heap}", f"-Xms{heap}", *jvm]
        jars = kafka_classpath(release)
        self._classpath = jars if plugins is None else f"{jars}{os.pathsep}{plugins}"
        self._release, self._standalone = release, standalone
        self._properties = self.directory / "server.properties"
        self._write_properties(config or {})

    def _write_properties(self, config: Mapping[str, str]) -> None:
        controller = free_port()
        values = SINGLE_NODE | {
            **self._quorum(controller),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data_dir),
            **config,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(format_properties(values))

    def _quorum(self, controller_port: int) -> dict[str, str]:
        if self._standalone:
            return {"controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}"}
        return {"controller.quorum.voters": f"1@127.0.0.1:{controller_port}"}

    def format(self, *options: str) -> None:
        """Format the directory with `kafka-storage`, unless that is done."""
        if not self._is_formatted:
            command = java_command(*QUICK_JVM, "-cp", self._classpath, "kafka.tools.StorageTool")
            subprocess.run([*command, *self._formatting(*options)], check=True, capture_output=True)

    def format_quickly(self) -> None:
        """Format the directory without a JVM, unless that is done.

        Our command leaves what `kafka-storage` leaves (test_format.py); other releases have their own.
        """
        if self._release != KAFKA_VERSION:
            self.format()
        elif not self._is_formatted:
            run_format(self._formatting())

    @property
    def _is_formatted(self) -> bool:
        return (self.data_dir / "meta.properties").exists()

    def _formatting(self, *options: str) -> list[str]:
        quorum = ["--standalone"] if self._standalone else []
        return ["format", "-t", CLUSTER_ID, "-c", str(self._properties), *options, *quorum]

    @property
    def command(self) -> list[str]:
        return java_command(*self._jvm, "-cp", self._classpath, "kafka.Kafka", str(self._properties))

    def start(self, timeout_s: float = 180) -> None:
        self.format_quickly()
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True)
        self._guard = Guard(self.process.pid)
        deadline = time.monotonic() + timeout_s
        while not answers_api_versions(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"Kafka did not start:\n{self.log_path.read_text()[-3000:]}")
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def _end(self, signal_number: int, timeout_s: float) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal_number)
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self._guard is not None:
            self._guard.release()
            self._guard = None

    def stop(self) -> None:
        self._end(signal.SIGTERM, 30)

    def kill(self) -> None:
        self._end(signal.SIGKILL, 10)

    def restart(self) -> None:
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._owns_directory:
            with contextlib.suppress(OSError):
                shutil.rmtree(self.directory)
