"""Requests that the registry beside another broker of the cluster is to answer.

Rule: what was handed on is not handed on again. It is asked with the credentials of who asks: no node trusts another.
"""

from __future__ import annotations

import asyncio
import http.client
from contextlib import closing

from pykafka_broker.control.http import Request, Response
from pykafka_broker.registry.problems import Elsewhere, Refused
from pykafka_broker.registry.registry import Registry

HANDED_ON = "x-forward"  # Confluent's name for it
END_OFFSET = "x-pykafka-end-offset"
_TIMEOUT_S = 30.0
_TOLD = ("accept", "authorization", "confluent-accept-unknown-properties", "content-type")


async def hand_on(registry: Registry, request: Request, refused: Refused) -> Response | None:
    """The answer of the primary, which may know better: who changes something has to ask it, and what is not there yet
    may be there. What it has changed is known here then. None where it can't be asked."""
    topic, changes = registry.topic, isinstance(refused, Elsewhere)
    leader = topic.other_leader if changes or refused.status == 404 else None
    if leader is None or HANDED_ON in request.headers:
        return None
    try:
        place = await topic.place_of(leader, patient=changes)
    except Refused:
        return None
    if place is None:
        return None
    try:
        response, end_offset = await asyncio.to_thread(_ask, place, request)
    except (OSError, http.client.HTTPException):
        return None
    if end_offset.isdigit():
        await topic.reach(int(end_offset))
    return response


def told_end(registry: Registry, request: Request) -> tuple[tuple[str, str], ...]:
    """For who hands on a request: how far the topic has to be read to know what it has changed."""
    return ((END_OFFSET, str(registry.topic.end_offset)),) if HANDED_ON in request.headers else ()


def _ask(place: tuple[str, int], request: Request) -> tuple[Response, str]:
    headers = {name: value for name, value in request.headers.items() if name in _TOLD} | {HANDED_ON: "true"}
    with closing(http.client.HTTPConnection(*place, timeout=_TIMEOUT_S)) as connection:
        connection.request(request.method, request.target, request.body or None, headers)
        response = connection.getresponse()
        content_type = response.headers.get("content-type", "")
        return Response(response.status, content_type, response.read()), response.headers.get(END_OFFSET, "")
