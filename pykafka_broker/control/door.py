"""The HTTP server of the control API: access, the way from a request to an operation, the files of the web page.

Rule: without a token the API serves requests from this machine alone, and of the pages in a browser only the broker's
own page. A request from a page of another origin, or for a host name of another machine, is refused. With a token,
every client with the token is served.

The files of the page are served to every client that reaches the door: the files hold no secret, and the operations
behind the page are checked like all others. A file is found by its name in `bundle/` and never by a path, so no path
leads out of the folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pykafka_broker.control.control import Control, Decode, in_pauses
from pykafka_broker.control.http import (
    HttpAddress,
    HttpListener,
    Request,
    Response,
    why_another_name,
    why_not_of_this_machine,
)
from pykafka_broker.control.moving_time import MovableClock
from pykafka_broker.control.operations import JSON_LINES, Lines, Operation, Text, find
from pykafka_broker.control.other_nodes import OtherNodes, is_nodes
from pykafka_broker.control.problems import Problem, problem_of
from pykafka_broker.control.schema import LONG_TEXT, read_json, write
from pykafka_broker.control.state import DataDirLease
from pykafka_broker.errors import ApiError
from pykafka_broker.log.jobs import Submit
from pykafka_broker.server.serving import BrokerShare, ProcessExtension, Running

log = logging.getLogger(__name__)

# -- the files of the page


ENTRY = "index.html"
_FOLDER = "/page/"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# No foreign content, nothing inline, in no frame: the content of a record can't become a program.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types"
)
_GUARDS = (
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-cache"),
)


class PageFile(NamedTuple):
    """A file of the page. tag: its ETag."""

    content: bytes
    content_type: str
    tag: str


@cache
def page_files() -> dict[str, PageFile]:
    found = {}
    for each in (files("pykafka_broker.control") / "bundle").iterdir():
        content_type = _TYPES.get(each.name.rpartition(".")[2])
        if content_type is not None:
            content = each.read_bytes()
            found[each.name] = PageFile(content, content_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found


def is_page(path: str) -> bool:
    """Return whether a path belongs to the page, and not to an operation."""
    return path == "/" or path.startswith(_FOLDER)


def page_response(request: Request, path: str) -> Response | None:
    """Return the answer to a GET or HEAD of a path of the page; None if the page has no such file."""
    name = ENTRY if path == "/" else path.removeprefix(_FOLDER)
    file = page_files().get(name)
    if file is None:
        return None
    headers = (("etag", file.tag), *_GUARDS)
    tags = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    if file.tag in tags:
        return Response(304, file.content_type, b"", headers)
    return Response(200, file.content_type, file.content, headers)


# -- the operations


MAX_BODY_BYTES = 256 << 20
_PAGE_BODY_BYTES = 64 << 10  # a page takes no body; a longer one is refused
_JSON = "application/json"
_PROBLEM = "application/problem+json"
_PIECE_CHARACTERS = 64 << 10
_ITEMS_AT_ONCE = 100  # of a list, written before others are served
_CHANGES_NOTHING = ("/waits", "/assertions", "/recording", "/fork")  # no GET, and yet not repeated when played


class ControlDoor:
    """The control API of a broker.

    offered: the names of its operations; None for all. nodes: where the other nodes of its cluster have theirs.
    """

    def __init__(
        self,
        control: Control,
        address: HttpAddress,
        offered: frozenset[str] | None = None,
        nodes: OtherNodes | None = None,
    ) -> None:
        self._control = control
        self._nodes = nodes or OtherNodes({})
        self._address = address
        self._token = address.secret
        self._offered = offered
        self._listener = HttpListener(self.serve, self.judge)

    @property
    def url(self) -> str:
        return self._listener.url

    async def open(self) -> None:
        """Listen; port 0 takes a free port, shown in `url`. Raises OSError."""
        await self._listener.open(self._address, "control")

    async def close(self) -> None:
        await self._listener.close()

    # -- one request

    async def serve(self, request: Request) -> Response:
        """Return the answer to a request admitted by `judge`. Never raises."""
        try:
            target = _target(request)
            method = "GET" if request.method == "HEAD" else request.method
            if self._offered is None and is_nodes(target.path):
                return await self._nodes.serve(self._control.services.node_id, request)
            if self._offered is None and is_page(target.path):
                return self._page(request, method, target.path)
            operation, path = find(method, target.path)
            if self._offered is not None and operation.name not in self._offered:
                raise Problem(404, f"a proxy has no operation {operation.method} {operation.path}; a broker has it")
            query = _query(target.query)

            def read() -> dict[str, Any]:
                return operation.arguments(path, query, _body(operation, request))

            given = await asyncio.to_thread(read) if len(request.body) > LONG_TEXT else read()
            self._record(operation, request)
            return await _response(await self._call(operation, given))
        except Problem as problem:
            return _problem(problem)
        except ApiError as error:
            return _problem(problem_of(error))
        except RecursionError:
            return _problem(Problem(400, "a value is nested too deeply"))
        except Exception:
            log.exception("a defect while serving %s %s", request.method, request.target)
            return _problem(Problem(500, "a defect of the broker; its log says more"))

    def _page(self, request: Request, method: str, path: str) -> Response:
        if self._token is None:
            why = why_another_name(request.headers)
            if why is not None:
                raise Problem(403, f"{why}; give the broker a control token")
        response = page_response(request, path)
        if response is None:
            raise Problem(404, "the page has no such file")
        if method != "GET":
            raise Problem(405, f"{path} has GET, not {method}", more={"allowed": "GET"})
        return response

    async def _call(self, operation: Operation, given: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(operation.function):
            return await operation.function(self._control, **given)
        return self._control.in_turn(lambda: operation.function(self._control, **given))

    def _record(self, operation: Operation, request: Request) -> None:
        """Note a call that changes something in the recording, where there is one."""
        recorder = self._control.observing.log.recorder
        if recorder is not None and operation.method != "GET" and not operation.path.startswith(_CHANGES_NOTHING):
            recorder.add_call(operation.method, request.target, _decoded(request.body))

    def judge(self, request: Request) -> Response | int:
        """Judge a request by its head: return the refusal, or the largest size of the body in bytes."""
        try:
            path = _target(request).path
            if self._offered is None and is_page(path) and not is_nodes(path):
                return _PAGE_BODY_BYTES
            self._check_access(request)
        except Problem as problem:
            return _problem(problem)
        return MAX_BODY_BYTES

    def _check_access(self, request: Request) -> None:
        """Raise `Problem` for a request without the token, or without a token for one of another machine or page."""
        headers = request.headers
        if self._token is not None:
            scheme, _, token = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self._token.encode()):
                raise Problem(401, "the header Authorization must be: Bearer, and the control token")
            return
        why = why_not_of_this_machine(headers)
        if why is not None:
            raise Problem(403, f"{why}; give the broker a control token")


def _target(request: Request) -> SplitResult:
    try:
        return urlsplit(request.target)
    except ValueError as error:
        raise Problem(400, f"the target is no address: {error}") from None


def _query(text: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict")
    except ValueError as error:
        raise Problem(400, f"the query does not decode: {error}") from None
    query = dict(pairs)
    if len(query) != len(pairs):
        raise Problem(400, "the query has a parameter twice")
    return query


def _body(operation: Operation, request: Request) -> Any:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if operation.text_parameter is not None:
        return Text(content_type, _decoded(request.body))
    if not request.body:
        return {}
    if not operation.takes_json:
        raise Problem(400, f"{operation.method} {operation.path} takes no body")
    if content_type != _JSON:
        raise Problem(415, f"the content type must be {_JSON}")
    try:
        return read_json(_decoded(request.body))
    except (ValueError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {error}") from None


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, f"the body is not UTF-8: {error}") from None


async def _response(answer: Any) -> Response:
    if isinstance(answer, Lines):
        pieces = _pieces(answer.lines)
        first = await anext(pieces)  # a refusal comes before the head of the answer
        return Response(200, JSON_LINES, _with_rest(first, pieces))
    if isinstance(answer, Text):
        return Response(200, answer.content_type, answer.text.encode())
    if isinstance(answer, list):
        items = [_json(write(each)) async for each in in_pauses(answer, _ITEMS_AT_ONCE)]
        return Response(200, _JSON, b"[" + b",".join(items) + b"]")
    return Response(200, _JSON, _json(write(answer)))


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # a path that is not UTF-8
        return json.dumps(value).encode()


async def _with_rest(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of an answer whose head is sent. A refusal then can only end the connection, and is logged.

    Raises ConnectionAbortedError for a refusal.
    """
    yield first
    try:
        async for piece in rest:
            yield piece
    except (Problem, ApiError) as error:
        log.warning("an answer ends in the middle: %s", error)
        raise ConnectionAbortedError(str(error)) from error


async def _pieces(lines: AsyncIterator[str]) -> AsyncIterator[bytes]:
    """Yield pieces of many lines each."""
    gathered: list[str] = []
    size = 0
    async for line in lines:
        gathered.append(line + "\n")
        size += len(line)
        if size >= _PIECE_CHARACTERS:
            yield "".join(gathered).encode()
            gathered, size = [], 0
    yield "".join(gathered).encode()


def _problem(problem: Problem) -> Response:
    headers = (("allow", str(problem.more["allowed"])),) if problem.status == 405 else ()
    if problem.status == 401:
        headers = (("www-authenticate", "Bearer"),)
    return Response(problem.status, _PROBLEM, json.dumps(problem.body()).encode(), headers)


# -- beside the listeners of the process


class ControlExtension(ProcessExtension):
    """The control API as an extension of the process.

    `announce` is told the URL once the API is open; `decode` reads values that have a schema; `history` is the file of
    a history; without `syncs` the data end with the process; `nodes` are the addresses of other nodes' control APIs;
    with `records` everything is recorded that comes to the process.
    """

    def __init__(
        self,
        address: HttpAddress,
        announce: Callable[[str], None],
        decode: Decode | None = None,
        history: str | None = None,
        *,
        syncs: bool = True,
        nodes: Mapping[int, tuple[str, int]] | None = None,
        records: bool = False,
    ) -> None:
        super().__init__()
        self._history = history
        self._records = records
        self._syncs = syncs
        self._nodes = OtherNodes(nodes or {})
        self._address = address
        self._announce = announce
        self._decode = decode
        self._door: ControlDoor | None = None
        self.control: Control | None = None  # once clients are let in
        self._clock = MovableClock()
        self._lease: DataDirLease

    def new_clock(self) -> MovableClock:
        return self._clock

    def share(self, submit: Submit) -> BrokerShare:
        self._lease = DataDirLease(submit, syncs=self._syncs)
        return self._lease.share

    def attend(self, running: Running) -> None:
        self.control = Control(running, self._clock, self._lease)
        self.control.decode = self._decode
        if self._history is not None:
            self.control.histories.start(self._history, whole=not self.control.services.image.topics)
        if self._records:
            from pykafka_broker.control.api.recording import record_process  # few processes are recorded

            record_process(self.control)

    async def open(self, running: Running) -> None:
        if self.control is None:  # no client was let in: the process is to end
            return
        self._door = ControlDoor(self.control, self._address, nodes=self._nodes)
        await self._door.open()
        self._announce(self._door.url)

    async def close(self) -> None:
        if self._door is not None:
            await self._door.close()
