"""Offsets in version 0, as clients of Kafka 0.8 ask for them: of any broker, without a word to a coordinator before."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.broker.api.real_broker import RealBroker


@pytest.fixture
def node(tmp_path: Path) -> RealBroker:
    node = RealBroker(tmp_path)
    node.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 5)
    return node


def fetched(node: RealBroker, version: int) -> tuple[int, int]:
    request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])])
    [topic] = node.call(request, version).topics
    return topic.partitions[0].committed_offset, topic.partitions[0].error_code


def committed(node: RealBroker, version: int) -> int:
    topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 30)])
    [answer] = node.call(OffsetCommitRequest("g", topics=[topic]), version).topics
    code: int = answer.partitions[0].error_code
    return code


def test_the_first_request_of_all_may_ask_for_an_offset(node: RealBroker) -> None:
    assert fetched(node, 0) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "ZooKeeper had nothing there"
    assert committed(node, 0) == ErrorCode.NONE
    assert fetched(node, 0) == (30, ErrorCode.NONE)


def test_the_first_request_of_all_may_commit_one(node: RealBroker) -> None:
    assert committed(node, 0) == ErrorCode.NONE
    assert fetched(node, 0) == (30, ErrorCode.NONE)
    assert fetched(node, 1) == (30, ErrorCode.NONE), "the coordinator has it, as all others"


def test_later_versions_need_a_coordinator_that_was_looked_for(node: RealBroker) -> None:
    assert fetched(node, 1) == (-1, ErrorCode.NOT_COORDINATOR)
    assert committed(node, 2) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", [2, 9, 10])
def test_any_broker_knows_which_partitions_there_are(node: RealBroker, version: int) -> None:
    """Apache Kafka 4.4.0 was asked the same."""
    by_ids, topic_id = version >= 10, node.broker.image.topics["t"].id
    asked = [
        OffsetCommitRequestTopic(
            "" if by_ids else name, id_ if by_ids else bytes(16), [OffsetCommitRequestPartition(index) for index in of]
        )
        for name, id_, of in (("t", topic_id, [0, 1]), ("gone", b"\7" * 16, [0]))
    ]
    there, gone = node.call(OffsetCommitRequest("g", topics=asked), version).topics
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [one.error_code for one in there.partitions] == [ErrorCode.NOT_COORDINATOR, unknown]
    assert [one.error_code for one in gone.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID if by_ids else unknown]
