"""Paths, parameters and bodies of the REST API.

Rule: a path is cut at its slashes before it is decoded, so that a subject may hold any character. A field or value that
makes no sense is refused, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from pykafka_broker import __version__
from pykafka_broker.registry import problems, subjects
from pykafka_broker.registry.kinds import KINDS
from pykafka_broker.registry.problems import Refused
from pykafka_broker.registry.records import read_schema, with_kind
from pykafka_broker.registry.registry import LATEST, Registry
from pykafka_broker.registry.stored import Schema, Version

Json = Any
_LAST_VERSION = 2**31 - 1
_OF_A_SCHEMA = frozenset({"schema", "schemaType", "references", "metadata", "ruleSet", "id", "version", "subject"})
_NOT_KEPT = frozenset({"deleted", "guid", "ts", "schemaTags", "schemaTagsToAdd", "schemaTagsToRemove"})
_OF_A_CONFIG = frozenset({"compatibility", "compatibilityLevel", "normalize"})


class Call(NamedTuple):
    """One request. `path` has what stands for the words in braces."""

    registry: Registry
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Json

    @property
    def subject(self) -> str:
        return subjects.checked(self.path["subject"])

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

    @property
    def schema(self) -> Schema:
        """That of the body. Raises Refused."""
        self.knows(_OF_A_SCHEMA | _NOT_KEPT)
        if not self.body.get("schema"):
            raise problems.invalid_schema("Empty schema")
        try:
            return read_schema(self.body)
        except (KeyError, TypeError, AttributeError, RecursionError):
            raise Refused(
                422,
                "schema and schemaType must be text, references a list of name, subject, version, metadata and ruleSet "
                "objects",
            ) from None

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


Handler = Callable[[Call], Json | Awaitable[Json]]


# -- subjects


def list_subjects(call: Call) -> Json:
    prefix, only = call.query.get("subjectPrefix", subjects.ANY_CONTEXT), call.flag("deletedOnly")
    state, deleted = call.registry.state, call.flag("deleted")
    return call.page(
        [
            name
            for name in state.subjects()
            if subjects.has_prefix(name, prefix)
            and (bool(state.versions(name)) != only if only or not deleted else True)
        ]
    )


async def find_schema(call: Call) -> Json:
    found = await call.registry.find(call.subject, call.schema, call.flag("normalize"), call.flag("deleted"))
    return await _version(call, found)


async def delete_subject(call: Call) -> Json:
    return await call.registry.delete_subject(call.subject, call.flag("permanent"))


def list_versions(call: Call) -> Json:
    only = call.flag("deletedOnly")
    found = call.registry.versions(call.subject, only or call.flag("deleted"))
    return call.page([each.version for each in found if each.deleted or not only])


async def register(call: Call) -> Json:
    schema = call.schema
    schema_id, number = call.whole("id", -1), call.whole("version", 0)
    made = await call.registry.register(call.subject, schema, call.flag("normalize"), schema_id, number)
    return {"id": made.id}


async def get_version(call: Call) -> Json:
    return await _version(call, call.registry.version(call.subject, call.version, call.flag("deleted")))


async def get_version_text(call: Call) -> Json:
    found = call.registry.version(call.subject, call.version, call.flag("deleted"))
    return Raw(await call.registry.text(found.subject, found.schema, call.query.get("format", "")))


def get_referred_by(call: Call) -> Json:
    return call.page(call.registry.referred_by(call.subject, call.version))


async def delete_version(call: Call) -> Json:
    return await call.registry.delete_version(call.subject, call.version, call.flag("permanent"))


# -- schemas


async def get_schema(call: Call) -> Json:
    found = call.registry.schema(call.id, call.context)
    answer = {**with_kind(found), "schema": await _text(call, found)}
    if call.flag("fetchMaxId"):
        answer["maxId"] = call.registry.state.highest_id(call.context)
    return answer


async def get_schema_text(call: Call) -> Json:
    return Raw(await _text(call, call.registry.schema(call.id, call.context)))


def get_schema_subjects(call: Call) -> Json:
    uses = call.registry.uses(call.id, call.context, call.flag("deleted"))
    return call.page(sorted({each.subject for each in uses}))


def get_schema_versions(call: Call) -> Json:
    uses = call.registry.uses(call.id, call.context, call.flag("deleted"))
    return call.page([{"subject": each.subject, "version": each.version} for each in uses])


def list_schema_types(call: Call) -> Json:
    return list(KINDS)


async def list_schemas(call: Call) -> Json:
    prefix, latest = call.query.get("subjectPrefix", subjects.ANY_CONTEXT), call.flag("latestOnly")
    state, found = call.registry.state, []
    for name in state.subjects():
        if subjects.has_prefix(name, prefix):
            versions = state.versions(name, call.flag("deleted"))
            found += versions[-1:] if latest else versions
    return [await _version(call, each) for each in call.page(found)]


# -- compatibility, config, mode


async def test_compatibility(call: Call) -> Json:
    number = call.version if "version" in call.path else None
    why_not = await call.registry.why_not(call.subject, call.schema, number, call.flag("normalize"))
    return {"is_compatible": not why_not} | ({"messages": why_not} if call.flag("verbose") else {})


def get_config(call: Call) -> Json:
    return call.registry.settings.config(call.setting, call.flag("defaultToGlobal"))


async def set_config(call: Call) -> Json:
    call.knows(_OF_A_CONFIG)
    level, normalize = call.body.get("compatibility", call.body.get("compatibilityLevel")), call.body.get("normalize")
    if not isinstance(level, str | None) or (level is None and normalize is None):
        raise problems.invalid_level()
    if not isinstance(normalize, bool | None):
        raise Refused(422, "normalize must be true or false")
    await call.registry.settings.set_config(call.setting, level, normalize)
    return call.body


async def delete_config(call: Call) -> Json:
    return await call.registry.settings.delete_config(call.setting)


def get_mode(call: Call) -> Json:
    return {"mode": call.registry.settings.mode(call.setting, call.flag("defaultToGlobal"))}


async def set_mode(call: Call) -> Json:
    call.knows(frozenset({"mode"}))
    if not isinstance(call.body.get("mode"), str):
        raise problems.invalid_mode()
    await call.registry.settings.set_mode(call.setting, call.body["mode"], call.flag("force"))
    return {"mode": call.body["mode"].upper()}


async def delete_mode(call: Call) -> Json:
    return {"mode": await call.registry.settings.delete_mode(call.setting)}


# -- the registry itself


def list_contexts(call: Call) -> Json:
    return call.page(call.registry.state.contexts())


def get_id(call: Call) -> Json:
    clusters = {"kafka-cluster": call.registry.cluster_id, "schema-registry-cluster": "schema-registry"}
    return {"scope": {"path": [], "clusters": clusters}, "id": ""}


def get_version_of_registry(call: Call) -> Json:
    return {"version": __version__, "commitId": ""}


def get_root(call: Call) -> Json:
    return {}


class Raw(str):
    """A schema's own text as the whole answer."""


async def _version(call: Call, found: Version) -> Json:
    place = {"subject": found.subject, "version": found.version, "id": found.id}
    text = await call.registry.text(found.subject, found.schema, call.query.get("format", ""))
    return place | with_kind(found.schema) | {"schema": text} | ({"deleted": True} if found.deleted else {})


async def _text(call: Call, schema: Schema) -> str:
    context = call.context
    subject = "" if context == subjects.DEFAULT_CONTEXT else f":{context}:"
    return await call.registry.text(subject, schema, call.query.get("format", ""))


_PATHS: dict[str, dict[str, Handler]] = {
    "/": {"GET": get_root},
    "/subjects": {"GET": list_subjects},
    "/subjects/{subject}": {"POST": find_schema, "DELETE": delete_subject},
    "/subjects/{subject}/versions": {"GET": list_versions, "POST": register},
    "/subjects/{subject}/versions/{version}": {"GET": get_version, "DELETE": delete_version},
    "/subjects/{subject}/versions/{version}/schema": {"GET": get_version_text},
    "/subjects/{subject}/versions/{version}/referencedby": {"GET": get_referred_by},
    "/schemas": {"GET": list_schemas},
    "/schemas/types": {"GET": list_schema_types},
    "/schemas/ids/{id}": {"GET": get_schema},
    "/schemas/ids/{id}/schema": {"GET": get_schema_text},
    "/schemas/ids/{id}/subjects": {"GET": get_schema_subjects},
    "/schemas/ids/{id}/versions": {"GET": get_schema_versions},
    "/compatibility/subjects/{subject}/versions": {"POST": test_compatibility},
    "/compatibility/subjects/{subject}/versions/{version}": {"POST": test_compatibility},
    "/config": {"GET": get_config, "PUT": set_config, "DELETE": delete_config},
    "/config/{subject}": {"GET": get_config, "PUT": set_config, "DELETE": delete_config},
    "/mode": {"GET": get_mode, "PUT": set_mode, "DELETE": delete_mode},
    "/mode/{subject}": {"GET": get_mode, "PUT": set_mode, "DELETE": delete_mode},
    "/contexts": {"GET": list_contexts},
    "/v1/metadata/id": {"GET": get_id},
    "/v1/metadata/version": {"GET": get_version_of_registry},
}
_CUT = [(tuple(path.strip("/").split("/")), methods) for path, methods in _PATHS.items()]


def find(method: str, path: str) -> tuple[Handler, dict[str, str]]:
    """Who serves that, and what stands for the words in braces. Raises Refused."""
    parts = path.strip("/").split("/")
    for pattern, methods in _CUT:
        found = _match(pattern, parts)
        if found is not None:
            if method not in methods:
                raise Refused(405, "HTTP 405 Method Not Allowed")
            return methods[method], found
    raise Refused(404, "HTTP 404 Not Found")


def _match(pattern: tuple[str, ...], parts: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(parts):
        return None
    found = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            try:
                found[wanted[1:-1]] = unquote(part, errors="strict")
            except UnicodeDecodeError:
                raise Refused(400, "the path is not UTF-8") from None
        elif wanted != part:
            return None
    return found
