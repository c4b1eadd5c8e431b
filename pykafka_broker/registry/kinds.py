"""The languages of schemas, each in a module that is imported with its first schema; compatibility levels.

Rule: BACKWARD means that the new schema reads data of the old one, FORWARD the opposite, FULL both; the plain levels
compare with the newest version, the transitive ones with all versions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol, Self

from pykafka_broker.registry.problems import InvalidSchema

# -- languages


KINDS = {
    "JSON": "pykafka_broker.registry.json_schema",
    "PROTOBUF": "pykafka_broker.registry.protobuf",
    "AVRO": "pykafka_broker.registry.avro",
}


class Parsed(Protocol):
    """A valid schema.

    `canonical` is the same for texts that differ in white space alone, `normalized` also for texts that differ in an
    order without a meaning. Two schemas with one `identity` are one under a subject.
    """

    canonical: str
    identity: str

    @property
    def normalized(self) -> str: ...

    @property
    def fields(self) -> set[str]:
        """Return the names of the fields of the outermost types."""

    def differences(self, written: Self) -> list[str]:
        """Return why data of the schema `written` can't be read with the schema; empty if compatible.

        Each reason has `{new}` and `{old}` in the place of the names of the schemas.
        """

    def formatted(self, form: str) -> str:
        """Return another named form of the text: `serialized` is Protobuf's descriptor. Others have the text alone."""
        return self.canonical


def parse(kind: str, text: str, library: Mapping[str, str]) -> Parsed:
    """Parse a schema. Raises InvalidSchema.

    Args:
        library: the texts of referenced schemas by name, in the order of reading.
    """
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
    """Read JSON strictly. Raises InvalidSchema."""
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


# -- bounds


_STEPS_OF_EVERY_SCHEMA = 20_000
_STEPS_OF_A_CHARACTER = 100
_MOST_STEPS = 2_000_000


class Effort:
    """The steps that a schema or a comparison may take, about a microsecond each.

    Few characters may ask for work without end: a union within a union doubles the work, a type of ten fields of a type
    of ten fields has a hundred differences.
    """

    __slots__ = ("_left",)

    def __init__(self, characters: int = 0) -> None:
        self._left = min(_STEPS_OF_EVERY_SCHEMA + _STEPS_OF_A_CHARACTER * characters, _MOST_STEPS)

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises InvalidSchema if there are too many."""
        self._left -= steps
        if self._left < 0:
            raise InvalidSchema("it is too intricate: reading or comparing it would take too long")


# -- reasons


def reason(kind: str, path: str) -> str:
    """Return a reason of an incompatibility in the words of Confluent's registry.

    Args:
        path: from the root of the schema.

    Returns:
        A text with `{new}` and `{old}` in the place of the schemas.
    """
    says = kind.replace("_", " ").capitalize()
    path = path.replace("{", "{{").replace("}", "}}")
    return (
        f'{{{{errorType:"{kind}", description:"{says} at path \'{path}\' in the {{new}} schema, compared with the '
        f'{{old}} schema"}}}}'
    )


# -- compatibility levels


NONE = "NONE"
DEFAULT_LEVEL = "BACKWARD"
LEVELS = frozenset(
    {NONE, *(f"{plain}{which}" for plain in ("BACKWARD", "FORWARD", "FULL") for which in ("", "_TRANSITIVE"))}
)


def is_transitive(level: str) -> bool:
    return level.endswith("_TRANSITIVE")


def differences(level: str, new: Parsed, old: Parsed) -> list[str]:
    """Return why the level forbids the new schema after the old; empty if allowed."""
    if level == NONE:
        return []
    if type(new) is not type(old):
        return ["{errorType:'TYPE_CHANGED', description:'The new schema is of another schema type than the old one'}"]
    found: list[str] = []
    if level.startswith(("BACKWARD", "FULL")):
        found += [each.format(new="new", old="old") for each in new.differences(old)]
    if level.startswith(("FORWARD", "FULL")):
        found += [each.format(new="old", old="new") for each in old.differences(new)]
    return found
