"""A Protobuf schema: a `.proto` text, or a file's descriptor in base64, as Python's serializer sends it.

Rule: what is kept is text, in which comments and white space do not count. Two texts that protoc understands as the
same are one schema under a subject.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from functools import cached_property
from typing import Self

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from pykafka_broker.registry.protobuf.compatibility import incompatibilities
from pykafka_broker.registry.protobuf.protoc import descriptor_of
from pykafka_broker.registry.protobuf.text import formatted
from pykafka_broker.registry.protobuf.writing import text_of

SERIALIZED = "serialized"


class ProtobufSchema:
    """The text, and what protoc makes of it."""

    def __init__(self, text: str, library: Mapping[str, str]) -> None:
        self.descriptor = descriptor_of(text, library)
        self.canonical = formatted(text)
        self.identity = _ordered(self.descriptor).SerializeToString(deterministic=True).hex()

    @cached_property
    def normalized(self) -> str:
        return formatted(text_of(self.descriptor))

    def differences(self, written: Self) -> list[str]:
        return incompatibilities(self.descriptor, written.descriptor)

    def formatted(self, form: str) -> str:
        if form != SERIALIZED:
            return self.canonical
        return base64.b64encode(self.descriptor.SerializeToString(deterministic=True)).decode()


def parse(text: str, library: Mapping[str, str]) -> ProtobufSchema:
    """Raises InvalidSchema."""
    return ProtobufSchema(_as_text(text), {name: _as_text(needed) for name, needed in library.items()})


def _ordered(descriptor: FileDescriptorProto) -> FileDescriptorProto:
    """With types in the order of their names: where they stand in the text says nothing."""
    found = FileDescriptorProto()
    found.CopyFrom(descriptor)
    found.message_type.sort(key=lambda each: each.name)
    waiting = list(found.message_type)
    while waiting:
        message = waiting.pop()
        message.nested_type.sort(key=lambda each: each.name)
        waiting += message.nested_type
    return found


def _as_text(text: str) -> str:
    try:
        found = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return text
    return text_of(found) if text else text
