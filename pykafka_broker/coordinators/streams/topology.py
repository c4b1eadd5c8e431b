"""The topology that the members of a streams group bring, and how it fits the topics of the cluster.

Rule: the group keeps the topology as it is stored, with its subtopologies in the order of their ids, and the first
member decides: another topology is refused (KIP-1071 leaves updates for later), an older one is only reported as stale.
A topology that can never run is an ApiError; a topology that could run with other topics is a `TopicProblem`, which
members get as a status with every heartbeat until the problem is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from pykafka_broker.coordinators.groups.java_order import in_hash_order
from pykafka_broker.coordinators.groups.topics import ClusterTopics, existing
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import streams_group_heartbeat_request as wire
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from pykafka_broker.protocol.stored.streams_group_topology_value import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)


def as_stored(topology: wire.Topology) -> StreamsGroupTopologyValue:
    """Return the topology of a request as stored.

    Kafka fails on a negative epoch and on an id that comes twice, and so do we.
    """
    if topology.epoch < 0:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    subtopologies, ids = list[Subtopology](), set[str]()
    for subtopology in topology.subtopologies:
        if subtopology.subtopology_id in ids:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        ids.add(subtopology.subtopology_id)
        subtopologies.append(_subtopology(subtopology))
    subtopologies.sort(key=lambda subtopology: subtopology.subtopology_id)
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
    """Return every topic of a request, without doubles."""
    names: dict[str, None] = {}
    for subtopology in topology.subtopologies:
        names.update(dict.fromkeys(subtopology.source_topics))
        names.update(dict.fromkeys(subtopology.repartition_sink_topics))
        names.update((topic.name, None) for topic in subtopology.repartition_source_topics)
        names.update((topic.name, None) for topic in subtopology.state_changelog_topics)
    return list(names)


def source_topics(subtopology: Subtopology) -> list[str]:
    """Return the topics read by the tasks of a subtopology, repartition topics included."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def topics_read(topology: StreamsGroupTopologyValue) -> dict[str, str]:
    return {
        topic: subtopology.subtopology_id
        for subtopology in topology.subtopologies
        for topic in source_topics(subtopology)
    }


def required_topics(topology: StreamsGroupTopologyValue) -> frozenset[str]:
    """Return every topic needed by the topology: sources and internal topics."""
    names: set[str] = set()
    for subtopology in topology.subtopologies:
        names.update(source_topics(subtopology), (topic.name for topic in subtopology.state_changelog_topics))
    return frozenset(names)


def copartition_groups(subtopology: Subtopology) -> list[set[str]]:
    """Return sets of topics with equal partition counts. Kafka fails on an index beyond the lists, and so do we."""
    inner = [topic.name for topic in subtopology.repartition_source_topics]
    return [
        {*_pick(subtopology.source_topics, group.source_topics), *_pick(inner, group.repartition_source_topics)}
        for group in subtopology.copartition_groups
    ]


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


# The fit of a topology to the topics


# Status codes of a StreamsGroupHeartbeat response.
STALE_TOPOLOGY = 0
MISSING_SOURCE_TOPICS = 1
INCORRECTLY_PARTITIONED_TOPICS = 2
MISSING_INTERNAL_TOPICS = 3
SHUTDOWN_APPLICATION = 4
ASSIGNMENT_DELAYED = 5
MISSING_CLIENT_TAGS = 6  # since version 1 of the request

NAMED_IN_A_STATUS = 3
# Tasks of a topology. Kafka has no such limit, but can't store the assignment of a few times as many either: a short
# request that names a wide topic in each of its subtopologies would hold up all clients for minutes.
MOST_TASKS = 50_000


class TopicProblem(Exception):
    """The reason why a topology can't run on the present topics."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class ConfiguredTopology(NamedTuple):
    """The fit of a topology to the topics, ready without a problem.

    task_counts: The number of tasks of each subtopology.
    stateful: The subtopologies with changelogs.
    partitions: The partition counts of internal topics.
    missing: The internal topics to create.
    """

    metadata_hash: int
    task_counts: dict[str, int]
    stateful: frozenset[str]
    partitions: dict[str, int]
    missing: list[CreatableTopic]
    problem: TopicProblem | None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure(topology: StreamsGroupTopologyValue, topics: ClusterTopics, metadata_hash: int) -> ConfiguredTopology:
    """Return the fit of a topology to the topics. Raises STREAMS_INVALID_TOPOLOGY."""
    required = required_topics(topology)
    counts = {name: len(topics.topics[name].partitions) for name in existing(topics, required)}
    by_id = {subtopology.subtopology_id: subtopology for subtopology in topology.subtopologies}
    ordered = [by_id[name] for name in in_hash_order(by_id)]
    groups = [group for subtopology in ordered for group in copartition_groups(subtopology)]
    try:
        return _Configuration(ordered, counts, len(required)).run(groups, metadata_hash)
    except TopicProblem as problem:
        told = problem.with_traceback(None)  # the group keeps it, and would keep these frames with it
        return ConfiguredTopology(metadata_hash, {}, frozenset(), {}, [], told)


class _Configuration:
    """A configuration in the making.

    subtopologies: In the order of Kafka's table. counts: The partition counts of existing topics.
    """

    def __init__(self, subtopologies: list[Subtopology], counts: dict[str, int], required: int) -> None:
        self._subtopologies = subtopologies
        self._counts = counts
        self._required = required
        self._decided: dict[str, int] = {}  # of internal topics
        self._inner: dict[str, int] = {}  # repartition topics, with the application's partition counts
        self._fixed: set[int] = set()  # the counts of those with a count of the application

    def run(self, groups: list[set[str]], metadata_hash: int) -> ConfiguredTopology:
        missing_sources = {
            topic for each in self._subtopologies for topic in each.source_topics if topic not in self._counts
        }
        if missing_sources:
            names = _summary(sorted(missing_sources))
            raise TopicProblem(MISSING_SOURCE_TOPICS, f"Source topics {names} are missing.")
        self._decide_repartition_topics()
        self._fixed = {self._count(topic) or 0 for topic, count in self._inner.items() if count}
        for group in groups:
            self._copartition(group)
        for each in self._subtopologies:
            self._decided |= dict.fromkeys(
                (topic.name for topic in each.state_changelog_topics), self._widest_source(each)
            )
        task_counts = {each.subtopology_id: self._widest_source(each) for each in self._subtopologies}
        tasks = sum(task_counts.values())
        if tasks > MOST_TASKS:
            raise _invalid(f"The topology has {tasks} tasks; {MOST_TASKS} are the most.")
        stateful = [each.subtopology_id for each in self._subtopologies if each.state_changelog_topics]
        missing = self._missing()
        problem = None
        if missing:
            names = _summary([topic.name for topic in missing])
            problem = TopicProblem(MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
        return ConfiguredTopology(metadata_hash, task_counts, frozenset(stateful), self._decided, missing, problem)

    def _count(self, topic: str) -> int | None:
        """Return the partition count of a topic: the existing topic's, else a decided count.

        What reads an existing topic is as wide as that topic, also where the topic should have another count.
        """
        count = self._counts.get(topic)
        return self._decided.get(topic) if count is None else count

    # Repartition topics

    def _decide_repartition_topics(self) -> None:
        """Give each repartition topic the application's count, else the count of a writer's widest source.

        Of several writers the first decides whose sources have a known count.
        """
        for subtopology in self._subtopologies:
            for topic in subtopology.repartition_source_topics:
                self._inner[topic.name] = topic.partitions
                if topic.partitions:
                    self._decided[topic.name] = topic.partitions
        if not self._decide_by_writers():
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the "
                "topology that cannot be resolved."
            )
        if not self._inner.keys() <= self._decided.keys():
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics, because a repartition source "
                "topic is never used as a sink topic."
            )

    def _decide_by_writers(self) -> bool:
        """Decide counts pass after pass, until no pass decides another one. Returns whether all topics have a count.

        A topic has its turn in a pass once its writer reads a topic with a known count, and gets the greatest one that
        is known then. The turns stand in a heap: passes over all topics would take minutes for a long chain of writers.
        """
        written = [(name, at) for at, each in enumerate(self._subtopologies) for name in each.repartition_sink_topics]
        known = [self._widest_known_source(each) for each in self._subtopologies]
        turns_of: dict[int, list[int]] = {}
        for turn, (_, writer) in enumerate(written):
            turns_of.setdefault(writer, []).append(turn)
        readers: dict[str, list[int]] = {}
        for at, each in enumerate(self._subtopologies):
            for topic in each.repartition_source_topics:
                readers.setdefault(topic.name, []).append(at)
        due = [(0, turn) for turn, (_, writer) in enumerate(written) if known[writer] is not None]
        while due:
            in_pass, turn = heappop(due)
            name, writer = written[turn]
            count = known[writer]
            if name in self._decided or count is None:
                continue
            self._decided[name] = count
            for reader in readers.get(name, ()):
                before = known[reader]
                known[reader] = count if before is None else max(before, count)
                if before is None:
                    for later in turns_of.get(reader, ()):
                        heappush(due, (in_pass + (later < turn), later))
        return all(name in self._decided for name, _ in written)

    def _widest_known_source(self, writer: Subtopology) -> int | None:
        """Return the greatest known count of the topics that a subtopology reads; None while no count is known."""
        inner = (self._decided.get(topic.name) for topic in writer.repartition_source_topics)
        outer = (self._counts.get(topic) for topic in writer.source_topics)
        return max((count for count in (*inner, *outer) if count is not None), default=None)

    def _copartition(self, group: set[str]) -> None:
        """Make counts equal: outer topics must agree; repartition topics follow, or else take the widest count.

        As in Kafka, among repartition topics alone the counts of the application hold for all of its groups.
        """
        if not group:
            return
        inner, fixed = self._inner, self._fixed
        outer = {topic: self._count(topic) or 0 for topic in sorted(group) if topic not in inner}
        followers = {topic: self._count(topic) or 0 for topic in sorted(group) if topic in inner}
        if outer:
            wanted = self._agreed(set(outer.values()), outer)
        elif fixed:
            wanted = self._agreed(fixed, followers)
        else:
            wanted = max(followers.values(), default=0)
        for topic in in_hash_order(followers):
            count = followers[topic]
            if inner[topic] and count != wanted:
                raise TopicProblem(
                    INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{count}] of repartition topic [{topic}] doesn't match number of "
                    f"partitions [{wanted}] of the source topic.",
                )
            self._decided[topic] = wanted

    def _agreed(self, counts: set[int], group: dict[str, int]) -> int:
        """Return the one count of all topics. Raises TopicProblem, which tells of `group`."""
        if len(counts) > 1:
            listed = ", ".join(f"{topic}={count}" for topic, count in group.items())
            raise TopicProblem(
                INCORRECTLY_PARTITIONED_TOPICS,
                f"Following topics do not have the same number of partitions: [{{{listed}}}]",
            )
        return next(iter(counts))

    # Changelogs and tasks

    def _widest_source(self, subtopology: Subtopology) -> int:
        counts = [self._count(topic) or 0 for topic in source_topics(subtopology)]
        if not counts:
            raise _invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
        return max(counts)

    def _missing(self) -> list[CreatableTopic]:
        """Return the internal topics to create. Raises for an internal topic with another partition count."""
        wanted: dict[str, TopicInfo] = {}
        for subtopology in self._subtopologies:
            _check_each_once(subtopology)
            for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
                wanted[topic.name] = topic
                if topic.partitions:
                    self._decided[topic.name] = topic.partitions
        there = [name for name in wanted if name in self._counts]
        others = [name for name in there if self._counts[name] != self._decided[name]]
        if others:  # Kafka names the first in a set of all required topics
            name = in_hash_order(others, self._required)[0]
            raise TopicProblem(
                INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {self._decided[name]}, found "
                f"{self._counts[name]}",
            )
        missing: list[CreatableTopic] = []
        for name in in_hash_order((name for name in wanted if name not in self._counts), len(wanted)):
            topic = wanted[name]
            configs = [CreatableTopicConfig(config.key, config.value) for config in topic.topic_configs]
            missing.append(CreatableTopic(name, self._decided[name], topic.replication_factor or -1, [], configs))
        return missing


def _check_each_once(subtopology: Subtopology) -> None:
    """Check that nothing comes twice, over which Kafka stumbles. Raises STREAMS_INVALID_TOPOLOGY."""
    for topics in (subtopology.repartition_source_topics, subtopology.state_changelog_topics):
        names = [topic.name for topic in topics]
        if len(set(names)) < len(names):
            raise _invalid(f"Subtopology {subtopology.subtopology_id} names an internal topic twice: {names}")
        for topic in topics:
            keys = [config.key for config in topic.topic_configs]
            if len(set(keys)) < len(keys):
                raise _invalid(f"Internal topic {topic.name} has a config twice: {keys}")


def _summary(names: Sequence[str]) -> str:
    """Return the first three names, and the count of more names."""
    text, more = ", ".join(names[:NAMED_IN_A_STATUS]), len(names) - NAMED_IN_A_STATUS
    return f"{text} and {more} additional topics" if more > 0 else text


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
