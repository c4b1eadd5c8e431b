"""Readers and writers of one partition: the messages that clients send and want most, without any object for them.

Rule: a reader takes the form that `SINGLES` in `hot.py` describes, which has exactly one topic with one partition, and
returns None for every other form, whole or damaged; it never raises. A writer writes that form. Neither knows what a
value means. What a field must be stands in the table: a field that it does not name is a value of the tuple that a
reader returns, or an argument of the writer, in the order of the schema.

The bounds of a slice need no check: whatever is cut short does not end where the buffer ends, or can't be unpacked.
"""

from __future__ import annotations

import struct

from protocol.generator.code import PACK, UNPACK, FunctionCode, ModuleCode
from protocol.generator.hot import AT_MOST_ONE, DEFAULT, NONE, ONE, SINGLES
from protocol.generator.layout import Item, Layout
from protocol.generator.readers import default_value
from protocol.generator.schema import FIXED, Field, Message, StructType

_DAMAGE = "(StructError, IndexError, ValueError)"


def single_functions(message: Message, layouts: list[tuple[Layout, list[int]]], module: ModuleCode) -> list[str]:
    """Return the functions of a message's single form and their table, by version; nothing for other messages."""
    rules = SINGLES.get(message.name)
    if rules is None:
        return []
    reads = message.kind == "request"
    lines: list[str] = []
    table: dict[int, str] = {}
    for layout, versions in layouts:
        served = [version for version in versions if version >= rules.first_version]
        if not served:
            continue
        name = f"_{'read' if reads else 'write'}_v{served[0]}_single"
        made = _Reader if reads else _Writer
        lines += ["", "", *made(message, rules.fields, layout, module).function(name)]
        table |= dict.fromkeys(served, name)
    rows = ", ".join(f"{version}: {name}" for version, name in table.items())
    names = ", ".join(name for name, _ in _values(message, message.root, rules.fields))
    constant = "SINGLE_READERS" if reads else "SINGLE_WRITERS"
    return [*lines, "", "", f"# {'values' if reads else 'arguments'}: {names}", f"{constant} = {{{rows}}}"]


def _values(message: Message, struct_type: StructType, rules: dict[str, str]) -> list[tuple[str, Field]]:
    """Return the fields that are values or arguments, in the order of the schema, with their names."""
    found: list[tuple[str, Field]] = []
    for field in struct_type.fields:
        rule = rules.get(field.python)
        if rule == AT_MOST_ONE:
            found.append((field.python, field))
        if rule in (ONE, AT_MOST_ONE):
            found += _values(message, message.structs[field.type], rules)
        elif rule is None and not field.tagged:
            found.append((field.python, field))
    return found


class _Single:
    """The part that reader and writer have in common."""

    def __init__(self, message: Message, rules: dict[str, str], layout: Layout, module: ModuleCode) -> None:
        self.message = message
        self.rules = rules
        self.layout = layout
        self.module = module
        self.code = FunctionCode(module)
        self.values = _values(message, message.root, rules)
        assert len({name for name, _ in self.values}) == len(self.values), "two values of one name"

    def child(self, item: Item) -> Layout:
        assert item.child is not None
        return item.child


class _Reader(_Single):
    def function(self, name: str) -> list[str]:
        self.pending: list[tuple[str, str]] = []
        self.checks: list[str] = []
        self.read: set[str] = set()
        self.code.depth = 2
        self.struct(self.layout)
        self.flush()
        missing = [
            f"        {name} = {default_value(field, self.module)}"
            for name, field in self.values
            if name not in self.read
        ]
        values = ", ".join(name for name, _ in self.values)
        self.module.use_struct("error as StructError")
        self.module.typing.add("Any")
        return [
            f"def {name}(buffer: Buffer, at: int) -> tuple[Any, ...] | None:",
            "    try:",
            *missing,
            *self.code.lines,
            "        if at != len(buffer):",
            "            return None",
            f"    except {_DAMAGE}:",
            "        return None",
            f"    return {values}",
        ]

    def flush(self) -> None:
        if self.pending:
            fmt = "".join(part for part, _ in self.pending)
            names = ", ".join(name for _, name in self.pending)
            if fmt == "B":
                self.code.line(f"{names} = buffer[at]")
            else:
                comma = "," if len(self.pending) == 1 else ""
                self.code.line(f"{names}{comma} = {self.module.format(UNPACK, fmt)}(buffer, at)")
            self.code.line(f"at += {struct.calcsize('>' + fmt)}")
            self.pending = []
        if self.checks:
            with self.code.block(f"if {' or '.join(self.checks)}:"):
                self.code.line("return None")
            self.checks = []

    def must_be(self, fmt: str, name: str, number: int) -> None:
        """Read a number that has one value in the single form."""
        self.pending.append((fmt, name))
        self.checks.append(f"{name} != {number}" if number else name)

    def struct(self, layout: Layout) -> None:
        for item in layout.items:
            self.item(item)
        if layout.flexible:
            self.must_be("B", self.code.local("tags_" + layout.struct.fields[0].python, "struct"), 0)

    def item(self, item: Item) -> None:
        field = item.field
        rule = self.rules.get(field.python)
        length = "B" if item.compact else "h" if field.type == "string" and not field.array else "i"
        if rule == ONE:
            self.must_be(length, f"{field.python}_count", 2 if item.compact else 1)
            self.struct(self.child(item))
        elif rule == AT_MOST_ONE:
            self.at_most_one(item, length)
        elif rule == NONE:
            self.must_be(length, f"{field.python}_count", -int(item.nullable) + int(item.compact))
        else:
            assert rule is None, field.name
            assert not field.array, field.name
            self.read.add(field.python)
            if field.type in FIXED:
                self.pending.append((FIXED[field.type], field.python))
            else:
                self.sized(item, length)

    def sized(self, item: Item, length: str) -> None:
        """Read a string or records, which are not null."""
        field = item.field
        self.pending.append((length, "count"))
        self.flush()
        if not item.compact:
            self.checks.append("count < 0")
            self.flush()
        elif field.type == "string":
            self.checks.append("not 0 < count < 128")
            self.flush()
            self.code.line("count -= 1")
        else:
            with self.code.block("if count > 127:"):
                self.code.line(f"count, at = {self.module.use('uvarint_rest')}(buffer, at, count)")
            with self.code.block("if count < 1:"):
                self.code.line("return None")
            self.code.line("count -= 1")
        self.code.line("stop = at + count")
        sliced = "buffer[at:stop]"
        self.code.line(f"{field.python} = " + (f'str({sliced}, "utf-8")' if field.type == "string" else sliced))
        self.code.line("at = stop")

    def at_most_one(self, item: Item, length: str) -> None:
        array, one = item.field.python, 2 if item.compact else 1
        self.read.add(array)
        self.pending.append((length, array))
        self.flush()
        inner = _values(self.message, self.message.structs[item.field.type], self.rules)
        with self.code.block(f"if {array} == {one}:"):
            before = set(self.read)
            self.struct(self.child(item))
            self.flush()
        with self.code.block(f"elif {array} == {one - 1}:"):
            for name, field in inner:
                if name in self.read - before:
                    self.code.line(f"{name} = {default_value(field, self.module)}")
        with self.code.block("else:"):
            self.code.line("return None")
        if item.compact:
            self.code.line(f"{array} -= 1")


class _Writer(_Single):
    def function(self, name: str) -> list[str]:
        self.pending: list[tuple[str, str]] = []
        self.parts: list[str] = []
        self.pieces: list[str] = ['b""']
        self.struct(self.layout)
        self.end_piece()
        arguments = ", ".join(f"{name}: {self.annotation(field)}" for name, field in self.values)
        self.module.use("Pieces")
        return [
            f"def {name}({arguments}) -> Pieces:",
            *self.code.lines,
            f"    return [{', '.join(self.pieces)}]",
        ]

    def annotation(self, field: Field) -> str:
        if field.type == "records":
            self.module.typing.add("Any")
            return "Any"
        return "bool" if field.array else field.annotation

    def flush(self) -> None:
        if self.pending:
            fmt = "".join(part for part, _ in self.pending)
            values = [value for _, value in self.pending]
            if all(value.lstrip("-").isdecimal() for value in values):
                self.parts.append(repr(struct.pack(f">{fmt}", *map(int, values))))
            else:
                self.parts.append(f"{self.module.format(PACK, fmt)}({', '.join(values)})")
            self.pending = []

    def end_piece(self) -> None:
        self.flush()
        if self.parts:
            self.pieces.append(" + ".join(self.parts))
            self.parts = []

    def struct(self, layout: Layout) -> None:
        for item in layout.items:
            self.item(item)
        if layout.flexible:
            self.pending.append(("B", "0"))

    def item(self, item: Item) -> None:
        field, compact = item.field, int(item.compact)
        rule = self.rules.get(field.python)
        length = "B" if compact else "h" if field.type == "string" and not field.array else "i"
        if rule == ONE:
            self.pending.append((length, str(1 + compact)))
            self.struct(self.child(item))
        elif rule == NONE:
            self.pending.append((length, str(-int(item.nullable) + compact)))
        elif rule == DEFAULT:
            self.pending.append((FIXED[field.type], field.default_literal))
        elif field.array:
            self.pending.append((length, f"{compact} if {field.python} else {compact - 1}"))
        elif field.type in FIXED:
            self.pending.append((FIXED[field.type], field.python))
        else:
            self.sized(item, length)

    def sized(self, item: Item, length: str) -> None:
        name = content = item.field.python
        if item.field.type == "string":
            content = f"{name}_bytes"
            self.code.line(f"{content} = {name}.encode()")
        if item.compact:
            self.flush()
            self.code.line(f"{name}_count = len({content}) + 1")
            short, long_form = self.module.use("UVARINT"), self.module.use("uvarint")
            self.parts.append(f"({short}[{name}_count] if {name}_count < 128 else {long_form}({name}_count))")
        else:
            self.pending.append((length, f"len({content})"))
        if item.field.type == "string":
            self.flush()
            self.parts.append(content)
        else:
            self.end_piece()
            self.pieces.append(content)
