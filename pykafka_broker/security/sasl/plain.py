"""PLAIN: name and password in one token (RFC 4616).

Rule: the accounts are the options `user_NAME="PASSWORD"` of the listener's PlainLoginModule, or a class of Python
decides (`hooks/login.py`). A password is compared in constant time, and an unknown name is refused in the same words as
a wrong password.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from functools import partial

from pykafka_broker.config import ConfigError
from pykafka_broker.security.hooks.loading import HookFailed, call_hook
from pykafka_broker.security.hooks.login import PlainLogin, plain_login
from pykafka_broker.security.sasl.jaas import login_module
from pykafka_broker.security.sasl.mechanism import Done, LoginRefused, Realm

_KAFKA = "org.apache.kafka.common.security"
_MODULE = f"{_KAFKA}.plain.PlainLoginModule"
_OTHER_MODULES = (  # others that a broker of Kafka starts with; they have no accounts
    f"{_KAFKA}.scram.ScramLoginModule",
    f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule",
    "com.sun.security.auth.module.",
)
_ACCOUNT = "user_"


def plain(realm: Realm) -> Callable[[], Plain]:
    """Return the maker of logins on a listener. Raises ConfigError."""
    module = login_module(realm.settings, "PLAIN")
    hook = plain_login(realm.settings)
    if module.name != _MODULE and not module.name.startswith(_OTHER_MODULES) and hook is None:
        where = realm.settings.full_name("sasl.jaas.config", "PLAIN")
        missing = f"there is no login module {module.name}; that of PLAIN is {_MODULE}"
        raise ConfigError(f"Invalid value [hidden] for configuration {where}: {missing}")
    options = module.options if module.name == _MODULE else {}
    passwords = {
        key.removeprefix(_ACCOUNT): password.encode() for key, password in options.items() if key.startswith(_ACCOUNT)
    }
    return partial(Plain, passwords, hook)


class Plain:
    """A client's login."""

    def __init__(self, passwords: Mapping[str, bytes], hook: PlainLogin | None) -> None:
        self._passwords = passwords
        self._hook = hook

    def _knows(self, name: str, password: str) -> bool:
        if self._hook is not None:
            try:
                return bool(call_hook(self._hook, self._hook.authenticate, name, password))
            except HookFailed:
                return False
        known = self._passwords.get(name)
        right = hmac.compare_digest(b"" if known is None else known, password.encode())
        return right and known is not None

    def step(self, token: bytes, wall: int) -> Done:
        count = min(token.count(b"\0") + 1, 4)  # Kafka counts no further
        if count != 3:
            raise LoginRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {count}")
        authorization_id, name, password = token.decode("utf-8", "replace").split("\0")
        if not name:
            raise LoginRefused("Authentication failed: username not specified")
        if not password:
            raise LoginRefused("Authentication failed: password not specified")
        if not self._knows(name, password):
            raise LoginRefused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", name):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Done(b"", f"User:{name}")
