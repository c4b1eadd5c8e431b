"""Regular expressions as Java reads them, for Python's.

Rule: what both read alike is passed on, what only the spelling tells apart is rewritten, and what Python has no words
for is refused: a rule that quietly matched something else would give a client another's name.
"""

from __future__ import annotations

import re

_SETS = {
    "Alpha": "a-zA-Z",
    "Lower": "a-z",
    "Upper": "A-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "XDigit": "0-9a-fA-F",
    "Punct": r"!-/:-@\[-`{-~",
    "Blank": r" \t",
    "Space": r" \t\n\x0b\f\r",
    "ASCII": r"\x00-\x7f",
}
_END = {"z": r"\Z", "Z": r"(?=\n?\Z)", "h": r"[ \t\xa0]", "R": r"(?:\r\n|[\n\x0b\f\r])"}
_UNSEEN = "its {} can't be read here"


def compile_java(pattern: str) -> re.Pattern[str]:
    """Raises ValueError with what is wrong."""
    try:
        return re.compile(_Translator(pattern).run(), re.ASCII)
    except re.error as error:
        raise ValueError(str(error)) from None


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._in_set = False

    def run(self) -> str:
        out = []
        while self._at < len(self._pattern):
            out.append(self._next())
        return "".join(out)

    def _next(self) -> str:
        rest = self._pattern[self._at :]
        char = rest[0]
        if char == "\\":
            return self._escape(rest)
        if self._in_set:
            if rest.startswith("&&") or char == "[":
                raise ValueError(_UNSEEN.format("set within a set"))
            self._in_set = char != "]"
            return self._take(1)
        if char == "[":
            self._in_set = True
            start = 2 if rest[1:2] == "^" else 1
            return self._take(start + (rest[start : start + 1] == "]"))  # at the beginning it is a member
        if rest.startswith("(?<") and rest[3:4] not in ("=", "!"):
            self._at += 3
            return "(?P<"
        return self._take(1)

    def _take(self, count: int) -> str:
        taken = self._pattern[self._at : self._at + count]
        self._at += count
        return taken

    def _escape(self, rest: str) -> str:
        letter = rest[1:2]
        if letter == "Q":
            quoted, _, _ = rest[2:].partition(r"\E")
            self._at += min(len(rest), 4 + len(quoted))
            return re.escape(quoted)
        if letter in ("p", "P"):
            return self._property(rest)
        if letter in _END and not self._in_set:
            self._at += 2
            return _END[letter]
        if letter == "k":
            name = re.match(r"\\k<(\w+)>", rest)
            if name is None:
                raise ValueError(r"\k is not followed by '<' for named capturing group")
            self._at += len(name[0])
            return f"(?P={name[1]})"
        return self._take(2)

    def _property(self, rest: str) -> str:
        found = re.match(r"\\([pP])\{(\w+)\}", rest)
        members = _SETS.get(found[2]) if found is not None else None
        if found is None or members is None or (found[1] == "P" and self._in_set):
            raise ValueError(_UNSEEN.format(found[0] if found is not None else rest[:2]))
        self._at += len(found[0])
        if self._in_set:
            return members
        return f"[{'^' if found[1] == 'P' else ''}{members}]"


def replacement(text: str, pattern: re.Pattern[str]) -> list[str | int]:
    """What a Java replacement consists of: text, and numbers of groups. Raises ValueError."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            if at + 1 == len(text):
                raise ValueError("character to be escaped is missing")
            parts.append(text[at + 1])
            at += 2
        elif char == "$":
            group, at = _group(text, at + 1, pattern)
            parts.append(group)
        else:
            parts.append(char)
            at += 1
    return parts


def _group(text: str, at: int, pattern: re.Pattern[str]) -> tuple[int, int]:
    """The group that is meant, and where the text goes on."""
    named = re.compile(r"\{(\w+)\}").match(text, at)
    if named is not None:
        if named[1] not in pattern.groupindex:
            raise ValueError(f"No group with name {{{named[1]}}}")
        return pattern.groupindex[named[1]], named.end()
    if not text[at : at + 1].isdigit():
        raise ValueError("Illegal group reference")
    number, end = int(text[at]), at + 1
    if number > pattern.groups:
        raise ValueError(f"No group {number}")
    while text[end : end + 1].isdigit() and number * 10 + int(text[end]) <= pattern.groups:
        number = number * 10 + int(text[end])
        end += 1
    return number, end
