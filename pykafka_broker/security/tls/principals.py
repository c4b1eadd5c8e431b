"""Names of clients from certificates: the name of its subject, mapped by `ssl.principal.mapping.rules` (KIP-371).

Rule: the first rule whose expression matches the whole name counts; `DEFAULT` takes the name as it is. Rules are read
when the listener is bound, so that a mistake is told then. A name is mapped once and remembered, since an operator's
rule may be expensive.

A module of its own, since TLS of the server, a layer above, is its only reader.

Regular expressions are written for Java: spellings that both languages read alike are passed on, those that differ are
rewritten, and those without a counterpart in Python are refused: a rule that quietly matched something else would give
a client another's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from pykafka_broker.security.tls.der import names_of, text_of

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
    """Compile a Java expression. Raises ValueError with the reason."""
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
            return self._take(start + (rest[start : start + 1] == "]"))  # a bracket at the beginning is a member
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
    """Return the parts of a Java replacement: text, and numbers of groups. Raises ValueError."""
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
    """Return the group, and where the text goes on."""
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


_RULE = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^/])*)/((?:\\.|[^/])*)/([LU]?)")
_NEXT = re.compile(r"\s*(?:,\s*|$)")


class NoRuleApplies(ValueError):
    """No rule gives a user for the client's name."""


class _MappingRule(NamedTuple):
    pattern: re.Pattern[str]
    parts: list[str | int]
    case: str
    text: str

    def apply(self, name: str) -> str | None:
        if self.pattern.fullmatch(name) is None:
            return None
        # All matches, as Kafka does: an expression that also matches nothing is replaced once more at the end.
        mapped = self.pattern.sub(self._replaced, name)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped

    def _replaced(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self.parts)


class MappingRules:
    """The rules of a text. Raises ValueError."""

    def __init__(self, text: str) -> None:
        self._rules: list[_MappingRule | None] = []  # None: DEFAULT
        at, text = 0, text.strip()
        while at < len(text):
            found = _RULE.match(text, at)
            end = _NEXT.match(text, found.end()) if found is not None else None
            if found is None or end is None:
                left = text[at if found is None else found.end() :]
                raise ValueError(f"Invalid rule: `{text}`, unmatched substring: `{left}`")
            self._rules.append(None if found[1] else _rule(found))
            at = end.end()

    @property
    def is_default(self) -> bool:
        """Return whether names are taken unchanged."""
        return self._rules[:1] == [None]

    def user(self, name: str) -> str:
        """Return the user for a name. Raises NoRuleApplies."""
        for rule in self._rules:
            mapped = name if rule is None else rule.apply(name)
            if mapped is not None:
                return mapped
        rules = ", ".join("DEFAULT" if rule is None else rule.text for rule in self._rules)
        raise NoRuleApplies(f"No rules apply to {name}, rules [{rules}]")


def _rule(found: re.Match[str]) -> _MappingRule:
    case = f"/{found[4]}" if found[4] else ""
    pattern = compile_java(found[2])
    return _MappingRule(pattern, replacement(found[3], pattern), found[4], f"RULE:{found[2]}/{found[3]}{case}")


_REMEMBERED = 1000


class Principals:
    """Principals by certificate.

    guarded: calls the function with the name, and raises ValueError if that takes too long.
    """

    def __init__(self, rules: MappingRules, guarded: Callable[[Callable[[str], str], str], str]) -> None:
        self._rules = rules
        self._guarded = guarded
        self._known: dict[bytes, str | ValueError] = {}  # by the DER of the subject

    def of(self, certificate: bytes) -> str:
        """Return `User:` and the name. Raises ValueError if no rule gives a name."""
        subject = names_of(certificate).subject
        found = self._known.get(subject)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[subject] = self._map(text_of(subject))
        if isinstance(found, ValueError):
            raise found
        return found

    def _map(self, name: str) -> str | ValueError:
        if self._rules.is_default:
            return f"User:{name}"
        try:
            return f"User:{self._guarded(self._rules.user, name)}"
        except ValueError as error:
            return error
