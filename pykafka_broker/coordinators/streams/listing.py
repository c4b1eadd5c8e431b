"""How StreamsGroupDescribe shows a streams group.

Rule: internal topics have their numbers of partitions once the topology has been found to fit by a heartbeat that began
a new epoch of a group that was there before, as in Kafka; until then those that the application names. What a member
has to give back is not shown as its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykafka_broker.coordinators.streams.group import StreamsGroup, StreamsMember
from pykafka_broker.coordinators.streams.tasks import Target
from pykafka_broker.protocol.messages.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from pykafka_broker.protocol.stored import streams_group_topology_value as stored_value


def describe(group: StreamsGroup) -> DescribedGroup:
    """The group with its topology and its members."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.members.values()],
    )


def _topology(group: StreamsGroup) -> Topology | None:
    if group.topology is None:
        return None
    partitions = group.shown.partitions if group.shown is not None and group.shown.is_ready else {}
    return Topology(
        group.topology.epoch,
        [
            Subtopology(
                one.subtopology_id,
                one.source_topics,
                one.repartition_sink_topics,
                _topics(one.state_changelog_topics, partitions),
                _topics(one.repartition_source_topics, partitions),
            )
            for one in group.topology.subtopologies
        ],
    )


def _topics(topics: Iterable[stored_value.TopicInfo], partitions: Mapping[str, int]) -> list[TopicInfo]:
    return [
        TopicInfo(
            topic.name,
            partitions.get(topic.name, topic.partitions),
            topic.replication_factor,
            [KeyValue(config.key, config.value) for config in topic.topic_configs],
        )
        for topic in topics
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else Endpoint(member.endpoint.host, member.endpoint.port),
        client_tags=[KeyValue(key, value) for key, value in member.client_tags.items()],
        assignment=_assignment(*member.assigned),
        target_assignment=_assignment(*group.targets.get(member.member_id, Target())),
    )


def _assignment(*roles: Mapping[str, Iterable[int]]) -> Assignment:
    return Assignment(*(task_ids(tasks) for tasks in roles))


def task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(name, sorted(tasks[name])) for name in sorted(tasks)]
