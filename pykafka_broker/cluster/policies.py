"""What an operator's policies are asked before topics are made and configs changed (KIP-108, KIP-133).

Rule: they are asked last, about what would be done otherwise, also where a request only wants it to be checked; the
words are Kafka's `RequestMetadata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykafka_broker.protocol.enums import ConfigResourceType

if TYPE_CHECKING:
    from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic


class TopicCreation(NamedTuple):
    """A topic that somebody wants: partitions and replication factor with their defaults, or instead of them the
    brokers that each partition is to be on. `configs` are those that the request names.
    """

    topic: str
    num_partitions: int | None
    replication_factor: int | None
    replicas_assignments: Mapping[int, list[int]] | None
    configs: Mapping[str, str]


class ConfigAlteration(NamedTuple):
    """A change of configs. `resource_type` is TOPIC, BROKER, GROUP or CLIENT_METRICS; `configs` are those that would
    change, None for one that is to be taken away. Those of a new topic are among them.
    """

    resource_type: str
    resource_name: str
    configs: Mapping[str, str | None]


class Policies(Protocol):
    """Raises ApiError for what is not to be."""

    def check_topic(self, creation: TopicCreation) -> None: ...

    def check_configs(self, alteration: ConfigAlteration) -> None: ...


def check_creation(
    policies: Policies, topic: CreatableTopic, assignments: list[list[int]], configs: Mapping[str, str]
) -> None:
    """A topic that could be made with these replicas of its partitions."""
    if configs:
        policies.check_configs(ConfigAlteration(ConfigResourceType.TOPIC.name, topic.name, configs))
    if topic.assignments:
        creation = TopicCreation(topic.name, None, None, dict(enumerate(assignments)), configs)
    else:
        creation = TopicCreation(topic.name, len(assignments), len(assignments[0]), None, configs)
    policies.check_topic(creation)
