"""A real ZooKeeper, and the Kafka of its age: brokers and tools of the releases that keep their metadata there.

Rule: ZooKeeper is the one that Kafka 2.8.2 brings with it (3.5.9), one JVM for a module of tests; each test has a
chroot of its own in it. Jars are fetched when the first test wants them.
"""

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from interop.guard import Guard
from interop.jars import zookeeper_age_jars
from interop.java import QUICK_JVM, java_command
from interop.real_kafka import free_port
from pykafka_broker.config.properties import format_properties

WITH_ZOOKEEPER = "2.8.2"  # the release whose ZooKeeper this is
_SMALL = ("-Xmx256m", *QUICK_JVM)
_START_S = 90


class _Jvm:
    """A JVM in a folder of its own, which is removed when the JVM ends."""

    def __init__(self, name: str, jars: Path, main: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self._name = name
        self._command = [*_SMALL, "-Dzookeeper.forceSync=no", "-cp", f"{jars}/*", main]
        self._process: subprocess.Popen[bytes]

    @contextlib.contextmanager
    def run(self, is_up: Callable[[], object], *arguments: str) -> Iterator[None]:
        output = self.folder / "output"
        with output.open("ab") as out:
            command = java_command(*self._command, *arguments)
            process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        guard = Guard(process.pid)
        try:
            deadline = time.monotonic() + _START_S
            while not is_up():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self._name} did not start:\n{output.read_text()[-3000:]}")
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            guard.release()
            shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def real_zookeeper() -> Iterator[str]:
    """Run a ZooKeeper and yield its address."""
    port = free_port()
    jvm = _Jvm("zookeeper", zookeeper_age_jars(WITH_ZOOKEEPER), "org.apache.zookeeper.server.quorum.QuorumPeerMain")
    settings = {
        "tickTime": "250",
        "dataDir": str(jvm.folder / "data"),
        "clientPort": str(port),
        "clientPortAddress": "127.0.0.1",
        "admin.enableServer": "false",
        "maxClientCnxns": "0",
        "maxSessionTimeout": "60000",
    }
    path = jvm.folder / "zoo.cfg"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    with jvm.run(lambda: _is_up(port), str(path)):
        yield f"127.0.0.1:{port}"


def _is_up(port: int) -> bool:
    client = KazooClient(f"127.0.0.1:{port}")
    try:
        client.start(1)
    except client.handler.timeout_exception:
        return False
    finally:
        client.stop()
        client.close()
    return True


class Tree:
    """The nodes below a chroot of a ZooKeeper."""

    def __init__(self, address: str, chroot: str) -> None:
        self.connect = f"{address}{chroot}"
        self.client = KazooClient(address)
        self.client.start()
        self.client.ensure_path(chroot)
        self.client.chroot = chroot

    def __enter__(self) -> "Tree":
        return self

    def __exit__(self, *error: object) -> None:
        self.client.stop()
        self.client.close()

    def has(self, path: str) -> bool:
        return self.client.exists(path) is not None

    def json(self, path: str) -> Any:
        """Return the JSON in a node; None without one."""
        if not self.has(path):
            return None
        data, _ = self.client.get(path)
        return json.loads(data or b"null")

    def children(self, path: str) -> list[str]:
        return sorted(self.client.get_children(path)) if self.has(path) else []

    def all(self, path: str = "/") -> dict[str, list[Any]]:
        """Return every node below `path`: its content, and whether it ends with the session that made it."""
        data, stat = self.client.get(path)
        found = {path: [json.loads(data) if data else None, stat.ephemeralOwner != 0]}
        for name in self.children(path):
            found |= self.all(f"{path.rstrip('/')}/{name}")
        return found


@contextlib.contextmanager
def old_kafka(release: str, tree: Tree) -> Iterator[str]:
    """Run a broker of a release with ZooKeeper and yield its address."""
    port = free_port()
    jvm = _Jvm("kafka", zookeeper_age_jars(release), "kafka.Kafka")
    listener = f"PLAINTEXT://127.0.0.1:{port}"
    place = {"port": str(port), "host.name": "127.0.0.1"} if release.startswith("0.8") else {"listeners": listener}
    settings = {
        "broker.id": "1",
        "log.dirs": str(jvm.folder / "logs"),
        "zookeeper.connect": tree.connect,
        "controlled.shutdown.enable": "false",
        **place,
    }
    path = jvm.folder / "server.properties"
    path.write_text(format_properties(settings))
    with jvm.run(lambda: tree.has("/brokers/ids/1") and tree.has("/controller"), str(path)):
        yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def mirror_maker(release: str, tree: Tree, group: str, target: str, topic: str) -> Iterator[None]:
    """Run a release's MirrorMaker, which finds the topic in ZooKeeper and copies it to the broker at `target`."""
    jvm = _Jvm("mirror-maker", zookeeper_age_jars(release), "kafka.tools.MirrorMaker")
    source, sink = jvm.folder / "consumer.properties", jvm.folder / "producer.properties"
    values = {"zookeeper.connect": tree.connect, "group.id": group, "auto.offset.reset": "smallest"}
    source.write_text(format_properties(values))
    sink.write_text(format_properties({"metadata.broker.list": target, "request.required.acks": "-1"}))
    configs = ("--consumer.config", str(source), "--producer.config", str(sink))
    with jvm.run(lambda: True, *configs, "--whitelist", topic):
        yield


def old_tool(release: str, command: str, *arguments: str, status: int = 0) -> str:
    """Run a class of a release's tools, and return everything that it prints."""
    jars = f"{zookeeper_age_jars(release)}/*"
    done = subprocess.run(
        java_command(*_SMALL, "-cp", jars, command, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )
    printed = [line for line in done.stdout.splitlines() if not line.startswith(("SLF4J", "log4j", "Warning:"))]
    assert done.returncode == status, done.stdout[-4000:]
    return "\n".join(printed)
