"""The keys that sign tokens: a JSON Web Key Set (RFC 7517) from a file or a URL.

Rule: what was read last counts until something else can be read; what can't be read at the start ends the start. When
somebody logs in, keys older than `sasl.oauthbearer.jwks.endpoint.refresh.ms` are read anew, and so they are when a
token names one that is unknown: at most once a second, and after failures ever more seldom. Nobody waits for a URL:
who logs in meanwhile is judged by the keys that there are.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pykafka_broker.config import ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.jws import json_of
from pykafka_broker.security.sasl.realm import Document

if TYPE_CHECKING:
    from jwt import PyJWK

log = logging.getLogger(__name__)

_URL = "sasl.oauthbearer.jwks.endpoint.url"
_SOONEST_MS = 1000
_MOST_KEYS = 1000
# The kind of key that an algorithm needs, by its first two letters.
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP", "HS": "oct"}


class Jwks:
    """The keys of one listener. Raises ConfigError if there are none to begin with."""

    def __init__(self, settings: ListenerSettings, document: Document) -> None:
        self._document = document
        self._refresh_ms: int = settings.get("sasl.oauthbearer.jwks.endpoint.refresh.ms")
        self._backoff_ms: int = settings.get("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms")
        self._backoff_max_ms: int = settings.get("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms")
        self._read: bytes | None = None
        self._keys: list[dict[str, Any]] = []
        wrong = self._follow() if document.content or not document.error else document.error
        if wrong:
            raise ConfigError(f"Invalid value for configuration {_URL} of listener {settings.name}: {wrong}")

    def key(self, kid: str | None, algorithm: str, now: int) -> PyJWK | None:
        """The one with that id; without an id the first that will do."""
        if now - self._document.read_at >= self._refresh_ms:
            self._look_again(now)
        self._follow()
        found = self._found(kid, algorithm)
        if found is None and now - self._document.read_at >= _SOONEST_MS:
            self._look_again(now)
            self._follow()
            found = self._found(kid, algorithm)
        return found

    def _look_again(self, now: int) -> None:
        document = self._document
        if document.failures:
            pause = min(self._backoff_max_ms, self._backoff_ms << min(document.failures - 1, 20))
            if now - document.read_at < pause:
                return
        document.read()

    def _follow(self) -> str:
        """Take over what was read; what is wrong with it."""
        content = self._document.content
        if content is self._read:
            return ""
        self._read = content
        try:
            self._keys = _keys_of(content)
        except (ValueError, RecursionError) as error:
            wrong = str(error) if isinstance(error, _NoKeys) else "it is no JSON"
            log.warning("The keys that sign tokens stay as they were: %s", wrong)
            return wrong
        return ""

    def _found(self, kid: str | None, algorithm: str) -> PyJWK | None:
        kind = _KINDS.get(algorithm[:2])
        for key in self._keys:
            if key["kty"] == kind and (kid is None or key.get("kid") == kid) and key.get("alg") in (None, algorithm):
                return _usable(key, algorithm)
        return None


class _NoKeys(ValueError):
    """Its text has nothing of the document in it."""


def _keys_of(content: bytes) -> list[dict[str, Any]]:
    """Those that are for signatures. Raises ValueError, RecursionError."""
    found = json_of(content)
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list) or not all(isinstance(key, dict) and isinstance(key.get("kty"), str) for key in keys):
        raise _NoKeys("it is no JSON Web Key Set")
    usable = [key for key in keys if key.get("use") in (None, "sig")]
    if not usable:
        raise _NoKeys("there is no key for signatures in it")
    if len(usable) > _MOST_KEYS:
        raise _NoKeys("there are too many keys in it")
    return usable


def _usable(key: dict[str, Any], algorithm: str) -> PyJWK | None:
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    try:
        return PyJWK(key, algorithm)
    except (PyJWTError, ValueError, TypeError):
        log.warning("A key that signs tokens can't be used for %s", algorithm)
        return None
