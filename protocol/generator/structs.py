"""Writers and readers that are not flat. Rule: one function per struct and layout, however many versions
and places share it; lengths, counts and tags are the business of `MessageReader` and of the runtime's helpers.
"""

from __future__ import annotations

from protocol.generator.code import STRUCT, FunctionCode, ModuleCode
from protocol.generator.hot import bound, flat_reader, flat_writer
from protocol.generator.layout import Item, Layout
from protocol.generator.readers import set_missing
from protocol.generator.schema import FIXED, Message, snake
from protocol.generator.writers import Writer


class StructFunctions:
    """The functions of a message's structs, made for the first version in need."""

    def __init__(self, message: Message, module: ModuleCode) -> None:
        self.message = message
        self.module = module
        self.writes = not flat_writer(message.name)
        self.reads = not flat_reader(message.name)
        self._suffixes: dict[Layout, str] = {}

    def make(self, layout: Layout, version: int) -> list[str]:
        """Return the functions of the structs inside `layout` that are new in this version, innermost first."""
        lines: list[str] = []
        for item in (*layout.items, *layout.tagged):
            child = item.child
            if child is None or child in self._suffixes:
                continue
            lines += self.make(child, version)
            self._suffixes[child] = f"{snake(child.struct.name)}_v{version}"
            if self.writes:
                lines += ["", "", *self.write_function(self.writer(child), child)]
            if self.reads:
                lines += ["", "", *self._read_function(child)]
        return lines

    def writer(self, layout: Layout) -> str:
        return f"_write_{self._suffixes[layout]}"

    def reader(self, layout: Layout) -> str:
        return f"_read_{self._suffixes[layout]}"

    def write_function(self, name: str, layout: Layout) -> list[str]:
        """Return the source of a struct's writer."""
        writer = _StructWriter(self)
        writer.struct(layout, "m")
        writer.flush()
        body = writer.code.lines or ["    pass"]
        return [f"def {name}(m: {layout.struct.name}, w: Write) -> None:", *body]

    def _read_function(self, layout: Layout) -> list[str]:
        head = f"def {self.reader(layout)}(r: {self.module.use('MessageReader')}) -> {layout.struct.name}:"
        return [head, *self._read_fields(layout), "    return m"]

    def root_read_function(self, name: str, layout: Layout) -> list[str]:
        """Return the source of a whole message's reader."""
        most = f", {self.module.use(bound(self.message.name))}" if self.message.is_bounded else ""
        return [
            f"def {name}(buffer: Buffer, at: int) -> tuple[{self.message.name}, int]:",
            f"    r = {self.module.use('MessageReader')}(buffer, at{most})",
            *self._read_fields(layout),
            "    return m, r.at",
        ]

    def _read_fields(self, layout: Layout) -> list[str]:
        reader = _StructReader(self)
        reader.struct(layout)
        return reader.code.lines


class _StructWriter(Writer):
    """The flat writer with calls in place of whatever has a variable size."""

    def __init__(self, functions: StructFunctions) -> None:
        super().__init__(functions.message, functions.module)
        self.functions = functions

    def string(self, item: Item, expression: str, owner: str) -> None:
        form = "compact" if item.compact else "classic"
        helper = self.module.use(f"{form}_nullable_string" if item.nullable else f"{form}_string")
        self.flush(f"{helper}({expression})")

    def compact_length(self, length: str, long_form: str, *tail: str) -> None:
        self.flush(f"{self.module.use('uvarint')}({length} + 1)", *tail)

    def child(self, layout: Layout, expression: str) -> None:
        self.flush()
        self.code.line(f"{self.functions.writer(layout)}({expression}, {self.sink})")

    def element_string(self, item: Item, element: str) -> None:
        helper = self.module.use("compact_string" if item.compact else "classic_string")
        self.flush(f"{helper}({element})")


class _StructReader:
    """The lines that make a struct, `m`, from the reader `r`."""

    def __init__(self, functions: StructFunctions) -> None:
        self.functions = functions
        self.module = functions.module
        self.code = FunctionCode(functions.module)
        self.pending: list[tuple[str, str]] = []

    def struct(self, layout: Layout) -> None:
        self.code.line(f"m = {self.module.use('new')}({layout.struct.name})")
        set_missing(layout, "m", self.code)
        for item in layout.items:
            self.into(item)
        self.flush()
        if layout.tagged:
            self.tags(layout)
        elif layout.flexible:
            self.code.line("r.skip_tags()")

    def flush(self) -> None:
        """Read the pending fields of fixed size, with a single call."""
        if self.pending:
            fmt = "".join(part for part, _ in self.pending)
            names = ", ".join(name for _, name in self.pending)
            targets = f"({names},)" if len(self.pending) == 1 else names
            self.code.line(f"{targets} = r.fixed({self.module.format(STRUCT, fmt)})")
            self.pending = []

    def into(self, item: Item) -> None:
        target = f"m.{item.field.python}"
        if item.child is None and not item.field.array and item.field.type in FIXED:
            self.pending.append((FIXED[item.field.type], target))
            return
        self.flush()
        self.code.line(f"{target} = {self.value(item)}")

    def value(self, item: Item) -> str:
        """Return the expression for a field of variable size."""
        field, name = item.field, repr(item.field.python)
        nullable = "nullable_" if item.nullable else ""
        if not field.array and item.child is not None:
            read = self.functions.reader(item.child)
            if not item.nullable:
                return f"{read}(r)"
            return f"{read}(r) if r.marker() {'> 0' if item.tagged else '>= 0'} else None"
        length = "r.compact_length()" if item.compact else "r.length()"
        if not field.array:
            if field.type == "string" and not item.compact:
                length = "r.short_length()"
            return f"r.{nullable}{field.type}({length}, {name})"
        least = item.element_min_size
        if item.child is not None:
            return f"r.{nullable}structs({length}, {name}, {least}, {self.functions.reader(item.child)})"
        if field.type == "uuid":
            return f"r.{nullable}uuids({length}, {name})"
        if field.type in FIXED:
            return f'r.{nullable}numbers({length}, {name}, {least}, "{FIXED[field.type]}")'
        if field.type == "string":
            form = "compact" if item.compact else "classic"
            return f"r.{nullable}{form}_strings({length}, {name})"
        raise NotImplementedError(f"array of {field.type}")

    def tags(self, layout: Layout) -> None:
        with self.code.block("for tag, end in r.tags():"):
            for number, item in enumerate(layout.tagged):
                with self.code.block(f"{'el' if number else ''}if tag == {item.field.tag}:"):
                    self.into(item)
                    self.flush()
                    self.code.line(f"r.end_tag({item.field.python!r}, end)")
