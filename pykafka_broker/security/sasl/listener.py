"""SASL on one listener.

Rule: it stands as the settings are: when they change it is made anew for the next client that logs in, and where the
new ones can't be used it stays as it was and says so. Mechanisms are told in the order of `sasl.enabled.mechanisms`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.mechanism import Mechanism, MechanismServer, mechanism_server
from pykafka_broker.security.sasl.realm import Around, Realm

log = logging.getLogger(__name__)


class SaslListener:
    """The mechanisms of the listener `name`. Raises ConfigError if one of them can't be used."""

    def __init__(self, name: str, config: Callable[[], BrokerConfig], around: Around) -> None:
        self.name = name
        self.around = around
        self._config = config
        self._seen = config()
        self._settings, self._servers = self._made(self._seen)

    def _made(self, config: BrokerConfig) -> tuple[ListenerSettings, dict[str, MechanismServer]]:
        settings = ListenerSettings(config, self.name)
        names: list[str] = settings.get("sasl.enabled.mechanisms")
        if not names:
            raise ConfigError(f"listener {self.name} has no mechanism: sasl.enabled.mechanisms is empty")
        realm = Realm(settings, self.around)
        return settings, {name: mechanism_server(name, realm) for name in names}

    def _follow(self) -> None:
        config = self._config()
        if config is self._seen:
            return
        self._seen = config
        try:
            self._settings, self._servers = self._made(config)
        except ConfigError as error:
            log.warning("listener %s keeps the settings that it had: %s", self.name, error)

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

    def max_reauth_ms(self, mechanism: str) -> int:
        """After how long a client has to authenticate anew; 0 if never."""
        limit: int = self._settings.get("connections.max.reauth.ms", mechanism)
        return limit

    @property
    def failure_delay_ms(self) -> int:
        """How long a refusal is kept back (KIP-306)."""
        delay: int = self._settings.get("connection.failed.authentication.delay.ms")
        return delay

    @property
    def max_receive_bytes(self) -> int:
        """Of one frame before the client has authenticated."""
        most: int = self._settings.get("sasl.server.max.receive.size")
        return most
