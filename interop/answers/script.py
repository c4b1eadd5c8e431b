"""The steps of a scenario, and the runner that plays them. Rule: a value that differs from run to run (an id, a clock's
time, a port) becomes a placeholder. Ids are numbered in the order in which they appear, so that identity is compared
although values are not.
"""

import json
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from interop.batches import records
from interop.raw import Closed, RawClient
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.runtime import Fields, Message


@dataclass(frozen=True)
class Ask:
    """A request whose answer comes back from the `yield`; `on` names the connection. While the answer's error is one of
    `retry_on` (a coordinator that still loads), the runner sends the request again and does not note the answer."""

    label: str
    request: Message
    version: int | None = None
    on: str = "main"
    retry_on: tuple[int, ...] = ()


@dataclass(frozen=True)
class Send:
    """A request whose answer a later `Collect` fetches: for requests that the broker lets wait."""

    request: Message
    version: int | None = None
    on: str = "main"


@dataclass(frozen=True)
class Collect:
    """A step that fetches the answer to the oldest `Send` of a connection."""

    label: str
    on: str = "main"


Step = tuple[str, Message] | Ask | Send | Collect
Script = Generator[Step, Any, None]
Name = Callable[[str], str]
Scenario = Callable[[Name], Script]
Table = dict[str, list[dict[str, Any]]]

# After these requests a real Kafka's broker needs a moment until it has caught up with its controller.
CHANGES_METADATA = {
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.UPDATE_FEATURES,
}
UNSTEADY_NUMBERS = {"port", "usable_bytes", "total_bytes", "finalized_features_epoch"}
NUMBERED = {"producer_id", "session_id", "member_id", "cluster_id", "topic_id", "directory_id", "log_dir"}
NOTHING = (-1, "", None, bytes(16))
NOW_FROM = 1_700_000_000_000  # scenarios write earlier times, so anything later came from a clock


def scenario(function: Scenario) -> Scenario:
    """Mark a function of an area module as a scenario."""
    function.is_scenario = True  # type: ignore[attr-defined]
    return function


def scenarios_of(module: Any) -> dict[str, Scenario]:
    return {name: value for name, value in vars(module).items() if getattr(value, "is_scenario", False)}


def order_of(items: Any) -> Callable[[Any], Any]:
    """Return the sort key of a list's items.

    Kafka lists configs and the sizes of partitions in the order of a hash table. The order of other lists means
    something and stays.
    """
    first = items[0] if items else None
    if hasattr(first, "config_source"):
        return attrgetter("name")
    if hasattr(first, "partition_size"):
        return attrgetter("partition_index")
    return lambda item: 0


class Placeholders:
    """The placeholders of one run: each new value of a kind gets the next number."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, object], str] = {}

    def name(self, kind: str, value: object) -> str:
        of_kind = sum(1 for k, _ in self._seen if k == kind)
        return self._seen.setdefault((kind, value), f"<{kind} {of_kind + 1}>")

    def plain(self, value: Any, field: str = "") -> Any:
        """Return the value as plain JSON data, with placeholders."""
        if field == "records" and value is not None:
            return self._records(value)
        if field == "session_id" and value == 0:  # 0 means no session, but 0 is a valid producer id
            return value
        if isinstance(value, Fields):
            slots = [slot for slot in type(value).__match_args__ if slot != "throttle_time_ms"]
            return {slot: self.plain(getattr(value, slot), slot) for slot in slots}
        if isinstance(value, list | tuple):
            return [self.plain(item, field) for item in sorted(value, key=order_of(value))]
        return self._scalar(value, field)

    def _scalar(self, value: Any, field: str) -> Any:
        if field.endswith("error_message"):  # the texts may differ; compared is whether there is one
            return "<text>" if value else value
        if field in UNSTEADY_NUMBERS:
            return f"<{field}>"
        if field in NUMBERED and value not in NOTHING:
            return self.name(field, bytes(value) if isinstance(value, bytes | memoryview) else value)
        if isinstance(value, bytes | memoryview):
            return bytes(value).hex()
        if isinstance(value, int) and value >= NOW_FROM and not isinstance(value, bool):
            return "<now>"
        return value

    def _records(self, data: Any) -> Any:
        try:
            return [self._record(r) for r in records(data)]
        except (OSError, ValueError):  # a batch whose compression is broken, as some scenarios write it
            return "<unreadable>"

    def _record(self, record: Any) -> list[Any]:
        text = [None if part is None else part.decode("latin-1") for part in (record.key, record.value)]
        return [record.offset, self._scalar(record.timestamp, "timestamp"), *text]


class Runner:
    """The player of one scenario, over as many connections as the scenario names."""

    def __init__(self, bootstrap_servers: str, settle_s: float) -> None:
        self._bootstrap, self._settle_s = bootstrap_servers, settle_s
        self._connections: dict[str, RawClient] = {}
        self._placeholders = Placeholders()
        self.answers: list[dict[str, Any]] = []

    def play(self, script: Script) -> list[dict[str, Any]]:
        answer: Any = None
        try:
            while True:
                answer = self._step(script.send(answer))
        except StopIteration:
            return self.answers
        finally:
            for connection in self._connections.values():
                connection.close()

    def _step(self, step: Step) -> Any:
        if isinstance(step, tuple):
            step = Ask(*step)
        connection = self._connection(step.on)
        if isinstance(step, Collect):
            return self._note(step.label, connection.receive())
        connection.send(step.request, step.version)
        if isinstance(step, Send):
            return None
        try:
            answer = connection.receive()
        except Closed:
            self._connections.pop(step.on).close()
            return self.answers.append({"ask": step.label, "api": SPECS[step.request.API_KEY].name, "answer": "closed"})
        if getattr(answer, "error_code", 0) in step.retry_on:
            time.sleep(0.05)
            return self._step(step)
        if step.request.API_KEY in CHANGES_METADATA:
            time.sleep(self._settle_s)
        return self._note(step.label, answer)

    def _connection(self, name: str) -> RawClient:
        if name not in self._connections:
            self._connections[name] = RawClient(self._bootstrap)
        return self._connections[name]

    def _note(self, label: str, answer: Any) -> Any:
        self.answers.append(
            {"ask": label, "api": SPECS[answer.API_KEY].name, "answer": self._placeholders.plain(answer)}
        )
        return answer


def run(name: str, script: Scenario, bootstrap_servers: str, settle_s: float = 0.0) -> list[dict[str, Any]]:
    """Play a scenario; return its answers. Its topics' names begin with its name, so that scenarios share a broker."""
    prefix = name.replace("_", "-")
    return Runner(bootstrap_servers, settle_s).play(script(lambda suffix: f"{prefix}.{suffix}"))


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Yield the differences from Kafka's answer.

    Tolerated are another error where Kafka answers UNKNOWN_SERVER_ERROR, and a message where Kafka gives none.
    """
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        for key in theirs:
            yield from differences(ours[key], theirs[key], f"{path}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{path}[{i}]")
    elif ours != theirs and not is_tolerated(ours, theirs, path):
        yield f"{path}: Kafka {json.dumps(theirs)}, found {json.dumps(ours)}"


def is_tolerated(ours: Any, theirs: Any, path: str) -> bool:
    if path.endswith("error_code"):
        return bool(theirs == -1 and ours != 0)
    return path.endswith("error_message") and theirs is None
