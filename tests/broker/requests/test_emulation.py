"""A broker that passes for an older release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.requests.emulation import Emulation
from pykafka_broker.broker.requests.encoded_reply import EncodedReply
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from pykafka_broker.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykafka_broker.releases.release import release, release_names


def emulation(name: str) -> Emulation:
    return Emulation(release(name))


def code_of(name: str, code: ErrorCode) -> int:
    partition = PartitionProduceResponse(0, code)
    reply = ProduceResponse([TopicProduceResponse("t", partition_responses=[partition])])
    assert emulation(name).translated(reply, ProduceResponse, 3) is reply
    return partition.error_code


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("2.7", ErrorCode.PRODUCER_FENCED, ErrorCode.PRODUCER_FENCED),
        ("2.6", ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        ("0.10.2", ErrorCode.PRODUCER_FENCED, ErrorCode.UNKNOWN_SERVER_ERROR),
        ("2.4", ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD),
        ("2.3", ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE),
        ("0.11", ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("2.7", ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("3.7", ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        ("0.8", ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR),
        ("0.8", ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_code_that_came_later_is_what_was_sent_before(name: str, code: ErrorCode, told: ErrorCode) -> None:
    assert code_of(name, code) == told


@pytest.mark.parametrize("name", release_names())
def test_no_release_sends_a_code_that_it_did_not_have(name: str) -> None:
    last = release(name).last_error
    assert [code for code in ErrorCode if code_of(name, code) > last] == []
    assert [code for code in ErrorCode if code <= last and code_of(name, code) != code] == []


def test_answers_that_are_bytes_already() -> None:
    def encoded(code: ErrorCode) -> EncodedReply:
        return EncodedReply(MetadataResponse(topics=[MetadataResponseTopic(code, "t")]).encode(1))

    def told(reply: EncodedReply) -> Any:
        return emulation("0.11").translated(reply, MetadataResponse, 1)

    as_it_is = encoded(ErrorCode.LEADER_NOT_AVAILABLE)
    assert told(as_it_is) is as_it_is
    [topic] = MetadataResponse.decode(told(encoded(ErrorCode.KAFKA_STORAGE_ERROR)).body, 1).topics
    assert topic.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_has_no_fields_is_left_alone(tmp_path: Path) -> None:
    assert emulation("2.8").translated(None, MetadataResponse, 1) is None
