"""Readers and writers of one partition agree with those of whole messages."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.generator.hot import SINGLES
from protocol.generator.singles import single_functions
from pykafka_broker.protocol.messages import (
    fetch_request,
    fetch_response,
    offset_commit_response,
    produce_request,
    produce_response,
)
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from pykafka_broker.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from pykafka_broker.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykafka_broker.protocol.runtime import ZERO_UUID
from tests.protocol.values import messages

TOPIC_ID = bytes(range(16))


def test_messages_without_a_single_form_have_no_functions() -> None:
    assert single_functions(messages()["HeartbeatRequest"], [], None) == []  # type: ignore[arg-type]  # not asked
    assert messages().keys() >= SINGLES.keys()


@pytest.mark.parametrize("version", produce_request.SINGLE_READERS)
@pytest.mark.parametrize("size", [0, 100, 200, 20_000])
def test_a_produce_is_read_as_it_was_written(version: int, size: int) -> None:
    by_id = version >= 13
    topic = TopicProduceData(topic_id=TOPIC_ID) if by_id else TopicProduceData("tópic")
    topic.partition_data = [PartitionProduceData(7, bytes(size))]
    body = ProduceRequest(None, -1, 1000, [topic]).encode(version)
    read = produce_request.SINGLE_READERS[version](b"xx" + body, 2)
    assert read == (-1, 1000, "" if by_id else "tópic", TOPIC_ID if by_id else ZERO_UUID, 7, bytes(size))
    for other in (body[:-1], body + b"\0", b"", body[:9]):
        assert produce_request.SINGLE_READERS[version](other, 0) is None


@pytest.mark.parametrize("version", produce_request.SINGLE_READERS)
def test_other_forms_of_a_produce_are_left_alone(version: int) -> None:
    topic = TopicProduceData(partition_data=[PartitionProduceData(0, b"r")])
    forms = [
        ProduceRequest("x", 1, 1, [topic]),
        ProduceRequest(None, 1, 1, []),
        ProduceRequest(None, 1, 1, [topic, topic]),
        ProduceRequest(None, 1, 1, [TopicProduceData()]),
        ProduceRequest(None, 1, 1, [TopicProduceData(partition_data=topic.partition_data * 2)]),
        ProduceRequest(None, 1, 1, [TopicProduceData(partition_data=[PartitionProduceData(0, None)])]),
    ]
    assert [produce_request.SINGLE_READERS[version](form.encode(version), 0) for form in forms] == [None] * 6


@pytest.mark.parametrize("version", fetch_request.SINGLE_READERS)
def test_a_fetch_is_read_as_it_was_written(version: int) -> None:
    by_id = version >= 13
    values: dict[str, Any] = {"partition": 3, "fetch_offset": 5, "partition_max_bytes": 6}
    values |= {"current_leader_epoch": 4} if version >= 9 else {}
    values |= {"log_start_offset": 2} if version >= 5 else {}
    topic = FetchTopic(topic_id=TOPIC_ID) if by_id else FetchTopic("t")
    topic.partitions = [FetchPartition(**values)]
    request = FetchRequest(max_wait_ms=1, min_bytes=2, max_bytes=3, isolation_level=1, topics=[topic])
    if version >= 7:
        request.session_id, request.session_epoch = 8, 9
    read = fetch_request.SINGLE_READERS[version](request.encode(version), 0)
    session = (8, 9) if version >= 7 else (0, -1)
    name = ("", TOPIC_ID) if by_id else ("t", ZERO_UUID)
    partition = (3, values.get("current_leader_epoch", -1), 5, -1, values.get("log_start_offset", -1), 6)
    assert read == (-1, 1, 2, 3, 1, *session, 1, *name, *partition)
    request.topics = []
    read = fetch_request.SINGLE_READERS[version](request.encode(version), 0)
    assert read == (-1, 1, 2, 3, 1, *session, 0, "", ZERO_UUID, 0, -1, 0, -1, -1, 0)


@pytest.mark.parametrize("version", fetch_request.SINGLE_READERS)
def test_other_forms_of_a_fetch_are_left_alone(version: int) -> None:
    one = FetchTopic(partitions=[FetchPartition()])
    forms = [
        FetchRequest(topics=[one, one]),
        FetchRequest(topics=[FetchTopic()]),
        FetchRequest(topics=[FetchTopic(partitions=one.partitions * 2)]),
    ]
    if version >= 7:
        forms.append(FetchRequest(topics=[one], forgotten_topics_data=[ForgottenTopic(partitions=[0])]))
    if version >= 11:
        forms.append(FetchRequest(topics=[one], rack_id="r"))
    if version >= 12:
        forms.append(FetchRequest(topics=[one], cluster_id="c"))
    assert [fetch_request.SINGLE_READERS[version](form.encode(version), 0) for form in forms] == [None] * len(forms)


@pytest.mark.parametrize("version", produce_response.SINGLE_WRITERS)
def test_an_answer_to_a_produce_is_written_like_any_other(version: int) -> None:
    partition = PartitionProduceResponse(7, 0, 1 << 40, 5, 6)
    whole = ProduceResponse([TopicProduceResponse("tópic", TOPIC_ID, [partition])])
    if version < 13:
        whole.responses[0].topic_id = ZERO_UUID
    else:
        whole.responses[0].name = ""
    pieces = produce_response.SINGLE_WRITERS[version]("tópic", TOPIC_ID, 7, 1 << 40, 5, 6)
    assert b"".join(pieces) == whole.encode(version)


@pytest.mark.parametrize("length", [126, 127, 249])
def test_the_length_of_a_long_name_takes_two_bytes(length: int) -> None:
    name = "t" * length
    partition = PartitionData(7, 0, 9, 8, 6, aborted_transactions=None, records=b"r")
    fetched = FetchResponse(responses=[FetchableTopicResponse(name, partitions=[partition])])
    pieces = fetch_response.SINGLE_WRITERS[12](0, name, TOPIC_ID, 7, 9, 8, 6, False, b"r")
    assert b"".join(pieces) == fetched.encode(12)
    produced = ProduceResponse([TopicProduceResponse(name, partition_responses=[PartitionProduceResponse(7, 0, 5)])])
    pieces = produce_response.SINGLE_WRITERS[9](name, TOPIC_ID, 7, 5, -1, -1)
    assert b"".join(pieces) == produced.encode(9)
    committed = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name, partitions=[])])
    committed.topics[0].partitions = [OffsetCommitResponsePartition(7, 16)]
    assert b"".join(offset_commit_response.SINGLE_WRITERS[8](name, TOPIC_ID, 7, 16)) == committed.encode(8)


@pytest.mark.parametrize("version", fetch_response.SINGLE_WRITERS)
@pytest.mark.parametrize("size", [0, 100, 200, 20_000])
@pytest.mark.parametrize("committed", [False, True])
def test_an_answer_to_a_fetch_is_written_like_any_other(version: int, size: int, committed: bool) -> None:
    partition = PartitionData(7, 0, 9, 8, 6, aborted_transactions=[] if committed else None, records=bytes(size))
    by_id = version >= 13
    topic = FetchableTopicResponse("" if by_id else "t", TOPIC_ID if by_id else ZERO_UUID, [partition])
    whole = FetchResponse(session_id=5 if version >= 7 else 0, responses=[topic])
    pieces = fetch_response.SINGLE_WRITERS[version](5, "t", TOPIC_ID, 7, 9, 8, 6, committed, bytes(size))
    assert pieces[0] == b""
    assert b"".join(pieces) == whole.encode(version)
