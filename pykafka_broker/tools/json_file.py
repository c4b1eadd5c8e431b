"""What a tool reads from a JSON file.

Rule: the file may have anything in it; whatever is not as it should be ends in a ClientError with Kafka's words.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pykafka_broker.client.errors import ClientError


def read_json(path: str) -> Any:
    """Raises ClientError."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError:
        raise ClientError(f"Unable to read file {path}") from None
    except (ValueError, RecursionError):
        raise ClientError("The input string is not a valid JSON") from None


def json_object(value: Any) -> dict[str, Any]:
    """Raises ClientError if it is none."""
    if not isinstance(value, dict):
        raise ClientError(f"Expected JSON object, received {_shown(value)}")
    return value


def json_array(value: Any) -> list[Any]:
    """Raises ClientError if it is none."""
    if not isinstance(value, list):
        raise ClientError(f"Expected JSON array, received {_shown(value)}")
    return value


def json_number(value: Any, *, long: bool = False) -> int:
    """A whole one of 32 or 64 bits. Raises ClientError."""
    bits, name = (64, "Long") if long else (32, "Integer")
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ClientError(f"Expected `{name}` value, received {_shown(value)}")
    return value


def json_text(value: Any) -> str:
    """Raises ClientError if it is none."""
    if not isinstance(value, str):
        raise ClientError(f"Expected `String` value, received {_shown(value)}")
    return value


def field(value: dict[str, Any], name: str) -> Any:
    """Raises ClientError if there is no such field."""
    if name not in value:
        raise ClientError(f"No such field exists: `{name}`")
    return value[name]


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)[:200]
