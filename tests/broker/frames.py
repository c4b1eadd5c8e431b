"""Requests as frames of a connection, and the bytes and fields of answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.runtime import Message

CORRELATION_ID = 7


def framed(
    request: Message, version: int, client_id: str | None = None, correlation_id: int = CORRELATION_ID
) -> memoryview:
    """Return the request as it comes from a client, without its length."""
    return frame_of(request.API_KEY, version, request.encode(version), client_id, correlation_id)


def frame_of(
    api_key: int, version: int, body: bytes, client_id: str | None = None, correlation_id: int = CORRELATION_ID
) -> memoryview:
    """Return the frame of a request with this body."""
    header = RequestHeader(api_key, version, correlation_id, client_id)
    return memoryview(bytearray(header.encode(SPECS[api_key].request_header_version(version)) + body))


def joined(pieces: Sequence[Any]) -> bytes:
    """Return the bytes of an answer, in which records may still be in their file."""
    return b"".join(piece.read() if hasattr(piece, "read") else bytes(piece) for piece in pieces)


def body_of(pieces: Sequence[Any], api_key: int, version: int) -> bytes:
    """Return the body of an answer, whose length and correlation id have to be right."""
    answer = joined(pieces)
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    assert int.from_bytes(answer[4:8], "big") == CORRELATION_ID
    return answer[8 + SPECS[api_key].response_header_version(version) :]


def decoded(pieces: Sequence[Any], api_key: int, version: int) -> Any:
    """Return the answer to a request of that kind."""
    return SPECS[api_key].response_class().decode(body_of(pieces, api_key, version), version)
