"""A whole request that failed.

Rule: the error goes into the response's own top-level field; a response that has none (errors stand per topic or
partition there, and its handler fills them in) can't carry it, and the connection is closed instead, so that the client
never waits for nothing.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.errors import ErrorCode


def whole_request_failure(response_type: Any, code: ErrorCode, message: str | None) -> Any:
    """A response of `response_type` that says `code`; raises FrameError where the type has no room for it."""
    response = response_type()
    if not hasattr(response, "error_code"):
        raise FrameError(f"{code.name} has no place in a {response_type.__name__}")
    response.error_code = code
    if hasattr(response, "error_message"):
        response.error_message = message
    return response
