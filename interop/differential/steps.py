"""A step: one request as plain data. Rule: what can differ between two brokers stands in it as a reference.

Fields have the schema's names in snake_case. Besides JSON's own values there are

    "§a"                                     a name of this sequence: § becomes a prefix that no other run has
    {"of": "producer_id p", "plus": 1}       what the answers that were kept under `p` gave (plus something)
    {"of": "host stranger"}                   the address of the client whose rights change
    {"hex": "00ff"}                          bytes
    {"batches": [{...}]}                     records; see `batches_bytes`
    {"subscription": ["§a"]}                 a consumer's metadata in JoinGroup, with its topics
    {"assignment": {"§a": [0]}}              what a leader hands out in SyncGroup
"""

from __future__ import annotations

import inspect
import struct
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from kafka.record import MemoryRecordsBuilder

from interop.batches import CODECS, patched
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.runtime import Fields

PREFIX = "§"
Resolve = Callable[[str], Any]
PRODUCER = ("producer_id", "producer_epoch", "base_sequence")
ATTRIBUTES_AT, TRANSACTIONAL = 22, 0x10
BY_NAME = {spec.name: spec for spec in SPECS.values()}


@dataclass(frozen=True)
class Step:
    """One request. `on` names the connection; `keep` is the name under which its answer's ids are kept."""

    api: str
    version: int
    fields: dict[str, Any] = field(default_factory=dict)
    on: str = "main"
    keep: str = ""

    @property
    def key(self) -> int:
        return BY_NAME[self.api].api_key

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in ("", {}) and value != "main"}

    def __str__(self) -> str:
        where = "" if self.on == "main" else f" on {self.on}"
        kept = f"{self.keep} = " if self.keep else ""
        return f"{kept}{self.api} v{self.version}{where}: " + ", ".join(f"{k}={v!r}" for k, v in self.fields.items())


def prefix_of(number: int) -> str:
    return f"d{number:07d}-"


def step_of(data: dict[str, Any]) -> Step:
    return Step(**data)


def to_message(step: Step, prefix: str, resolve: Resolve) -> Any:
    """The request object; raises EncodeError or struct.error only when it is encoded."""
    return _Builder(prefix, resolve).fields_of(SPECS[step.key].request_class(), step.fields)


class _Builder:
    def __init__(self, prefix: str, resolve: Resolve) -> None:
        self._prefix, self._resolve = prefix, resolve

    def fields_of(self, kind: type[Fields], values: dict[str, Any]) -> Any:
        module = sys.modules[kind.__module__]
        parameters = inspect.signature(kind.__init__).parameters
        return kind(**{k: self._value(str(parameters[k].annotation), v, module) for k, v in values.items()})

    def _value(self, annotation: str, value: Any, module: Any) -> Any:
        annotation = annotation.removesuffix(" | None")
        if value is None:
            return None
        if isinstance(value, list) and annotation.startswith("list["):
            return [self._value(annotation[5:-1], item, module) for item in value]
        if (
            isinstance(value, dict)
            and hasattr(module, annotation)
            and annotation[0].isupper()
            and annotation != "Records"
        ):
            return self.fields_of(getattr(module, annotation), value)
        return self.plain(value)

    def plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(PREFIX, self._prefix)
        if not isinstance(value, dict):
            return value
        if "of" in value:
            found = self._resolve(value["of"])
            return found + value["plus"] if "plus" in value else found
        if "hex" in value:
            return bytes.fromhex(value["hex"])
        if "batches" in value:
            return b"".join(self._batch(batch) for batch in value["batches"])
        if "subscription" in value:
            return subscription([self.plain(name) for name in value["subscription"]])
        return assignment({self.plain(name): numbers for name, numbers in value["assignment"].items()})

    def _batch(self, batch: dict[str, Any]) -> bytes:
        """`records` are [key, value, timestamp, headers], the last two if wanted."""
        magic = batch.get("magic", 2)
        builder = MemoryRecordsBuilder(magic, CODECS[batch.get("codec", "none")], 100_000_000)
        for key, value, *rest in batch["records"]:
            stamp = rest[0] if rest else STAMP
            headers = [(name, _encoded(v)) for name, v in rest[1]] if len(rest) > 1 else []
            more = [headers] if magic == 2 else []
            builder.append(stamp if magic else None, _encoded(key), _encoded(value), *more)
        builder.close()
        made, changes = bytes(builder.buffer()), dict(batch.get("patch", {}))
        if "producer" in batch:  # the builder would refuse numbers that make no sense
            changes |= dict(zip(PRODUCER, (self.plain(number) for number in batch["producer"]), strict=True))
        if batch.get("transactional"):
            changes["attributes"] = made[ATTRIBUTES_AT] | TRANSACTIONAL
        return patched(made, **changes) if changes else made


STAMP = 1_600_000_000_000


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def subscription(topics: list[str]) -> bytes:
    """ConsumerProtocolSubscription, version 0."""
    return struct.pack(">hi", 0, len(topics)) + b"".join(map(_text, topics)) + struct.pack(">i", -1)


def assignment(topics: dict[str, list[int]]) -> bytes:
    """ConsumerProtocolAssignment, version 0."""
    parts = [_text(t) + struct.pack(f">{len(p) + 1}i", len(p), *p) for t, p in topics.items()]
    return struct.pack(">hi", 0, len(topics)) + b"".join(parts) + struct.pack(">i", -1)


def of(what: str, plus: int | None = None) -> dict[str, Any]:
    """A reference: `of("topic_id a")`, `of("producer_epoch p", 1)`."""
    return {"of": what} if plus is None else {"of": what, "plus": plus}
