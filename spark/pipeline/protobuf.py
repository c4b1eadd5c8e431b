"""Values of Protobuf. Rule: a message is read with the file of schemas that it was written with, which the registry
tells as a descriptor, so nothing has to be compiled; a field that the file does not have is kept under its number.

After the schema's id a value says which message of the file it is: how many numbers follow, and the numbers, each a
zigzag varint. A single 0 is the first message.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence, Sequence
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from pipeline.registry import RegisteredSchema

OWN_FILES, OWN_TYPES = "google/protobuf/", "google.protobuf."
WRAPPERS = {f"{OWN_TYPES}{name}Value" for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool")}
WRAPPERS |= {f"{OWN_TYPES}{name}Value" for name in ("String", "Bytes")}
LONGEST_VARINT, DEEPEST = 10, 32  # bytes; messages within messages


def reader(schema: RegisteredSchema) -> Callable[[bytes], Any]:
    """Return the function that reads values of a file of schemas."""
    pool = DescriptorPool()
    for name, text in schema.references.items():
        _add(pool, name, text)
    file = _add(pool, "", schema.text)
    classes: dict[tuple[int, ...], type[Message]] = {}

    def read(data: bytes) -> Any:
        path, begin = path_of(data)
        if path not in classes:
            classes[path] = GetMessageClass(_message(pool, file, path))
        message = classes[path]()
        message.ParseFromString(data[begin:])
        found: dict[str, Any] = _plain(message)
        strays: Any = UnknownFieldSet(message)
        for field in strays:
            found.setdefault(str(field.field_number), []).append(_unknown(field.data))
        return found

    return read


def _add(pool: DescriptorPool, name: str, text: str) -> FileDescriptorProto:
    """Add a file to the pool, and the files of Protobuf's own that it imports."""
    file = FileDescriptorProto.FromString(base64.b64decode(text))
    file.name = name or file.name or "value.proto"
    for needed in file.dependency:
        if needed.startswith(OWN_FILES):
            module = importlib.import_module(needed.removesuffix(".proto").replace("/", ".") + "_pb2")
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return file


def _message(pool: DescriptorPool, file: FileDescriptorProto, path: Sequence[int]) -> Descriptor:
    messages, name = file.message_type, file.package
    for index in path:
        if not 0 <= index < len(messages):
            raise ValueError("the file has no such message")
        name = f"{name}.{messages[index].name}".lstrip(".")
        messages = messages[index].nested_type
    found: Descriptor = pool.FindMessageTypeByName(name)
    return found


def path_of(data: bytes) -> tuple[tuple[int, ...], int]:
    """Return the numbers of a message in its file, and where its data begins."""
    numbers = _numbers(data)
    count, begin = next(numbers)
    if count < 0:
        raise ValueError("no message has so many numbers")
    path = []
    for _ in range(min(count, DEEPEST)):
        index, begin = next(numbers)
        path.append(index)
    return tuple(path) or (0,), begin


def _numbers(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the zigzag varints that data begins with, and where each ends."""
    position = 0
    while True:
        number = 0
        for shift in range(0, 7 * LONGEST_VARINT, 7):
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        yield (number >> 1) ^ -(number & 1), position


def _plain(message: Any) -> Any:
    """Return a message as JSON has it, with whole numbers as numbers: Protobuf's own form has texts for long ones."""
    name = message.DESCRIPTOR.full_name
    if name == f"{OWN_TYPES}Timestamp":
        return message.ToDatetime().isoformat() + "Z"
    if name in WRAPPERS:
        return message.value
    if name.startswith(OWN_TYPES):
        return json_format.MessageToDict(message, preserving_proto_field_name=True)
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if isinstance(value, MutableMapping):
            kind = field.message_type.fields_by_name["value"]
            found[field.name] = {_key(key): _single(kind, value[key]) for key in value}
        elif isinstance(value, MutableSequence):
            found[field.name] = [_single(field, each) for each in value]
        elif not field.has_presence or message.HasField(field.name):
            found[field.name] = _single(field, value)
    if message.DESCRIPTOR.is_extendable:
        found |= {f"[{f.full_name}]": _extension(f, value) for f, value in message.ListFields() if f.is_extension}
    return found


def _extension(field: Any, value: Any) -> Any:
    return [_single(field, each) for each in value] if isinstance(value, MutableSequence) else _single(field, value)


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _single(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value


def _unknown(data: Any) -> Any:
    return data if isinstance(data, int | bytes) else {str(field.field_number): _unknown(field.data) for field in data}
