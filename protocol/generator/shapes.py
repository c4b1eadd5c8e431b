"""Shapes: how the bytes of requests and responses lie, as plain data. Rule: only what it takes to find the fields in a
buffer and the lists in an object; what the fields mean is for the readers and writers.
"""

from __future__ import annotations

from protocol.generator.emit import MARK
from protocol.generator.layout import Item, Layout, layouts_of
from protocol.generator.schema import FIXED, Message

_SIZES = {"?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}


def shapes_module(messages: list[Message]) -> str:
    """`SHAPES` by message and version."""
    lines = [
        MARK,
        '"""The shapes of requests and responses by version; `cutting.py` says how they are to be read."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any",
        "",
        "SHAPES: dict[str, tuple[tuple[range, Any], ...]] = {",
    ]
    for message in messages:
        if message.kind in ("request", "response") and message.versions:
            lines.append(f'    "{message.name}": (')
            for layout, versions in layouts_of(message):
                lines += [f"        ({_range(run)}, {_struct(layout)})," for run in _runs(versions)]
            lines.append("    ),")
    return "\n".join([*lines, "}"]) + "\n"


def _runs(versions: list[int]) -> list[list[int]]:
    """Versions that follow one another."""
    runs: list[list[int]] = []
    for version in versions:
        if runs and runs[-1][-1] == version - 1:
            runs[-1].append(version)
        else:
            runs.append([version])
    return runs


def _range(run: list[int]) -> str:
    return f"range({run[0]}, {run[-1] + 1})"


def _struct(layout: Layout) -> str:
    fields = "".join(f"{_field(item)}, " for item in layout.items)
    tags = {item.field.tag: _field(item) for item in layout.tagged}
    known = f"{{{', '.join(f'{tag}: {field}' for tag, field in tags.items())}}}" if layout.flexible else "None"
    return f"(({fields.rstrip()}), {known})"


def _field(item: Item) -> str:
    if item.field.array:
        return f'("[", "{item.field.python}", {item.compact}, {_element(item)})'
    if item.child is not None:
        return f'("{"?" if item.nullable else "("}", "{item.field.python}", {item.tagged}, {_struct(item.child)})'
    return _element(item)


def _element(item: Item) -> str:
    if item.child is not None:
        return _struct(item.child)
    if item.field.type in FIXED:
        return str(_SIZES[FIXED[item.field.type]])
    return f'"{("S" if item.compact else "s") if item.field.type == "string" else ("B" if item.compact else "b")}"'


__all__ = ["shapes_module"]
