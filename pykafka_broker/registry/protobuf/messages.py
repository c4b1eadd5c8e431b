"""The messages of a `.proto` text as classes that read data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from pykafka_broker.registry.protobuf.protoc import descriptor_of, googles_text

_NAME = "schema.proto"


def message_class(text: str, library: Mapping[str, str], indexes: Sequence[int]) -> type[Message]:
    """The message at that place in the file: its number there, then in that message, and so on. Raises ValueError."""
    pool = DescriptorPool()
    for name, needed in library.items():
        _add(pool, name, descriptor_of(needed, library))
    file = _add(pool, _NAME, descriptor_of(text, library))
    messages, path = file.message_type, ""
    for index in indexes:
        if not 0 <= index < len(messages):
            raise ValueError("its schema has no such message")
        path += f".{messages[index].name}"
        messages = messages[index].nested_type
    found: Descriptor = pool.FindMessageTypeByName(f"{file.package}{path}".lstrip("."))
    return GetMessageClass(found)


def _add(pool: DescriptorPool, name: str, file: FileDescriptorProto) -> FileDescriptorProto:
    for imported in file.dependency:
        _add_googles(pool, imported)
    file.name = name
    pool.AddSerializedFile(file.SerializeToString())
    return file


def _add_googles(pool: DescriptorPool, name: str) -> None:
    """A file that Google has with protoc; others are in the pool already."""
    try:
        pool.FindFileByName(name)
    except KeyError:
        _add(pool, name, descriptor_of(googles_text(name), {}))
