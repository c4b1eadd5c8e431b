"""Small documents behind URLs, read now and then, from a file or over HTTP.

Rule: the first reading blocks, since no client is served yet; a later one over HTTP is done by a thread of its own, one
at a time, and the loop is told of its end. A failed reading leaves the content as it was.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pykafka_broker.server.event_loop import EventLoop

log = logging.getLogger(__name__)

_SCHEMES = ("file", "http", "https")
_TIMEOUT_S = 10
_MOST_BYTES = 1 << 20


class UrlDocument:
    """A document behind a URL (see `security.sasl.mechanism.RemoteDocument`)."""

    def __init__(self, url: str, turns: EventLoop) -> None:
        self.content = b""
        self.error = ""
        self.failures = 0
        self.read_at = turns.clock.now
        self._url = url
        self._turns = turns
        self._reading = False
        self._done(*fetched(url))

    def read(self) -> None:
        if _scheme(self._url) == "file":
            self._done(*fetched(self._url))
        elif not self._reading:
            self._reading = True
            threading.Thread(target=self._read_beside, daemon=True, name="document").start()

    def _read_beside(self) -> None:
        content, error = fetched(self._url)
        try:
            self._turns.loop.call_soon_threadsafe(self._done, content, error)
        except RuntimeError:
            log.debug("the loop has ended before %s was read", _shown(self._url))

    def _done(self, content: bytes, error: str) -> None:
        self._reading = False
        self.read_at = self._turns.clock.now
        self.error = error
        self.failures = self.failures + 1 if error else 0
        if error and self.content:  # the first failure is told by the caller
            log.warning("%s can't be read: %s", _shown(self._url), error)
        elif content != self.content:
            self.content = content


class Documents:
    """The documents of a server, by URL."""

    def __init__(self, turns: EventLoop) -> None:
        self._turns = turns
        self._known: dict[str, UrlDocument] = {}

    def document(self, url: str) -> UrlDocument:
        """Return the document of a URL, read at the first call."""
        if url not in self._known:
            self._known[url] = UrlDocument(url, self._turns)
        return self._known[url]


def _shown(url: str) -> str:
    """Return the URL without parts for passwords."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""


def fetched(url: str, headers: Mapping[str, str] = {}, body: bytes | None = None) -> tuple[bytes, str]:
    """Return the content at a URL, or the answer to `body`, and the error or an empty text. Waits for the network."""
    from http.client import HTTPException  # most listeners read nothing
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class _Redirects(HTTPRedirectHandler):
        def redirect_request(self, *args: Any) -> Request | None:  # the body may hold a secret, for this server alone
            return None if body is not None else super().redirect_request(*args)

    try:
        if _scheme(url) not in _SCHEMES:
            return b"", f"its URL must begin with one of {', '.join(_SCHEMES)}"
        request = Request(url, body, dict(headers))
        with build_opener(_Redirects).open(request, timeout=_TIMEOUT_S) as answer:
            content: bytes = answer.read(_MOST_BYTES + 1)
    except OSError as error:
        return b"", str(error)
    except (HTTPException, ValueError) as error:  # their texts have parts of the URL
        return b"", type(error).__name__
    return (content, "") if len(content) <= _MOST_BYTES else (b"", f"it has more than {_MOST_BYTES} bytes")
