"""The topology that the members of a streams group bring.

Rule: the group keeps it as it is stored, with its subtopologies in the order of their ids, and the first member
decides: another one is refused (KIP-1071 leaves updates for later), an older one is only told that it is stale.
"""

from __future__ import annotations

from collections.abc import Iterable

from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import streams_group_heartbeat_request as wire
from pykafka_broker.protocol.stored.streams_group_topology_value import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)


def as_stored(topology: wire.Topology) -> StreamsGroupTopologyValue:
    """The topology of a request. Kafka fails on a negative epoch and on an id that comes twice, and so do we."""
    if topology.epoch < 0:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    subtopologies, ids = list[Subtopology](), set[str]()
    for one in topology.subtopologies:
        if one.subtopology_id in ids:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        ids.add(one.subtopology_id)
        subtopologies.append(_subtopology(one))
    subtopologies.sort(key=lambda one: one.subtopology_id)
    return StreamsGroupTopologyValue(topology.epoch, subtopologies)


def _subtopology(subtopology: wire.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology.subtopology_id,
        list(subtopology.source_topics),
        list(subtopology.source_topic_regex),
        [_topic(topic) for topic in subtopology.state_changelog_topics],
        list(subtopology.repartition_sink_topics),
        [_topic(topic) for topic in subtopology.repartition_source_topics],
        [
            CopartitionGroup(
                list(group.source_topics), list(group.source_topic_regex), list(group.repartition_source_topics)
            )
            for group in subtopology.copartition_groups
        ],
    )


def _topic(topic: wire.TopicInfo) -> TopicInfo:
    configs = [TopicConfig(config.key, config.value) for config in topic.topic_configs]
    return TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def mentioned(topology: wire.Topology) -> list[str]:
    """Every topic that a request names, each once."""
    names: dict[str, None] = {}
    for one in topology.subtopologies:
        _mentioned_by(one, names)
    return list(names)


def _mentioned_by(subtopology: wire.Subtopology, names: dict[str, None]) -> None:
    names.update(dict.fromkeys(subtopology.source_topics))
    names.update(dict.fromkeys(subtopology.repartition_sink_topics))
    names.update((topic.name, None) for topic in subtopology.repartition_source_topics)
    names.update((topic.name, None) for topic in subtopology.state_changelog_topics)


def source_topics(subtopology: Subtopology) -> list[str]:
    """What the tasks of a subtopology read, repartition topics included."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def topics_read(topology: StreamsGroupTopologyValue) -> dict[str, str]:
    """Topic to the subtopology that reads it."""
    return {topic: one.subtopology_id for one in topology.subtopologies for topic in source_topics(one)}


def required_topics(topology: StreamsGroupTopologyValue) -> set[str]:
    """Every topic that must be there: sources and internal ones."""
    names: set[str] = set()
    for one in topology.subtopologies:
        names.update(one.source_topics)
        for inner in (one.repartition_source_topics, one.state_changelog_topics):
            if inner:
                names.update(topic.name for topic in inner)
    return names


def copartition_groups(subtopology: Subtopology) -> list[set[str]]:
    """Sets of topics that must have as many partitions each. Kafka fails on an index beyond the lists, and so do we."""
    groups = []
    for group in subtopology.copartition_groups:
        inner = [topic.name for topic in subtopology.repartition_source_topics]
        groups.append(
            {*_pick(subtopology.source_topics, group.source_topics), *_pick(inner, group.repartition_source_topics)}
        )
    return groups


def _pick(names: list[str], indexes: Iterable[int]) -> list[str]:
    picked = []
    for index in indexes:
        if not 0 <= index < len(names):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        picked.append(names[index])
    return picked


def is_other(known: StreamsGroupTopologyValue, new: StreamsGroupTopologyValue) -> bool:
    """Return whether `new` would have to replace the group's topology."""
    return new.epoch > known.epoch or (new.epoch == known.epoch and new.subtopologies != known.subtopologies)
