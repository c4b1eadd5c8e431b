"""Specs of messages. Rule: a spec knows names and versions; a message's module is imported on first use."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka_broker.protocol.runtime import Message

_WORD_START = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
_CONTROLLED_SHUTDOWN = 7
_API_VERSIONS = 18


@cache
def _load(folder: str, name: str) -> type[Message]:
    module = re.sub(_WORD_START, "_", name.replace("KRaft", "Kraft")).lower()
    loaded: type[Message] = getattr(import_module(f"pykafka_broker.protocol.{folder}.{module}"), name)
    return loaded


class ApiSpec:
    """An API: the range of versions over all imported releases, and the forms of headers."""

    __slots__ = ("api_key", "flexible_from", "listeners", "max_version", "min_version", "name", "stable_max_version")

    def __init__(
        self,
        api_key: int,
        name: str,
        min_version: int,
        max_version: int,
        stable_max_version: int,
        flexible_from: int | None,
        listeners: tuple[str, ...],
    ) -> None:
        self.api_key = api_key
        self.name = name
        self.min_version = min_version
        self.max_version = max_version
        # Below max_version where Kafka marks its latest version as unstable, or where this project does not speak the
        # newest versions yet; below min_version where it speaks none.
        self.stable_max_version = stable_max_version
        self.flexible_from = flexible_from
        self.listeners = listeners  # "broker", "controller", or none for APIs of older releases only

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        """Return 2 with tagged fields, 1 with a client id; 0 for ControlledShutdown v0 alone, older than client ids."""
        if self.is_flexible(version):
            return 2
        return 0 if version == 0 and self.api_key == _CONTROLLED_SHUTDOWN else 1

    def response_header_version(self, version: int) -> int:
        """Return 1 with tagged fields; always 0 for ApiVersions, readable by any client (KIP-511)."""
        return 1 if self.is_flexible(version) and self.api_key != _API_VERSIONS else 0

    def request_class(self) -> type[Message]:
        return _load("messages", f"{self.name}Request")

    def response_class(self) -> type[Message]:
        return _load("messages", f"{self.name}Response")

    def __repr__(self) -> str:
        return f"ApiSpec({self.name}, {self.min_version}-{self.max_version})"


class ValueSpec:
    """A record of the metadata log or of the remote log's metadata: a value without a key."""

    __slots__ = ("name", "type")

    def __init__(self, type: int, name: str) -> None:
        self.type = type
        self.name = name

    def value_class(self) -> type[Message]:
        return _load("stored", self.name)

    def __repr__(self) -> str:
        return f"ValueSpec({self.type}, {self.name})"


class RecordSpec:
    """A record of a coordinator's topic: key and value."""

    __slots__ = ("key_name", "type", "value_name")

    def __init__(self, type: int, key_name: str, value_name: str) -> None:
        self.type = type
        self.key_name = key_name
        self.value_name = value_name

    def key_class(self) -> type[Message]:
        return _load("stored", self.key_name)

    def value_class(self) -> type[Message]:
        return _load("stored", self.value_name)

    def __repr__(self) -> str:
        return f"RecordSpec({self.type}, {self.key_name}, {self.value_name})"
