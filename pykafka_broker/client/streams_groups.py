"""Streams groups (KIP-1071): their description with its topology."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.group_description import ask_about_group
from pykafka_broker.client.leaders import Place
from pykafka_broker.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from pykafka_broker.protocol.messages.streams_group_describe_response import DescribedGroup, Subtopology, TaskIds

_CALL = "describeStreamsGroups"


async def describe_streams_group(client: Client, group_id: str) -> DescribedGroup:
    """Raises ClientError."""
    found: DescribedGroup = await ask_about_group(client, group_id, StreamsGroupDescribeRequest([group_id]), _CALL)
    return found


def _subtopologies(group: DescribedGroup) -> Sequence[Subtopology]:
    return () if group.topology is None else group.topology.subtopologies or ()


def internal_topics(group: DescribedGroup) -> list[str]:
    """Those that the application itself needs, sorted: what it keeps, and what it shares out anew."""
    own: set[str] = set()
    for each in _subtopologies(group):
        own.update(topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics))
        own.difference_update(each.source_topics)
    return sorted(own)


def active_places(group: DescribedGroup) -> list[Place]:
    """The partitions that its members read, in order."""
    topics = {
        each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for each in _subtopologies(group)
    }
    return sorted(
        {
            (topic, partition)
            for member in group.members
            for tasks in member.assignment.active_tasks
            for topic in topics.get(tasks.subtopology_id, ())
            for partition in tasks.partitions
        }
    )


def tasks_of(assignment: Any) -> dict[str, list[TaskIds]]:
    """By kind, those that there are."""
    found = {
        "ACTIVE": assignment.active_tasks,
        "STANDBY": assignment.standby_tasks,
        "WARMUP": assignment.warmup_tasks,
    }
    return {kind: tasks for kind, tasks in found.items() if tasks}
