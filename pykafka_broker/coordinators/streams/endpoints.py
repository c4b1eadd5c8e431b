"""Which partitions can be asked for where: what interactive queries of Kafka Streams go by.

Rule: a member is listed with the sources of its tasks, and only if it has told an endpoint; its changelogs are nobody
else's business.
"""

from __future__ import annotations

from pykafka_broker.coordinators.groups.topics import Topics
from pykafka_broker.coordinators.streams.group import StreamsGroup, StreamsMember
from pykafka_broker.coordinators.streams.tasks import Tasks
from pykafka_broker.coordinators.streams.topology import source_topics
from pykafka_broker.protocol.messages.streams_group_heartbeat_response import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)


def partitions_by_endpoint(group: StreamsGroup, member: StreamsMember, topics: Topics) -> list[EndpointToPartitions]:
    """Of all members, with this one as it is now."""
    return [
        EndpointToPartitions(
            Endpoint(one.endpoint.host, one.endpoint.port),
            _partitions(group, {name: frozenset(since) for name, since in one.assigned.active.items()}, topics),
            _partitions(group, one.assigned.standby, topics),
        )
        for one in group.with_change(member)
        if one.endpoint is not None
    ]


def _partitions(group: StreamsGroup, tasks: Tasks, topics: Topics) -> list[TopicPartition]:
    found = []
    for subtopology in () if group.topology is None else group.topology.subtopologies:
        owned = tasks.get(subtopology.subtopology_id, frozenset())
        for name in source_topics(subtopology) if owned else ():
            topic = topics.topics.get(name)
            if topic is not None:
                found.append(TopicPartition(name, sorted(index for index in owned if index in topic.partitions)))
    return found
