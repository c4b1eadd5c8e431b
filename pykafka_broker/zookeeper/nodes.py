"""Nodes of ZooKeeper: read with a watch, written only where they differ.

Rule: every call blocks, and is made in the thread of the session. A write that finds another content than the one that
was read is left undone: the watch has fired, and the node is read again.
"""

from __future__ import annotations

import contextlib
import json
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError


class Znode(NamedTuple):
    """A node as it was read: its JSON, None where there is none, the version of the content, and when it was made."""

    content: Any
    version: int
    created_ms: int

    def differs(self, value: bytes) -> bool:
        """Return whether the content is another one than that of `value`."""
        return bool(self.content != _json_of(value))


def _json_of(data: bytes | None) -> Any:
    try:
        return json.loads(data or b"null")
    except ValueError:
        return None


class Znodes:
    """The nodes below the chroot. `watch` is called, in any thread, with an event for a node that was read."""

    def __init__(self, client: Any, watch: Callable[[Any], None]) -> None:
        self._client = client
        self._watch = watch

    def read(self, path: str, *, watch: bool = True) -> Znode | None:
        """Return a node, or None without one; a watch waits for the change, or for the node."""
        told = self._watch if watch else None
        while True:
            try:
                data, stat = self._client.get(path, watch=told)
            except NoNodeError:
                if told is None or self._client.exists(path, watch=told) is None:
                    return None
            else:
                return Znode(_json_of(data), stat.version, stat.ctime)

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children, in order; none without a node."""
        try:
            return sorted(self._client.get_children(path, watch=self._watch))
        except NoNodeError:
            self._client.exists(path, watch=self._watch)
            return []

    def make(self, path: str, value: bytes | None = None, *, ephemeral: bool = False) -> bool:
        """Create a node, its parents too, and return whether there was none."""
        while True:
            try:
                self._client.create(path, value, ephemeral=ephemeral)
            except NodeExistsError:
                return False
            except NoNodeError:
                self.make(path.rpartition("/")[0])
            else:
                return True

    def put(self, path: str, value: bytes, unlike: Callable[[Any, Any], bool] = operator.ne) -> None:
        """Give a node its content, unless its present content is not `unlike` the new one."""
        found = self.read(path, watch=False)
        if found is None:
            self.make(path, value)
        elif unlike(found.content, _json_of(value)):
            self.change(path, value, found.version)

    def append(self, prefix: str, value: bytes) -> str:
        """Create a node whose name is the prefix and the next number, and return the name."""
        path: str = self._client.create(prefix, value, sequence=True)
        return path.rpartition("/")[2]

    def change(self, path: str, value: bytes, version: int) -> bool:
        """Change a node that still has this version, and return whether it had."""
        try:
            self._client.set(path, value, version)
        except (BadVersionError, NoNodeError):
            return False
        return True

    def owns(self, path: str) -> bool:
        """Return whether an ephemeral node is this session's."""
        stat = self._client.exists(path, watch=self._watch)
        return stat is not None and stat.ephemeralOwner == self._client.client_id[0]

    def remove(self, path: str) -> None:
        """Remove a node with everything below it."""
        with contextlib.suppress(NoNodeError):
            self._client.delete(path, recursive=True)
