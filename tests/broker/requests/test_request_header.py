"""The rest of a request's header: the client id and tagged fields."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka_broker.broker.requests.router import read_header_tail
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import uvarint

API: Any = SimpleNamespace(api_key=ApiKey.METADATA, flexible_from=9, header_v0=False)
FIRST = bytes(8)  # key, version, correlation id


def client_id(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text.encode()


@pytest.mark.parametrize("text", [None, "", "app", "a" * 300])
def test_the_body_follows_the_client_id(text: str | None) -> None:
    head = FIRST + client_id(text)
    assert read_header_tail(head + b"body", API, 8) == (text, len(head))


@pytest.mark.parametrize("length", [-1, -2, -0x8000])
def test_any_length_below_zero_is_no_client_id(length: int) -> None:
    head = FIRST + struct.pack(">h", length)
    assert read_header_tail(head + b"body", API, 8) == (None, len(head))


def test_tagged_fields_are_skipped() -> None:
    head = FIRST + client_id("app")
    assert read_header_tail(head + b"\0body", API, 9) == ("app", len(head) + 1)
    fields = uvarint(2) + b"\x07\x01x" + b"\x08\0"
    assert read_header_tail(head + fields + b"body", API, 9) == ("app", len(head + fields))


def test_the_tagged_fields_of_a_header_are_bounded_as_in_kafka() -> None:
    head = FIRST + client_id("app")
    most = uvarint(10_000) + b"\x07\0" * 10_000
    assert read_header_tail(head + most, API, 9) == ("app", len(head + most))
    with pytest.raises(FrameError, match="10001 tagged fields"):
        read_header_tail(head + uvarint(10_001) + b"\x07\0" * 10_001, API, 9)


@pytest.mark.parametrize(
    "rest",
    [
        b"",
        b"\0",
        struct.pack(">h", 5) + b"abc",
        client_id("a"),
        client_id("a") + b"\x01\x07\x05x",
    ],
)
def test_what_is_cut_short_or_senseless_is_refused(rest: bytes) -> None:
    with pytest.raises(FrameError):
        read_header_tail(FIRST + rest, API, 9)


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    old: Any = SimpleNamespace(api_key=ApiKey.CONTROLLED_SHUTDOWN, flexible_from=3, header_v0=True)
    assert read_header_tail(FIRST + b"body", old, 0) == (None, 8)
