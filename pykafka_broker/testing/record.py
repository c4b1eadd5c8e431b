"""Records as a test writes, expects and reads them.

Rule: key and value are text where they are UTF-8 and bytes where they are not; `value_bytes` and `key_bytes` are always
bytes, `json()` is the value as JSON. A field is also there as `record["value"]`. A record to be written and an expected
record have the same forms, which `fields_of` reads.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from pykafka_broker.testing.arguments import check_type, epoch_ms
from pykafka_broker.testing.control_client import json_text, told_to_the_test

__tracebackhide__ = told_to_the_test

Content = str | bytes | None
# Text, bytes, or a JSON value; a mapping or a sequence is written as JSON.
NewContent: TypeAlias = str | bytes | bytearray | memoryview | float | Collection[object] | None
Headers: TypeAlias = Mapping[str, NewContent] | Iterable[tuple[str, NewContent]]


class _Any:
    """The type of `ANY`, which stands for any value."""

    def __repr__(self) -> str:
        return "ANY"


ANY: Any = _Any()


@dataclass(frozen=True)
class Record:
    """A record of a topic. `timestamp` is in epoch milliseconds.

    `headers` are pairs, as a name may come twice. `transaction` is "committed", "aborted" or "open", and None for a
    record that was written outside a transaction.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: str
    key: Content
    value: Content
    headers: tuple[tuple[str, Content], ...] = ()
    transaction: str | None = None

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
        """Return the value as JSON. Raises ValueError for a value without JSON."""
        if self.value is None:
            return None
        return json.loads(self.value)


@dataclass(frozen=True)
class NewRecord:
    """A record to write or to expect, as explicit fields: `NewRecord(value={"value": 3, "unit": "C"})`.

    A dict alone may be a record or a JSON value; here both are clear. Fields that are left out are written as none and
    are not compared. `timestamp` is in epoch milliseconds, or a datetime with a time zone.
    """

    value: NewContent = ANY
    key: NewContent = ANY
    headers: Headers | None = None
    timestamp: int | datetime | None = None
    partition: int | None = None


RecordLike: TypeAlias = NewRecord | Record | NewContent  # a pair of key and value is a collection


def _bytes(content: Content) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


def from_answer(answer: Mapping[str, Any]) -> Record:
    """Read a record of the control API."""
    return Record(
        answer["topic"],
        answer["partition"],
        answer["offset"],
        answer["timestamp"],
        answer["timestamp_type"],
        _content(answer, "key"),
        _content(answer, "value"),
        tuple((header["name"], _content(header, "value")) for header in answer["headers"]),
        answer["transaction"],
    )


def _content(answer: Mapping[str, Any], name: str) -> Content:
    in_base64 = answer.get(f"{name}_base64")
    return answer[name] if in_base64 is None else base64.b64decode(in_base64)


def to_request(record: Any) -> dict[str, Any]:
    """Return a record to write for the control API. Raises TypeError, or ValueError, for another value."""
    return _body({name: given for name, given in fields_of(record).items() if given is not None})


def to_expectation(record: Any) -> dict[str, Any]:
    """Return an expected record for the control API: None is expected to be null. Raises as `to_request`."""
    return _body(fields_of(record))


def to_each(form: Callable[[Any], dict[str, Any]], records: Iterable[Any]) -> list[dict[str, Any]]:
    """Return records in the form of `to_request` or `to_expectation`. An error names the record by its index."""
    made = []
    for index, record in enumerate(records):
        try:
            made.append(form(record))
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"records[{index}]: {error}") from None
    return made


_FIELDS = ("value", "key", "headers", "timestamp", "partition")


def fields_of(record: Any) -> dict[str, Any]:
    """Return the fields of a record.

    Args:
        record: a `NewRecord`, a `Record`, a pair of key and value, a dict with `value` or `key` among its names, or a
            value alone.

    Raises:
        TypeError: the argument is none of them.
    """
    if isinstance(record, Record):
        names = ("key", "value", "headers", "timestamp")
        return {name: getattr(record, name) for name in names}
    if isinstance(record, NewRecord):
        given = {name: getattr(record, name) for name in _FIELDS}
    elif isinstance(record, tuple):
        if len(record) != 2:
            raise TypeError(f"a record is a pair of key and value, not {len(record)} in a tuple; an array is a list")
        given = {"key": record[0], "value": record[1]}
    elif isinstance(record, Mapping) and record.keys() & {"value", "key"}:
        unknown = sorted(map(str, record.keys() - {*_FIELDS}))
        if unknown:
            raise TypeError(
                f"a dict with `value` or `key` is a record, and a record has no {unknown[0]}, only "
                f"{', '.join(_FIELDS)}; for a JSON value with these names write NewRecord(value={{...}})"
            )
        given = dict(record)
    else:
        given = {"value": record}
    optional = ("headers", "timestamp", "partition")
    return {name: each for name, each in given.items() if each is not ANY and not (each is None and name in optional)}


def _body(fields: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if "timestamp" in fields:
        body["timestamp"] = _timestamp_ms(fields["timestamp"])
    if "partition" in fields:
        check_type("partition", fields["partition"], int, "an integer")
        body["partition"] = fields["partition"]
    for name in ("key", "value"):
        if name in fields:
            body |= said(name, fields[name])
    if "headers" in fields:
        pairs = _pairs(fields["headers"])
        body["headers"] = [{"name": name, **said("value", value, f"header {name}")} for name, value in pairs]
    return body


def _timestamp_ms(time: Any) -> int:
    """Return a timestamp in epoch milliseconds. Raises TypeError, or ValueError for a datetime without a zone."""
    if isinstance(time, datetime):
        return epoch_ms("timestamp", time)
    check_type("timestamp", time, int, "epoch milliseconds as an int, or a datetime with a time zone")
    return int(time)


def _pairs(headers: Any) -> list[tuple[str, Any]]:
    """Return the headers of a record as pairs of name and value. Raises TypeError."""
    listed = None
    if isinstance(headers, Mapping):
        listed = list(headers.items())
    elif isinstance(headers, Iterable) and not isinstance(headers, (str, bytes)):
        listed = list(headers)
    if listed is None or not all(map(_is_header, listed)):
        raise TypeError(f'headers must be a dict such as {{"a": "1"}}, or pairs of name and value, not {headers!r}')
    return listed


def _is_header(pair: object) -> bool:
    return isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)


def said(name: str, content: Any, where: str = "") -> dict[str, Any]:
    """Return a key or value for the control API. Raises TypeError or ValueError for what JSON has not."""
    if isinstance(content, (bytes, bytearray, memoryview)):
        return {f"{name}_base64": base64.b64encode(content).decode()}
    if content is not None and not isinstance(content, str):
        json_text(content, where or name)
    return {name: content}


def several(method: str, topic: str, records: Iterable[Any]) -> list[Any]:
    """Return the records of a call as a list.

    Raises:
        TypeError: `topic` is no text, or `records` a single record; a pair of key and value alone is one.
    """
    if not isinstance(topic, str):
        raise TypeError(f"topic must be text, not {topic!r:.80}: {method}(topic, records)")
    is_pair = isinstance(records, tuple) and len(records) == 2 and isinstance(records[0], str | bytes | None)
    one = is_pair or isinstance(records, (str, bytes, bytearray, Mapping, Record, NewRecord))
    if one or not isinstance(records, Iterable):
        raise TypeError(f"records must be a list, not a single record: {method}({topic!r}, [...])")
    return list(records)
