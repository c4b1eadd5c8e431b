"""A JSON Schema, of draft 4 to 2020-12; draft 7 where it does not say.

Rule: nothing is fetched. A reference leads into the schema itself, to one that it refers to by name, or nowhere, which
is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

from jsonschema.validators import Draft7Validator, validator_for

from pykafka_broker.registry.json_schema.compatibility import incompatibilities
from pykafka_broker.registry.json_schema.references import Document, Library
from pykafka_broker.registry.kinds import read_json, write_json
from pykafka_broker.registry.problems import InvalidSchema

Json = Any


class JsonSchema:
    """The schema with those that it refers to."""

    def __init__(self, found: Json, library: Library) -> None:
        self._found = found
        self.root = Document("", found, library)
        self.root.check()
        self.canonical = self.identity = write_json(found)

    @cached_property
    def normalized(self) -> str:
        return write_json(self._found, sort_keys=True)

    def differences(self, written: Self) -> list[str]:
        return incompatibilities(self.root, written.root)

    def formatted(self, form: str) -> str:
        return self.canonical


def parse(text: str, library: Mapping[str, str]) -> JsonSchema:
    """Raises InvalidSchema."""
    found = read_json(text)
    if not isinstance(found, dict | bool):
        raise InvalidSchema("a JSON Schema is an object, or true or false")
    if isinstance(found, dict):
        validator = validator_for(found, default=Draft7Validator)
        for error in validator(validator.META_SCHEMA).iter_errors(found):  # formats do not count: patterns are Java's
            raise InvalidSchema(f"{error.message} at #/{'/'.join(map(str, error.absolute_path))}")
    return JsonSchema(found, Library({name: read_json(needed) for name, needed in library.items()}))
