"""Who may come in, and from a request to an answer.

Rule: without a user only this machine may ask, and no page of a browser may. With a user, whoever has its password may.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import inspect
import json
import logging
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pykafka_broker.control.http import HttpListener, Request, Response, why_not_of_this_machine
from pykafka_broker.registry.api import Raw, find
from pykafka_broker.registry.call import Call
from pykafka_broker.registry.forwarding import hand_on, told_end
from pykafka_broker.registry.problems import Refused
from pykafka_broker.registry.registry import Registry

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 8 << 20
_OWN = "application/vnd.schemaregistry.v1+json"
_JSON = "application/json"
_EXTENDED = "confluent-accept-unknown-properties"
_TAKEN = frozenset({_OWN, "application/vnd.schemaregistry+json", _JSON, "application/octet-stream"})


class RegistryDoor:
    """The registry on one address. `user` is `name:password`, None where none is asked for."""

    def __init__(self, registry: Registry, user: str | None) -> None:
        self.registry = registry
        self._user = user
        self._listener = HttpListener(self.serve, self.judge)

    @property
    def url(self) -> str:
        return self._listener.url

    async def open(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one. Raises OSError."""
        await self._listener.open(host, port)

    async def close(self) -> None:
        """Answer nobody any more."""
        await self._listener.close()

    async def serve(self, request: Request) -> Response:
        """The answer to a request that `judge` has let in. Never raises."""
        content_type = _wanted(request)
        try:
            try:
                answer = await self._answer(request)
            except Refused as refused:
                handed_on = await hand_on(self.registry, request, refused)
                if handed_on is None:
                    raise
                return handed_on
            return _response(content_type, answer, told_end(self.registry, request))
        except Refused as refused:
            return _refusal(content_type, refused)
        except Exception:
            log.exception("a defect while serving %s %s", request.method, request.target)
            return Response(500, content_type, _json(Refused(500, "a defect of the registry").body()))

    async def _answer(self, request: Request) -> Any:
        try:
            target = urlsplit(request.target)
        except ValueError:
            raise Refused(400, "the address makes no sense") from None
        handler, path = find("GET" if request.method == "HEAD" else request.method, target.path)
        parameters = parse_qs(target.query, keep_blank_values=True)
        extended = request.headers.get(_EXTENDED, "").lower() == "true"
        answer = handler(Call(self.registry, path, parameters, _body(request), extended))
        return await answer if inspect.isawaitable(answer) else answer

    def judge(self, request: Request) -> Response | int:
        """Return the refusal of a request by its head, or how many bytes its body may have."""
        try:
            self._let_in(request)
        except Refused as refused:
            return _refusal(_wanted(request), refused)
        return MAX_BODY_BYTES

    def _let_in(self, request: Request) -> None:
        if self._user is None:
            why = why_not_of_this_machine(request.headers)
            if why is not None:
                raise Refused(403, f"{why}; give the registry a user")
            return
        scheme, _, told = request.headers.get("authorization", "").partition(" ")
        try:
            user = base64.b64decode(told.strip(), validate=True)
        except (binascii.Error, ValueError):
            user = b""
        if scheme.lower() != "basic" or not hmac.compare_digest(user, self._user.encode()):
            raise Refused(401, "Unauthorized")


def _refusal(content_type: str, refused: Refused) -> Response:
    headers = (("www-authenticate", "Basic"),) if refused.status == 401 else ()
    return Response(refused.status, content_type, _json(refused.body()), headers)


def _body(request: Request) -> Any:
    if request.method not in ("POST", "PUT"):
        return None
    content_type = request.headers.get("content-type", _OWN).partition(";")[0].strip().lower()
    if content_type not in _TAKEN:
        raise Refused(415, "HTTP 415 Unsupported Media Type")
    try:
        return json.loads(request.body.decode())
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from None


def _wanted(request: Request) -> str:
    """The registry's own content type, unless only plain JSON is wanted."""
    accepted = request.headers.get("accept", _OWN)
    return _JSON if _JSON in accepted and "vnd.schemaregistry" not in accepted else _OWN


def _response(content_type: str, answer: Any, headers: tuple[tuple[str, str], ...]) -> Response:
    body = answer.encode("utf-8", "backslashreplace") if isinstance(answer, Raw) else _json(answer)
    return Response(200, content_type, body, headers)


def _json(answer: Any) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode()
