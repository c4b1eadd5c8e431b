"""The committed bytes of Kafka's own classes, by message."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.protocol.values import messages

PATH = Path(__file__).resolve().parents[1] / "golden" / "messages.jsonl.gz"


class Golden(NamedTuple):
    """A message as Kafka 4.4.0 writes it (3.9.2 where 4.4.0 no longer knows the version)."""

    version: int
    values: dict[str, Any]
    bytes: bytes


@cache
def golden() -> dict[str, list[Golden]]:
    """Return all cases by the message's name in the schemas."""
    found: dict[str, list[Golden]] = {name: [] for name in messages()}
    with gzip.open(PATH, "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            found[case["name"]].append(Golden(case["version"], case["values"], b64decode(case["bytes"])))
    return found


def golden_names() -> list[str]:
    return sorted(golden())
