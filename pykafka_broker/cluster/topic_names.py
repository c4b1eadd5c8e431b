"""Names of topics, and how the coordinators' topics are made.

Rule: the names that Kafka refuses are refused with its sentences (Topic.validate). The coordinators' topics are made as
Kafka's AutoTopicCreationManager makes them, but with no more replicas than there are brokers, so that groups and
transactions work on one broker with no settings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykafka_broker.config.broker import BrokerConfig
    from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"
# Topics that Metadata shows with is_internal. The metadata log is not among them: clients never see it.
INTERNAL_TOPICS = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE))
MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_PLAIN = "[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,248}"
_ALL_PLAIN = re.compile(rf"(?:{_PLAIN}\n)*+{_PLAIN}")


def name_problem(name: str) -> str | None:
    """Return the reason for which no topic can have the name, or None."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def are_plain(names: Sequence[str]) -> bool:
    """Return whether a look at all names together proves every name fine."""
    text = "\n".join(names)
    return text.count("\n") == len(names) - 1 and _ALL_PLAIN.fullmatch(text) is not None


def check_topic_name(name: str) -> None:
    """Check a topic's name. Raises INVALID_TOPIC_EXCEPTION."""
    problem = name_problem(name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def may_collide(name: str) -> bool:
    """Return whether a name has '.' or '_', which names of metrics don't tell apart."""
    return "." in name or "_" in name


def unified(name: str) -> str:
    return name.replace(".", "_")


def creatable_topic(name: str, config: BrokerConfig, brokers: int) -> CreatableTopic:
    """Describe the topic to create under the name; an ordinary topic gets the broker's defaults."""
    from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig

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
