"""A cluster in which another node keeps the states of a share group, and what its tests ask and are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pykafka_broker.protocol.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from tests.broker.neighbourhood import Neighbourhood
from tests.broker.support import batch

GROUP, MEMBER = "g", "one"
ACCEPT, RELEASE = 1, 2
LOCK_MS = 15_000


def share_nodes(tmp_path: Path) -> Neighbourhood:
    """Return nodes: node 1 leads t with five records, node 2 keeps the share states, node 3 coordinates the group."""
    nodes = Neighbourhood(
        tmp_path, brokers=3, group_share_record_lock_duration_ms=str(LOCK_MS), group_share_heartbeat_interval_ms="5000"
    )
    nodes.add(CONSUMER_OFFSETS, 3, replicas=(3, 1))
    nodes.add(SHARE_GROUP_STATE, 2, replicas=(2, 3))
    nodes.add("t", 1)
    produce_five(nodes)
    return nodes


def produce_five(nodes: Neighbourhood) -> None:
    data = [PartitionProduceData(0, bytes(batch(*(b"%d" % number for number in range(5)))))]
    produced = nodes.call(1, ProduceRequest(None, -1, 1000, [TopicProduceData("t", partition_data=data)]), 11)
    assert not produced.responses[0].partition_responses[0].error_code


def topic_id(nodes: Neighbourhood) -> bytes:
    return nodes[1].image.topics["t"].id


def key(nodes: Neighbourhood) -> ShareKey:
    return ShareKey(GROUP, topic_id(nodes), 0)


def altered(nodes: Neighbourhood, offset: int = 0, partition: int = 0) -> int:
    """Set the offset where the group begins; return the partition's error code."""
    topic = AlterShareGroupOffsetsRequestTopic("t", [AlterShareGroupOffsetsRequestPartition(partition, offset)])
    answer = nodes.call(3, AlterShareGroupOffsetsRequest(GROUP, [topic]), 0)
    assert not answer.error_code
    return int(answer.responses[0].partitions[0].error_code)


def fetching(nodes: Neighbourhood, epoch: int, *, wait_ms: int = 500, member: str = MEMBER) -> ShareFetchRequest:
    topics = [FetchTopic(topic_id(nodes), [FetchPartition(0)])] if epoch == 0 else []
    return ShareFetchRequest(
        GROUP, member, epoch, wait_ms, 1, max_bytes=1 << 20, max_records=100, batch_size=100, topics=topics
    )


def got(answer: Any) -> list[tuple[int, int, int]]:
    """Return first offset, last offset and delivery count of each run of records that was handed out."""
    assert not answer.error_code
    return [
        (run.first_offset, run.last_offset, run.delivery_count)
        for topic in answer.responses
        for one in topic.partitions
        for run in one.acquired_records
        if not one.error_code
    ]


def acknowledging(nodes: Neighbourhood, epoch: int, first: int, last: int, kind: int) -> ShareAcknowledgeRequest:
    partition = AcknowledgePartition(0, [AcknowledgementBatch(first, last, [kind])])
    return ShareAcknowledgeRequest(GROUP, MEMBER, epoch, topics=[AcknowledgeTopic(topic_id(nodes), [partition])])


def told(answers: list[Any]) -> int:
    [answer] = answers
    assert not answer.error_code
    return int(answer.responses[0].partitions[0].error_code)


def kept(nodes: Neighbourhood, node: int = 2) -> tuple[int, list[tuple[int, int, int, int]]]:
    """Return the share coordinator's state: the start offset, and the runs of records behind it."""
    state = nodes[node].shares.known(key(nodes)).summary(key(nodes))
    assert state is not None
    return state.start_offset, [tuple(run) for run in state.runs]  # type: ignore[misc]


def asked(nodes: Neighbourhood) -> list[tuple[int, int, str]]:
    found = [(source, target, type(request).__name__) for source, target, name, request in nodes.network.log]
    assert all(name == f"Persister-client-{source}" for source, _, name, _ in nodes.network.log)
    return found
