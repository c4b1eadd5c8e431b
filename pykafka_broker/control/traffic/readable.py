"""A message as JSON, and an exchange as a line.

Rule: the names are the schema's. Bytes are shown as what they mostly are: an id as Kafka writes ids, records as how
many bytes they take, anything else as text, or as base64 where it is none.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.frames import error_name
from pykafka_broker.protocol.runtime import Fields, uuid_text

_UUID_BYTES = 16


def as_json(value: Any, name: str = "") -> Any:
    """A message, or what stands in the field of that name."""
    if isinstance(value, Fields):
        return {field: as_json(getattr(value, field), field) for field in value.__match_args__}
    if isinstance(value, list):
        return [as_json(each, name) for each in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes(bytes(value), name)
    if isinstance(value, int) and name.endswith("error_code"):
        return error_name(value)
    return value


def _bytes(value: bytes, name: str) -> str:
    if name == "records":
        return f"{len(value)} bytes"
    if len(value) == _UUID_BYTES and name.endswith(("_id", "_ids", "directory", "directories")):
        return uuid_text(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return b64encode(value).decode()
    return text if text.isprintable() else b64encode(value).decode()


def line(exchange: Exchange) -> str:
    """`Fetch v17 consumer-1 127.0.0.1:50312  62 B -> 214 B in 1.3 ms  NOT_LEADER_OR_FOLLOWER`"""
    who = f"{exchange.client_id or '-'} {exchange.connection.client_host}:{exchange.connection.client_port}"
    answer = "no answer" if exchange.answer is None else f"{exchange.answer_bytes} B"
    took = f"{exchange.duration_ns / 1e6:.1f} ms"
    parts = [f"{exchange.api} v{exchange.version} {who}  {exchange.request_bytes} B -> {answer} in {took}"]
    parts += [" ".join(exchange.errors)] if exchange.errors else []
    parts += [f"(fault {exchange.fault})"] if exchange.fault is not None else []
    return "  ".join(parts)
