"""A record as a test sees it.

Rule: key and value are text where they are UTF-8 and bytes where they are not; `value_bytes` and `key_bytes` are always
bytes, `json()` is what the value says as JSON. A field is also there as `record["value"]`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Content = str | bytes | None


@dataclass(frozen=True)
class Record:
    """One record of a topic. `timestamp` is in epoch milliseconds; `headers` are pairs, as a name may come twice."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: str
    key: Content
    value: Content
    headers: tuple[tuple[str, Content], ...] = ()

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    @property
    def key_bytes(self) -> bytes | None:
        return _bytes(self.key)

    @property
    def value_bytes(self) -> bytes | None:
        return _bytes(self.value)

    def json(self) -> Any:
        """What the value says as JSON. Raises ValueError if it is none."""
        if self.value is None:
            return None
        return json.loads(self.value)


def _bytes(content: Content) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


def from_answer(answer: Mapping[str, Any]) -> Record:
    """A record as the control API tells it."""
    return Record(
        answer["topic"],
        answer["partition"],
        answer["offset"],
        answer["timestamp"],
        answer["timestamp_type"],
        _content(answer, "key"),
        _content(answer, "value"),
        tuple((header["name"], _content(header, "value")) for header in answer["headers"]),
    )


def _content(answer: Mapping[str, Any], name: str) -> Content:
    in_base64 = answer.get(f"{name}_base64")
    return answer[name] if in_base64 is None else base64.b64decode(in_base64)


def to_request(record: Any) -> dict[str, Any]:
    """A record as the control API takes it, from a mapping with the fields of `Record`, from a `Record`, from a pair of
    key and value, or from a value alone. Raises TypeError for a field that there is not.
    """
    if isinstance(record, Record):
        record = {"key": record.key, "value": record.value, "headers": record.headers, "timestamp": record.timestamp}
    elif isinstance(record, tuple):
        if len(record) != 2:
            raise TypeError(f"a pair of key and value, not {len(record)} in a tuple; an array of JSON is a list")
        record = {"key": record[0], "value": record[1]}
    elif not _is_record(record):
        record = {"value": record}
    request = {name: record[name] for name in ("timestamp", "partition") if record.get(name) is not None}
    for name in ("key", "value"):
        request |= _said(name, record.get(name))
    headers = record.get("headers") or ()
    pairs: Iterable[tuple[str, Any]] = headers.items() if isinstance(headers, Mapping) else headers
    request["headers"] = [{"name": name} | _said("value", value) for name, value in pairs]
    return request


_FIELDS = {"key", "value", "headers", "timestamp", "partition"}


def _is_record(given: Any) -> bool:
    """A mapping with a value is a record; any other is a value, to be written as JSON."""
    if not isinstance(given, Mapping) or not given.keys() & {"value", "key"}:
        return False
    unknown = sorted(given.keys() - _FIELDS)
    if unknown:
        raise TypeError(f"a record has no {unknown[0]}; it may have key, value, headers, timestamp, partition")
    return True


def _said(name: str, content: Any) -> dict[str, Any]:
    if isinstance(content, (bytes, bytearray, memoryview)):
        return {f"{name}_base64": base64.b64encode(content).decode()}
    return {} if content is None else {name: content}


def several(topic: str, records: Iterable[Any]) -> list[dict[str, Any]]:
    """Records as the control API takes them. Raises TypeError where it is one only, or no record."""
    if isinstance(records, (str, bytes, bytearray, Mapping, Record)):
        raise TypeError(f"records must be several, such as a list of them: produce({topic!r}, [...])")
    return [to_request(each) for each in records]
