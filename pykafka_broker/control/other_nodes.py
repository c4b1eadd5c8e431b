"""The control APIs of a cluster's other nodes, for the page: a browser that has come to one node asks all through it.

Rule: what is asked below `/page/nodes/ID/` is handed on to that node as it came, with the token that came with it, and
the answer comes back as it is. No operation has the paths: they are the page's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Mapping

import h11

from pykafka_broker.addresses import address_text
from pykafka_broker.control.http import Request, Response
from pykafka_broker.control.problems import Problem

NODES = "/page/nodes"
_READ_BYTES = 256 << 10
_SILENCE_S = 5.0  # after which a node counts as one that does not answer
_HANDED_ON = ("authorization", "content-type")
_MOST_BYTES = 256 << 20  # of an answer


def is_nodes(path: str) -> bool:
    """Return whether a path is for this module."""
    return path == NODES or path.startswith(f"{NODES}/")


class OtherNodes:
    """The addresses of other nodes' control APIs, by node id."""

    def __init__(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        self._addresses = dict(addresses)

    async def serve(self, own_id: int, request: Request) -> Response:
        """Return the list of nodes, the own one first, or another node's answer. Raises `Problem`."""
        if request.target == NODES:
            ids = [own_id, *sorted(self._addresses.keys() - {own_id})]
            return Response(200, "application/json", json.dumps(ids).encode())
        name, _, rest = request.target.removeprefix(f"{NODES}/").partition("/")
        address = self._addresses.get(int(name)) if re.fullmatch("[0-9]{1,10}", name) else None
        if address is None:
            raise Problem(404, f"no control API of a node {name} is known; --control-nodes names them")
        if is_nodes(f"/{rest}"):
            raise Problem(404, f"node {name} is not asked for another node: ask for that one here")
        try:
            return await hand_on(address, request._replace(target=f"/{rest}"))
        except (OSError, UnicodeError, TimeoutError, h11.RemoteProtocolError):
            raise Problem(502, f"node {name} does not answer") from None


async def hand_on(address: tuple[str, int], request: Request) -> Response:
    """Return the answer of another control API, on a connection of its own. Raises OSError, TimeoutError and h11's
    errors.
    """
    host, port = address
    async with asyncio.timeout(_SILENCE_S):
        reader, writer = await asyncio.open_connection(host, port)
    try:
        protocol = h11.Connection(h11.CLIENT)
        own = {
            "host": address_text(host, port),
            "connection": "close",
            "content-length": str(len(request.body)),
        }
        given = own | {name: request.headers[name] for name in _HANDED_ON if name in request.headers}
        headers = [
            (name.encode(), value.encode("latin-1")) for name, value in given.items()
        ]  # as HttpConnection has read them
        asked = h11.Request(method=request.method, target=request.target, headers=headers)
        writer.write(protocol.send(asked) or b"")
        writer.write((protocol.send(h11.Data(data=request.body)) or b"") + (protocol.send(h11.EndOfMessage()) or b""))
        async with asyncio.timeout(_SILENCE_S):
            await writer.drain()
        status, content_type, body = 502, "", bytearray()
        while not isinstance(event := protocol.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:  # paused: it speaks HTTP no longer
                raise OSError("no answer will come")
            if event is h11.NEED_DATA:
                async with asyncio.timeout(_SILENCE_S):
                    protocol.receive_data(await reader.read(_READ_BYTES))
            elif isinstance(event, h11.Response):
                told = dict(event.headers)
                status, content_type = event.status_code, told.get(b"content-type", b"").decode("latin-1")
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > _MOST_BYTES:
                    raise OSError("an answer without end")
        return Response(status, content_type, bytes(body))
    finally:
        writer.transport.abort()  # a node that reads nothing would keep the connection open
        with contextlib.suppress(OSError):
            await writer.wait_closed()
