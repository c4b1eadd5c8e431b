"""Wire layouts. Rule: versions that write the same bytes have equal layouts, and share their code."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from protocol.generator.schema import FIXED, Field, Message, StructType


@dataclass(frozen=True)
class Item:
    """A field in the form of a version."""

    field: Field
    nullable: bool
    compact: bool
    child: Layout | None  # of the struct, or of the array's elements
    tagged: bool = False  # a nullable struct has another marker there

    @property
    def min_size(self) -> int:
        """Return the fewest bytes of the field."""
        if self.field.array:
            return 1 if self.compact else 4
        return 1 if self.child is not None and self.nullable else self.element_min_size

    @property
    def element_min_size(self) -> int:
        """Return the fewest bytes of an element of the array, or of the field if it is no array."""
        if self.child is not None:
            return self.child.min_size
        if self.field.type in FIXED:
            return struct.calcsize(">" + FIXED[self.field.type])
        if self.compact:
            return 1
        return 2 if self.field.type == "string" else 4


@dataclass(frozen=True)
class Layout:
    """A struct in the form of a version: fields in order, tagged fields by tag, then fields without room."""

    struct: StructType
    flexible: bool
    items: tuple[Item, ...]
    tagged: tuple[Item, ...]
    refused: tuple[Field, ...]  # must have their default, for this version has no room for them

    @property
    def min_size(self) -> int:
        return sum(item.min_size for item in self.items) + self.flexible


def layouts_of(message: Message) -> list[tuple[Layout, list[int]]]:
    """Return each distinct layout with the versions, in the order of the first."""
    found: dict[Layout, list[int]] = {}
    for version in message.versions:
        found.setdefault(layout_of(message, message.root, version), []).append(version)
    return list(found.items())


def layout_of(message: Message, struct_type: StructType, version: int) -> Layout:
    """Return the layout of a struct in a version."""
    flexible = version in message.flexible
    present = [field for field in struct_type.fields if version in field.versions]
    plain = [field for field in present if version not in field.tagged]
    tagged = sorted((field for field in present if version in field.tagged), key=lambda field: field.tag or 0)
    refused = [field for field in struct_type.fields if version not in field.versions and not field.ignorable]
    return Layout(
        struct=struct_type,
        flexible=flexible,
        items=tuple(_item(message, field, version) for field in plain),
        tagged=tuple(replace(_item(message, field, version), tagged=True) for field in tagged),
        refused=tuple(refused),
    )


def _item(message: Message, field: Field, version: int) -> Item:
    child = layout_of(message, message.structs[field.type], version) if field.is_struct else None
    flexible = message.flexible if field.flexible is None else field.flexible
    return Item(field, version in field.nullable, version in message.flexible and version in flexible, child)
