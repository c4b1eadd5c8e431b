"""How the topics of the coordinators are made.

Rule: as Kafka's AutoTopicCreationManager makes them, but with no more replicas than there are brokers, so that groups
and transactions work on one broker with no settings.
"""

from __future__ import annotations

from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig


def creatable_topic(name: str, config: BrokerConfig, brokers: int) -> CreatableTopic:
    """What to create under this name; an ordinary topic gets the broker's defaults."""
    if name == CONSUMER_OFFSETS:
        partitions = config.offsets_topic_num_partitions
        factor = config.replication_factor("offsets.topic.replication.factor", brokers)
        configs = {
            "compression.type": "producer",
            "cleanup.policy": "compact",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
    elif name == TRANSACTION_STATE:
        partitions = config.transaction_state_log_num_partitions
        factor = config.replication_factor("transaction.state.log.replication.factor", brokers)
        configs = {
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(config.replication_factor("transaction.state.log.min.isr", brokers)),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        }
    elif name == SHARE_GROUP_STATE:
        partitions = config.share_coordinator_state_topic_num_partitions
        factor = config.replication_factor("share.coordinator.state.topic.replication.factor", brokers)
        configs = {
            "compression.type": "producer",
            "cleanup.policy": "delete",
            "min.insync.replicas": str(config.replication_factor("share.coordinator.state.topic.min.isr", brokers)),
            "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            "retention.ms": "-1",
        }
    else:
        return CreatableTopic(name, -1, -1)
    overrides = [CreatableTopicConfig(key, value) for key, value in configs.items()]
    return CreatableTopic(name, partitions, factor, configs=overrides)
