"""The registry's REST API, and its HTTP address beside the listeners of a broker.

Rule: a path is split at its slashes before it is decoded, so that a subject may contain any character. A field or value
that makes no sense is refused, and nothing is guessed. Without a user only this machine may ask, and no page of a
browser may; with a user, whoever has its password. A request is passed on to another broker's registry at most once,
with the credentials of the client: no node trusts another.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import errno
import hmac
import http.client
import inspect
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from pykafka_broker import __version__
from pykafka_broker.control.door import ControlExtension as ControlOpening
from pykafka_broker.control.http import HttpAddress, HttpListener, Request, Response, why_not_of_this_machine
from pykafka_broker.control.schema import read_json
from pykafka_broker.registry import problems, subjects
from pykafka_broker.registry.contracts import has_rule_type, properties, why_no_rule_set
from pykafka_broker.registry.decoding import Decoder, OwnSchemas
from pykafka_broker.registry.kinds import KINDS
from pykafka_broker.registry.problems import Elsewhere, RegistryError
from pykafka_broker.registry.records import Schema, Version, guid_of, read_schema, with_kind
from pykafka_broker.registry.registry import LAST_VERSION, LATEST, Registry
from pykafka_broker.registry.settings import read_config
from pykafka_broker.registry.topic import SchemasTopic
from pykafka_broker.server.serving import ProcessExtension, Running

if TYPE_CHECKING:
    from pykafka_broker.control.control import SchemaSubject

# -- requests


Json = Any
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
        text = self.path["version"].strip()
        if text.lower() in ("latest", "-1"):
            return LATEST
        if not (re.fullmatch("[0-9]{1,10}", text) and 1 <= int(text) <= LAST_VERSION):
            raise problems.INVALID_VERSION(text)
        return int(text)

    @property
    def id(self) -> int:
        text = self.path["id"]
        if not (text.isascii() and text.isdigit() and len(text) < 11):
            raise RegistryError(404, "HTTP 404 Not Found")
        return int(text)

    @property
    def of_id(self) -> str:
        """Return the subject given with an id, or the subject behind the alias; a context or nothing without."""
        name = self.query.get("subject", "")
        return self.registry.settings.resolve_alias(subjects.checked(name)) if subjects.split(name)[1] else name

    @property
    def context(self) -> str:
        """Return the context of the subject given with an id."""
        return subjects.context_of(self.of_id)

    @property
    def schema(self) -> Schema:
        """Return the schema of the body. Raises RegistryError."""
        self.require_fields(_OF_A_SCHEMA | _NOT_KEPT)
        if not self.body.get("schema"):
            raise problems.INVALID_SCHEMA("Empty schema")
        try:
            schema = read_schema(self.body)
        except (KeyError, TypeError, AttributeError, RecursionError):
            raise RegistryError(
                422,
                "schema and schemaType must be text, references a list of name, subject, version, metadata and ruleSet "
                "objects with the fields of the API",
            ) from None
        if (why := why_no_rule_set(schema.rule_set)) is not None:
            raise problems.INVALID_RULE_SET(why)
        return schema

    def require_fields(self, fields: frozenset[str]) -> None:
        """Check the body for an object without other fields. Raises RegistryError."""
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
        """Return an integer of 32 bits of the body."""
        found = self.body.get(name)
        if found is None:
            return default
        if type(found) is not int or not -LAST_VERSION <= found <= LAST_VERSION:
            raise RegistryError(422, f"{name} must be a number of 32 bits")
        return found


Handler = Callable[[Call], Json | Awaitable[Json]]


# -- subjects


def list_subjects(call: Call) -> Json:
    prefix, only = call.query.get("subjectPrefix", subjects.ANY_CONTEXT), call.flag("deletedOnly")
    state, deleted = call.registry.state, call.flag("deleted")

    def is_listed(name: str) -> bool:
        is_deleted = not state.versions(name)
        return is_deleted if only else deleted or not is_deleted

    return call.page([name for name in state.subjects() if subjects.has_prefix(name, prefix) and is_listed(name)])


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
    schema_id, number = call.integer("id", -1), call.integer("version", 0)
    made = await call.registry.register(call.subject, schema, call.flag("normalize"), schema_id, number)
    if not call.extended:
        return {"id": made.id}
    # without the text: clients would take it for their own text, which may have another form
    return {"id": made.id, "version": made.version, "guid": guid_of(made.schema), "ts": made.written_ms}


async def get_version(call: Call) -> Json:
    return await _version(call, call.registry.version(call.subject, call.version, call.flag("deleted")))


async def get_version_text(call: Call) -> Json:
    found = call.registry.version(call.subject, call.version, call.flag("deleted"))
    return Raw(await call.registry.text(found.subject, found.schema, call.query.get("format", "")))


def get_referred_by(call: Call) -> Json:
    return call.page(call.registry.referred_by(call.subject, call.version, call.flag("deleted")))


async def get_latest_with_metadata(call: Call) -> Json:
    wanted = dict(zip(call.parameters.get("key", ()), call.parameters.get("value", ()), strict=False))
    for version in reversed(call.registry.versions(call.subject, call.flag("deleted"))):
        if wanted.items() <= properties(version.schema.metadata).items():
            return await _version(call, version)
    raise problems.NO_SUCH_SCHEMA()


async def delete_version(call: Call) -> Json:
    return await call.registry.delete_version(call.subject, call.version, call.flag("permanent"))


# -- schemas


async def get_schema(call: Call) -> Json:
    answer = await _schema(call, call.registry.schema(call.id, call.context), call.context)
    if call.flag("fetchMaxId"):
        answer["maxId"] = call.registry.state.highest_id(call.context)
    return answer


async def get_schema_text(call: Call) -> Json:
    return Raw(await _text(call, call.registry.schema(call.id, call.context), call.context))


def get_schema_subjects(call: Call) -> Json:
    return call.page(sorted({each.subject for each in _uses(call)}))


def get_schema_versions(call: Call) -> Json:
    return call.page([{"subject": each.subject, "version": each.version} for each in _uses(call)])


async def get_schema_of_guid(call: Call) -> Json:
    context, schema_id = _ids_of_guid(call)[0]
    return await _schema(call, call.registry.schema(schema_id, context), context)


def get_ids_of_guid(call: Call) -> Json:
    return [{"context": context, "id": schema_id} for context, schema_id in _ids_of_guid(call)]


def list_schema_types(call: Call) -> Json:
    return list(KINDS)


async def list_schemas(call: Call) -> Json:
    prefix, latest = call.query.get("subjectPrefix", subjects.ANY_CONTEXT), call.flag("latestOnly")
    state, found = call.registry.state, []
    for name in state.subjects():
        if subjects.has_prefix(name, prefix):
            versions = state.versions(name, call.flag("deleted"))
            found += versions[-1:] if latest else versions
    if rule_type := call.query.get("ruleType", ""):
        found = [each for each in found if has_rule_type(each.schema.rule_set, rule_type)]
    listed: list[Version] = call.page(found)
    if call.query.get("format", ""):
        return [await _version(call, each) for each in listed]
    return StreamedList(_version(call, each) for each in listed)


# -- compatibility, config, mode


async def test_compatibility(call: Call) -> Json:
    number = call.version if "version" in call.path else None
    verbose = call.flag("verbose")
    try:
        why_not = await call.registry.why_not(call.subject, call.schema, number, call.flag("normalize"))
    except RegistryError as refused:
        if not verbose or refused.code != problems.INVALID_SCHEMA("").code:
            raise
        why_not = [refused.message]
    return {"is_compatible": not why_not} | ({"messages": why_not} if verbose else {})


def get_config(call: Call) -> Json:
    return call.registry.settings.config(call.setting, call.flag("defaultToGlobal"))


async def set_config(call: Call) -> Json:
    await call.registry.settings.set_config(call.setting, read_config(call.body))
    return call.body


async def delete_config(call: Call) -> Json:
    return await call.registry.settings.delete_config(call.setting)


def get_mode(call: Call) -> Json:
    return {"mode": call.registry.settings.mode(call.setting, call.flag("defaultToGlobal"))}


async def set_mode(call: Call) -> Json:
    call.require_fields(frozenset({"mode"}))
    if not isinstance(call.body.get("mode"), str):
        raise problems.INVALID_MODE()
    await call.registry.settings.set_mode(call.setting, call.body["mode"], call.flag("force"))
    return {"mode": call.body["mode"].upper()}


async def delete_mode(call: Call) -> Json:
    return {"mode": await call.registry.settings.delete_mode(call.setting, call.flag("recursive"))}


# -- the registry itself


def list_contexts(call: Call) -> Json:
    prefix = call.query.get("contextPrefix", "")
    return call.page([each for each in call.registry.state.contexts() if each.startswith(prefix)])


def get_id(call: Call) -> Json:
    clusters = {"kafka-cluster": call.registry.topic.cluster_id, "schema-registry-cluster": "schema-registry"}
    return {"scope": {"path": [], "clusters": clusters}, "id": ""}


def get_version_of_registry(call: Call) -> Json:
    return {"version": __version__, "commitId": ""}


def get_deployment(call: Call) -> Json:
    return {"attributes": []}


def get_root(call: Call) -> Json:
    return {}


_OF_NO_SCHEMA = frozenset({list_schema_types, get_id, get_version_of_registry, get_deployment, get_root})


class Raw(str):
    """An answer with nothing but a schema's own text."""


class StreamedList(NamedTuple):
    """A long answer, a list that is made while it is sent: nobody waits for it, and it takes no memory."""

    elements: Iterator[Awaitable[Json]]

    async def pieces(self) -> AsyncIterator[bytes]:
        before = b"["
        for each in self.elements:
            yield before + _json(await each)
            before = b","
        yield b"[]" if before == b"[" else b"]"


async def _version(call: Call, found: Version) -> Json:
    names = {"subject": found.subject, "version": found.version, "id": found.id}
    text = await call.registry.text(found.subject, found.schema, call.query.get("format", ""))
    answer = names | {"guid": guid_of(found.schema)} | with_kind(found.schema, call.extended) | {"schema": text}
    if call.extended:
        return answer | {"ts": found.written_ms, "deleted": found.deleted}
    return answer | ({"deleted": True} if found.deleted else {})


async def _schema(call: Call, found: Schema, context: str) -> dict[str, Json]:
    """Return the answer for a schema by id."""
    text = await _text(call, found, context)
    return {"guid": guid_of(found)} | with_kind(found, call.extended) | {"schema": text}


def _ids_of_guid(call: Call) -> list[tuple[str, int]]:
    guid = call.path["guid"].lower()
    found = call.registry.state.ids_of_guid(guid)
    if not found:
        raise problems.NO_SCHEMA(guid)
    return found


def _uses(call: Call) -> list[Version]:
    subject, uses = call.of_id, call.registry.uses(call.id, call.context, call.flag("deleted"))
    return [each for each in uses if not subjects.split(subject)[1] or each.subject == subject]


async def _text(call: Call, schema: Schema, context: str) -> str:
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
    "/subjects/{subject}/metadata": {"GET": get_latest_with_metadata},
    "/schemas": {"GET": list_schemas},
    "/schemas/types": {"GET": list_schema_types},
    "/schemas/ids/{id}": {"GET": get_schema},
    "/schemas/ids/{id}/schema": {"GET": get_schema_text},
    "/schemas/ids/{id}/subjects": {"GET": get_schema_subjects},
    "/schemas/ids/{id}/versions": {"GET": get_schema_versions},
    "/schemas/guids/{guid}": {"GET": get_schema_of_guid},
    "/schemas/guids/{guid}/ids": {"GET": get_ids_of_guid},
    "/compatibility/subjects/{subject}/versions": {"POST": test_compatibility},
    "/compatibility/subjects/{subject}/versions/{version}": {"POST": test_compatibility},
    "/config": {"GET": get_config, "PUT": set_config, "DELETE": delete_config},
    "/config/{subject}": {"GET": get_config, "PUT": set_config, "DELETE": delete_config},
    "/mode": {"GET": get_mode, "PUT": set_mode, "DELETE": delete_mode},
    "/mode/{subject}": {"GET": get_mode, "PUT": set_mode, "DELETE": delete_mode},
    "/contexts": {"GET": list_contexts},
    "/v1/metadata/id": {"GET": get_id},
    "/v1/metadata/deployment": {"GET": get_deployment},
    "/v1/metadata/version": {"GET": get_version_of_registry},
}
_IN_CONTEXT = re.compile("/+contexts/([^/]+)(/.+)")  # before any other path, for clients of one context
_ROUTES = [
    (re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]*)", path.strip("/"))), methods) for path, methods in _PATHS.items()
]


def find(method: str, path: str) -> tuple[Handler, dict[str, str]]:
    """Return the handler of a path and the values for the words in braces. Raises RegistryError."""
    for pattern, methods in _ROUTES:
        if found := pattern.fullmatch(path.strip("/")):
            if method not in methods:
                raise RegistryError(405, "HTTP 405 Method Not Allowed")
            try:
                return methods[method], {
                    word: unquote(part, errors="strict") for word, part in found.groupdict().items()
                }
            except UnicodeDecodeError:
                raise RegistryError(400, "the path is not UTF-8") from None
    raise RegistryError(404, "HTTP 404 Not Found")


def _put_in_context(name: str, path: dict[str, str], parameters: dict[str, list[str]]) -> None:
    """Put the subjects of a request into a context: `ctx`, `.ctx` and `:.ctx:` are one."""
    context = f".{name.strip(':').removeprefix('.')}"
    path["subject"] = subjects.in_context(path.get("subject", ""), context)
    for word in ("subject", "subjectPrefix"):
        parameters[word] = [subjects.in_context(parameters.get(word, [""])[-1], context)]


# -- forwarding


HANDED_ON = "x-forward"  # Confluent's name
END_OFFSET = "x-pykafka-end-offset"
_TIMEOUT_S = 30.0
_TOLD = ("accept", "authorization", "confluent-accept-unknown-properties", "content-type")


async def forward_to_primary(registry: Registry, request: Request, refused: RegistryError) -> Response | None:
    """Pass a request on to the primary, which may know better, and return the answer.

    Changes are made by the primary, and what is missing here may exist there. When this returns, the changes of the
    primary are known here. Returns None if the primary can't be asked.
    """
    topic, changes = registry.topic, isinstance(refused, Elsewhere)
    leader = topic.other_leader if changes or refused.status == 404 else None
    if leader is None or HANDED_ON in request.headers:
        return None
    try:
        address = await topic.address_of(leader, patient=changes)
    except RegistryError:
        return None
    if address is None:
        return None
    try:
        response, end_offset = await asyncio.to_thread(_ask, address, request)
    except (OSError, http.client.HTTPException):
        return None
    if end_offset.isdecimal():
        await topic.reach(int(end_offset))
    return response


def _ask(address: tuple[str, int], request: Request) -> tuple[Response, str]:
    headers = {name: value for name, value in request.headers.items() if name in _TOLD} | {HANDED_ON: "true"}
    with closing(http.client.HTTPConnection(*address, timeout=_TIMEOUT_S)) as connection:
        connection.request(request.method, request.target, request.body or None, headers)
        response = connection.getresponse()
        content_type = response.headers.get("content-type", "")
        return Response(response.status, content_type, response.read()), response.headers.get(END_OFFSET, "")


# -- the door


log = logging.getLogger(__name__)

MAX_BODY_BYTES = 3 << 20  # JSON of very many small values takes the loop a quarter of a second
_OWN = "application/vnd.schemaregistry.v1+json"
_JSON = "application/json"
_EXTENDED = "confluent-accept-unknown-properties"
_TAKEN = frozenset({_OWN, "application/vnd.schemaregistry+json", _JSON, "application/octet-stream"})


class RegistryServer:
    """The registry's HTTP server. user: `name:password`, None for no login."""

    def __init__(self, registry: Registry, user: str | None) -> None:
        self.registry = registry
        self._user = user
        self.listener = HttpListener(self.serve, self.judge)

    async def serve(self, request: Request) -> Response:
        """Return the answer for a request admitted by `judge`. Never raises."""
        content_type = _wanted(request)
        try:
            try:
                answer = await self._answer(request)
            except RegistryError as refused:
                handed_on = await forward_to_primary(self.registry, request, refused)
                if handed_on is None:
                    raise
                return handed_on
            # the registry that has passed the request on reads the topic up to there
            told = ((END_OFFSET, str(self.registry.topic.end_offset)),) if HANDED_ON in request.headers else ()
            if isinstance(answer, StreamedList):
                return Response(200, content_type, answer.pieces(), told)
            body = answer.encode("utf-8", "backslashreplace") if isinstance(answer, Raw) else _json(answer)
            return Response(200, content_type, body, told)
        except RegistryError as refused:
            return _refusal(content_type, refused)
        except Exception:
            log.exception("a defect while serving %s %s", request.method, request.target)
            return Response(500, content_type, _json(RegistryError(500, "a defect of the registry").body()))

    async def _answer(self, request: Request) -> Any:
        try:
            target = urlsplit(request.target)
        except ValueError:
            raise RegistryError(400, "the address makes no sense") from None
        in_context = _IN_CONTEXT.fullmatch(target.path)
        handler, path = find(
            "GET" if request.method == "HEAD" else request.method, in_context[2] if in_context else target.path
        )
        if handler not in _OF_NO_SCHEMA:
            await self.registry.topic.read_on()
        parameters = parse_qs(target.query, keep_blank_values=True)
        if in_context:
            _put_in_context(unquote(in_context[1]), path, parameters)
        extended = request.headers.get(_EXTENDED, "").lower() == "true"
        answer = handler(Call(self.registry, path, parameters, _body(request), extended))
        return await answer if inspect.isawaitable(answer) else answer

    def judge(self, request: Request) -> Response | int:
        """Judge a request by the head: return a refusal, or the most bytes allowed for the body."""
        try:
            self._let_in(request)
        except RegistryError as refused:
            return _refusal(_wanted(request), refused)
        return MAX_BODY_BYTES

    def _let_in(self, request: Request) -> None:
        if self._user is None:
            why = why_not_of_this_machine(request.headers)
            if why is not None:
                raise RegistryError(403, f"{why}; give the registry a user")
            return
        scheme, _, told = request.headers.get("authorization", "").partition(" ")
        try:
            user = base64.b64decode(told.strip(), validate=True)
        except (binascii.Error, ValueError):
            user = b""
        if scheme.lower() != "basic" or not hmac.compare_digest(user, self._user.encode()):
            raise RegistryError(401, "Unauthorized")


def _refusal(content_type: str, refused: RegistryError) -> Response:
    headers = (("www-authenticate", "Basic"),) if refused.status == 401 else ()
    return Response(refused.status, content_type, _json(refused.body()), headers)


def _body(request: Request) -> Any:
    if request.method not in ("POST", "PUT"):
        return None
    content_type = request.headers.get("content-type", _OWN).partition(";")[0].strip().lower()
    if content_type not in _TAKEN:
        raise RegistryError(415, "HTTP 415 Unsupported Media Type")
    try:
        return read_json(request.body.decode())
    except (ValueError, RecursionError) as error:
        raise RegistryError(400, f"the body is not JSON: {error}") from None


def _wanted(request: Request) -> str:
    """Return the content type of the answer: the registry's own, unless the client accepts plain JSON only."""
    accepted = request.headers.get("accept", _OWN)
    return _JSON if _JSON in accepted and "vnd.schemaregistry" not in accepted else _OWN


def _json(answer: Any) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode()


# -- opening


class RegistryExtension(ProcessExtension):
    """The registry as a `server.serving.ProcessExtension`.

    Args:
        announce: called with the URL once the server listens.
        other: another extension, opened first.
    """

    def __init__(self, address: HttpAddress, announce: Callable[[str], None], other: ProcessExtension | None) -> None:
        super().__init__(other)
        self._address = address
        self._announce = announce
        self._door: RegistryServer | None = None
        self._greetings: set[asyncio.Task[None]] = set()

    async def open(self, running: Running) -> None:
        await super().open(running)
        topic = SchemasTopic(running)
        try:
            if topic.alone:  # a cluster makes the topic with the first schema, when all brokers run
                await topic.make()
        except RegistryError as refused:
            raise OSError(errno.EIO, f"schema registry: {refused.message}") from None
        with contextlib.suppress(RegistryError):  # the topic may not be readable yet, as each answer says
            await topic.read_on()
        door = self._door = RegistryServer(Registry(topic), self._address.secret)
        await door.listener.open(self._address, "schema registry")
        topic.port = urlsplit(door.listener.url).port or 0
        if not topic.alone:
            running.server.broker.node.subscribe(lambda delta: self._write_address(topic, running))
        if isinstance(self._other, ControlOpening) and self._other.control is not None:
            self._other.control.decode = Decoder(OwnSchemas(door.registry)).decode
            self._other.control.subjects = partial(_subjects, door.registry)
            self._other.control.schema_registry_url = door.listener.url
        self._announce(door.listener.url)

    def _write_address(self, topic: SchemasTopic, running: Running) -> None:
        if topic.other_leader is None:
            greeting = running.turns.loop.create_task(topic.write_address())
            self._greetings.add(greeting)
            greeting.add_done_callback(self._greetings.discard)

    async def close(self) -> None:
        for greeting in self._greetings:
            greeting.cancel()
        if self._door is not None:
            await self._door.listener.close()
        await super().close()


def _subjects(registry: Registry) -> list[SchemaSubject]:
    """Return the subjects that are not deleted; none while the topic can't be read."""
    try:
        state = registry.state
    except RegistryError:
        return []
    found: list[SchemaSubject] = []
    for subject in state.subjects():
        versions = state.versions(subject)
        if versions:
            latest = versions[-1]
            found.append(
                {
                    "subject": subject,
                    "versions": [each.version for each in versions],
                    "compatibility": registry.settings.level(subject),
                    "schema_id": latest.id,
                    "schema_type": latest.schema.kind,
                    "text": latest.schema.text,
                }
            )
    return found
