"""A request of the REST API, and its parts.

Rule: a field or value that makes no sense is refused, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pykafka_broker.registry import problems, subjects
from pykafka_broker.registry.contracts import why_no_rule_set
from pykafka_broker.registry.problems import RegistryError
from pykafka_broker.registry.records import Schema, read_schema
from pykafka_broker.registry.registry import LATEST, Registry

Json = Any
_LAST_VERSION = 2**31 - 1
_OF_A_SCHEMA = frozenset({"schema", "schemaType", "references", "metadata", "ruleSet", "id", "version", "subject"})
_NOT_KEPT = frozenset(
    {"deleted", "guid", "ts", "createTs", "schemaTags", "schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags"}
)


class Call(NamedTuple):
    """A request of the REST API.

    Args:
        path: the values for the words in braces.
        extended: the client accepts properties that it does not know; others are answered as by older registries.
    """

    registry: Registry
    path: Mapping[str, str]
    parameters: Mapping[str, Sequence[str]]
    body: Json
    extended: bool = False

    @property
    def query(self) -> Mapping[str, str]:
        """Return the parameters; the last value of a repeated parameter."""
        return {name: values[-1] for name, values in self.parameters.items()}

    @property
    def subject(self) -> str:
        """Return the subject of the path, or the subject behind the alias."""
        return self.registry.settings.resolve_alias(subjects.checked(self.path["subject"]))

    @property
    def setting(self) -> str | None:
        """Return the subject of a setting, None for all subjects."""
        name = self.path.get("subject")
        context, rest = subjects.split(name or "")
        if name is None or (not rest and context == subjects.DEFAULT_CONTEXT):
            return None
        return subjects.checked(name) if rest else f":{context}:"

    @property
    def version(self) -> int:
        text = self.path["version"]
        if text in ("latest", "-1"):
            return LATEST
        if not (text.isascii() and text.isdigit() and 1 <= int(text[:11]) <= _LAST_VERSION):
            raise problems.invalid_version(text)
        return int(text)

    @property
    def id(self) -> int:
        text = self.path["id"]
        if not (text.isascii() and text.isdigit() and len(text) < 11):
            raise RegistryError(404, "HTTP 404 Not Found")
        return int(text)

    @property
    def context(self) -> str:
        """Return the context of the subject given with an id."""
        return subjects.context_of(self.query.get("subject", ""))

    def names(self, subject: str) -> bool:
        """Tell whether the parameter `subject` is empty or equal to the subject."""
        wanted = self.query.get("subject", "")
        return not subjects.split(wanted)[1] or subjects.checked(wanted) == subject

    @property
    def schema(self) -> Schema:
        """Return the schema of the body. Raises RegistryError."""
        self.require_fields(_OF_A_SCHEMA | _NOT_KEPT)
        if not self.body.get("schema"):
            raise problems.invalid_schema("Empty schema")
        try:
            schema = read_schema(self.body)
        except (KeyError, TypeError, AttributeError, RecursionError):
            raise RegistryError(
                422,
                "schema and schemaType must be text, references a list of name, subject, version, metadata and ruleSet "
                "objects with the fields of the API",
            ) from None
        if (why := why_no_rule_set(schema.rule_set)) is not None:
            raise problems.invalid_rule_set(why)
        return schema

    def require_fields(self, fields: frozenset[str]) -> None:
        """Check the body for an object with these fields only. Raises RegistryError."""
        if not isinstance(self.body, dict):
            raise RegistryError(400, "the body must be a JSON object")
        for name in self.body:
            if name not in fields:
                raise RegistryError(422, f"Unrecognized field: {name}")

    def flag(self, name: str) -> bool:
        text = self.query.get(name, "false").lower()
        if text not in ("true", "false", ""):
            raise RegistryError(400, f"{name} must be true or false")
        return text == "true"

    def number(self, name: str, default: int) -> int:
        text = self.query.get(name, "")
        if not text:
            return default
        if not text.removeprefix("-").isdigit() or not text.isascii() or len(text) > 10:
            raise RegistryError(400, f"{name} must be a number")
        return int(text)

    def page(self, found: list[Json]) -> list[Json]:
        offset, limit = max(self.number("offset", 0), 0), self.number("limit", -1)
        return found[offset:] if limit < 0 else found[offset : offset + limit]

    def integer(self, name: str, default: int) -> int:
        """Return an integer of the body."""
        found = self.body.get(name)
        if found is None:
            return default
        if type(found) is not int:
            raise RegistryError(422, f"{name} must be a number")
        return found
