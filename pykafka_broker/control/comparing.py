"""What a topic has and what it should have, side by side.

Rule: records of one partition are compared in their order; those of different partitions have none among them, so where
there are several each expected record is looked for among all. What is null in an expected record is not compared.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pykafka_broker.control.bytes_in_json import meant

if TYPE_CHECKING:
    from pykafka_broker.control.api.records import NewRecord, Record

_NOTHING = "(nothing)"


def difference(found: Sequence[Record], expected: Sequence[NewRecord]) -> str:
    """Empty if they are the same, else what is missing and what is too much, line by line."""
    if len({each.partition for each in found}) > 1:
        return _unordered(found, expected)
    if len(found) == len(expected) and all(map(fits, expected, found)):
        return ""
    return _report(found, expected, [_line_found(each, expected) for each in found])


def _unordered(found: Sequence[Record], expected: Sequence[NewRecord]) -> str:
    left = list(found)
    missing = []
    for each in expected:
        match = next((one for one in left if fits(each, one)), None)
        if match is None:
            missing.append(each)
        else:
            left.remove(match)
    if not left and not missing:
        return ""
    lines = [f"- {_line(each)}" for each in missing]
    lines += [f"+ {each.partition}@{each.offset} {_line_found(each, expected)}" for each in left]
    return _head(found, expected) + "\n" + "\n".join(lines)


def fits(expected: NewRecord, found: Record) -> bool:
    """Whether the record has all that is expected of it."""
    value = meant(expected.value, expected.value_base64, "value")
    key = meant(expected.key, expected.key_base64, "key")
    headers = [(each.name, meant(each.value, each.value_base64, "value")) for each in expected.headers]
    return (
        (value is None or value == meant(found.value, found.value_base64, "value"))
        and (key is None or key == meant(found.key, found.key_base64, "key"))
        and (expected.partition is None or expected.partition == found.partition)
        and (expected.timestamp is None or expected.timestamp == found.timestamp)
        and (
            not headers or headers == [(each.name, meant(each.value, each.value_base64, "")) for each in found.headers]
        )
    )


def _report(found: Sequence[Record], expected: Sequence[NewRecord], found_lines: list[str]) -> str:
    lines = list(difflib.ndiff([_line(each) for each in expected], found_lines))
    return _head(found, expected) + "\n" + "\n".join(line for line in lines if not line.startswith("?"))


def _head(found: Sequence[Record], expected: Sequence[NewRecord]) -> str:
    return f"{len(found)} records, expected {len(expected)} (- is missing, + is too much)"


def _line(record: NewRecord) -> str:
    """All that is expected of it."""
    value = meant(record.value, record.value_base64, "value")
    key = meant(record.key, record.key_base64, "key")
    parts = [f"{name} {data!r}" for name, data in (("key", key), ("value", value)) if data is not None]
    parts += [f"header {each.name} {meant(each.value, each.value_base64, '')!r}" for each in record.headers]
    if record.timestamp is not None:
        parts.append(f"timestamp {record.timestamp}")
    return ", ".join(parts) or _NOTHING


def _line_found(record: Record, expected: Sequence[NewRecord]) -> str:
    """As much of it as is compared, so that what is the same looks the same."""
    from pykafka_broker.control.api.records import NewRecord

    return _line(
        NewRecord(
            value=record.value,
            value_base64=record.value_base64,
            key=record.key if any(each.key is not None or each.key_base64 for each in expected) else None,
            key_base64=record.key_base64 if any(each.key_base64 for each in expected) else None,
            headers=record.headers if any(each.headers for each in expected) else [],
            timestamp=record.timestamp if any(each.timestamp is not None for each in expected) else None,
        )
    )
