"""The `.proto` text of a file's descriptor.

Rule: protoc makes the same descriptor of it. Names of types are whole ones, with a dot before them, as descriptors have
them. Options that the file defines itself or imports are not known here and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    Edition,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.message import Message

_LABELS = {1: "optional ", 2: "required ", 3: "repeated "}
_GROUP, _ENUM, _MESSAGE, _STRING, _BYTES = 10, 14, 11, 9, 12
_MOST_IN_MESSAGES = 1 << 29
_MOST_IN_ENUMS = (1 << 31) - 1


def text_of(file: FileDescriptorProto) -> str:
    return "\n".join(_Writer(file.syntax or "proto2").file(file))


class _Writer:
    """Lines of one file."""

    def __init__(self, syntax: str) -> None:
        self._has_labels = syntax == "proto2"

    def file(self, file: FileDescriptorProto) -> Iterator[str]:
        if file.syntax == "editions":
            yield f'edition = "{Edition.Name(file.edition).removeprefix("EDITION_")}";'
        else:
            yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        for number, name in enumerate(file.dependency):
            kind = "public " if number in file.public_dependency else "weak " if number in file.weak_dependency else ""
            yield f"import {kind}{_quoted(name)};"
        yield from _options(file.options)
        for message in file.message_type:
            yield from self._message(message)
        for enum in file.enum_type:
            yield from _enum(enum)
        yield from self._extensions(file.extension, file.message_type)
        for service in file.service:
            yield from _service(service)

    def _message(self, message: DescriptorProto) -> Iterator[str]:
        yield f"message {message.name} {{"
        yield from self._body(message)
        yield "}"

    def _body(self, message: DescriptorProto) -> Iterator[str]:
        yield from _options(message.options)
        maps = {each.name: each for each in message.nested_type if each.options.map_entry}
        groups = {each.type_name.rpartition(".")[2] for each in message.field if each.type == _GROUP}
        groups |= {each.type_name.rpartition(".")[2] for each in message.extension if each.type == _GROUP}
        for nested in message.nested_type:
            if nested.name not in maps and nested.name not in groups:
                yield from self._message(nested)
        for enum in message.enum_type:
            yield from _enum(enum)
        in_oneof: set[int] = set()
        for field in message.field:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, message.nested_type, maps)
            elif field.oneof_index not in in_oneof:
                in_oneof.add(field.oneof_index)
                oneof = message.oneof_decl[field.oneof_index]
                yield f"oneof {oneof.name} {{"
                yield from _options(oneof.options)
                for each in message.field:
                    if each.HasField("oneof_index") and each.oneof_index == field.oneof_index:
                        yield from self._field(each, message.nested_type, maps)
                yield "}"
        yield from self._extensions(message.extension, message.nested_type)
        for open_range in message.extension_range:
            yield f"extensions {_range(open_range.start, open_range.end - 1, _MOST_IN_MESSAGES - 1)};"
        for reserved in message.reserved_range:
            yield f"reserved {_range(reserved.start, reserved.end - 1, _MOST_IN_MESSAGES - 1)};"
        yield from (f"reserved {_quoted(name)};" for name in message.reserved_name)

    def _extensions(self, fields: Iterable[FieldDescriptorProto], nested: Iterable[DescriptorProto]) -> Iterator[str]:
        for field in fields:
            yield f"extend {field.extendee} {{"
            yield from self._field(field, nested, {})
            yield "}"

    def _field(
        self, field: FieldDescriptorProto, nested: Iterable[DescriptorProto], maps: dict[str, DescriptorProto]
    ) -> Iterator[str]:
        entry = maps.get(field.type_name.rpartition(".")[2]) if field.label == 3 else None
        options = list(_field_options(field))
        rest = f" {field.name} = {field.number}{_bracketed(options)};"
        if entry is not None:
            yield f"map<{_type(entry.field[0])}, {_type(entry.field[1])}>{rest}"
        elif field.type == _GROUP:
            name = field.type_name.rpartition(".")[2]
            yield f"{self._label(field)}group {name} = {field.number} {{"
            for each in nested:
                if each.name == name:
                    yield from self._body(each)
            yield "}"
        else:
            yield f"{self._label(field)}{_type(field)}{rest}"

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.HasField("oneof_index") and not field.proto3_optional:
            return ""
        return _LABELS[field.label] if self._has_labels or field.label != 1 or field.proto3_optional else ""


def _bracketed(settings: list[str]) -> str:
    return f" [{', '.join(settings)}]" if settings else ""


def _type(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return field.type_name
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _field_options(field: FieldDescriptorProto) -> Iterator[str]:
    if field.HasField("default_value"):
        quoted = field.type in (_STRING, _BYTES)
        yield f"default = {_default(field) if quoted else field.default_value}"
    if field.json_name and field.json_name != _json_name(field.name):
        yield f"json_name = {_quoted(field.json_name)}"
    yield from _settings(field.options)


def _default(field: FieldDescriptorProto) -> str:
    """Of bytes the descriptor has it escaped already."""
    return f'"{field.default_value}"' if field.type == _BYTES else _quoted(field.default_value)


def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in others)


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _options(enum.options)
    for value in enum.value:
        settings = list(_settings(value.options))
        yield f"{value.name} = {value.number}{_bracketed(settings)};"
    for reserved in enum.reserved_range:
        yield f"reserved {_range(reserved.start, reserved.end, _MOST_IN_ENUMS)};"
    yield from (f"reserved {_quoted(name)};" for name in enum.reserved_name)
    yield "}"


def _service(service: ServiceDescriptorProto) -> Iterator[str]:
    yield f"service {service.name} {{"
    yield from _options(service.options)
    for method in service.method:
        takes = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        gives = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        yield f"rpc {method.name} ({takes}) returns ({gives}) {{"
        yield from _options(method.options)
        yield "}"
    yield "}"


def _options(options: Message) -> Iterator[str]:
    yield from (f"option {each};" for each in _settings(options))


def _settings(options: Message) -> Iterator[str]:
    """Options as `name = value`."""
    for field, value in options.ListFields():
        if field.name in ("map_entry", "uninterpreted_option"):
            continue
        for each in value if field.is_repeated else [value]:
            yield f"{f'({field.full_name})' if field.is_extension else field.name} = {_value(field, each)}"


def _value(field: FieldDescriptor, value: Any) -> str:
    if field.type == _MESSAGE:
        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if field.type == _ENUM:
        assert field.enum_type is not None
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return str(value).lower()
    return _quoted(value) if isinstance(value, str) else str(value)


def _range(first: int, last: int, most: int) -> str:
    return str(first) if first == last else f"{first} to {'max' if last >= most else last}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
