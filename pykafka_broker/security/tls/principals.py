"""Who a client is by its certificate.

Rule: the name of its subject, as the listener's rules map it; the same name is mapped once, since what a rule costs is
the operator's to choose.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka_broker.security.tls.der import names_of
from pykafka_broker.security.tls.distinguished_names import text_of
from pykafka_broker.security.tls.mapping_rules import MappingRules

_REMEMBERED = 1000


class Principals:
    """guarded: calls the function with the name, and raises ValueError if that takes too long."""

    def __init__(self, rules: MappingRules, guarded: Callable[[Callable[[str], str], str], str]) -> None:
        self._rules = rules
        self._guarded = guarded
        self._known: dict[bytes, str | ValueError] = {}  # by the DER of the subject

    def of(self, certificate: bytes) -> str:
        """`User:` and the name. ValueError if no rule gives it one."""
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
