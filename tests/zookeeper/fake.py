"""A ZooKeeper in memory, with the part of kazoo's client that the broker uses.

Rule: the errors, versions and watches are ZooKeeper's own, as the tests in `interop/test_zookeeper.py` find them in a
real one. A watch fires once, in the thread of whoever has changed the node.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

Watch = Callable[[Any], None]


class Stat(NamedTuple):
    version: int
    ctime: int
    ephemeralOwner: int


class Event(NamedTuple):
    path: str


class FakeZooKeeper:
    """The nodes of a ZooKeeper, and the sessions that made them. `wall_ms`: the time that new nodes get."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes | None, Stat]] = {"/": (b"", Stat(0, 0, 0))}
        self.watches: dict[tuple[str, str], set[Watch]] = {}
        self.sessions = 0
        self.sequence = 0
        self.wall_ms = int(time.time() * 1000)
        self.is_reachable = True
        self.lock = threading.RLock()

    def client(self, hosts: str = "", timeout: float = 0) -> FakeClient:
        self.sessions += 1
        return FakeClient(self, self.sessions)

    def fire(self, kind: str, path: str) -> None:
        for watch in self.watches.pop((kind, path), ()):
            watch(Event(path))

    def expire(self, session: int) -> None:
        for path in [path for path, (_, stat) in self.nodes.items() if stat.ephemeralOwner == session]:
            self.remove(path)

    def remove(self, path: str) -> None:
        del self.nodes[path]
        self.fire("data", path)
        self.fire("children", parent(path))


def parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


class FakeClient:
    """A client session (kazoo: KazooClient)."""

    def __init__(self, zookeeper: FakeZooKeeper, session: int) -> None:
        self._zookeeper = zookeeper
        self.client_id = (session, b"")
        self.chroot = ""
        self._listeners: list[Callable[[str], None]] = []

    def add_listener(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    def start(self, timeout: float) -> None:
        if not self._zookeeper.is_reachable:
            raise KazooTimeoutError("Connection time-out")
        self._tell("CONNECTED")

    def renew(self) -> None:
        """Lose the session, and connect with another one."""
        lost = self.client_id[0]
        self._zookeeper.sessions += 1
        self.client_id = (self._zookeeper.sessions, b"")
        self._zookeeper.expire(lost)
        self._tell("LOST")

    def _tell(self, state: str) -> None:
        for listener in self._listeners:
            listener(state)

    def stop(self) -> None:
        self._zookeeper.expire(self.client_id[0])

    def close(self) -> None: ...

    def unchroot(self, path: str) -> str:
        return path.removeprefix(self.chroot) or "/"

    def ensure_path(self, path: str) -> None:
        whole = ""
        for name in (self.chroot + path).strip("/").split("/"):
            whole = f"{whole}/{name}"
            self._zookeeper.nodes.setdefault(whole, (b"", Stat(0, 0, 0)))

    def _watch(self, kind: str, path: str, watch: Watch | None) -> None:
        if watch is not None:
            self._zookeeper.watches.setdefault((kind, path), set()).add(watch)

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes | None, Stat]:
        with self._zookeeper.lock:
            path = self.chroot + path
            if path not in self._zookeeper.nodes:
                raise NoNodeError
            self._watch("data", path, watch)
            return self._zookeeper.nodes[path]

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        with self._zookeeper.lock:
            path = self.chroot + path
            self._watch("data", path, watch)
            found = self._zookeeper.nodes.get(path)
            return None if found is None else found[1]

    def get_children(self, path: str, watch: Watch | None = None) -> list[str]:
        with self._zookeeper.lock:
            path = self.chroot + path
            if path not in self._zookeeper.nodes:
                raise NoNodeError
            self._watch("children", path, watch)
            return [each.rpartition("/")[2] for each in self._zookeeper.nodes if parent(each) == path and each != "/"]

    def create(self, path: str, value: bytes | None = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        zookeeper = self._zookeeper
        with zookeeper.lock:
            whole = self.chroot + path
            if sequence:
                whole += f"{zookeeper.sequence:010}"
                zookeeper.sequence += 1
            if whole in zookeeper.nodes:
                raise NodeExistsError
            if parent(whole) not in zookeeper.nodes:
                raise NoNodeError
            owner = self.client_id[0] if ephemeral else 0
            zookeeper.nodes[whole] = (value, Stat(0, zookeeper.wall_ms, owner))
            zookeeper.fire("data", whole)
            zookeeper.fire("children", parent(whole))
            return self.unchroot(whole)

    def set(self, path: str, value: bytes, version: int = -1) -> None:
        zookeeper = self._zookeeper
        with zookeeper.lock:
            path = self.chroot + path
            if path not in zookeeper.nodes:
                raise NoNodeError
            stat = zookeeper.nodes[path][1]
            if version not in (-1, stat.version):
                raise BadVersionError
            zookeeper.nodes[path] = (value, stat._replace(version=stat.version + 1))
            zookeeper.fire("data", path)

    def delete(self, path: str, recursive: bool = False) -> None:
        zookeeper = self._zookeeper
        with zookeeper.lock:
            path = self.chroot + path
            if path not in zookeeper.nodes:
                raise NoNodeError
            for each in sorted((each for each in zookeeper.nodes if each.startswith(f"{path}/")), reverse=True):
                zookeeper.remove(each)
            zookeeper.remove(path)
