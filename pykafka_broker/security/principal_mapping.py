"""Names of clients by an operator's rules: from certificates (KIP-371) and from Kerberos principals.

Rule: the first rule that applies gives the name; a client without such a rule is refused. Rules are read when the
listener is bound, so that a mistake is told then. No TLS and no Kerberos library is needed here.

`ssl.principal.mapping.rules` map the name of a certificate's subject: a rule applies if the expression matches the
whole name, and `DEFAULT` takes the name as it is. A name is mapped once and remembered, since an operator's rule may be
expensive. Regular expressions are written for Java (`config/java_regex.py`).

`sasl.kerberos.principal.to.local.rules` map Kerberos principals: `DEFAULT` is the first component of a principal of the
broker's own realm; `RULE:[n:format](regex)s/from/to/g/L` is for principals of n components: $0 is the realm, $1 the
first component. A result that still has a realm or a host in it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pykafka_broker.config import ConfigError
from pykafka_broker.config.java_regex import compile_java
from pykafka_broker.security.tls.der import names_of, text_of

# -- replacements of Java


_PART = re.compile(r"\\(?P<escaped>.)|\$\{(?P<name>\w+)\}|\$(?P<digits>[0-9]+)|(?P<plain>[^\\$]+)", re.DOTALL)


def replacement(text: str, pattern: re.Pattern[str], *, lenient: bool = False) -> list[str | int]:
    """Return the parts of a Java replacement: text, and numbers of groups. Raises ValueError.

    lenient: `$3` of a pattern with two groups is text.
    """
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
            missing = int(digits[:end]) > pattern.groups
            if missing and not lenient:
                raise ValueError(f"No group {digits[:end]}")
            parts.append("$" if missing else int(digits[:end]))
            at = found.start("digits") + (0 if missing else end)
        else:
            parts.append(found["escaped"] or found["plain"])
    return parts


def _replaced(pattern: re.Pattern[str], parts: list[str | int], text: str, *, once: bool = False) -> str:
    """Return the text with the replacement in the place of every match, or of the first.

    As in Java, the search goes on a character behind an empty match; `re.sub` would look for a longer match there.
    """
    pieces: list[str] = []
    end = start = 0
    while start <= len(text) and (match := pattern.search(text, start)) is not None:
        pieces.append(text[end : match.start()])
        pieces += [part if isinstance(part, str) else match[part] or "" for part in parts]
        end = match.end()
        if once:
            break
        start = end if match[0] else end + 1
    return "".join((*pieces, text[end:]))


# -- names of certificates


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
        mapped = _replaced(self.pattern, self.parts, name)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped


class MappingRules:
    """The rules of a text for names of certificates (Kafka: SslPrincipalMapper). Raises ValueError."""

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
    parts = replacement(found[3], pattern, lenient=pattern.groups > 0)  # as Kafka: of a pattern without groups, no
    return _MappingRule(pattern, parts, found[4], f"RULE:{found[2]}/{found[3]}{case}")


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


# -- names of Kerberos principals


_KERBEROS_RULE = re.compile(
    r"(?P<default>DEFAULT)|RULE:\[(?P<count>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_KERBEROS_PRINCIPAL = re.compile("([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_NOT_SIMPLE = re.compile(r"[/@]")
_PLACE = re.compile(r"\$([0-9]*)")


class NoName(Exception):
    """No rule gives a name for a Kerberos principal."""


class _KerberosRule(NamedTuple):
    """A rule; components: None for DEFAULT."""

    components: int | None
    format: str
    match: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    parts: list[str | int]  # of the replacement
    once: bool  # replace the first match only
    case: str

    def name(self, realm: str, components: Sequence[str], own_realm: str) -> str | None:
        if self.components is None:
            return components[0] if realm == own_realm else None
        if self.components != len(components):
            return None
        values = [realm, *components]
        if any(not digits or int(digits) >= len(values) for digits in _PLACE.findall(self.format)):
            raise NoName  # no later rule counts
        base = _PLACE.sub(lambda place: values[int(place[1])], self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        found = base if self.pattern is None else _replaced(self.pattern, self.parts, base, once=self.once)
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found


class KerberosNames:
    """The rules of a listener for Kerberos principals (Kafka: KerberosShortNamer).

    Raises ConfigError for an unreadable rule.
    """

    def __init__(self, rules: Sequence[str], own_realm: str) -> None:
        self._rules = [_kerberos_rule(text.strip()) for text in rules]
        self._own_realm = own_realm

    def name_of(self, principal: str) -> str:
        """Return the name for a principal. Raises NoName."""
        if principal and "@" not in principal:
            return principal
        match = _KERBEROS_PRINCIPAL.fullmatch(principal)
        if match is None:
            raise NoName
        primary, host, realm = match.groups()
        components = [primary] if host is None else [primary, host]
        for rule in self._rules:
            found = rule.name(realm, components, self._own_realm)
            if found is None:
                continue
            if not found or _NOT_SIMPLE.search(found):
                raise NoName
            return found
        raise NoName


def _kerberos_rule(text: str) -> _KerberosRule:
    match = _KERBEROS_RULE.fullmatch(text)
    try:
        if match is None:
            raise ValueError("it is neither DEFAULT nor RULE:[n:format](regex)s/from/to/g/L")
        if match["default"]:
            return _KerberosRule(None, "", None, None, [], False, "")
        wanted = None if match["match"] is None else compile_java(match["match"])
        pattern = None if match["pattern"] is None else compile_java(match["pattern"])
        parts = [] if pattern is None else replacement(match["replacement"] or "", pattern)
    except ValueError as error:
        raise ConfigError(
            f"Invalid value {text} for configuration sasl.kerberos.principal.to.local.rules: {error}"
        ) from None
    return _KerberosRule(
        int(match["count"]),
        match["format"],
        wanted,
        pattern,
        parts,
        not match["all"],
        match["case"] or "",
    )
