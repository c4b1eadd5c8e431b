"""Names of Kerberos principals: `sasl.kerberos.principal.to.local.rules`.

Rule: the first rule that applies gives the name. A result that still has a realm or a host in it is refused, and so is
a principal that no rule applies to. `DEFAULT` is the first component of a principal of the broker's own realm;
`RULE:[n:format](regex)s/from/to/g/L` is for principals of n components: $0 is the realm, $1 the first component.

A module of its own, since the rules need no Kerberos library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pykafka_broker.config import ConfigError

_RULE = re.compile(
    r"(?P<default>DEFAULT)|RULE:\[(?P<count>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PRINCIPAL = re.compile(r"(?P<primary>[^/@]+)(?:/(?P<host>[^/@]+))?(?:@(?P<realm>[^/@]+))?")
_NOT_SIMPLE = re.compile(r"[/@]")
_PLACE = re.compile(r"\$(\d)")


class NoName(Exception):
    """No rule gives a name."""


class _KerberosRule(NamedTuple):
    """A rule; components: None for DEFAULT."""

    components: int | None
    format: str
    match: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: str
    replaced: int  # how many places, 0 for all
    case: str

    def name(self, realm: str, components: Sequence[str], own_realm: str) -> str | None:
        if self.components is None:
            return components[0] if realm == own_realm else None
        if self.components != len(components):
            return None
        values = [realm, *components]
        base = _PLACE.sub(lambda place: values[int(place[1])] if int(place[1]) < len(values) else "", self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        found = base if self.pattern is None else self.pattern.sub(self.replacement, base, self.replaced)
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found


class KerberosNames:
    """The rules of a listener. Raises ConfigError for an unreadable rule."""

    def __init__(self, rules: Sequence[str], own_realm: str) -> None:
        self._rules = [_rule(text.strip()) for text in rules]
        self._own_realm = own_realm

    def name_of(self, principal: str) -> str:
        """Return the name for a principal. Raises NoName."""
        match = _PRINCIPAL.fullmatch(principal)
        if match is None:
            raise NoName
        if match["host"] is None and match["realm"] is None:
            return match["primary"]
        components = [match["primary"]] if match["host"] is None else [match["primary"], match["host"]]
        for rule in self._rules:
            found = rule.name(match["realm"] or "", components, self._own_realm)
            if found is None:
                continue
            if not found or _NOT_SIMPLE.search(found):
                raise NoName
            return found
        raise NoName


def _rule(text: str) -> _KerberosRule:
    match = _RULE.fullmatch(text)
    try:
        if match is None:
            raise re.error("it is neither DEFAULT nor RULE:[n:format](regex)s/from/to/g/L")
        if match["default"]:
            return _KerberosRule(None, "", None, None, "", 0, "")
        wanted = None if match["match"] is None else re.compile(match["match"])
        pattern = None if match["pattern"] is None else re.compile(match["pattern"])
        replacement = re.sub(r"\\", r"\\\\", match["replacement"] or "")
        replacement = _PLACE.sub(r"\\g<\1>", replacement)
        if pattern is not None:
            re.compile(pattern.pattern).sub(replacement, "")
    except (re.error, IndexError) as error:
        raise ConfigError(
            f"Invalid value {text} for configuration sasl.kerberos.principal.to.local.rules: {error}"
        ) from None
    return _KerberosRule(
        int(match["count"]),
        match["format"],
        wanted,
        pattern,
        replacement,
        0 if match["all"] else 1,
        match["case"] or "",
    )
