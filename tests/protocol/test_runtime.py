"""Varints, uuids, and what an encoder refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.protocol import runtime
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.create_topics_request import CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from pykafka_broker.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from pykafka_broker.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch
from pykafka_broker.protocol.messages.fetch_response import PartitionData as FetchedPartition
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from pykafka_broker.protocol.messages.produce_request import ProduceRequest
from pykafka_broker.protocol.runtime import (
    ZERO_UUID,
    DecodeError,
    EncodeError,
    Message,
    new_uuid,
    parse_uuid_text,
    read_uvarint,
    read_varint,
    read_varlong,
    uuid_text,
    uvarint,
    varint,
    varlong,
)
from pykafka_broker.protocol.stored.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord

# The varint of a number as Kafka's ByteUtils writes it.
UVARINTS = {0: "00", 127: "7f", 128: "8001", 300: "ac02", 16383: "ff7f", 16384: "808001", 0xFFFFFFFF: "ffffffff0f"}
VARINTS = {0: "00", -1: "01", 1: "02", -64: "7f", 64: "8001", 2**31 - 1: "feffffff0f", -(2**31): "ffffffff0f"}
VARLONGS = {0: "00", -1: "01", 2**63 - 1: "feffffffffffffffff01", -(2**63): "ffffffffffffffffff01"}


@pytest.mark.parametrize(("number", "encoded"), UVARINTS.items())
def test_uvarint(number: int, encoded: str) -> None:
    assert uvarint(number).hex() == encoded
    assert read_uvarint(b"\xff" + bytes.fromhex(encoded) + b"\xff", 1) == (number, 1 + len(encoded) // 2)


@pytest.mark.parametrize(("number", "encoded"), VARINTS.items())
def test_varint(number: int, encoded: str) -> None:
    assert varint(number).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0) == (number, len(encoded) // 2)


@pytest.mark.parametrize(("number", "encoded"), VARLONGS.items())
def test_varlong(number: int, encoded: str) -> None:
    assert varlong(number).hex() == encoded
    assert read_varlong(bytes.fromhex(encoded), 0) == (number, len(encoded) // 2)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_varlong_comes_back(number: int) -> None:
    assert read_varlong(varlong(number), 0) == (number, len(varlong(number)))


@pytest.mark.parametrize("write", [uvarint, varint, varlong])
@pytest.mark.parametrize("number", [1 << 64, -(1 << 64)])
def test_numbers_out_of_range_are_refused(write: Any, number: int) -> None:
    with pytest.raises(EncodeError):
        write(number)


@pytest.mark.parametrize("read", [read_uvarint, read_varint, read_varlong])
@pytest.mark.parametrize("raw", [b"", b"\x80", b"\xff" * 4, b"\x80" * 11, b"\xff" * 9 + b"\x7f"])
def test_varints_that_end_early_or_are_too_long_are_refused(read: Any, raw: bytes) -> None:
    with pytest.raises(DecodeError):
        read(raw, 0)


def test_no_new_uuid_looks_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kafka-storage format -t -Wy0...` has no cluster id: one of 64 random uuids begins so."""
    drawn = iter([UUID(bytes=b"\xf8" * 16), UUID(bytes=b"\xfb" * 16), UUID(bytes=b"\xfc" * 16)])
    monkeypatch.setattr("pykafka_broker.protocol.runtime.uuid4", lambda: next(drawn))
    assert new_uuid() == b"\xfc" * 16
    assert (uuid_text(b"\xf8" * 16)[0], uuid_text(b"\xfb" * 16)[0], uuid_text(b"\xfc" * 16)[0]) == ("-", "-", "_")


def test_ids_are_drawn_in_one_place() -> None:
    """A uuid that is drawn by another way may be one that tools take for an option."""
    package = Path(runtime.__file__).parents[1]
    drawing = {
        path.name for path in package.rglob("*.py") if re.search(r"uuid4\(|uuid_text\(secrets", path.read_text("utf-8"))
    }
    assert drawing == {"runtime.py", "producer_perf_test.py"}  # the latter's is text of another form, behind a word


def test_uuid_text_is_kafkas() -> None:
    assert uuid_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text(bytes(range(240, 256))) == "8PHy8_T19vf4-fr7_P3-_w"
    assert parse_uuid_text("8PHy8_T19vf4-fr7_P3-_w") == bytes(range(240, 256))


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 23, "!" * 22, "é" * 22])
def test_other_text_is_not_a_uuid(text: str) -> None:
    with pytest.raises(ValueError, match="not a uuid"):
        parse_uuid_text(text)


REFUSED: list[tuple[str, Message, int]] = [
    ("replica_id is set", FetchRequest(replica_id=3), 15),
    ("replica_state is set", FetchRequest(replica_state=ReplicaState(1)), 14),
    ("forgotten_topics_data is set", FetchRequest(forgotten_topics_data=[ForgottenTopic()]), 6),
    ("last_fetched_epoch is set", FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(0, 1, 2, 3)])]), 11),
    ("transactional_id is set", ProduceRequest(transactional_id="t"), 2),
    ("subscribed_topic_regex is set", ConsumerGroupHeartbeatRequest(subscribed_topic_regex="a.*"), 0),
    ("group_instance_id is set", HeartbeatRequest(group_instance_id="i"), 2),
    ("validate_only is set", CreateTopicsRequest(validate_only=True), 0),
    ("name is null", MetadataResponse(topics=[MetadataResponseTopic(name=None)]), 11),
    ("name is null", DeleteTopicsResponse(responses=[DeletableTopicResult(name=None)]), 5),
    ("no version 19", FetchRequest(), 19),
    ("no version -1", FetchRequest(), -1),
    ("too long", FetchRequest(cluster_id="x" * 32768), 12),
    ("format requires", HeartbeatRequest(group_id="x" * 32768), 0),
    ("format requires", HeartbeatRequest(generation_id=1 << 31), 0),
    ("surrogates not allowed", HeartbeatRequest(group_id="\ud800"), 0),
    ("NoneType", HeartbeatRequest(group_id=None), 0),  # type: ignore[arg-type]
    ("bytes object", TopicRecord(name="t", topic_id="text"), 0),  # type: ignore[arg-type]
    ("16 bytes", PartitionRecord(directories=[b"short"]), 1),
]


@pytest.mark.parametrize(("reason", "message", "version"), REFUSED)
def test_refuses_to_encode(reason: str, message: Message, version: int) -> None:
    with pytest.raises(EncodeError, match=reason):
        message.encode(version)


def test_ignorable_fields_are_left_out_where_a_version_has_no_room() -> None:
    request = FetchRequest(rack_id="r", session_id=7, max_bytes=5)
    assert request.encode(2) == FetchRequest().encode(2)


def test_arrays_are_new_for_every_message() -> None:
    assert FetchRequest().topics is not FetchRequest().topics


def test_null_given_for_an_array_is_null() -> None:
    assert MetadataRequest(topics=None).topics is None
    assert MetadataRequest().topics == []


def test_a_struct_that_is_left_at_its_default_is_shared_and_cannot_be_changed() -> None:
    partition = FetchedPartition()
    assert partition.current_leader == LeaderIdAndEpoch(-1, -1)
    with pytest.raises(AttributeError, match="assign a new one"):
        partition.current_leader.leader_id = 3
    partition.current_leader = LeaderIdAndEpoch(3, 4)
    assert FetchedPartition().current_leader.leader_id == -1


def test_a_struct_equal_to_its_default_is_not_sent() -> None:
    unset = FetchResponse(responses=[FetchableTopicResponse(partitions=[FetchedPartition()])])
    same = FetchResponse(
        responses=[FetchableTopicResponse(partitions=[FetchedPartition(current_leader=LeaderIdAndEpoch())])]
    )
    assert same.encode(13) == unset.encode(13)
    assert same == unset


def test_equality_is_by_field_and_type() -> None:
    assert FetchPartition(1) == FetchPartition(1)
    assert FetchPartition(1) != FetchPartition(2)
    assert FetchPartition() != ForgottenTopic()
    assert FetchPartition() != (0,)


def test_text_names_the_fields() -> None:
    assert repr(ReplicaState(4)) == "ReplicaState(replica_id=4, replica_epoch=-1)"


def test_what_stands_in_a_records_field_is_handed_over_as_it_is() -> None:
    class FileSlice:
        def __len__(self) -> int:
            return 1000

    records = FileSlice()
    for version in (4, 13):
        pieces: list[Any] = []
        partitions = [FetchedPartition(records=records)]
        FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)]).write(version, pieces.append)
        assert any(piece is records for piece in pieces)
        length = (1000).to_bytes(4, "big") if version == 4 else uvarint(1001)
        before = b"".join(pieces[: pieces.index(records)])
        assert before.endswith(length)


@pytest.mark.parametrize(("epochs", "tail"), [(None, "01000100"), ([], "00"), ([3], "0100050200000003")])
def test_a_tagged_list_whose_default_is_empty_says_when_it_is_null(epochs: list[int] | None, tail: str) -> None:
    """A null list is written as Kafka's own class writes `assignmentEpochs`, whose schema default is a JSON null."""
    value = ConsumerGroupCurrentMemberAssignmentValue(2, 1, 0, [TopicPartitions(ZERO_UUID, [0], epochs)])
    assert value.encode(0).hex() == "000000020000000100" + "02" + "00" * 16 + "0200000000" + tail + "0100"
    assert ConsumerGroupCurrentMemberAssignmentValue.decode(value.encode(0), 0) == value
