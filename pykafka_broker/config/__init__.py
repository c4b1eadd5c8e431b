"""Kafka's configuration: every key with type, default, limits and synonyms, and what this broker makes of it.

Rule: what is set is checked here once, in Kafka's words, and read everywhere else as a typed value.
"""

from pykafka_broker.config.broker import BrokerConfig, ConfigErrors
from pykafka_broker.config.topic import TopicConfig
from pykafka_broker.config.values import ConfigError, ConfigType, UnusableError, Value

__all__ = ["BrokerConfig", "ConfigError", "ConfigErrors", "ConfigType", "TopicConfig", "UnusableError", "Value"]
