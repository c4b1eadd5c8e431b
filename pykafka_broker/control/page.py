"""The files of the web page.

Rule: what is served is one of the files of `bundle/`, found by its name and never by a path, so that no path leads out
of there. They hold nothing secret: whoever has the page still has to be let in by the operations that it asks.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from pykafka_broker.control.http import Request, Response

ENTRY = "index.html"
_FOLDER = "/page/"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# Nothing from elsewhere, nothing inline, in nobody's frame: what a record says can't become a program.
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
    content: bytes
    content_type: str
    tag: str  # its ETag


@cache
def page_files() -> dict[str, PageFile]:
    """All of them, by name."""
    found = {}
    for each in (files("pykafka_broker.control") / "bundle").iterdir():
        content_type = _TYPES.get(each.name.rpartition(".")[2])
        if content_type is not None:
            content = each.read_bytes()
            found[each.name] = PageFile(content, content_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found


def is_page(path: str) -> bool:
    """Whether that path is for the page, and not for an operation."""
    return path == "/" or path.startswith(_FOLDER)


def page_response(request: Request, path: str) -> Response | None:
    """The answer to a GET or HEAD of a path of the page; None if there is no such file."""
    name = ENTRY if path == "/" else path.removeprefix(_FOLDER)
    file = page_files().get(name)
    if file is None:
        return None
    headers = (("etag", file.tag), *_GUARDS)
    tags = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    if file.tag in tags:
        return Response(304, file.content_type, b"", headers)
    return Response(200, file.content_type, file.content, headers)
