"""Flat writers, of hot messages. Rule: neighbouring fields of fixed size, a length prefix among them, become one
`struct` call.

Fixed-size values wait in `pending` until something of variable size must follow; statements that prepare it may stand
before the call, for they write nothing.
"""

from __future__ import annotations

import struct

from protocol.generator.code import PACK, FunctionCode, ModuleCode
from protocol.generator.layout import Item, Layout
from protocol.generator.schema import FIXED, Field, Message, snake


def write_function(name: str, message: Message, layout: Layout, module: ModuleCode) -> list[str]:
    """Return the source of a flat writer."""
    writer = Writer(message, module)
    writer.struct(layout, "m")
    writer.flush()
    body = writer.code.lines or ["    pass"]
    return [f"def {name}(m: {message.name}, w: Write) -> None:", *body]


class Writer:
    """The lines of a writer; the sink is `w`, or a list of pieces for a tagged field."""

    def __init__(self, message: Message, module: ModuleCode) -> None:
        self.message = message
        self.module = module
        self.code = FunctionCode(module)
        self.sink = "w"
        self.pending: list[tuple[str, str | None]] = []

    def flush(self, *tail: str) -> None:
        """Write the pending fields, then the expressions of `tail`, which are bytes."""
        parts = []
        if self.pending:
            fmt = "".join(part for part, _ in self.pending)
            values = ", ".join(value for _, value in self.pending if value is not None)
            if fmt == "x":
                parts.append(self.module.use("NO_TAGS"))
            else:
                parts.append(f"{self.module.format(PACK, fmt)}({values})")
            self.pending = []
        parts += tail
        if len(parts) > 1:
            parts = [f"({part})" if " else " in part else part for part in parts]
        if parts:
            self.code.line(f"{self.sink}({' + '.join(parts)})")

    def struct(self, layout: Layout, var: str) -> None:
        for field in layout.refused:
            with self.code.block(f"if {self.is_set(field, f'{var}.{field.python}')}:"):
                self.code.line(f"{self.module.use('refuse_field')}({field.python!r})")
        owner = "" if var == "m" else var
        for item in layout.items:
            self.item(item, f"{var}.{item.field.python}", owner)
        if layout.tagged:
            self.tags(layout, var, owner)
        elif layout.flexible:
            self.pending.append(("x", None))

    def is_set(self, field: Field, expression: str) -> str:
        """Return the condition for a field with another value than the default."""
        if field.default_is_null:
            return f"{expression} is not None"
        if field.array:
            return f"{expression} is None or {expression}" if field.nullable else expression
        if field.is_struct:
            inner = self.message.structs[field.type].fields
            different = " or ".join(self.is_set(child, f"{expression}.{child.python}") for child in inner)
            null = f"{expression} is None or " if field.nullable else ""
            return f"{null}{expression} is not {default_name(field)} and ({different})"
        if field.type in ("string", "bytes", "records"):
            if field.nullable or field.default:
                return f"{expression} != {field.default_literal}"
            return expression
        if field.type == "uuid":
            self.module.use("ZERO_UUID")
        if field.type == "bool":
            return f"not {expression}" if field.default == "true" else expression
        return f"{expression} != {field.default_literal}"

    def item(self, item: Item, expression: str, owner: str) -> None:
        field = item.field
        if field.annotation.endswith("None") and not item.nullable:
            expression = self.not_null(field, expression, owner)
        if field.array:
            self.array(item, expression, owner)
        elif item.child is not None:
            self.nested(item, item.child, expression, owner)
        elif field.type in FIXED:
            self.pending.append((FIXED[field.type], expression))
        elif field.type == "string":
            self.string(item, expression, owner)
        else:
            self.bytes(item, expression, owner)

    def not_null(self, field: Field, expression: str, owner: str) -> str:
        """Return a variable with the value, which may be null in other versions only."""
        var = self.code.local(field.python, owner)
        self.code.line(f"{var} = {expression}")
        with self.code.block(f"if {var} is None:"):
            self.code.line(f"{self.module.use('refuse_null')}({field.python!r})")
        return var

    def string(self, item: Item, expression: str, owner: str) -> None:
        if item.nullable:
            var = self.code.local(item.field.python, owner)
            self.code.line(f"{var} = {expression}")
            if item.compact:
                null, compact = self.module.use("NULL"), self.module.use("compact_string")
                self.flush(f"{null} if {var} is None else {compact}({var})")
                return
            self.code.line(f'raw = b"" if {var} is None else {var}.encode()')
            self.pending.append(("h", f"-1 if {var} is None else len(raw)"))
            self.flush("raw")
            return
        self.code.line(f"raw = {expression}.encode()")
        if item.compact:
            self.compact_length("len(raw)", "string_length", "raw")
        else:
            self.pending.append(("h", "len(raw)"))
            self.flush("raw")

    def compact_length(self, length: str, long_form: str, *tail: str) -> None:
        """Write a length plus 1 as varint; below 128 from a table."""
        short, long_form = self.module.use("UVARINT"), self.module.use(long_form)
        self.code.line(f"count = {length} + 1")
        self.flush(f"{short}[count] if count < 128 else {long_form}(count)", *tail)

    def bytes(self, item: Item, expression: str, owner: str) -> None:
        var = self.code.local(item.field.python, owner)
        self.code.line(f"{var} = {expression}")
        if item.compact:
            length = f"(-1 if {var} is None else len({var}))" if item.nullable else f"len({var})"
            self.compact_length(length, "uvarint")
        else:
            self.pending.append(("i", f"-1 if {var} is None else len({var})" if item.nullable else f"len({var})"))
            self.flush()
        with self.code.block(f"if {var}:"):
            self.code.line(f"{self.sink}({var})")

    def nested(self, item: Item, child: Layout, expression: str, owner: str) -> None:
        var = self.code.local(item.field.python, owner)
        self.code.line(f"{var} = {expression}")
        if not item.nullable:
            self.child(child, var)
            return
        self.flush()
        with self.code.block(f"if {var} is None:"):
            null = "\\0" if item.tagged else "\\xff"
            self.code.line(f'{self.sink}(b"{null}")')
        with self.code.block("else:"):
            self.code.line(f'{self.sink}(b"\\x01")')
            self.child(child, var)
            self.flush()

    def array(self, item: Item, expression: str, owner: str) -> None:
        field = item.field
        var = self.code.local(field.python, owner)
        self.code.line(f"{var} = {expression}")
        if field.type in FIXED and field.type != "uuid" and not item.nullable:
            self.fixed_array(item, var)
            return
        length = f"(-1 if {var} is None else len({var}))" if item.nullable else f"len({var})"
        if item.compact:
            self.compact_length(length, "uvarint")
        else:
            self.pending.append(("i", length))
            self.flush()
        self.elements(item, var, owner)

    def fixed_array(self, item: Item, var: str) -> None:
        """Write count and numbers as a single piece."""
        numbers = self.numbers(item.field, var)
        if item.compact:
            self.compact_length(f"len({var})", "uvarint", numbers)
        else:
            self.pending.append(("i", f"len({var})"))
            self.flush(numbers)

    def numbers(self, field: Field, var: str) -> str:
        """Return the bytes of an array of numbers; short lists of int32 (partitions) have prepared formats."""
        long = f'{self.module.use_struct("pack")}(f">{{len({var})}}{FIXED[field.type]}", *{var})'
        if field.type != "int32":
            return long
        return f"{self.module.use('INT32_PACK')}[len({var})](*{var}) if len({var}) < 16 else {long}"

    def elements(self, item: Item, var: str, owner: str) -> None:
        field, sink = item.field, self.sink
        if field.type == "uuid":
            with self.code.block(f"if {var}:"):
                self.code.line(f"{sink}({self.module.use('join_uuids')}({var}))")
        elif field.type in FIXED:
            with self.code.block(f"if {var}:"):
                self.code.line(f"{sink}({self.numbers(field, var)})")
        else:
            element = self.code.local(snake(field.type) if item.child else "element", owner or field.python)
            with self.code.block(f"for {element} in {var} or ():" if item.nullable else f"for {element} in {var}:"):
                if item.child is not None:
                    self.child(item.child, element)
                elif field.type == "string":
                    self.element_string(item, element)
                else:
                    raise NotImplementedError(f"array of {field.type}")
                self.flush()

    def child(self, layout: Layout, var: str) -> None:
        """Write the struct in `var`, which is not null."""
        self.struct(layout, var)

    def element_string(self, item: Item, element: str) -> None:
        self.code.line(f"raw = {element}.encode()")
        if item.compact:
            self.compact_length("len(raw)", "string_length", "raw")
        else:
            self.pending.append(("h", "len(raw)"))
            self.flush("raw")

    def tags(self, layout: Layout, var: str, owner: str) -> None:
        """Write the set tagged fields in the order of tags, each aside first, as the size comes before the field."""
        if len(layout.tagged) == 1 and layout.tagged[0].field.type in FIXED and not layout.tagged[0].field.array:
            self.fixed_tag(layout.tagged[0].field, f"{var}.{layout.tagged[0].field.python}")
            return
        self.flush()
        tagged = self.code.local("tagged", owner)
        self.code.line(f"{tagged}: {self.module.use('TaggedPieces')} = []")
        for item in layout.tagged:
            expression = f"{var}.{item.field.python}"
            with self.code.block(f"if {self.is_set(item.field, expression)}:"):
                pieces = self.code.local(f"{item.field.python}_pieces", owner)
                self.code.line(f"{pieces}: {self.module.use('Pieces')} = []")
                outer, self.sink = self.sink, f"{pieces}.append"
                self.item(item, expression, owner)
                self.flush()
                self.sink = outer
                self.code.line(f"{tagged}.append(({item.field.tag}, {pieces}))")
        self.code.line(f"{self.module.use('write_tags')}({self.sink}, {tagged})")

    def fixed_tag(self, field: Field, expression: str) -> None:
        """Write a struct's one tagged field, whose size is known, together with the fields in front."""
        before, fmt = self.pending, FIXED[field.type]
        with self.code.block(f"if {self.is_set(field, expression)}:"):
            heading = ("1", str(field.tag), str(struct.calcsize(f">{fmt}")))  # the count, the tag and the size
            self.pending = [*before, *(("B", number) for number in heading), (fmt, expression)]
            self.flush()
        with self.code.block("else:"):
            self.pending = [*before, ("x", None)]
            self.flush()


def default_name(field: Field) -> str:
    """Return the name of the module's shared default of a struct type."""
    return f"_DEFAULT_{snake(field.type).upper()}"
