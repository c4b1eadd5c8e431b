"""Values of a JSON file.

Rule: the file may contain anything; an unexpected value ends in a ClientError with Kafka's words.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pykafka_broker.client.errors import ClientError
from pykafka_broker.protocol.enums import TopicPartition

T = TypeVar("T", int, str, TopicPartition)


def read_json(path: str) -> Any:
    """Read a file. Raises ClientError."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError:
        raise ClientError(f"Unable to read file {path}") from None
    except (ValueError, RecursionError):
        raise ClientError("The input string is not a valid JSON") from None


def json_object(value: Any) -> dict[str, Any]:
    """Return an object. Raises ClientError for another value."""
    if not isinstance(value, dict):
        raise ClientError(f"Expected JSON object, received {_shown(value)}")
    return value


def json_array(value: Any) -> list[Any]:
    """Return an array. Raises ClientError for another value."""
    if not isinstance(value, list):
        raise ClientError(f"Expected JSON array, received {_shown(value)}")
    return value


def json_number(value: Any, *, long: bool = False) -> int:
    """Return an integer of 32 or 64 bits. Raises ClientError for another value."""
    bits, name = (64, "Long") if long else (32, "Integer")
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ClientError(f"Expected `{name}` value, received {_shown(value)}")
    return value


def json_text(value: Any) -> str:
    """Return a string. Raises ClientError for another value."""
    if not isinstance(value, str):
        raise ClientError(f"Expected `String` value, received {_shown(value)}")
    return value


def field(value: dict[str, Any], name: str) -> Any:
    """Return a field of an object. Raises ClientError for a missing field."""
    if name not in value:
        raise ClientError(f"No such field exists: `{name}`")
    return value[name]


def json_partition(value: dict[str, Any]) -> TopicPartition:
    """Return the partition of an object. Raises ClientError for a missing field or another value."""
    return TopicPartition(json_text(field(value, "topic")), json_number(field(value, "partition")))


def repeated(values: Iterable[T]) -> list[T]:
    """Return the values that come more than once, sorted."""
    return sorted(each for each, times in Counter(values).items() if times > 1)


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)[:200]
