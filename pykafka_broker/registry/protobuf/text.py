"""A `.proto` text without what does not count in it.

Rule: the words are the same in the same order; comments go, and white space is what stands between them in one style.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
    for word in _words(text):
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


def _words(text: str) -> Iterator[str]:
    for found in _WORD.finditer(text):
        if found.group("skip") is None:
            yield found.group()


def _is_close(line: str, word: str) -> bool:
    """Whether the word stands at the last one without a space."""
    last = line[-1:]
    if not line.strip() or word in _NONE_BEFORE or last in _NONE_AFTER:
        return True
    return (last == ")" and word.startswith(".")) or (word == "<" and line.endswith("map"))
