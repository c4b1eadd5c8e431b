"""PLAIN: name and password in one token (RFC 4616).

Rule: the accounts are the options `user_NAME="PASSWORD"` of the listener's PlainLoginModule, or a class of Python
decides (`hooks/login.py`). A password is compared in constant time, and an unknown name is refused in the same words as
a wrong password.
"""

from __future__ import annotations

import hmac

from pykafka_broker.security.hooks.loading import HookFailed, call_hook
from pykafka_broker.security.hooks.login import PlainLogin, plain_login
from pykafka_broker.security.sasl.mechanism import Done, LoginRefused, Realm

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_ACCOUNT = "user_"


class PlainServer:
    """PLAIN on a listener."""

    __slots__ = ("_hook", "_passwords")

    def __init__(self, realm: Realm) -> None:
        module = realm.jaas("PLAIN")
        self._hook = plain_login(realm.settings)
        options = module.options if module.name == _MODULE else {}
        self._passwords = {
            key.removeprefix(_ACCOUNT): password.encode()
            for key, password in options.items()
            if key.startswith(_ACCOUNT)
        }

    def begin(self) -> Plain:
        return Plain(self)

    def knows(self, name: str, password: str) -> bool:
        """Return whether the account has the password."""
        if self._hook is not None:
            return self._asked(self._hook, name, password)
        known = self._passwords.get(name)
        right = hmac.compare_digest(b"" if known is None else known, password.encode())
        return right and known is not None

    def _asked(self, hook: PlainLogin, name: str, password: str) -> bool:
        try:
            return bool(call_hook(hook, hook.authenticate, name, password))
        except HookFailed:
            return False


class Plain:
    """A client's login."""

    __slots__ = ("_server",)

    def __init__(self, server: PlainServer) -> None:
        self._server = server

    def step(self, token: bytes, wall: int) -> Done:
        count = token.count(b"\0") + 1
        if count != 3:
            raise LoginRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {count}")
        authorization_id, name, password = token.decode("utf-8", "replace").split("\0")
        if not name:
            raise LoginRefused("Authentication failed: username not specified")
        if not password:
            raise LoginRefused("Authentication failed: password not specified")
        if not self._server.knows(name, password):
            raise LoginRefused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", name):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Done(b"", f"User:{name}")
