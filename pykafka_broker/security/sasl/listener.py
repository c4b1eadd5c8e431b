"""SASL on one listener.

Rule: it stands as the settings are: when they change it is made anew for the next client that logs in, and where the
new ones can't be used it stays as it was and says so. Mechanisms are told in the order of `sasl.enabled.mechanisms`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.security.hooks.loading import HookFailed
from pykafka_broker.security.hooks.login import BuiltPrincipals, Identity
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.mechanism import Mechanism, Refused, mechanism_server
from pykafka_broker.security.sasl.realm import Around, Realm

_KEYS = ("sasl.", "principal.", "connection.failed.", "connections.max.reauth.")

log = logging.getLogger(__name__)


class SaslListener:
    """The mechanisms of the listener `name`. Raises ConfigError if one of them can't be used.

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
        servers = {name: mechanism_server(name, realm) for name in names}
        max_reauth_ms: dict[str, int] = {name: settings.get("connections.max.reauth.ms", name) for name in names}
        delay_ms: int = settings.get("connection.failed.authentication.delay.ms")
        receive_bytes: int = settings.get("sasl.server.max.receive.size")
        self._principals = BuiltPrincipals(settings)
        self._servers, self._max_reauth_ms = servers, max_reauth_ms
        self.failure_delay_ms, self.max_receive_bytes = delay_ms, receive_bytes

    def _relevant(self, config: BrokerConfig) -> list[object]:
        """What a change of means that mechanisms are made anew: they may hold keys that took long to fetch."""
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
        """Whether these settings may come into force, of which those names are changed. What holds for all listeners
        may not, as in Kafka. Raises ConfigError.
        """
        now = self._config()
        if any(name.startswith(_KEYS) and config[name] != now[name] for name in changed if name in config.keys):
            raise ConfigError(
                f"Configs cannot be updated dynamically for existing listener ListenerName({self.name}), "
                "restart broker or create a new listener for update"
            )

    @property
    def mechanisms(self) -> list[str]:
        """Their names."""
        self._follow()
        return list(self._servers)

    def begin(self, mechanism: str) -> Mechanism | None:
        """A client begins to log in; None if there is no such mechanism here."""
        self._follow()
        server = self._servers.get(mechanism)
        return None if server is None else server.begin()

    def principal_of(self, name: str, mechanism: str, host: str) -> str:
        """What a client is called that has logged in as `name`. Raises Refused."""
        try:
            return self._principals.principal_of(Identity(name, self.name, host, mechanism))
        except HookFailed:
            raise Refused("Authentication failed: there is no principal for this client") from None

    def max_reauth_ms(self, mechanism: str) -> int:
        """After how long a client has to authenticate anew; 0 if never."""
        return self._max_reauth_ms.get(mechanism, 0)
