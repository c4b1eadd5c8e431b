"""The broker's configuration: every key of Kafka, typed, from layers in Kafka's precedence.

Rule: an instance never changes. Static layers (file, environment, command line) are merged before they get here;
changes by AlterConfigs at run time are laid on top with `with_dynamic`, cluster-wide default first, this broker's own
last (KIP-226).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from pykafka_broker.config.attributes import BrokerAttributes
from pykafka_broker.config.extensions import OWN_NAMES, OwnSettings, own_settings
from pykafka_broker.config.registry import BROKER_SYNONYMS, broker_keys, group_keys, topic_keys
from pykafka_broker.config.values import ConfigError, Value, parse_value

if TYPE_CHECKING:
    from pykafka_broker.config.topic import TopicConfig

log = logging.getLogger(__name__)

ALL_DIRS = "*"  # in `cordoned.log.dirs`
_SINCE_4_4 = "streams.task.offset.interval.ms"  # a key of groups, which tells releases before 4.4 from newer ones

# Keys with these prefixes belong to a listener or to a plug-in; no list has them.
FREE_PREFIXES = (
    "listener.name.",
    "rsm.config.",
    "rlmm.config.",
    "config.providers.",
    "super.users",
    "allow.everyone.if.no.acl.found",
)


class ConfigErrors(ValueError):
    """All mistakes of a static configuration, so an operator can mend all at once."""

    def __init__(self, errors: list[ConfigError]) -> None:
        super().__init__("\n".join(map(str, errors)))
        self.errors = errors


class BrokerConfig(BrokerAttributes):
    """The broker's configuration.

    `config["log.retention.ms"]`, or `config.log_retention_ms`: the value of that very key, `None` where Kafka leaves it
    unset.

    Values that several keys decide together have names of their own: `node`, `data_dirs`, `topic_defaults`.
    """

    def __init__(self, static: Mapping[str, str] | None = None) -> None:
        """Read static settings. Raises `ConfigErrors` with an error for every bad value."""
        static = with_aliases(static or {})
        own, errors = own_settings(static)
        values, wrong = _typed(static)
        if errors or wrong:
            raise ConfigErrors(errors + wrong)
        self._set_up(own, values, static, {}, {})

    def _set_up(
        self,
        own: OwnSettings,
        set_values: dict[str, Value],
        static: dict[str, str],
        default: dict[str, str],
        broker: dict[str, str],
    ) -> None:
        self.own = own
        self.static: Mapping[str, str] = static
        self.dynamic_default: Mapping[str, str] = default
        self.dynamic_broker: Mapping[str, str] = broker
        release = None if own.release is None else own.release.name
        self.keys, self.topic_keys, self.group_keys = broker_keys(release), topic_keys(release), group_keys(release)
        self.is_of_4_4 = not self.group_keys[_SINCE_4_4].removed  # behaves as Kafka 4.4 and newer releases
        defaults, attributes = default_values(release), _default_attributes(release)
        self._values = defaults | set_values
        self.set_names = set_values.keys()
        self._topic_defaults: TopicConfig | None = None
        self.topic_values: dict[str, Any] | None = None  # of a topic without overrides, by name
        self.topic_entries: list[Any] | None = None  # the same in an answer, made by `config/describe.py`
        self.topic_cache: dict[frozenset[tuple[str, str]], TopicConfig] = {}  # TopicConfig.resolve's, by overrides
        self.__dict__.update(attributes)
        self.__dict__.update((name.replace(".", "_"), value) for name, value in set_values.items())

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def with_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """Return the configuration under other dynamic layers.

        A value that can't be read is left out and logged, as Kafka does: it was checked when it was set, and a broker
        that refuses to start would help nobody.
        """
        values, errors = _typed(self.static)
        for layer in (default, broker):
            changed, wrong = _typed(layer)
            errors += wrong
            for group in BROKER_SYNONYMS:
                if not changed.keys().isdisjoint(group):  # a dynamic value unseats its synonyms, as in Kafka
                    for name in group:
                        values.pop(name, None)
            values |= changed
        for error in errors:
            log.warning("ignored a dynamic config: %s", error)
        config = BrokerConfig.__new__(BrokerConfig)
        config._set_up(self.own, values, dict(self.static), dict(default), dict(broker))
        return config

    @property
    def unknown(self) -> list[str]:
        """Return static settings unknown to all Kafka releases."""
        return unknown_configs(self.static)

    @cached_property
    def extras(self) -> dict[str, str]:
        """Return settings of a listener or of a plug-in, as text: names beginning with a prefix of `FREE_PREFIXES`."""
        layers = {**self.static, **self.dynamic_default, **self.dynamic_broker}
        return {name: text for name, text in layers.items() if name.startswith(FREE_PREFIXES)}

    @property
    def node(self) -> int:
        """Return the broker's id: `node.id`, or `broker.id`; 1 if neither is set."""
        return next((id_ for id_ in (self.node_id, self.broker_id) if id_ is not None and id_ >= 0), 1)

    @property
    def data_dirs(self) -> list[str]:
        """Return `log.dirs`, or else `log.dir`."""
        return self.log_dirs or self.log_dir

    @property
    def cordoned_dirs(self) -> list[str]:
        """Return the members of `data_dirs` closed to new partitions (KIP-1066)."""
        return self.data_dirs if self.cordoned_log_dirs == [ALL_DIRS] else self.cordoned_log_dirs

    @property
    def topic_defaults(self) -> TopicConfig:
        """Return the configuration of a topic without overrides; the same object every time."""
        if self._topic_defaults is None:
            from pykafka_broker.config.topic import TopicConfig

            self._topic_defaults = TopicConfig.of_broker(self)
        return self._topic_defaults

    def replication_factor(self, name: str, brokers: int) -> int:
        """Return an internal topic's replication factor or min.isr, capped at the number of brokers unless set.

        So transactions work on one broker with no settings.
        """
        value = self[name]
        assert isinstance(value, int)
        return value if name in self.static else min(value, max(brokers, 1))


def unknown_configs(names: Iterable[str]) -> list[str]:
    """Return the members of `names` unknown to all Kafka releases."""
    known = broker_keys().keys() | OWN_NAMES
    return [name for name in names if name not in known and not name.startswith(FREE_PREFIXES)]


@cache
def default_values(release: str | None) -> dict[str, Value]:
    """Return the defaults of a release, or of the newest one, by name."""
    return {name: key.default for name, key in broker_keys(release).items()}


@cache
def _default_attributes(release: str | None) -> dict[str, Value]:
    return {name.replace(".", "_"): value for name, value in default_values(release).items()}


def with_aliases(static: Mapping[str, str]) -> dict[str, str]:
    """Return settings with all aliases set.

    `node.id` and `broker.id` each stand for the other (AbstractKafkaConfig.populateSynonyms), and `host.name`, `port`
    and their advertised pair, which releases before 3.0 had, say what `listeners` says now.
    """
    out = dict(static)
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name in static:
            out.setdefault(other, static[name])
    for name, prefix in (("listeners", ""), ("advertised.listeners", "advertised.")):
        if name not in static and (prefix + "host.name" in static or prefix + "port" in static):
            host = static.get(prefix + "host.name", static.get("host.name", ""))
            out[name] = f"PLAINTEXT://{host}:{static.get(prefix + 'port', static.get('port', '9092'))}"
    return out


def _typed(texts: Mapping[str, str]) -> tuple[dict[str, Value], list[ConfigError]]:
    """Return the values of the known names in `texts`, and the errors of the others."""
    keys = broker_keys()
    values: dict[str, Value] = {}
    errors = []
    for name, text in texts.items():
        if name in keys:
            try:
                values[name] = _parsed(name, text)
            except ConfigError as error:
                errors.append(error)
    return values, errors


@lru_cache(1024)
def _parsed(name: str, text: str) -> Value:
    """Return a key's value. Most settings come again: at each change while it runs, or with a test's next broker."""
    return parse_value(broker_keys()[name], text)
