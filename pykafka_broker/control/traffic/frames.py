"""Frames of requests and responses, without their length prefixes, as messages.

Rule: what does not decode is None, never an error: it is somebody else's traffic that is looked at.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Any

from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.messages.response_header import ResponseHeader
from pykafka_broker.protocol.runtime import DecodeError, EncodeError, Message, Pieces
from pykafka_broker.protocol.specs import ApiSpec

_SIZE_AND_CORRELATION = Struct(">ii")
_VERSION = Struct(">h")


def decoded_request(frame: bytes | memoryview, spec: ApiSpec) -> Any:
    """The body of a request; None if it does not decode."""
    try:
        version: int = _VERSION.unpack_from(frame, 2)[0]
        _, body = RequestHeader.read(frame, 0, spec.request_header_version(version))
        message, end = spec.request_class().read(frame, body, version)
    except (DecodeError, StructError):
        return None
    return message if end == len(frame) else None


def encoded_request(frame: bytes, spec: ApiSpec, version: int, body: Message) -> bytearray:
    """The frame with another body."""
    _, start = RequestHeader.read(frame, 0, spec.request_header_version(version))
    return bytearray(frame[:start] + body.encode(version))


def decoded_response(frame: bytes | memoryview, spec: ApiSpec, version: int) -> Any:
    """The body of a response; None if it does not decode. A version of ApiVersions that the broker does not know is
    answered in version 0.
    """
    for each in (version, 0) if spec.api_key == ApiKey.API_VERSIONS else (version,):
        try:
            _, body = ResponseHeader.read(frame, 0, spec.response_header_version(each))
            message, end = spec.response_class().read(frame, body, each)
        except DecodeError:
            continue
        if end == len(frame):
            return message
    return None


def encoded_response(response: Message, spec: ApiSpec, version: int, correlation_id: int) -> Pieces | None:
    """Length prefix, header and body; None where this version has no room for what the response says."""
    pieces: Pieces = [b""]
    if spec.response_header_version(version):
        pieces.append(b"\0")
    try:
        response.write(version, pieces.append)
    except EncodeError:
        return None
    pieces[0] = _SIZE_AND_CORRELATION.pack(4 + sum(map(len, pieces)), correlation_id)
    return pieces


def error_codes(value: Any) -> dict[int, None]:
    """All errors that a message tells of, in their order, each once."""
    found: dict[int, None] = {}
    _collect(value, found)
    return found


def _collect(value: Any, found: dict[int, None]) -> None:
    if isinstance(value, list):
        for each in value:
            _collect(each, found)
        return
    for name in getattr(value, "__match_args__", ()):
        field = getattr(value, name)
        if name.endswith("error_code"):
            if field:
                found[field] = None
        elif field and not isinstance(field, (int, str, bytes, memoryview)):
            _collect(field, found)


def error_name(code: int) -> str:
    """Kafka's name of an error, or its number."""
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else str(code)
