"""Whether data of one Protobuf schema can be read with another.

Rule: fields are known by their number, and messages by their name without the package. What the wire tells apart must
stay; names of fields, constants of enums and what is new may change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from pykafka_broker.registry.reasons import reason

_Type = FieldDescriptorProto
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


def incompatibilities(reader: FileDescriptorProto, writer: FileDescriptorProto) -> list[str]:
    """Why data of `writer` can't be read with `reader`; empty where it can."""
    old, new = dict(_messages(writer.message_type)), dict(_messages(reader.message_type))
    found: list[str] = []
    for name, message in old.items():
        if name not in new:
            found.append(reason("MESSAGE_REMOVED", f"#/{name}"))
        else:
            packages = writer.package, reader.package
            found += _compare(message, new[name], f"#/{name}", packages)
    return found


def _messages(found: Iterable[DescriptorProto], within: str = "") -> Iterator[tuple[str, DescriptorProto]]:
    """All but the entries of maps, by their names."""
    for message in found:
        if not message.options.map_entry:
            name = f"{within}{message.name}"
            yield name, message
            yield from _messages(message.nested_type, f"{name}.")


def _compare(old: DescriptorProto, new: DescriptorProto, path: str, packages: tuple[str, str]) -> list[str]:
    before, after = {each.number: each for each in old.field}, {each.number: each for each in new.field}
    found = [
        reason("REQUIRED_FIELD_ADDED", f"{path}/{number}")
        for number, field in after.items()
        if number not in before and field.label == _Type.LABEL_REQUIRED
    ]
    for number, field in before.items():
        where = f"{path}/{number}"
        if number in after:
            found += _compare_fields((field, old), (after[number], new), where, packages)
        elif field.label == _Type.LABEL_REQUIRED:
            found.append(reason("REQUIRED_FIELD_REMOVED", where))
    return found + _compare_oneofs(old, new, path)


def _compare_fields(
    old: tuple[FieldDescriptorProto, DescriptorProto],
    new: tuple[FieldDescriptorProto, DescriptorProto],
    path: str,
    packages: tuple[str, str],
) -> list[str]:
    (before, within), (after, within_now) = old, new
    entry, entry_now = _entry(before, within), _entry(after, within_now)
    if entry is not None and entry_now is not None:
        pairs = zip(entry.field, entry_now.field, strict=True)
        return [each for was, now in pairs for each in _compare_fields((was, entry), (now, entry_now), path, packages)]
    if (entry is None) != (entry_now is None) or (before.type in _NAMED) != (after.type in _NAMED):
        return [reason("FIELD_KIND_CHANGED", path)]
    if before.type != after.type and not any({before.type, after.type} <= alike for alike in _ALIKE):
        return [reason("FIELD_SCALAR_KIND_CHANGED", path)]
    if before.type == after.type and before.type_name and _last(before, packages[0]) != _last(after, packages[1]):
        return [reason("FIELD_NAMED_TYPE_CHANGED", path)]
    repeats = before.label == _Type.LABEL_REPEATED, after.label == _Type.LABEL_REPEATED
    if repeats[0] != repeats[1] and before.type not in _MAY_REPEAT:
        return [reason("FIELD_NUMERIC_LABEL_CHANGED", path)]
    return []


def _entry(field: FieldDescriptorProto, within: DescriptorProto) -> DescriptorProto | None:
    """What a map's pairs are, where the field is one."""
    name = field.type_name.rpartition(".")[2]
    for nested in within.nested_type if field.type == _Type.TYPE_MESSAGE else ():
        if nested.name == name and nested.options.map_entry:
            return nested
    return None


def _last(field: FieldDescriptorProto, package: str) -> str:
    """The type's name without the package of its file."""
    return field.type_name.removeprefix(f".{package}." if package else ".")


def _compare_oneofs(old: DescriptorProto, new: DescriptorProto, path: str) -> list[str]:
    before, after = _oneofs(old), _oneofs(new)
    alone = {each.number for each in old.field} - {number for numbers in before.values() for number in numbers}
    found = [
        reason("ONEOF_FIELD_REMOVED", f"{path}/{name}/{number}")
        for name, numbers in before.items()
        for number in sorted(numbers - after.get(name, numbers))
    ]
    for name, numbers in after.items():
        moved = numbers & alone
        if name in before and moved:
            found.append(reason("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{name}"))
        elif len(moved) > 1:
            found.append(reason("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}"))
    return found


def _oneofs(message: DescriptorProto) -> dict[str, set[int]]:
    """The numbers of their fields."""
    found: dict[str, set[int]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            found.setdefault(message.oneof_decl[field.oneof_index].name, set()).add(field.number)
    return found
