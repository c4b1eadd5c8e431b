"""The settings of one listener, or the properties of a client.

Rule: the closest setting wins, as Kafka documents it ("Security, listener configuration"): for a mechanism of this
listener, for this listener, for all: `listener.name.<name>.<mechanism>.<key>`, `listener.name.<name>.<key>`, `<key>`,
with name and mechanism in lower case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.registry import broker_keys
from pykafka_broker.config.values import parse_value

if TYPE_CHECKING:
    from pykafka_broker.releases.release import Release


class ListenerSettings:
    """The settings of `config` for the listener `name`. `config` is a snapshot: make another object after a change."""

    def __init__(self, config: BrokerConfig, name: str) -> None:
        self.name = name
        self.before_error = f"listener {name}: "
        self.of_listener = f" of listener {name}"
        self._config = config
        self._extras: Mapping[str, str] = config.extras
        self._prefix = f"listener.name.{name.lower()}."

    @property
    def static(self) -> Mapping[str, str]:
        """Return all settings of the start, for classes named in a configuration."""
        return self._config.static

    @property
    def release(self) -> Release | None:
        return self._config.own.release

    @property
    def is_of_4_4(self) -> bool:
        """Return whether the broker behaves as Kafka 4.4 and newer releases."""
        return self._config.is_of_4_4

    @property
    def advertised_hosts(self) -> list[str]:
        """Return the hosts, in lower case, that `advertised.listeners` names for the listener."""
        endpoints = (text.strip().lower().partition("://") for text in self._config["advertised.listeners"] or ())
        return [where.rpartition(":")[0].strip("[]") for name, _, where in endpoints if name == self.name.lower()]

    def full_name(self, key: str, mechanism: str | None = None) -> str:
        """Return the name of a setting for the listener alone, or for a mechanism of the listener alone."""
        return f"{self._prefix}{key}" if mechanism is None else f"{self._prefix}{mechanism.lower()}.{key}"

    def text(self, key: str, mechanism: str | None = None) -> tuple[str, str] | None:
        """Return the full name and the text of a setting made for the listener alone, or None."""
        for name in (self.full_name(key, mechanism), self.full_name(key)):
            if name in self._extras:
                return name, self._extras[name]
        return None

    def get(self, key: str, mechanism: str | None = None) -> Any:
        """Return the typed value of a broker key.

        Raises ConfigError for a text that can't be read; values for all listeners were read at the start.
        """
        found = self.text(key, mechanism)
        if found is None:
            return self._config[key]
        name, text = found
        return parse_value(broker_keys()[key]._replace(name=name), text)


class ClientSettings(ListenerSettings):
    """The properties of a client: all of its connections are alike, and it has no listener to speak of in errors."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(BrokerConfig({}), "CLIENT")
        self.before_error = self.of_listener = ""
        self._extras = properties

    def full_name(self, key: str, mechanism: str | None = None) -> str:
        return key
