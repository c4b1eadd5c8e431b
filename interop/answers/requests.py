"""Short ways to write the requests of the scenarios."""

from collections.abc import Sequence
from typing import Any

from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

BY_NAME = 12  # the last version in which Produce and Fetch name their topics; later ones use ids
EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -3, -4, -5


def new_topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    configs: dict[str, Any] | None = None,
    assignments: dict[int, list[int]] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name,
        partitions,
        replicas,
        [CreatableReplicaAssignment(partition, brokers) for partition, brokers in (assignments or {}).items()],
        [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()],
    )


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(list(topics), 30_000, validate_only)


def produce(
    topic: str | bytes, *batches: bytes | None, acks: int = -1, partition: int = 0, transactional_id: str | None = None
) -> ProduceRequest:
    """One partition's batches; a topic given as bytes is an id."""
    joined = None if batches == (None,) else b"".join(b or b"" for b in batches)
    data = [PartitionProduceData(partition, joined)]
    where = TopicProduceData(partition_data=data)
    if isinstance(topic, bytes):
        where.topic_id = topic
    else:
        where.name = topic
    return ProduceRequest(transactional_id, acks, 10_000, [where])


def fetch_topic(topic: str | bytes, offset: int = 0, partition: int = 0, **fields: int) -> FetchTopic:
    asked = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1_000_000)
    for field, value in fields.items():
        setattr(asked, field, value)
    if isinstance(topic, bytes):
        return FetchTopic(topic_id=topic, partitions=[asked])
    return FetchTopic(topic, partitions=[asked])


def fetch(topics: Sequence[FetchTopic], **fields: Any) -> FetchRequest:
    return FetchRequest(topics=list(topics), **{"max_wait_ms": 0, "min_bytes": 0, **fields})


def list_offsets(
    topic: str, *timestamps: int, isolation: int = 0, epoch: int = -1, partition: int = 0
) -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(partition, epoch, timestamp) for timestamp in timestamps]
    return ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(topic, asked)])
