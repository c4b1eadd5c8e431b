"""An address on which HTTP is spoken.

Rule: it takes a bounded number of clients, and those it has end with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

from pykafka_broker.control.http import HttpConnection, Judge, Serve

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_OWN_SITES = frozenset({"same-origin", "none"})  # "none": typed in by the user
_MOST_CONNECTIONS = 256


class HttpListener:
    """`serve` answers the requests of all its clients that `judge` lets in."""

    def __init__(self, serve: Serve, judge: Judge) -> None:
        self._serve = serve
        self._judge = judge
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self.url = ""

    async def open(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one, and `url` says which. Raises OSError."""
        self._server = await asyncio.start_server(self._on_client, host, port)
        bound = self._server.sockets[0].getsockname()
        self.url = f"http://[{host}]:{bound[1]}" if ":" in host else f"http://{host}:{bound[1]}"

    async def close(self) -> None:
        """Answer nobody any more."""
        if self._server is not None:
            self._server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= _MOST_CONNECTIONS:
            writer.close()
            return
        client = asyncio.ensure_future(HttpConnection(reader, writer, self._serve, self._judge).run())
        self._clients.add(client)
        client.add_done_callback(self._clients.discard)


def why_another_name(headers: Mapping[str, str]) -> str | None:
    """Why a request is not for this machine: it is for a name that may have been made to lead here (DNS rebinding)."""
    try:
        host = urlsplit(f"//{headers.get('host', '')}").hostname
    except ValueError:
        host = None
    return None if host in LOOPBACK else f"{host} is not a name of this machine"


def why_not_of_this_machine(headers: Mapping[str, str]) -> str | None:
    """Why a request can't be let in without a secret: it is for another name, or another site's page has sent it."""
    if why := why_another_name(headers):
        return why
    own = f"http://{headers.get('host', '')}"
    if headers.get("origin", own) != own or headers.get("sec-fetch-site", "none") not in _OWN_SITES:
        return "no page of another site may ask"
    return None
