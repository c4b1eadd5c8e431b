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


_TOKEN = re.compile(
    r"""
    \\Q(?P<quoted>.*?)(?:\\E|\Z)
    |\\(?P<property>[pP])(?:\{(?P<members>\w+)\})?
    |\\(?P<reference>k)(?:<(?P<group>\w+)>)?
    |\\(?P<end>[zZhR])
    |\\.?
    |(?P<named>\(\?<(?![=!]))
    |\[\^?\]?  # a bracket at the beginning is a member
    |&&
    |.
    """,
    re.VERBOSE | re.DOTALL,
)


def compile_java(pattern: str) -> re.Pattern[str]:
    """Compile a Java expression. Raises ValueError with the reason."""
    in_set = False

    def translated(match: re.Match[str]) -> str:
        nonlocal in_set
        token, kind = match[0], match["property"]
        if match["quoted"] is not None:
            return re.escape(match["quoted"])
        if kind:
            members = _SETS.get(match["members"] or "")
            if members is None or (kind == "P" and in_set):
                raise ValueError(_UNSEEN.format(token))
            return members if in_set else f"[{'^' if kind == 'P' else ''}{members}]"
        if match["reference"]:
            if match["group"] is None:
                raise ValueError(r"\k is not followed by '<' for named capturing group")
            return f"(?P={match['group']})"
        if in_set:
            if token == "&&" or token[0] == "[":
                raise ValueError(_UNSEEN.format("set within a set"))
            in_set = token != "]"
            return token
        in_set = token[0] == "["
        return _END[match["end"]] if match["end"] else "(?P<" if match["named"] else token

    try:
        return re.compile(_TOKEN.sub(translated, pattern), re.ASCII)
    except re.error as error:
        raise ValueError(str(error)) from None


_PART = re.compile(r"\\(?P<escaped>.)|\$\{(?P<name>\w+)\}|\$(?P<digits>[0-9]+)|(?P<plain>[^\\$]+)", re.DOTALL)


def replacement(text: str, pattern: re.Pattern[str]) -> list[str | int]:
    """Return the parts of a Java replacement: text, and numbers of groups. Raises ValueError."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise ValueError("Illegal group reference" if text[at] == "$" else "character to be escaped is missing")
        at = found.end()
        if (name := found["name"]) is not None:
            if name not in pattern.groupindex:
                raise ValueError(f"No group with name {{{name}}}")
            parts.append(pattern.groupindex[name])
        elif (digits := found["digits"]) is not None:  # as many as still number a group
            end = 1
            while end < len(digits) and int(digits[: end + 1]) <= pattern.groups:
                end += 1
            if int(digits[:end]) > pattern.groups:
                raise ValueError(f"No group {digits[:end]}")
            parts.append(int(digits[:end]))
            at = found.start("digits") + end
        else:
            parts.append(found["escaped"] or found["plain"])
    return parts


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
