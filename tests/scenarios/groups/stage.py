"""The stage of a group scenario, before a real Kafka or before our broker with a clock that the test moves.

Rule: a scenario says who sends which request and when; each answer becomes one line. Ids that differ from run to run
become names, in the order in which they appear.
"""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.runtime import Fields, Message

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[A-Za-z0-9_-]{22}(?![\w-])")
CLOCK_FROM = 1_600_000_000_000  # greater numbers came from a clock: scenarios use small ones


class Wire(Protocol):
    """One connection."""

    def send(self, request: Message, version: int) -> None: ...

    def receive(self) -> Any:
        """Return the answer to the oldest request without one."""

    def is_quiet(self) -> bool:
        """Return whether the oldest request without an answer is still waiting for it."""

    def close(self) -> None: ...


class World(Protocol):
    """The cluster and the clock of a scenario."""

    name: str  # makes group and topic names unique

    def connect(self, client_id: str) -> Wire: ...

    def wait(self, ms: int) -> None: ...

    def settle(self) -> None:
        """Let news of a topic reach the group coordinator."""


class Stage:
    """A scenario's clients, topics and time, and the lines that it has recorded."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lines: list[str] = []
        self._names: dict[str, str] = {}
        self._topic_ids: dict[bytes, str] = {}
        self._admin = world.connect("admin")

    @property
    def group(self) -> str:
        return self.world.name

    def client(self, name: str) -> Client:
        return Client(self, name)

    def wait(self, ms: int) -> None:
        self.world.wait(ms)
        self.lines.append(f"-- {ms} ms")

    def topic(self, suffix: str, partitions: int = 1) -> str:
        """Create a topic; its name starts with the scenario's."""
        name = f"{self.world.name}-{suffix}"
        self._admin.send(CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 10_000), 7)
        self._admin.receive()
        self.topic_id(name)
        self.world.settle()
        return name

    def topic_id(self, name: str) -> bytes:
        for _ in range(50):
            self._admin.send(MetadataRequest([MetadataRequestTopic(name=name)], False), 12)
            topic = self._admin.receive().topics[0]
            if topic.error_code == 0 and all(p.leader_id >= 0 for p in topic.partitions):
                topic_id = bytes(topic.topic_id)
                self._topic_ids[topic_id] = name.replace(self.world.name, "", 1)
                return topic_id
            self.world.wait(100)
        raise AssertionError(f"topic {name} does not come up: {ErrorCode(topic.error_code).name}")

    def ready(self) -> None:
        """Wait until every partition of `__consumer_offsets` has its coordinator."""
        self._admin.send(FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group]), 4)
        self._admin.receive()
        some_of_each = [f"ready-{number}" for number in range(40)]
        for _ in range(100):
            self._admin.send(DescribeGroupsRequest(some_of_each), 5)
            if all(group.error_code == 0 for group in self._admin.receive().groups):
                return
            self.world.wait(100)
        raise AssertionError("no coordinator")

    # Recording

    def note(self, who: str, what: str, answer: Any) -> None:
        self.lines.append(f"{who}: {what} -> {json.dumps(self.plain(answer), ensure_ascii=False)}")

    def plain(self, value: Any, field: str = "") -> Any:
        """Return the value in a form that is the same in every run."""
        if isinstance(value, Fields):
            return self._plain_fields(value)
        if isinstance(value, list) and value:
            items = [self.plain(one, field) for one in value]
            # The order of members, partitions, groups and subscriptions depends on hash tables in Kafka.
            unordered = isinstance(value[0], Fields | int) or field == "subscribed_topic_names"
            return sorted(items, key=lambda item: json.dumps(item)) if unordered else items
        if isinstance(value, bytes | memoryview):
            raw = bytes(value)
            return self._topic_ids.get(raw) or raw.decode("latin-1").replace(self.world.name, "G")
        if isinstance(value, str):
            return UUID.sub(self._name, value.replace(self.world.name, "G"))
        if field == "error_code":
            return ErrorCode(value).name
        if isinstance(value, int) and value > CLOCK_FROM:
            return "<now>"
        return value

    def _plain_fields(self, value: Fields) -> dict[str, Any]:
        """Return the fields that are not empty."""
        out = {}
        for name in value.__match_args__:
            field = getattr(value, name)
            if name in ("throttle_time_ms", "port", "host"):
                continue
            if name == "error_code" or field not in (None, "", 0, -1, [], b"", bytes(16), False, -(2**31)):
                out[name] = self.plain(field, name)
        return out

    def _name(self, match: re.Match[str]) -> str:
        return self._names.setdefault(match[0], f"#{len(self._names) + 1}")


class Client:
    """One client with one connection."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name
        self.wire = stage.world.connect(name)
        self._asked: list[str] = []

    def ask(self, request: Message, version: int | None = None) -> Any:
        """Send a request and return its answer."""
        self.send(request, version)
        return self.receive()

    def send(self, request: Message, version: int | None = None) -> None:
        spec = SPECS[request.API_KEY]
        version = spec.stable_max_version if version is None else version
        self._asked.append(f"{spec.name} v{version}")
        self.wire.send(request, version)

    def receive(self) -> Any:
        answer = self.wire.receive()
        self.stage.note(self.name, self._asked.pop(0), answer)
        return answer

    def waits(self) -> None:
        """Record whether the oldest request still waits for its answer."""
        self.stage.lines.append(
            f"{self.name}: {self._asked[0]} " + ("waits" if self.wire.is_quiet() else "is answered")
        )
