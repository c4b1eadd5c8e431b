"""Answers that tell their client how long it has to wait.

Rule: every answer that has the field says it, also one that was made before or is bytes already.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply
from pykafka_broker.broker.requests.router import Endpoint, Pieces
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import EncodeError

_FIELD = Struct(">i")
_UNLIKELY = b"\x7f\x12\x34\x56"


def throttled(endpoint: Endpoint, context: RequestContext, reply: Any, pieces: Pieces, throttle_ms: int) -> Pieces:
    """The answer with its throttle time; `pieces` is how `reply` was written without it."""
    throttle_ms = min(throttle_ms, 0x7FFFFFFF)
    if hasattr(reply, "throttle_time_ms"):
        reply.throttle_time_ms = throttle_ms
        try:
            return endpoint.encode(context, reply)
        finally:
            reply.throttle_time_ms = 0  # whoever gave it may give it again
    if isinstance(reply, EncodedReply) and context.api_key == ApiKey.API_VERSIONS:  # where it stands behind a list
        return _decoded_and_told(endpoint, context, reply, throttle_ms)
    return _patched(endpoint, context, pieces, throttle_ms)


def _decoded_and_told(endpoint: Endpoint, context: RequestContext, reply: EncodedReply, throttle_ms: int) -> Pieces:
    response, _ = endpoint.response_type.read(reply.body, 0, context.api_version)
    return throttled(endpoint, context, response, [], throttle_ms)


def _patched(endpoint: Endpoint, context: RequestContext, pieces: Pieces, throttle_ms: int) -> Pieces:
    """Long answers that were written in parts: in most, the field is the first; in that to Produce the last."""
    at = _place(endpoint.response_type, context.api_version)
    if at is None or len(pieces) == 1:
        return pieces
    number = 1 if at >= 0 else len(pieces) - 1  # the first one is the header
    piece = bytearray(pieces[number])
    start = at if at >= 0 else len(piece) + at
    if start >= 0 and piece[start : start + 4] == bytes(4):
        _FIELD.pack_into(piece, start, throttle_ms)
        pieces[number] = piece
    return pieces


def _place(response_type: Any, version: int) -> int | None:
    """Where the field stands in an answer of that version: from its beginning, or from its end if negative."""
    response = response_type()
    if not hasattr(response, "throttle_time_ms"):
        return None
    (response.throttle_time_ms,) = _FIELD.unpack(_UNLIKELY)
    try:
        written: bytes = response.encode(version)
    except EncodeError:
        return None
    at = written.find(_UNLIKELY)
    if at < 0:
        return None
    return at - len(written) if response_type.API_KEY == ApiKey.PRODUCE else at
