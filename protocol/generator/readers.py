"""Readers. Rule: before anything is sliced, looped over or allocated, its length is compared with what is left.

Fixed-size values and the length prefix that follows them are one `struct` call, which checks the bounds itself.
"""

from __future__ import annotations

import struct

from protocol.generator.code import FunctionCode, ModuleCode
from protocol.generator.layout import Item, Layout
from protocol.generator.schema import FIXED, Field, Message
from protocol.generator.writers import default_name


def read_function(name: str, message: Message, layout: Layout, module: ModuleCode) -> list[str]:
    """The source of one reader."""
    reader = _Reader(message, module)
    result = reader.struct(layout, "")
    body = reader.code.lines
    if any("size" in line for line in body):
        body.insert(0, "    size = len(buffer)")
    return [f"def {name}(buffer: Buffer, at: int) -> tuple[{message.name}, int]:", *body, f"    return {result}, at"]


class _Reader:
    def __init__(self, message: Message, module: ModuleCode) -> None:
        self.message = message
        self.module = module
        self.code = FunctionCode(module)
        self.pending: list[tuple[str, str]] = []

    def flush(self) -> None:
        if not self.pending:
            return
        fmt = "".join(part for part, _ in self.pending)
        names = ", ".join(name for _, name in self.pending)
        if fmt == "B":
            self.code.line(f"{names} = buffer[at]")
        elif len(self.pending) == 1:
            self.code.line(f"({names},) = {self.module.unpacker(fmt)}(buffer, at)")
        else:
            self.code.line(f"{names} = {self.module.unpacker(fmt)}(buffer, at)")
        self.code.line(f"at += {struct.calcsize('>' + fmt)}")
        self.pending = []

    def struct(self, layout: Layout, owner: str) -> str:
        """Reads all fields; the expression that makes the object."""
        values: dict[str, str] = {}
        for item in layout.items:
            values[item.field.name] = self.item(item, owner, declared=True)
        if layout.flexible:
            self.tags(layout, owner, values)
        self.flush()
        arguments = [values.get(field.name) or self.default(field) for field in layout.struct.fields]
        return f"{layout.struct.name}({', '.join(arguments)})"

    def default(self, field: Field) -> str:
        literal = field.default_literal
        if literal == "EMPTY":
            return "[]" if field.array else default_name(field)
        if literal == "ZERO_UUID":
            self.module.use("ZERO_UUID")
        return literal

    def item(self, item: Item, owner: str, declared: bool) -> str:
        """Reads one field into a variable and returns its name; `declared` annotates it where its type needs that."""
        field = item.field
        var = self.code.local(field.python, owner)
        if declared and item.nullable and field.type != "records":
            self.code.line(f"{var}: {field.annotation}")
        self.into(item, var, owner)
        return var

    def into(self, item: Item, var: str, owner: str) -> None:
        field = item.field
        if field.array:
            self.array(item, var, owner)
        elif item.child is not None:
            self.nested(item, item.child, var, owner)
        elif field.type in FIXED:
            self.pending.append((FIXED[field.type], var))
        else:
            self.sized(item, var)

    def length(self, classic: str, compact: bool) -> None:
        """The length prefix into `count`; -1 is null."""
        if not compact:
            self.pending.append((classic, "count"))
            self.flush()
            return
        self.pending.append(("B", "count"))
        self.flush()
        with self.code.block("if count > 127:"):
            self.code.line(f"count, at = {self.module.use('uvarint_rest')}(buffer, at, count)")
        self.code.line("count -= 1")

    def sized(self, item: Item, var: str) -> None:
        """string, bytes, records."""
        field = item.field
        self.length("h" if field.type == "string" else "i", item.compact)
        if item.nullable:
            with self.code.block("if count == -1:"):
                self.code.line(f"{var} = None")
            with self.code.block("else:"):
                self.slice(field, var, item.compact)
        else:
            self.slice(field, var, item.compact)

    def slice(self, field: Field, var: str, compact: bool) -> None:
        limit = " or count > 32767" if field.type == "string" and compact else ""
        self.code.line("stop = at + count")
        with self.code.block(f"if count < 0 or stop > size{limit}:"):
            self.code.line(f"{self.module.use('refuse_length')}({field.python!r}, count, size - at)")
        if field.type == "string":
            self.code.line(f'{var} = str(buffer[at:stop], "utf-8")')
        elif field.type == "bytes":
            self.code.line(f"{var} = bytes(buffer[at:stop])")
        else:
            self.code.line(f"{var} = memoryview(buffer)[at:stop]")
        self.code.line("at = stop")

    def nested(self, item: Item, child: Layout, var: str, owner: str) -> None:
        if not item.nullable:
            self.flush()
            self.code.line(f"{var} = {self.struct(child, var)}")
            return
        marker = self.code.local(f"{item.field.python}_marker", owner)
        self.pending.append(("b", marker))
        self.flush()
        null = "<= 0" if item.tagged else "< 0"
        with self.code.block(f"if {marker} {null}:"):
            self.code.line(f"{var} = None")
        with self.code.block("else:"):
            self.code.line(f"{var} = {self.struct(child, var)}")

    def array(self, item: Item, var: str, owner: str) -> None:
        self.length("i", item.compact)
        if item.nullable:
            with self.code.block("if count == -1:"):
                self.code.line(f"{var} = None")
            with self.code.block("else:"):
                self.elements(item, var)
        else:
            self.elements(item, var)

    def elements(self, item: Item, var: str) -> None:
        field, least = item.field, item.element_min_size
        needed = "count" if least == 1 else f"count * {least}"
        with self.code.block(f"if count < 0 or {needed} > size - at:"):
            self.code.line(f"{self.module.use('refuse_count')}({field.python!r}, count, size - at)")
        if field.type == "uuid":
            uuids = f"bytes(buffer[start : start + 16]) for start in range(at, at + {needed}, 16)"
            self.code.line(f"{var} = [{uuids}]")
            self.code.line(f"at += {needed}")
        elif field.type in FIXED:
            unpack = self.module.use_struct("unpack_from")
            numbers = f'{unpack}(f">{{count}}{FIXED[field.type]}", buffer, at)'
            if field.type == "int32":
                numbers = f"{self.module.use('INT32_UNPACK')}[count](buffer, at) if count < 16 else {numbers}"
            self.code.line(f"{var} = list({numbers})")
            self.code.line(f"at += {needed}")
        elif item.child is not None and (fmt := self.fixed_format(item.child)) is not None:
            self.fixed_elements(item.child, var, fmt, needed)
        else:
            self.loop(item, var)

    def fixed_format(self, child: Layout) -> str | None:
        """The format of elements that have no variable part at all."""
        if child.flexible or not child.items:
            return None
        plain = all(item.field.type in FIXED and not item.field.array for item in child.items)
        return "".join(FIXED[item.field.type] for item in child.items) if plain else None

    def fixed_elements(self, child: Layout, var: str, fmt: str, needed: str) -> None:
        names = {item.field.name: self.code.local(item.field.python, var) for item in child.items}
        arguments = [names.get(field.name) or self.default(field) for field in child.struct.fields]
        targets = ", ".join(names.values()) + ("," if len(names) == 1 else "")
        self.code.line(f"stop = at + {needed}")
        self.code.line(f"{var} = [")
        self.code.line(f"    {child.struct.name}({', '.join(arguments)})")
        self.code.line(f"    for {targets} in {self.module.iterator(fmt)}(buffer[at:stop])")
        self.code.line("]")
        self.code.line("at = stop")

    def loop(self, item: Item, var: str) -> None:
        self.code.line(f"{var} = []")
        with self.code.block("for _ in range(count):"):
            if item.child is not None:
                self.code.line(f"{var}.append({self.struct(item.child, var)})")
            else:
                element = self.code.local("element", var)
                self.sized(Item(item.field, False, item.compact, None), element)
                self.code.line(f"{var}.append({element})")

    def tags(self, layout: Layout, owner: str, values: dict[str, str]) -> None:
        """The tagged section. As in Kafka, unknown tags pass, in any order, and the last of duplicates counts."""
        self.pending.append(("B", "tags"))
        self.flush()
        if not layout.tagged:
            with self.code.block("if tags:"):
                self.code.line(f"at = {self.module.use('skip_tags')}(buffer, at - 1)")
            return
        for item in layout.tagged:
            values[item.field.name] = var = self.code.local(item.field.python, owner)
            annotation = "" if item.field.type == "records" else f": {item.field.annotation}"
            self.code.line(f"{var}{annotation} = {self.default(item.field)}")
        with self.code.block("if tags:"):
            end, tag = self.code.local("end", owner), self.code.local("tag_number", owner)
            self.code.line(f"tags, at = {self.module.use('read_uvarint')}(buffer, at - 1)")
            with self.code.block("for _ in range(tags):"):
                self.code.line(f"{tag}, at, {end} = {self.module.use('read_tag')}(buffer, at)")
                for number, item in enumerate(layout.tagged):
                    with self.code.block(f"{'el' if number else ''}if {tag} == {item.field.tag}:"):
                        self.into(item, values[item.field.name], owner)
                        self.flush()
                        with self.code.block(f"if at != {end}:"):
                            self.code.line(f"{self.module.use('refuse_tag')}({item.field.python!r}, at, {end})")
                self.code.line(f"at = {end}")
