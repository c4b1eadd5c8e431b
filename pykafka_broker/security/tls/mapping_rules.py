"""`ssl.principal.mapping.rules` (KIP-371): from the name of a certificate to that of a user.

Rule: the first rule whose expression matches the whole name counts; `DEFAULT` takes the name as it is. Rules are read
when the listener is bound, so that a mistake is told then.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pykafka_broker.security.tls.java_regex import compile_java, replacement

_RULE = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^/])*)/((?:\\.|[^/])*)/([LU]?)")
_NEXT = re.compile(r"\s*(?:,\s*|$)")


class NoRuleApplies(ValueError):
    """The client has a name that no rule makes a user of."""


class _Rule(NamedTuple):
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
    """Raises ValueError for what is no list of rules."""

    def __init__(self, text: str) -> None:
        self._rules: list[_Rule | None] = []  # None: DEFAULT
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
        """Names are taken as they are."""
        return self._rules[:1] == [None]

    def user(self, name: str) -> str:
        """Raises NoRuleApplies."""
        for rule in self._rules:
            mapped = name if rule is None else rule.apply(name)
            if mapped is not None:
                return mapped
        rules = ", ".join("DEFAULT" if rule is None else rule.text for rule in self._rules)
        raise NoRuleApplies(f"No rules apply to {name}, rules [{rules}]")


def _rule(found: re.Match[str]) -> _Rule:
    case = f"/{found[4]}" if found[4] else ""
    pattern = compile_java(found[2])
    return _Rule(pattern, replacement(found[3], pattern), found[4], f"RULE:{found[2]}/{found[3]}{case}")
