"""The rest of a request's header: who asks, and fields that nobody knows.

Rule: a header that does not decode, or has more tagged fields than Kafka takes, is a `FrameError`.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Protocol

from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import DecodeError, read_uvarint

_CLIENT_ID_LENGTH = Struct(">h")
_MOST_TAGS = 10_000


class Headed(Protocol):
    """What has to be known of an API for it."""

    api_key: ApiKey
    flexible_from: int
    header_v0: bool


def read_header_tail(frame: memoryview | bytes, api: Headed, version: int) -> tuple[str | None, int]:
    """Return the client id and the position at which the body starts. Raises FrameError."""
    if api.header_v0 and version == 0:
        return None, 8
    try:
        (length,) = _CLIENT_ID_LENGTH.unpack_from(frame, 8)
        position = 10 + length if length > 0 else 10
        if position > len(frame) or length < -1:
            raise FrameError(f"client id of {length} bytes in a request of {len(frame)}")
        client_id = None if length < 0 else str(frame[10:position], "utf-8", "replace")
        if version >= api.flexible_from:
            has_none = position < len(frame) and frame[position] == 0
            position = position + 1 if has_none else _skip_tagged_fields(frame, position)
    except (StructError, DecodeError) as error:
        raise FrameError(f"the header of a {api.api_key.name} request does not decode: {error}") from None
    return client_id, position


def _skip_tagged_fields(frame: memoryview | bytes, start: int) -> int:
    count, position = read_uvarint(frame, start)
    if count > _MOST_TAGS:
        raise FrameError(f"{count} tagged fields in the header of a request; {_MOST_TAGS} are the most")
    for _ in range(count):
        _tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
        if position > len(frame):
            raise FrameError(f"a tagged field of {size} bytes in a request of {len(frame)}")
    return position
