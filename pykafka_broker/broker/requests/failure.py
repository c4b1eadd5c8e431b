"""A whole request that failed.

Rule: the error goes wherever the response has room for one: into its own field, and into an answer for every topic,
partition, group or resource that was asked about (`Message.failed`, which the generator makes for each API). A
response that has no room at all can't carry it, and the connection is closed instead, so that the client never waits
for nothing.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import EncodeError, Fields, Message


def whole_request_failure(
    response_type: type[Message], code: ErrorCode, message: str | None, request: Any, version: int
) -> Message:
    """Return a response to `request` that says `code`; `request` is None where it could not be read.

    Raises:
        FrameError: this version of the response has no room for the error.
    """
    response = response_type.failed(request, code, message)
    if says(response, version, code):
        return response
    if request is not None:  # versions that have no field for the whole may have one for each item
        response = response_type()
        response.add_failed(request, code, message)
        if says(response, version, code):
            return response
    raise FrameError(f"{code.name} has no place in a {response_type.__name__} v{version}")


def says(response: Message, version: int, code: ErrorCode) -> bool:
    """Return whether the client can see the error: a version may lack the field for it, silently or not."""
    try:
        return _holds(type(response).decode(response.encode(version), version), code)
    except EncodeError:
        return False


def _holds(value: Any, code: ErrorCode) -> bool:
    if isinstance(value, Fields):
        return getattr(value, "error_code", None) == code or _holds(
            [getattr(value, name) for name in value.__match_args__], code
        )
    return isinstance(value, list) and any(_holds(item, code) for item in value)
