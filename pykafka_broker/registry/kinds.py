"""The languages of schemas, each in a package of its own that is imported with the first schema of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol, Self

from pykafka_broker.registry.problems import InvalidSchema

KINDS = {
    "JSON": "pykafka_broker.registry.json_schema.schema",
    "PROTOBUF": "pykafka_broker.registry.protobuf.schema",
    "AVRO": "pykafka_broker.registry.avro.schema",
}


class Parsed(Protocol):
    """A text that is a schema. `canonical` is the same for texts that differ in white space alone, `normalized` also
    where they differ in the order of what has none. Two that have one `identity` are one under a subject."""

    canonical: str
    identity: str

    @property
    def normalized(self) -> str: ...

    def differences(self, written: Self) -> list[str]:
        """Why data of the schema `written` can't be read with this one; empty where it can. Each is text with `{new}`
        and `{old}` where it is said which of the two is which."""

    def formatted(self, form: str) -> str:
        """In another form that is asked for by name: `serialized` is Protobuf's descriptor."""


def parse(kind: str, text: str, library: Mapping[str, str]) -> Parsed:
    """The schema; `library` has the texts that it needs by the names that it has for them, those first that others
    need. Raises InvalidSchema."""
    if kind not in KINDS:
        raise InvalidSchema(f"Invalid schema type {kind}")
    read: Callable[[str, Mapping[str, str]], Parsed] = import_module(KINDS[kind]).parse
    try:
        return read(text, library)
    except RecursionError:
        raise InvalidSchema("it is nested too deeply") from None
    except UnicodeError:
        raise InvalidSchema("it has half a character (a lone surrogate)") from None


def read_json(text: str) -> Any:
    """Raises InvalidSchema."""
    try:
        return json.loads(text, object_pairs_hook=_no_name_twice, parse_float=_finite, parse_constant=_no_constant)
    except ValueError as error:
        raise InvalidSchema(f"it is not JSON: {error}") from None


def write_json(found: Any, sort_keys: bool = False) -> str:
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a name twice")
    return found


def _finite(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise ValueError(f"{text} is too large a number")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
