"""Coordinator records of bytes that are no messages."""

from __future__ import annotations

from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.protocol.runtime import Message, Write


class Raw(Message):
    """Bytes in the place of a message."""

    __slots__ = ("data",)
    API_KEY = 0

    def __init__(self, data: bytes) -> None:
        self.data = data

    def write(self, version: int, w: Write) -> None:
        w(self.data)


FRAME = b"\0\0"  # type 0 and version 0: what stands before the bytes in the log


class OfType1(Raw):
    """Bytes in the place of a message, under the type 1."""

    __slots__ = ()
    API_KEY = 1


def raw_record(key: bytes, value: bytes | None, kind: type[Raw] = Raw) -> CoordinatorRecord:
    """Return a record whose key and value are these bytes, behind the type and behind version 0."""
    return CoordinatorRecord(kind(key), None if value is None else Raw(value))
