"""One request of the REST API, and what its parts say.

Rule: a field or value that makes no sense is refused, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pykafka_broker.registry import problems, subjects
from pykafka_broker.registry.contracts import why_no_rule_set
from pykafka_broker.registry.problems import Refused
from pykafka_broker.registry.records import read_schema
from pykafka_broker.registry.registry import LATEST, Registry
from pykafka_broker.registry.stored import Schema

Json = Any
_LAST_VERSION = 2**31 - 1
_OF_A_SCHEMA = frozenset({"schema", "schemaType", "references", "metadata", "ruleSet", "id", "version", "subject"})
_NOT_KEPT = frozenset(
    {"deleted", "guid", "ts", "createTs", "schemaTags", "schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags"}
)


class Call(NamedTuple):
    """One request. `path` has what stands for the words in braces. A client that does not say that it takes properties
    which it does not know (`extended`) is answered as older registries do."""

    registry: Registry
    path: Mapping[str, str]
    parameters: Mapping[str, Sequence[str]]
    body: Json
    extended: bool = False

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters, of one that is repeated the last."""
        return {name: values[-1] for name, values in self.parameters.items()}

    @property
    def subject(self) -> str:
        """What the path names, or what that is an alias of."""
        return self.registry.settings.meant(subjects.checked(self.path["subject"]))

    @property
    def setting(self) -> str | None:
        """The subject whose setting it is; None for all."""
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
            raise Refused(404, "HTTP 404 Not Found")
        return int(text)

    @property
    def context(self) -> str:
        """That of the subject that is named beside an id."""
        return subjects.context_of(self.query.get("subject", ""))

    def names(self, subject: str) -> bool:
        """Whether the parameter `subject` asks for that one, or for none."""
        wanted = self.query.get("subject", "")
        return not subjects.split(wanted)[1] or subjects.checked(wanted) == subject

    @property
    def schema(self) -> Schema:
        """That of the body. Raises Refused."""
        self.knows(_OF_A_SCHEMA | _NOT_KEPT)
        if not self.body.get("schema"):
            raise problems.invalid_schema("Empty schema")
        try:
            schema = read_schema(self.body)
        except (KeyError, TypeError, AttributeError, RecursionError):
            raise Refused(
                422,
                "schema and schemaType must be text, references a list of name, subject, version, metadata and ruleSet "
                "objects with the fields of the API",
            ) from None
        if (why := why_no_rule_set(schema.rule_set)) is not None:
            raise problems.invalid_rule_set(why)
        return schema

    def knows(self, fields: frozenset[str]) -> None:
        """Raises Refused where the body is no object of these."""
        if not isinstance(self.body, dict):
            raise Refused(400, "the body must be a JSON object")
        for name in self.body:
            if name not in fields:
                raise Refused(422, f"Unrecognized field: {name}")

    def flag(self, name: str) -> bool:
        text = self.query.get(name, "false").lower()
        if text not in ("true", "false", ""):
            raise Refused(400, f"{name} must be true or false")
        return text == "true"

    def number(self, name: str, default: int) -> int:
        text = self.query.get(name, "")
        if not text:
            return default
        if not text.removeprefix("-").isdigit() or not text.isascii() or len(text) > 10:
            raise Refused(400, f"{name} must be a number")
        return int(text)

    def page(self, found: list[Json]) -> list[Json]:
        offset, limit = max(self.number("offset", 0), 0), self.number("limit", -1)
        return found[offset:] if limit < 0 else found[offset : offset + limit]

    def whole(self, name: str, default: int) -> int:
        """A number of the body."""
        found = self.body.get(name)
        if found is None:
            return default
        if type(found) is not int:
            raise Refused(422, f"{name} must be a number")
        return found
