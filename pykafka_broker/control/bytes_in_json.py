"""Bytes in JSON, and back.

Rule: bytes that are UTF-8 are told as text, others in base64 under a name of its own (`value_base64` beside `value`),
so that nobody has to guess. What comes in may be either, or any other JSON, which is then written as JSON.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from pykafka_broker.control.problems import Problem


def told(data: bytes | memoryview | None) -> tuple[str | None, str | None]:
    """As text, or else in base64."""
    if data is None:
        return None, None
    data = bytes(data)
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(data).decode()


def meant(value: Any, in_base64: str | None, where: str) -> bytes | None:
    """The bytes that are meant: text as UTF-8, other JSON as JSON, or what stands in base64. Raises `Problem` 400."""
    if in_base64 is not None:
        if value is not None:
            raise Problem(400, f"{where} is there twice, also as {where}_base64")
        try:
            return base64.b64decode(in_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Problem(400, f"{where}_base64 is not base64: {error}") from None
    if value is None:
        return None
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode()
    except UnicodeEncodeError:
        raise Problem(400, f"{where} has half of a surrogate pair, which is no text") from None
