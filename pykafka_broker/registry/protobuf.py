"""Protobuf schemas: a `.proto` text, or a file's descriptor in base64, as Python's serializer sends it.

Rule: the text is stored; comments and white space do not count. Two texts that protoc understands as the same are one
schema under a subject. protoc is the module of grpcio-tools: it sees the text, its references and Google's own files,
and nothing else of this machine; a name that leads elsewhere is refused, and errors are caught before protoc prints
them. protoc stops all threads of its process, and some texts cost it the square of their length: it works on longer
ones in a process of its own. Fields are compatible by number and type; names of fields, constants of enums and new
parts may change. A text that is made from a descriptor lacks options that the file defines itself or imports.

A module of its own, imported with the first Protobuf schema: protoc takes a while to load.
"""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import grpc_tools
from google.protobuf import text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    Edition,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import _protoc_compiler

from pykafka_broker.platform import CREATION_FLAGS, PROCESS_GROUP
from pykafka_broker.registry.kinds import reason
from pykafka_broker.registry.problems import InvalidSchema

# -- protoc


_GOOGLES = Path(grpc_tools.__file__).parent / "_proto"
_SMALL_CHARACTERS = 16 << 10  # for protoc in this process
_PROTOC_S = 60
_KEPT = 8  # compiled texts
_LEADS_ELSEWHERE = set("\\:")  # as parts of a path on Windows
_MADE = "descriptor"
_REFUSED = "protoc does not take it"
_SYNTAX = 'syntax = "proto2";\n'  # protoc's default for a text without `syntax`, with a warning


def descriptor_of(text: str, library: Mapping[str, str]) -> FileDescriptorProto:
    """Return the descriptor of a text, without a name. Raises InvalidSchema."""
    found = descriptors_of(text, library)[-1]
    found.ClearField("name")
    return found


def descriptors_of(text: str, library: Mapping[str, str]) -> list[FileDescriptorProto]:
    """Return the descriptors of a text and of all files that it imports, the text's own last. Raises InvalidSchema."""
    return list(FileDescriptorSet.FromString(_compiled(text, tuple(library.items()))).file)


@lru_cache(_KEPT)  # the page shows many records of one schema
def _compiled(text: str, library: tuple[tuple[str, str], ...]) -> bytes:
    """Return the FileDescriptorSet of a text and of all files that it imports. Raises InvalidSchema."""
    size = len(text) + sum(len(needed) for _, needed in library)
    with tempfile.TemporaryDirectory(prefix="pykafka-broker-protoc-") as folder:
        for name, needed in library:
            _write(Path(folder), name, needed)
        name, names = "schema.proto", {name for name, _ in library}
        while name in names:
            name = f"_{name}"
        _write(Path(folder), name, text)
        why_not = (_compile if size < _SMALL_CHARACTERS else _compile_beside)(Path(folder), name)
        if why_not:
            raise InvalidSchema(why_not)
        return (Path(folder) / _MADE).read_bytes()


def _write(folder: Path, name: str, text: str) -> None:
    if not name or any(part in ("", ".", "..") for part in name.split("/")) or set(name) & _LEADS_ELSEWHERE:
        raise InvalidSchema(f"{name} can't be the name of a file that is imported")
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((text if "syntax" in text or "edition" in text else _SYNTAX + text).encode())
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeError):
            raise
        raise InvalidSchema(f"{name} can't be the name of a file that is imported") from None


def _compile(folder: Path, name: str) -> str:
    """Compile a file into `_MADE`; return why not, or an empty text."""
    paths = [str(folder).encode(), str(_GOOGLES).encode()]
    try:
        with warnings.catch_warnings(action="ignore"):  # warnings about unused imports
            _protoc_compiler.get_protos(name.encode(), paths)
    except _protoc_compiler.ProtocErrors as errors:
        return "; ".join(map(str, errors.errors()))
    made = b"--descriptor_set_out=" + str(folder / _MADE).encode()
    arguments = [b"protoc", *(b"-I" + path for path in paths), b"--include_imports", made]
    return _REFUSED if _protoc_compiler.run_main([*arguments, name.encode()]) != 0 else ""


def _compile_beside(folder: Path, name: str) -> str:
    """Do the work of `_compile` in another process."""
    safe_path = ["-P"] if sys.flags.safe_path else []  # with the option of this process
    command = [sys.executable, *safe_path, "-m", __name__, str(folder), name]
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROTOC_S,
            creationflags=CREATION_FLAGS,
            process_group=PROCESS_GROUP,
        )
    except subprocess.TimeoutExpired:
        return "protoc takes too long"
    except OSError as error:
        return f"no process could be started for protoc: {error}"
    told = ended.stdout.decode("utf-8", "replace").strip()
    return told or (_REFUSED if ended.returncode else "")


# -- text


_WORD = re.compile(
    r"""
    (?P<skip> \s+ | //[^\n]* | /\*.*?\*/ )
    | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*'
    | \.?\d[\w.]*[eE][+-]\d+\w*
    | [\w.]+
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_DEEPEST = 20
_NONE_BEFORE = frozenset(";,)]>")
_NONE_AFTER = frozenset("([<-+")


def formatted(text: str) -> str:
    lines: list[str] = []
    line, depth = "", 0
    for match in _WORD.finditer(text):
        word = match.group()
        if match.group("skip") is not None:
            continue
        if word == "}":
            lines += [line] if line.strip() else []
            depth = max(depth - 1, 0)
            line = "  " * min(depth, _DEEPEST)
        line += word if _is_close(line, word) else f" {word}"
        if word in "{};":
            lines.append(line)
            depth += word == "{"
            line = "  " * min(depth, _DEEPEST)
    lines += [line] if line.strip() else []
    return "".join(f"{each.rstrip()}\n" for each in lines)


def _is_close(line: str, word: str) -> bool:
    """Return whether a word follows the line without a space."""
    last = line[-1:]
    if not line or line.isspace() or word in _NONE_BEFORE or last in _NONE_AFTER:
        return True
    return (last == ")" and word.startswith(".")) or (word == "<" and line.endswith("map"))


# -- text of a descriptor


_LABELS = {1: "optional ", 2: "required ", 3: "repeated "}
_GROUP, _ENUM, _MESSAGE, _STRING, _BYTES = 10, 14, 11, 9, 12
_MOST_IN_MESSAGES = 1 << 29
_MOST_IN_ENUMS = (1 << 31) - 1


def text_of(file: FileDescriptorProto) -> str:
    return "\n".join(_ProtoWriter(file.syntax or "proto2").file(file))


class _ProtoWriter:
    """A writer of a file's lines."""

    def __init__(self, syntax: str) -> None:
        self._has_labels = syntax == "proto2"

    def file(self, file: FileDescriptorProto) -> Iterator[str]:
        if file.syntax == "editions":
            yield f'edition = "{Edition.Name(file.edition).removeprefix("EDITION_")}";'
        else:
            yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        for index, name in enumerate(file.dependency):
            kind = "public " if index in file.public_dependency else "weak " if index in file.weak_dependency else ""
            yield f"import {kind}{_quoted(name)};"
        yield from _options(file.options)
        for message in file.message_type:
            yield from self._message(message)
        for enum in file.enum_type:
            yield from _enum(enum)
        yield from self._extensions(file.extension, {each.name: each for each in file.message_type})
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
        nested_types = {each.name: each for each in message.nested_type}
        in_oneofs: dict[int, list[FieldDescriptorProto]] = {}
        for field in message.field:
            if field.HasField("oneof_index"):
                in_oneofs.setdefault(field.oneof_index, []).append(field)
        for field in message.field:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, nested_types, maps)
            elif in_oneof := in_oneofs.pop(field.oneof_index, []):
                oneof = message.oneof_decl[field.oneof_index]
                yield f"oneof {oneof.name} {{"
                yield from _options(oneof.options)
                for each in in_oneof:
                    yield from self._field(each, nested_types, maps)
                yield "}"
        yield from self._extensions(message.extension, nested_types)
        for open_range in message.extension_range:
            yield f"extensions {_range(open_range.start, open_range.end - 1, _MOST_IN_MESSAGES - 1)};"
        for reserved in message.reserved_range:
            yield f"reserved {_range(reserved.start, reserved.end - 1, _MOST_IN_MESSAGES - 1)};"
        yield from (f"reserved {_quoted(name)};" for name in message.reserved_name)

    def _extensions(
        self, fields: Iterable[FieldDescriptorProto], nested: Mapping[str, DescriptorProto]
    ) -> Iterator[str]:
        for field in fields:
            yield f"extend {field.extendee} {{"
            yield from self._field(field, nested, {})
            yield "}"

    def _field(
        self, field: FieldDescriptorProto, nested: Mapping[str, DescriptorProto], maps: Mapping[str, DescriptorProto]
    ) -> Iterator[str]:
        entry = maps.get(field.type_name.rpartition(".")[2]) if field.label == 3 else None
        options = list(_field_options(field))
        rest = f" {field.name} = {field.number}{_bracketed(options)};"
        if entry is not None:
            yield f"map<{_type(entry.field[0])}, {_type(entry.field[1])}>{rest}"
        elif field.type == _GROUP:
            name = field.type_name.rpartition(".")[2]
            yield f"{self._label(field)}group {name} = {field.number} {{"
            if name in nested:
                yield from self._body(nested[name])
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
    """Return the text of a default; bytes are escaped in the descriptor already."""
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
    """Yield options as `name = value`."""
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


# -- compatibility


_Type = FieldDescriptorProto
_Entries = Mapping[str, DescriptorProto]
_VARINT = {_Type.TYPE_INT32, _Type.TYPE_INT64, _Type.TYPE_UINT32, _Type.TYPE_UINT64, _Type.TYPE_BOOL, _Type.TYPE_ENUM}
_ALIKE = [
    _VARINT,
    {_Type.TYPE_SINT32, _Type.TYPE_SINT64},
    {_Type.TYPE_STRING, _Type.TYPE_BYTES},
    {_Type.TYPE_FIXED32, _Type.TYPE_SFIXED32},
    {_Type.TYPE_FIXED64, _Type.TYPE_SFIXED64},
]
_NAMED = {_Type.TYPE_MESSAGE, _Type.TYPE_GROUP}
_MAY_REPEAT = {_Type.TYPE_STRING, _Type.TYPE_BYTES, *_NAMED}


class _MessageType(NamedTuple):
    """A message of a schema or of a file that the schema imports. name: without the package."""

    name: str
    message: DescriptorProto
    is_imported: bool


_MessageTypes = Mapping[str, _MessageType]


def message_types(files: Sequence[FileDescriptorProto]) -> dict[str, _MessageType]:
    """Return all messages by full name, of a schema's file, the last one, and of all imported files."""
    return {
        f".{file.package}.{name}" if file.package else f".{name}": _MessageType(name, message, file is not files[-1])
        for file in files
        for name, message in _messages(file.message_type)
    }


def incompatibilities(reader: _MessageTypes, writer: _MessageTypes) -> list[str]:
    """Return why data of `writer` can't be read with `reader`; empty if compatible."""
    new = {each.name: each.message for each in reader.values() if not each.is_imported}
    comparison, found = _Comparison(writer, reader), list[str]()
    for name, message, is_imported in writer.values():
        if not is_imported and name not in new:
            found.append(reason("MESSAGE_REMOVED", f"#/{name}"))
        elif not is_imported:
            found += comparison.compare(message, new[name], f"#/{name}")
    return found + comparison.compare_imported()


def _messages(found: Iterable[DescriptorProto], within: str = "") -> Iterator[tuple[str, DescriptorProto]]:
    """Yield all messages by name, except map entries."""
    for message in found:
        if not message.options.map_entry:
            name = f"{within}{message.name}"
            yield name, message
            yield from _messages(message.nested_type, f"{name}.")


class _Comparison:
    """A comparison of two schemas, and of the imported messages that their fields have."""

    def __init__(self, old: _MessageTypes, new: _MessageTypes) -> None:
        self._old, self._new = old, new
        self._met: set[tuple[str, str]] = set()  # imported messages in fields, by full names
        self._waiting: list[tuple[_MessageType, _MessageType]] = []  # those not compared yet

    def compare_imported(self) -> list[str]:
        """Compare the imported messages that were met, and those that are met in them."""
        found: list[str] = []
        while self._waiting:
            old, new = self._waiting.pop()
            found += self.compare(old.message, new.message, f"#/{old.name}")
        return found

    def compare(self, old: DescriptorProto, new: DescriptorProto, path: str) -> list[str]:
        before, after = {each.number: each for each in old.field}, {each.number: each for each in new.field}
        entries, entries_now = _entries(old), _entries(new)
        found = [
            reason("REQUIRED_FIELD_ADDED", f"{path}/{number}")
            for number, field in after.items()
            if number not in before and field.label == _Type.LABEL_REQUIRED
        ]
        for number, field in before.items():
            where = f"{path}/{number}"
            if number in after:
                found += self._compare_fields((field, entries), (after[number], entries_now), where)
            elif field.label == _Type.LABEL_REQUIRED:
                found.append(reason("REQUIRED_FIELD_REMOVED", where))
        return found + _compare_oneofs(old, new, path)

    def _compare_fields(
        self, old: tuple[FieldDescriptorProto, _Entries], new: tuple[FieldDescriptorProto, _Entries], path: str
    ) -> list[str]:
        (before, entries), (after, entries_now) = old, new
        entry, entry_now = _entry(before, entries), _entry(after, entries_now)
        if entry is not None and entry_now is not None:
            pairs = zip(entry.field, entry_now.field, strict=True)
            return [each for was, now in pairs for each in self._compare_fields((was, {}), (now, {}), path)]
        if (entry is None) != (entry_now is None) or (before.type in _NAMED) != (after.type in _NAMED):
            return [reason("FIELD_KIND_CHANGED", path)]
        if before.type != after.type and not any({before.type, after.type} <= alike for alike in _ALIKE):
            return [reason("FIELD_SCALAR_KIND_CHANGED", path)]
        if before.type in _NAMED:
            was, now = self._old[before.type_name], self._new[after.type_name]
            if was.name != now.name:
                return [reason("FIELD_NAMED_TYPE_CHANGED", path)]
            pair = before.type_name, after.type_name
            if (was.is_imported or now.is_imported) and pair not in self._met:
                self._met.add(pair)
                self._waiting.append((was, now))
        repeats = before.label == _Type.LABEL_REPEATED, after.label == _Type.LABEL_REPEATED
        if repeats[0] != repeats[1] and before.type not in _MAY_REPEAT:
            return [reason("FIELD_NUMERIC_LABEL_CHANGED", path)]
        return []


def _entries(message: DescriptorProto) -> _Entries:
    """Return the entry types of a message's map fields, by name."""
    return {each.name: each for each in message.nested_type if each.options.map_entry}


def _entry(field: FieldDescriptorProto, entries: _Entries) -> DescriptorProto | None:
    """Return the entry type of a map field, None for another field."""
    return entries.get(field.type_name.rpartition(".")[2]) if field.type == _Type.TYPE_MESSAGE else None


def _compare_oneofs(old: DescriptorProto, new: DescriptorProto, path: str) -> list[str]:
    before, after = _oneofs(old), _oneofs(new)
    alone = {each.number for each in old.field} - {number for numbers in before.values() for number in numbers}
    found = [
        reason("ONEOF_FIELD_REMOVED", f"{path}/{name}/{number}")
        for name, numbers in before.items()
        for number in sorted(numbers - after.get(name, numbers))
    ]
    existing = set[int]().union(*before.values())
    for name, numbers in after.items():
        moved = numbers & alone
        if len(moved) > 1:
            found.append(reason("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}"))
        elif moved and numbers & existing:
            found.append(reason("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{name}"))
    return found


def _oneofs(message: DescriptorProto) -> dict[str, set[int]]:
    """Return the field numbers of each oneof."""
    found: dict[str, set[int]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            found.setdefault(message.oneof_decl[field.oneof_index].name, set()).add(field.number)
    return found


# -- the schema


SERIALIZED = "serialized"


class ProtobufSchema:
    """A text and the descriptor made by protoc."""

    def __init__(self, text: str, library: Mapping[str, str]) -> None:
        files = descriptors_of(text, library)
        self.message_types = message_types(files)
        self.descriptor = files[-1]
        self.descriptor.ClearField("name")
        self.canonical = formatted(text)
        self.identity = _ordered(self.descriptor).SerializeToString(deterministic=True).hex()

    @cached_property
    def normalized(self) -> str:
        return formatted(text_of(self.descriptor))

    @property
    def fields(self) -> set[str]:
        return {field.name for message in self.descriptor.message_type for field in message.field}

    def differences(self, written: Self) -> list[str]:
        return incompatibilities(self.message_types, written.message_types)

    def formatted(self, form: str) -> str:
        if form != SERIALIZED:
            return self.canonical
        return base64.b64encode(self.descriptor.SerializeToString(deterministic=True)).decode()


def parse(text: str, library: Mapping[str, str]) -> ProtobufSchema:
    """Parse a schema. Raises InvalidSchema."""
    return ProtobufSchema(_as_text(text), {name: _as_text(needed) for name, needed in library.items()})


def _ordered(descriptor: FileDescriptorProto) -> FileDescriptorProto:
    """Return a descriptor with sorted types: the order of types has no meaning."""
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


# -- messages


def message_class(text: str, library: Mapping[str, str], indexes: Sequence[int]) -> type[Message]:
    """Return the class of a message. Raises ValueError.

    Args:
        indexes: the path to the message: its number in the file, then in that message, and so on.
    """
    pool = DescriptorPool()
    files = descriptors_of(text, library)
    for each in files:
        pool.AddSerializedFile(each.SerializeToString())
    file = files[-1]
    messages, path = file.message_type, ""
    for index in indexes:
        if not 0 <= index < len(messages):
            raise ValueError("its schema has no such message")
        path += f".{messages[index].name}"
        messages = messages[index].nested_type
    found: Descriptor = pool.FindMessageTypeByName(f"{file.package}{path}".lstrip("."))
    return GetMessageClass(found)


if __name__ == "__main__":
    sys.stdout.buffer.write(_compile(Path(sys.argv[1]), sys.argv[2]).encode())
