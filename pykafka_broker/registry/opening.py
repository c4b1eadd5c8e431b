"""The registry's HTTP address, beside the listeners of a broker; requests for the registry of another broker.

Rule: without a user only this machine may ask, and no page of a browser may; with a user, whoever has its password. A
request is passed on to another broker's registry at most once, with the credentials of the client: no node trusts
another.
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
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from pykafka_broker.control.door import ControlExtension as ControlOpening
from pykafka_broker.control.http import HttpAddress, HttpListener, Request, Response, why_not_of_this_machine
from pykafka_broker.control.schema import read_json
from pykafka_broker.registry.api import Call, Raw, find
from pykafka_broker.registry.decoding import Decoder, OwnSchemas
from pykafka_broker.registry.problems import Elsewhere, RegistryError
from pykafka_broker.registry.registry import Registry
from pykafka_broker.registry.topic import SchemasTopic
from pykafka_broker.server.serving import ProcessExtension, Running

if TYPE_CHECKING:
    from pykafka_broker.control.control import SchemaSubject

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
        place = await topic.address_of(leader, patient=changes)
    except RegistryError:
        return None
    if place is None:
        return None
    try:
        response, end_offset = await asyncio.to_thread(_ask, place, request)
    except (OSError, http.client.HTTPException):
        return None
    if end_offset.isdecimal():
        await topic.reach(int(end_offset))
    return response


def _ask(place: tuple[str, int], request: Request) -> tuple[Response, str]:
    headers = {name: value for name, value in request.headers.items() if name in _TOLD} | {HANDED_ON: "true"}
    with closing(http.client.HTTPConnection(*place, timeout=_TIMEOUT_S)) as connection:
        connection.request(request.method, request.target, request.body or None, headers)
        response = connection.getresponse()
        content_type = response.headers.get("content-type", "")
        return Response(response.status, content_type, response.read()), response.headers.get(END_OFFSET, "")


# -- the door


log = logging.getLogger(__name__)

MAX_BODY_BYTES = 8 << 20
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
        handler, path = find("GET" if request.method == "HEAD" else request.method, target.path)
        parameters = parse_qs(target.query, keep_blank_values=True)
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
            topic.state()
        door = self._door = RegistryServer(Registry(topic), self._address.secret)
        await door.listener.open(self._address, "schema registry")
        topic.port = urlsplit(door.listener.url).port or 0
        if not topic.alone:
            running.server.broker.node.subscribe(lambda delta: self._write_address(topic, running))
        if isinstance(self._other, ControlOpening) and self._other.control is not None:
            self._other.control.decode = Decoder(OwnSchemas(door.registry)).decode
            self._other.control.subjects = partial(_subjects, door.registry)
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
