"""Who a token of OAUTHBEARER is of, by a class of Python.

Rule: as for all hooks (`login.py`): it is asked once for each login, on the broker's loop, and must answer at once.
"""

from __future__ import annotations

from typing import Protocol

from pykafka_broker.security.hooks.loading import HookFailed, call_hook, load_hook
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.jws import InvalidToken, Shown

_HANDLER = "sasl.server.callback.handler.class"


class BearerLogin(Protocol):
    """`listener.name.<name>.oauthbearer.sasl.server.callback.handler.class`: who knows good tokens."""

    def identify(self, token: str, now_ms: int) -> tuple[str, int] | None:
        """The client's name, and when the token expires, in epoch milliseconds as `now_ms`; None for a bad token."""


class HookedTokens:
    """Knows the tokens that a hook knows. Raises ConfigError."""

    __slots__ = ("_hook",)

    def __init__(self, settings: ListenerSettings, text: str) -> None:
        self._hook: BearerLogin = load_hook(_HANDLER, text, BearerLogin, settings.static)

    def shown(self, token: str, wall: int) -> Shown:
        """Raises InvalidToken."""
        try:
            found = call_hook(self._hook, self._hook.identify, token, wall)
        except HookFailed:
            raise InvalidToken("the class that knows tokens has failed") from None
        if found is None:
            raise InvalidToken("the class that knows tokens does not know it")
        name, expires_ms = found
        return Shown(str(name), int(expires_ms))
