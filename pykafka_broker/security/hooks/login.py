"""Names of clients from classes of Python: `principal.builder.class`, and callback handlers of PLAIN and OAUTHBEARER.

Rule: a hook is asked once for each login, on the broker's loop, so it must answer at once, from memory. A hook that
fails has refused the client, and the log says why. The text of an exception goes into the log: no password belongs
there.
"""

from __future__ import annotations

import logging
from typing import NamedTuple, Protocol

from pykafka_broker.cluster.authorizer import INSIDE
from pykafka_broker.config.registry import broker_keys
from pykafka_broker.security.hooks.loading import HookFailed, call_hook, load_hook, name_of
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.jws import InvalidToken, ShownToken

log = logging.getLogger(__name__)

_BUILDER = "principal.builder.class"
_HANDLER = "sasl.server.callback.handler.class"


class PlainLogin(Protocol):
    """A check of names and passwords, in place of the accounts of the login module.

    Key: `listener.name.<name>.plain.sasl.server.callback.handler.class`.
    """

    def authenticate(self, name: str, password: str) -> bool:
        """Return whether `password` is the password of `name`."""


class Identity(NamedTuple):
    """Known facts of a client.

    name: the principal as the broker would have it, "User:alice", or "User:ANONYMOUS" for a client that has not
    authenticated; mechanism: "PLAIN" and so on, empty without SASL; certificate: in DER, None without one or after a
    login by SASL.
    """

    name: str
    listener: str
    host: str
    mechanism: str = ""
    certificate: bytes | None = None


class PrincipalBuilder(Protocol):
    """A maker of principals: names in ACLs, quotas and logs.

    Key: `principal.builder.class`. Asked once a client has logged in, shown a certificate, or come without either.
    """

    def build(self, client: Identity) -> str:
        """Return the principal, as "User:alice"."""


class BuiltPrincipals:
    def __init__(self, settings: ListenerSettings) -> None:
        """Make the hook. Raises ConfigError."""
        text = settings.get("principal.builder.class")
        # An unset builder is Kafka's own, which had other names in older releases.
        configured = settings.text(_BUILDER) is not None or _BUILDER in settings.static
        chosen = configured and text != broker_keys()[_BUILDER].default
        self._hook: PrincipalBuilder | None = (
            load_hook(_BUILDER, text, PrincipalBuilder, settings.static) if chosen else None
        )

    def principal_of(self, client: Identity) -> str:
        """Return the client's principal. Raises HookFailed."""
        if self._hook is None:
            return client.name
        built = str(call_hook(self._hook, self._hook.build, client))
        if built == INSIDE:  # the broker's own principal may do everything
            log.error("%s has called a client %s, which is the broker's own name", name_of(self._hook), INSIDE)
            raise HookFailed("the client has the broker's own name")
        return built


def plain_login(settings: ListenerSettings) -> PlainLogin | None:
    """Return the configured hook of a listener, or None. Raises ConfigError."""
    text = settings.get("sasl.server.callback.handler.class", "PLAIN")
    if text is None:
        return None
    login: PlainLogin = load_hook(_HANDLER, text, PlainLogin, settings.static)
    return login


class BearerLogin(Protocol):
    """A check of tokens. Key: `listener.name.<name>.oauthbearer.sasl.server.callback.handler.class`."""

    def identify(self, token: str, now_ms: int) -> tuple[str, int] | None:
        """Return the client's name and the expiry of the token, in epoch ms as `now_ms`; None for a bad token."""


class HookedTokens:
    """A check of tokens by a hook. Raises ConfigError."""

    def __init__(self, settings: ListenerSettings, text: str) -> None:
        self._hook: BearerLogin = load_hook(_HANDLER, text, BearerLogin, settings.static)

    def shown(self, token: str, wall: int) -> ShownToken:
        """Return the content of a good token. Raises InvalidToken."""
        try:
            found = call_hook(self._hook, self._identified, token, wall)
        except HookFailed:
            raise InvalidToken("the class that knows tokens has failed") from None
        if found is None:
            raise InvalidToken("the class that knows tokens does not know it")
        return found

    def _identified(self, token: str, wall: int) -> ShownToken | None:
        if (found := self._hook.identify(token, wall)) is None:
            return None
        name, expires_ms = found
        return ShownToken(str(name), int(expires_ms))
