"""SASL on one listener: its mechanisms, what a client may send when, and what it is told (KIP-43, KIP-152, KIP-368).

Rule: `_SERVED` and `_TOLD` are the table; a request in neither ends the connection without an answer. A refusal ends it
too (`over` says why), after the answer and after a delay, both of which are the connection's business. Before a client
has authenticated, its bytes reach nothing but this.

When settings change, the listener's mechanisms are made anew for the next client that logs in; where the new settings
can't be used, the old ones stay in force and the log says so. Mechanisms are told in the order of
`sasl.enabled.mechanisms`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from enum import Enum, auto
from typing import Protocol

from pykafka_broker.cluster.authorizer import INSIDE
from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from pykafka_broker.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from pykafka_broker.security.hooks.loading import HookFailed
from pykafka_broker.security.hooks.login import BuiltPrincipals, Identity
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.mechanism import (
    Around,
    Challenge,
    Done,
    LoginRefused,
    Mechanism,
    Realm,
    mechanism_of,
)

_KEYS = ("sasl.", "principal.", "connection.failed.", "connections.max.reauth.")

log = logging.getLogger(__name__)


class SaslListener:
    """The mechanisms of the listener `name`. Raises ConfigError for an unusable mechanism.

    failure_delay_ms: how long a refusal is kept back (KIP-306); max_receive_bytes: of one frame before the client has
    authenticated.
    """

    def __init__(self, name: str, config: Callable[[], BrokerConfig], around: Around) -> None:
        self.name = name
        self.around = around
        self._config = config
        self._seen = config()
        self._texts = self._relevant(self._seen)
        self._make(self._seen)

    def _make(self, config: BrokerConfig) -> None:
        settings = ListenerSettings(config, self.name)
        names: list[str] = settings.get("sasl.enabled.mechanisms")
        if not names:
            raise ConfigError(f"listener {self.name} has no mechanism: sasl.enabled.mechanisms is empty")
        realm = Realm(settings, self.around)
        mechanisms = {name: mechanism_of(name, realm) for name in names}
        max_reauth_ms: dict[str, int] = {name: settings.get("connections.max.reauth.ms", name) for name in names}
        delay_ms: int = settings.get("connection.failed.authentication.delay.ms")
        receive_bytes: int = settings.get("sasl.server.max.receive.size")
        self._principals = BuiltPrincipals(settings)
        self._mechanisms, self._max_reauth_ms = mechanisms, max_reauth_ms
        self.failure_delay_ms, self.max_receive_bytes = delay_ms, receive_bytes

    def _relevant(self, config: BrokerConfig) -> list[object]:
        """Return the settings behind the mechanisms.

        Only a change of these makes the mechanisms anew: they may hold keys that took long to fetch.
        """
        prefix = f"listener.name.{self.name.lower()}."
        own = {name: text for name, text in config.extras.items() if name.startswith(prefix)}
        return [own, *(config[name] for name in config.keys if name.startswith(_KEYS))]

    def _follow(self) -> None:
        config = self._config()
        if config is self._seen:
            return
        self._seen, before = config, self._texts
        self._texts = self._relevant(config)
        if self._texts == before:
            return
        try:
            self._make(config)
        except ConfigError as error:
            log.warning("listener %s keeps the settings that it had: %s", self.name, error)

    def check(self, config: BrokerConfig, changed: Collection[str]) -> None:
        """Check whether settings may come into force; `changed` has the changed names. Raises ConfigError.

        Settings for all listeners may not change, as in Kafka.
        """
        now = self._config()
        if any(name.startswith(_KEYS) and config[name] != now[name] for name in changed if name in config.keys):
            raise ConfigError(
                f"Configs cannot be updated dynamically for existing listener ListenerName({self.name}), "
                "restart broker or create a new listener for update"
            )

    @property
    def mechanisms(self) -> list[str]:
        self._follow()
        return list(self._mechanisms)

    def begin(self, mechanism: str) -> Mechanism | None:
        """Return the mechanism for a new login, or None for an unknown mechanism."""
        self._follow()
        new = self._mechanisms.get(mechanism)
        return None if new is None else new()

    def principal_of(self, name: str, mechanism: str, host: str) -> str:
        """Return the principal of a client logged in as `name`. Raises LoginRefused."""
        try:
            return self._principals.principal_of(Identity(name, self.name, host, mechanism))
        except HookFailed:
            raise LoginRefused("Authentication failed: there is no principal for this client") from None

    def max_reauth_ms(self, mechanism: str) -> int:
        """Return after how long a client has to authenticate anew; 0 for never."""
        return self._max_reauth_ms.get(mechanism, 0)


_WRAPPED_FROM = 1  # the version of the handshake after which tokens come in SaslAuthenticate
_REAUTH_INTERVAL_MS = 1000  # a client that comes sooner is answered as already authenticated
_GSSAPI = "GSSAPI"


class ExchangeState(Enum):
    """The progress of a client."""

    BEGIN = auto()
    VERSIONS_TOLD = auto()
    TOKENS = auto()
    RAW_TOKENS = auto()
    OTHER_MECHANISM = auto()  # chosen for a re-authentication
    DONE = auto()


_SERVED = {
    ExchangeState.BEGIN: (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE),
    ExchangeState.VERSIONS_TOLD: (ApiKey.SASL_HANDSHAKE,),
    ExchangeState.TOKENS: (ApiKey.SASL_AUTHENTICATE,),
    ExchangeState.RAW_TOKENS: (),
    ExchangeState.OTHER_MECHANISM: (),
}
_TOLD = (ExchangeState.TOKENS,)  # states in which a request out of turn is answered in its own kind


class SaslClient(Protocol):
    """Facts learnt about a client."""

    principal: str
    authenticated: bool
    by_token: bool
    client_host: str


class SaslExchange:
    """The exchange of a client.

    over: why the connection ends, or an empty text; expires_at: when its session does, by `now`.
    """

    __slots__ = (
        "_client",
        "_listener",
        "_mechanism",
        "_mechanism_name",
        "_reauthenticated_at",
        "_state",
        "expires_at",
        "has_authenticated",
        "over",
    )

    def __init__(self, listener: SaslListener, client: SaslClient) -> None:
        self._listener = listener
        self._client = client
        self._state = ExchangeState.BEGIN
        self._mechanism: Mechanism | None = None
        self._mechanism_name = ""
        self._reauthenticated_at: int | None = None
        self.has_authenticated = False
        self.expires_at: int | None = None
        self.over = ""
        client.authenticated = client.by_token = False

    # -- requests

    def admits(self, api_key: int) -> bool:
        """Return whether a request may be served now; False stands for the answer ILLEGAL_SASL_STATE.

        Raises FrameError if there is no answer at all.
        """
        if self._state is ExchangeState.DONE or api_key in _SERVED[self._state]:
            return True
        name = SPECS[api_key].name
        if self._state not in _TOLD:
            raise FrameError(f"{name} before the client has authenticated")
        self._end(f"{name} in the middle of the exchange of tokens")
        return False

    def versions_told(self) -> None:
        """Note the answer to ApiVersions: the client may not ask twice."""
        if self._state is ExchangeState.BEGIN:
            self._state = ExchangeState.VERSIONS_TOLD

    def handshake(self, mechanism: str, version: int) -> SaslHandshakeResponse:
        if self._state is ExchangeState.DONE:
            if not self._may_begin_anew():
                return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
            self._reauthenticated_at = self._listener.around.clock.now
            self._client.authenticated = False
        begun = self._listener.begin(mechanism)
        names = self._listener.mechanisms
        if begun is None:
            if self.has_authenticated:
                raise FrameError(_not_enabled(mechanism))
            self._end(_not_enabled(mechanism))
            return SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, names)
        self._state = ExchangeState.TOKENS if version >= _WRAPPED_FROM else ExchangeState.RAW_TOKENS
        if self.has_authenticated and mechanism != self._mechanism_name:
            self._state = ExchangeState.OTHER_MECHANISM  # Kafka refuses only at the first token
        self._mechanism, self._mechanism_name = begun, mechanism
        return SaslHandshakeResponse(ErrorCode.NONE, names)

    def _may_begin_anew(self) -> bool:
        """Return whether a re-authentication may begin."""
        now, last = self._listener.around.clock.now, self._reauthenticated_at
        return self.expires_at is not None and (last is None or now - last >= _REAUTH_INTERVAL_MS)

    def authenticate(self, token: bytes, version: int) -> SaslAuthenticateResponse:
        if self._state is ExchangeState.DONE:
            return SaslAuthenticateResponse(
                ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
            )
        try:
            step, lifetime_ms = self._step(token)
        except LoginRefused as refused:
            self._end(str(refused))
            return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, str(refused))
        told = lifetime_ms if version >= 1 else 0
        return SaslAuthenticateResponse(ErrorCode.NONE, auth_bytes=step.token, session_lifetime_ms=told)

    # -- tokens without a request around them

    @property
    def takes_raw_tokens(self) -> bool:
        """Return whether the next frame is a bare token."""
        return self._state is ExchangeState.RAW_TOKENS

    def begins_with_token(self, api_key: int) -> bool:
        """Return whether a frame beginning with `api_key` is the first token of GSSAPI, without a handshake."""
        if self._state is not ExchangeState.BEGIN or api_key in SPECS:
            return False
        self._mechanism = self._listener.begin(_GSSAPI)
        if self._mechanism is None:
            return False
        self._mechanism_name, self._state = _GSSAPI, ExchangeState.RAW_TOKENS
        return True

    def raw_token(self, token: bytes) -> bytes | None:
        """Return the token for the client, or None for a refused client."""
        try:
            return self._step(token)[0].token
        except LoginRefused as refused:
            self._end(str(refused))
            return None

    # -- both

    def _step(self, token: bytes) -> tuple[Challenge | Done, int]:
        """Return the mechanism's answer, and the session's lifetime, 0 without a limit. Raises LoginRefused."""
        assert self._mechanism is not None
        clock = self._listener.around.clock
        step = self._mechanism.step(token, clock.wall)
        if isinstance(step, Challenge):
            return step, 0
        client, principal = self._client, step.principal
        if not step.by_token:
            principal = self._listener.principal_of(principal, self._mechanism_name, client.client_host)
        if principal == INSIDE:  # a token's owner may have any name
            raise LoginRefused("Authentication failed: there is no principal for this client")
        if self.has_authenticated and principal != client.principal:
            before, after = (name.replace(":", ".", 1) for name in (client.principal, principal))
            raise LoginRefused(f"Cannot change principals during re-authentication from {before}: {after}")
        client.principal, client.by_token = principal, step.by_token
        self._state, self._mechanism = ExchangeState.DONE, None
        client.authenticated = self.has_authenticated = True
        max_reauth_ms = self._listener.max_reauth_ms(self._mechanism_name)
        limits = [max_reauth_ms] if max_reauth_ms > 0 else []
        if step.expires_ms is not None:
            limits.append(max(1, step.expires_ms - clock.wall))
        self.expires_at = clock.now + min(limits) if limits else None
        return step, min(limits, default=0)

    def session_over(self, api_key: int) -> bool:
        """Return whether the session has expired: only the begin of a re-authentication is served then."""
        return (
            self._state is ExchangeState.DONE
            and self.expires_at is not None
            and self._listener.around.clock.now > self.expires_at
            and not (api_key == ApiKey.SASL_HANDSHAKE and self._may_begin_anew())
        )

    def _end(self, why: str) -> None:
        self.over = why
        self._mechanism = None


def _not_enabled(mechanism: str) -> str:
    return f"SASL mechanism {mechanism[:40]!r} is not enabled"
