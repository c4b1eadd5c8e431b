"""Flat readers, of hot messages. Rule: before anything is sliced, looped over or allocated, its length is compared with
what is left. A request has a bounded number of elements and tagged fields in all, so that no request takes long.

Fixed-size values and the length prefix that follows them are one `struct` call, which checks the bounds itself. Its
values go straight into the fields of an object that was made before without its `__init__`: a call of the class would
cost more than all of its fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from protocol.generator.code import ITER, UNPACK, FunctionCode, ModuleCode
from protocol.generator.hot import bound
from protocol.generator.layout import Item, Layout
from protocol.generator.schema import FIXED, Field, Message, snake
from protocol.generator.writers import default_name


def read_function(name: str, message: Message, layout: Layout, module: ModuleCode) -> list[str]:
    """Return the source of a flat reader."""
    reader = _Reader(message, module)
    reader.struct(layout, "m")
    body = reader.code.lines
    if any("size" in line for line in body):
        body.insert(0, "    size = len(buffer)")
    if any("elements_left" in line for line in body):
        body.insert(0, f"    elements_left = {module.use(bound(message.name))}")
    return [f"def {name}(buffer: Buffer, at: int) -> tuple[{message.name}, int]:", *body, "    return m, at"]


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
        else:
            targets = f"({names},)" if len(self.pending) == 1 else names
            self.code.line(f"{targets} = {self.module.format(UNPACK, fmt)}(buffer, at)")
        self.code.line(f"at += {struct.calcsize('>' + fmt)}")
        self.pending = []

    def struct(self, layout: Layout, var: str) -> None:
        """Make the object `var` and read all fields."""
        self.code.line(f"{var} = {self.module.use('new')}({layout.struct.name})")
        set_missing(layout, var, self.code)
        for item in layout.items:
            self.into(item, var)
        if layout.flexible:
            self.tags(layout, var)
        self.flush()

    def into(self, item: Item, owner: str) -> None:
        """Read a field of the object `owner`."""
        field = item.field
        target = f"{owner}.{field.python}"
        if field.array:
            self.array(item, target, owner)
        elif item.child is not None:
            self.nested(item, item.child, target, owner)
        elif field.type in FIXED:
            self.pending.append((FIXED[field.type], target))
        else:
            self.sized(item, target)

    def length(self, classic: str, compact: bool) -> None:
        """Read the length prefix into `count`; any number below 0 is null, as in Kafka."""
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
        """Read a string, bytes or records."""
        field = item.field
        self.length("h" if field.type == "string" else "i", item.compact)
        with self.unless("count < 0" if item.nullable else None, var):
            self.slice(field, var, item.compact)

    @contextmanager
    def unless(self, is_null: str | None, target: str) -> Iterator[None]:
        """Read in the block what is not null. is_null: the condition for null, which sets `target`; None without."""
        if is_null is None:
            yield
            return
        with self.code.block(f"if {is_null}:"):
            self.code.line(f"{target} = None")
        with self.code.block("else:"):
            yield

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

    def nested(self, item: Item, child: Layout, target: str, owner: str) -> None:
        var, is_null = self.code.local(item.field.python, _inside(owner)), None
        if item.nullable:
            marker = self.code.local(f"{item.field.python}_marker", _inside(owner))
            self.pending.append(("b", marker))
            self.flush()
            is_null = f"{marker} {'<= 0' if item.tagged else '< 0'}"
        with self.unless(is_null, target):
            self.struct(child, var)
            self.code.line(f"{target} = {var}")

    def array(self, item: Item, target: str, owner: str) -> None:
        self.length("i", item.compact)
        with self.unless("count < 0" if item.nullable else None, target):
            self.elements(item, target, owner)

    def elements(self, item: Item, target: str, owner: str) -> None:
        field, least = item.field, item.element_min_size
        needed = "count" if least == 1 else f"count * {least}"
        refuse = self.module.use("refuse_count")
        if self.message.is_bounded:
            self.code.line("elements_left -= count")
            with self.code.block(f"if count < 0 or elements_left < 0 or {needed} > size - at:"):
                self.code.line(f"{refuse}({field.python!r}, count, size - at, elements_left)")
        else:
            with self.code.block(f"if count < 0 or {needed} > size - at:"):
                self.code.line(f"{refuse}({field.python!r}, count, size - at)")
        if field.type == "uuid":
            uuids = f"bytes(buffer[start : start + 16]) for start in range(at, at + {needed}, 16)"
            self.code.line(f"{target} = [{uuids}]")
            self.code.line(f"at += {needed}")
        elif field.type in FIXED:
            unpack = self.module.use_struct("unpack_from")
            numbers = f'{unpack}(f">{{count}}{FIXED[field.type]}", buffer, at)'
            if field.type == "int32":
                numbers = f"{self.module.use('INT32_UNPACK')}[count](buffer, at) if count < 16 else {numbers}"
            self.code.line(f"{target} = list({numbers})")
            self.code.line(f"at += {needed}")
        else:
            var = self.code.local(field.python, _inside(owner))
            self.code.line(f"{var} = []")
            if item.child is not None and (fmt := self.fixed_format(item.child)) is not None:
                self.fixed_elements(item.child, var, fmt, needed)
            else:
                self.loop(item, var)
            self.code.line(f"{target} = {var}")

    def fixed_format(self, child: Layout) -> str | None:
        """Return the format of elements without any variable part."""
        if child.flexible or not child.items:
            return None
        plain = all(item.field.type in FIXED and not item.field.array for item in child.items)
        return "".join(FIXED[item.field.type] for item in child.items) if plain else None

    def fixed_elements(self, child: Layout, var: str, fmt: str, needed: str) -> None:
        element = self.code.local(snake(child.struct.name), var)
        self.code.line(f"stop = at + {needed}")
        with self.code.block(f"for values in {self.module.format(ITER, fmt)}(buffer[at:stop]):"):
            self.code.line(f"{element} = {self.module.use('new')}({child.struct.name})")
            targets = ", ".join(f"{element}.{item.field.python}" for item in child.items)
            self.code.line(f"{targets}{',' if len(child.items) == 1 else ''} = values")
            set_missing(child, element, self.code)
            self.code.line(f"{var}.append({element})")
        self.code.line("at = stop")

    def loop(self, item: Item, var: str) -> None:
        with self.code.block("for _ in range(count):"):
            if item.child is not None:
                element = self.code.local(snake(item.field.type), var)
                self.struct(item.child, element)
            else:
                element = self.code.local("element", var)
                self.sized(Item(item.field, False, item.compact, None), element)
            self.code.line(f"{var}.append({element})")

    def tags(self, layout: Layout, owner: str) -> None:
        """Read the tagged section. As in Kafka, unknown tags pass, in any order, and the last of duplicates counts."""
        self.pending.append(("B", "tags"))
        self.flush()
        if not layout.tagged:
            with self.code.block("if tags:"):
                if self.message.is_bounded:
                    skip = self.module.use("skip_counted_tags")
                    self.code.line(f"at, elements_left = {skip}(buffer, at - 1, elements_left)")
                else:
                    self.code.line(f"at = {self.module.use('skip_tags')}(buffer, at - 1)")
            return
        with self.code.block("if tags:"):
            inside = _inside(owner)
            end, tag = self.code.local("end", inside), self.code.local("tag_number", inside)
            self.code.line(f"tags, at = {self.module.use('read_uvarint')}(buffer, at - 1)")
            if self.message.is_bounded:
                self.code.line(f"elements_left = {self.module.use('count_tags')}(tags, elements_left)")
            with self.code.block("for _ in range(tags):"):
                self.code.line(f"{tag}, at, {end} = {self.module.use('read_tag')}(buffer, at)")
                for number, item in enumerate(layout.tagged):
                    with self.code.block(f"{'el' if number else ''}if {tag} == {item.field.tag}:"):
                        self.into(item, owner)
                        self.flush()
                        with self.code.block(f"if at != {end}:"):
                            self.code.line(f"{self.module.use('refuse_tag')}({item.field.python!r}, at, {end})")
                self.code.line(f"at = {end}")


def set_missing(layout: Layout, var: str, code: FunctionCode) -> None:
    """Give the fields of the object `var` that are not in the layout, or tagged, the values that they have then."""
    read = {item.field.name for item in layout.items}
    for field in layout.struct.fields:
        if field.name not in read:
            code.line(f"{var}.{field.python} = {default_value(field, code.module)}")


def default_value(field: Field, module: ModuleCode) -> str:
    """Return the value of a field that is missing in a version."""
    literal = field.default_literal
    if literal == "EMPTY":
        return "[]" if field.array else default_name(field)
    if literal == "ZERO_UUID":
        module.use("ZERO_UUID")
    return literal


def _inside(owner: str) -> str:
    """Return the prefix for local variables of an object's fields, empty for the message itself."""
    return "" if owner == "m" else owner
