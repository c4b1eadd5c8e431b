"""The text of a module while it is written. Rule: what a function needs from outside is asked for here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# Names that the generated functions use for themselves; a field of that name gets another local variable.
RESERVED = {
    "m", "w", "buffer", "at", "size", "stop", "count", "raw", "tags", "start", "values", "new",
    "range", "len", "list", "str", "bytes", "memoryview", "pack", "unpack_from",
}  # fmt: skip

# Of a struct format that is compiled once: the beginning of its name, and what is done with it.
PACK, UNPACK, ITER, STRUCT = "PACK", "UNPACK", "ITER", "STRUCT"
_USES = {PACK: ".pack", UNPACK: ".unpack_from", ITER: ".iter_unpack", STRUCT: ""}


class ModuleCode:
    """The common parts of a module's functions: imports of the runtime and precompiled formats."""

    def __init__(self) -> None:
        self.runtime: set[str] = set()
        self.struct_functions: set[str] = set()
        self.typing: set[str] = set()
        self._formats: dict[str, set[str]] = {use: set() for use in _USES}

    def use(self, name: str) -> str:
        self.runtime.add(name)
        return name

    def use_struct(self, name: str) -> str:
        self.struct_functions.add(name)
        return name

    def format(self, use: str, fmt: str) -> str:
        """Return the name of a precompiled format: of its method, or for `STRUCT` of the format itself."""
        self._formats[use].add(fmt)
        return f"_{use}_{fmt.replace('?', 'o')}"

    def definitions(self) -> list[str]:
        """Return the precompiled formats, a line each."""
        return [
            f'{self.format(use, fmt)} = Struct(">{fmt}"){_USES[use]}'
            for use, formats in self._formats.items()
            for fmt in sorted(formats)
        ]

    def imports(self) -> list[str]:
        names = sorted(self.struct_functions | ({"Struct"} if self.definitions() else set()))
        lines = [f"from struct import {', '.join(names)}"] if names else []
        return lines + ([f"from typing import {', '.join(sorted(self.typing))}"] if self.typing else [])


class FunctionCode:
    """The lines of a function, with indentation and local names."""

    def __init__(self, module: ModuleCode) -> None:
        self.module = module
        self.lines: list[str] = []
        self.depth = 1
        self._taken: set[str] = set()

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    def local(self, name: str, owner: str) -> str:
        """Return a new variable for the field `name`, with the name of `owner` where the plain name is taken."""
        for candidate in (name, f"{owner}_{name}"):
            if candidate not in RESERVED and candidate not in self._taken:
                break
        else:
            number = 2
            while f"{candidate}_{number}" in self._taken:
                number += 1
            candidate = f"{candidate}_{number}"
        self._taken.add(candidate)
        return candidate
