"""The messages that docs/troubleshooting.md quotes: each part stands in the code, each error is one of Kafka's."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import pykafka_broker
from pykafka_broker.protocol.errors import ErrorCode

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
NOT_OURS = {  # said by the operating system, by pip, by pytest, or by a client
    "Package 'pykafka-broker' requires a different Python",
    "Unable to bootstrap from",
    "Address already in use",
    "Cannot assign requested address",
    "Connection refused",
    "fixture 'kafka_broker' not found",
    "ScopeMismatch: You tried to access the function scoped fixture kafka_topic",
    "async def functions are not natively supported",
    "requested an async fixture",
}
CONSTANTS = re.compile(
    r"\.lock|__cluster_metadata|PYKAFKA_BROKER_CONTROL_\w+|(?<=Failed )authentication"
)  # put in by name
FIELD = re.compile(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|%[sdr]")
LEAST = 5  # characters of a piece that says something


def symptoms() -> list[str]:
    """Return the quotations in the first column of each table."""
    rows = [line.split(" | ")[0] for line in PAGE.splitlines() if line.startswith("| `")]
    return [quoted for row in rows for quoted in re.findall(r"`([^`]+)`", row)]


@cache
def said() -> str:
    """Return the package's source with split string literals joined, and the texts of Kafka's errors."""
    root = Path(pykafka_broker.__file__).parent
    text = "\n".join(path.read_text(encoding="utf-8") for path in root.rglob("*.py"))
    whole = re.sub(r'"\s*\n\s*f?"', "", text)
    return FIELD.sub("...", whole) + (root / "client" / "errors.json").read_text(encoding="utf-8")


def is_ours(symptom: str) -> bool:
    pieces = [piece.strip(" :") for piece in CONSTANTS.sub("...", symptom).split("...")]
    return all(piece in said() or piece in NOT_OURS for piece in pieces if len(piece) >= LEAST)


@pytest.mark.parametrize("symptom", symptoms())
def test_a_symptom_is_what_the_broker_says(symptom: str) -> None:
    if symptom.isupper():
        assert symptom in ErrorCode.__members__
    else:
        assert is_ours(symptom)


def test_what_nobody_says_is_noticed() -> None:
    assert len(symptoms()) > 40
    assert not is_ours("cannot start: the moon is full")
