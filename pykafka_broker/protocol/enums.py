"""Numbers of the protocol that have names (Kafka docs, "Protocol"), and names of partitions.

Rule: a number that more than one layer knows is named here and nowhere else; names are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")
PartitionKey = tuple[str, int]  # topic and index: a plain tuple, made in a tenth of the time; equal to a TopicPartition
TopicIdPartition = tuple[bytes, int]

# Timestamps of ListOffsets that name an offset rather than a time (Kafka: ListOffsetsRequest, OffsetSpec).
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


class TopicPartition(NamedTuple):
    """A partition by the topic's name; as text `topic-0`, as Kafka's tools print partitions."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return pairs of a topic (name or id) and a partition (index or message) by topic, in their order."""
    topics: dict[K, list[V]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


class IsolationLevel(IntEnum):
    """The records visible to a Fetch or ListOffsets (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class CoordinatorType(IntEnum):
    """The key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class ConfigResourceType(IntEnum):
    """Resources with configs (Kafka: ConfigResource.Type); ACLs number resources in another way."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The origins of a config value (Kafka: DescribeConfigsResponse.ConfigSource); Kafka's tools print the names."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class AlterConfigOp(IntEnum):
    """Kinds of changes in IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AclResourceType(IntEnum):
    """Resources of ACLs (Kafka: ResourceType); a config resource has other numbers."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Ways to name the resources of an ACL; ANY and MATCH are for filters alone."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """Operations of an ACL; ANY is for filters alone."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(IntEnum):
    """The verdict of an ACL; ANY is for filters alone."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class QuotaMatch(IntEnum):
    """Ways in which DescribeClientQuotas matches a part of an entity."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class UpgradeType(IntEnum):
    """The directions in which UpdateFeatures may move a feature."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


# What an ACL or a right can be about, and what it can allow: the members that are no wildcards.
ACL_RESOURCE_TYPES = tuple(kind for kind in AclResourceType if kind > AclResourceType.ANY)
ACL_OPERATIONS = tuple(operation for operation in AclOperation if operation > AclOperation.ALL)
