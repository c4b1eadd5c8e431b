"""Which partitions can be asked for where: what interactive queries of Kafka Streams go by.

Rule: a member is listed with the sources of its tasks, and only if it has told an endpoint; its changelogs are nobody
else's business.
"""

from __future__ import annotations

from pykafka_broker.coordinators.groups.topics import Topics
from pykafka_broker.coordinators.streams.change import MemberChange
from pykafka_broker.coordinators.streams.configured import MISSING_INTERNAL_TOPICS
from pykafka_broker.coordinators.streams.group import StreamsGroup
from pykafka_broker.coordinators.streams.tasks import Tasks
from pykafka_broker.coordinators.streams.topology import source_topics
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.streams_group_heartbeat_response import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)


def partitions_by_endpoint(group: StreamsGroup, change: MemberChange, topics: Topics) -> list[EndpointToPartitions]:
    """Of all members, with the one that changes as it is now. Kafka fails on an endpoint while source topics are
    missing or topics have other numbers of partitions, and so do we.
    """
    listed = [(one, one.endpoint) for one in group.with_change(change.member) if one.endpoint is not None]
    problem = change.configured.problem
    if listed and problem is not None and problem.status != MISSING_INTERNAL_TOPICS:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    sources = {one.subtopology_id: source_topics(one) for one in change.topology.subtopologies} if listed else {}
    return [
        EndpointToPartitions(
            Endpoint(endpoint.host, endpoint.port),
            _partitions(sources, {name: frozenset(since) for name, since in one.assigned.active.items()}, topics),
            _partitions(sources, one.assigned.standby, topics),
        )
        for one, endpoint in listed
    ]


def _partitions(sources: dict[str, list[str]], tasks: Tasks, topics: Topics) -> list[TopicPartition]:
    found = []
    for subtopology_id, names in sources.items():
        owned = tasks.get(subtopology_id, frozenset())
        for name in names if owned else ():
            topic = topics.topics.get(name)
            if topic is not None:
                found.append(TopicPartition(name, sorted(index for index in owned if index in topic.partitions)))
    return found
