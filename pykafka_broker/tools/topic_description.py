"""`kafka-topics --describe`.

Rule: a partition is shown when one of the filters that are asked for holds for it; with a filter of partitions the
lines of topics are left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.configs import Resource, Source, describe_configs, source_of
from pykafka_broker.client.errors import Refused
from pykafka_broker.client.topics import PartitionView, TopicView, describe_topics, list_reassignments
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.list_partition_reassignments_response import OngoingPartitionReassignment
from pykafka_broker.protocol.runtime import uuid_text
from pykafka_broker.tools.frame import Tool

_NOT_TOLD = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class Filters(NamedTuple):
    """What is shown; nothing of it: everything."""

    with_overrides: bool = False
    under_replicated: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False
    unavailable: bool = False

    @property
    def of_partitions(self) -> bool:
        return self.under_replicated or self.under_min_isr or self.at_min_isr or self.unavailable


class Part(NamedTuple):
    """A partition with all that filters ask of it."""

    view: PartitionView
    move: OngoingPartitionReassignment | None
    min_isr: int
    live: frozenset[int]

    @property
    def replication_factor(self) -> int:
        """Without the replicas that a reassignment adds."""
        added = len(self.move.adding_replicas) if self.move else 0
        return len(self.view.replicas) - added

    @property
    def has_leader(self) -> bool:
        return self.view.leader >= 0

    def passes(self, wanted: Filters) -> bool:
        """Whether it is to be shown."""
        if not wanted.of_partitions:
            return not wanted.with_overrides
        in_sync = len(self.view.isr)
        return (
            (wanted.under_replicated and self.replication_factor > in_sync)
            or (wanted.under_min_isr and in_sync < self.min_isr)
            or (wanted.at_min_isr and in_sync == self.min_isr)
            or (wanted.unavailable and self.view.leader not in self.live)
        )

    def line(self, topic: str) -> str:
        view = self.view
        fields = [
            f"Topic: {topic}",
            f"Partition: {view.partition}",
            f"Leader: {view.leader if self.has_leader else 'none'}",
            f"Replicas: {_ids(view.replicas)}",
            f"Isr: {_ids(view.isr)}",
        ]
        if self.move:
            fields += [
                f"Adding Replicas: {_ids(self.move.adding_replicas)}",
                f"Removing Replicas: {_ids(self.move.removing_replicas)}",
            ]
        fields += [f"Elr: {_ids(view.elr)}", f"LastKnownElr: {_ids(view.last_known_elr)}"]
        return "\t" + "\t".join(fields)

    def data(self) -> dict[str, Any]:
        view = self.view
        return {
            "partition": view.partition,
            "leader": view.leader if self.has_leader else None,
            "replicas": view.replicas,
            "isr": view.isr,
            "adding_replicas": list(self.move.adding_replicas) if self.move else [],
            "removing_replicas": list(self.move.removing_replicas) if self.move else [],
            "elr": view.elr,
            "last_known_elr": view.last_known_elr,
        }


def _ids(nodes: list[int] | None) -> str:
    return "N/A" if nodes is None else ",".join(map(str, nodes))


async def describe(
    tool: Tool, client: Client, names: list[str], wanted: Filters, limit: int, *, by_id: bool = False
) -> list[dict[str, Any]]:
    """Print these topics and return them as plain data. by_id: the user named an id."""
    topics = await describe_topics(client, names, limit=limit, by_id=by_id)
    resources = [Resource(ConfigResourceType.TOPIC, name) for name in topics]
    configs = await describe_configs(client, resources) if resources else {}
    moves = await _reassignments(client, topics)
    live = frozenset(client.nodes)
    shown = []
    for resource in resources:
        topic = topics[resource.name]
        values = {each.name: each.value or "" for each in configs[resource]}
        minimum = int(values.get("min.insync.replicas", "1"))
        own = {
            each.name: each.value or ""
            for each in configs[resource]
            if source_of(resource, each) is not Source.DEFAULT_CONFIG
        }
        parts = [Part(each, moves.get((topic.name, each.partition)), minimum, live) for each in topic.partitions]
        shown.append(_print(tool, topic, own, parts, wanted))
    return [each for each in shown if each is not None]


def _print(
    tool: Tool, topic: TopicView, own: dict[str, str], parts: list[Part], wanted: Filters
) -> dict[str, Any] | None:
    passing = [each for each in parts if each.passes(wanted)]
    whole = not wanted.of_partitions and (own or not wanted.with_overrides)
    factor = parts[0].replication_factor if parts else 0
    if whole:
        listed = ",".join(f"{name}={value}" for name, value in sorted(own.items()))
        tool.print(
            f"Topic: {topic.name}\tTopicId: {uuid_text(topic.topic_id)}\tPartitionCount: {len(parts)}\t"
            f"ReplicationFactor: {factor}\tConfigs: {listed}"
        )
    for each in passing:
        tool.print(each.line(topic.name))
    if not whole and not passing:
        return None
    return {
        "name": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "is_internal": topic.is_internal,
        "partition_count": len(parts),
        "replication_factor": factor,
        "configs": own,
        "partitions": [each.data() for each in passing],
    }


async def _reassignments(
    client: Client, topics: dict[str, TopicView]
) -> dict[tuple[str, int], OngoingPartitionReassignment]:
    """None where the broker can't or won't tell."""
    wanted = {topic.name: [each.partition for each in topic.partitions] for topic in topics.values()}
    try:
        return await list_reassignments(client, wanted) if wanted else {}
    except Refused as error:
        if error.code not in _NOT_TOLD:
            raise
        return {}
