"""The settings of `__cluster_metadata`, whose log is the broker's own.

Rule: it goes by the broker's `metadata.*` keys alone. What goes from it is decided by its snapshots, never by its age.
"""

from __future__ import annotations

from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.config.topic import TopicConfig


def metadata_topic_config(config: BrokerConfig) -> TopicConfig:
    overrides = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "segment.bytes": str(config.metadata_log_segment_bytes),
        "segment.ms": str(config.metadata_log_segment_ms),
    }
    return TopicConfig.resolve(config, overrides)
