"""The control APIs of a cluster's other nodes, for the page: a browser that has come to one node asks all through it.

Rule: what is asked below `/page/nodes/ID/` is handed on to that node as it came, with the token that came with it, and
the answer comes back as it is. No operation has the paths: they are the page's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import h11

from pykafka_broker.control.http import Request, Response, ask
from pykafka_broker.control.problems import Problem

NODES = "/page/nodes"
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
    """Return the answer of another control API. Raises OSError, TimeoutError and h11's errors."""
    headers = {name: request.headers[name] for name in _HANDED_ON if name in request.headers}
    return Response(*await ask(address, request._replace(headers=headers), _SILENCE_S, _MOST_BYTES))
