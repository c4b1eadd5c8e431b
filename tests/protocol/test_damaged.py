"""Damaged input: a decoder ends in a message or in DecodeError, soon, and in bounded memory."""

from __future__ import annotations

import random
import tracemalloc
from base64 import b64encode

import pytest

from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.fetch_response import FetchResponse
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from pykafka_broker.protocol.messages.stop_replica_request import StopReplicaRequest
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest
from pykafka_broker.protocol.runtime import MOST_TAGGED_FIELDS, DecodeError, Message, uvarint
from tests.protocol.golden import golden, golden_names
from tests.protocol.values import message_class, messages

EXTREMES = [
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x00",
]
DAMAGES = 25  # per golden message
MEMORY = 1 << 20


def damaged(whole: bytes, source: random.Random) -> bytes:
    """Return the message with a few bytes replaced or an extreme length written over some."""
    at = source.randrange(len(whole))
    if source.random() < 0.5:
        extreme = source.choice(EXTREMES)
        return whole[:at] + extreme + whole[at + len(extreme) :]
    return whole[:at] + source.randbytes(source.randint(1, 4)) + whole[at + source.randint(0, 4) :]


@pytest.mark.parametrize("name", golden_names())
def test_damage_ends_in_a_message_or_a_decode_error(name: str) -> None:
    message = message_class(messages()[name])
    source = random.Random(name)
    tracemalloc.start()
    try:
        for case in golden()[name]:
            for _ in range(DAMAGES if case.bytes else 0):
                attempt = damaged(case.bytes, source)
                try:
                    read = message.decode(attempt, case.version)
                except DecodeError:
                    continue
                assert isinstance(read.encode(case.version), bytes)
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("message", "version", "before", "size", "after"),
    [
        (MetadataRequest, 1, b"", 4, b""),
        (ElectLeadersRequest, 0, b"", 4, bytes(4)),
        (ProduceRequest, 3, b"", 2, bytes(10)),
        (ProduceRequest, 3, b"\xff\xff" + bytes(9) + b"\1\0\1t\0\0\0\1" + bytes(4), 4, b""),
        (SyncGroupRequest, 3, bytes(8), 2, bytes(4)),
    ],
)
def test_any_negative_length_is_null(
    message: type[Message], version: int, before: bytes, size: int, after: bytes
) -> None:
    """Apache Kafka 4.4.0 was asked the same."""
    for length in (b"\xff" * size, b"\xff" * (size - 1) + b"\xfe", b"\x80" + bytes(size - 1)):
        read = message.decode(before + length + after, version)
        assert read.encode(version) == before + b"\xff" * size + after


@pytest.mark.parametrize(
    ("message", "version", "before", "after"),
    [
        (MetadataRequest, 12, b"", bytes(3)),
        (MetadataRequest, 12, b"\2" + bytes(16), bytes(4)),
        (ProduceRequest, 9, b"\0\0\1" + bytes(4) + b"\2\2t\2" + bytes(4), bytes(3)),
        (HeartbeatRequest, 4, b"\2g\0\0\0\1\2m", bytes(1)),
    ],
)
def test_a_compact_count_above_2_to_the_31_is_null(
    message: type[Message], version: int, before: bytes, after: bytes
) -> None:
    """Apache Kafka 4.4.0 was asked the same."""
    for count in ((1 << 31) + 1, (1 << 32) - 1):
        read = message.decode(before + uvarint(count) + after, version)
        assert read.encode(version) == before + b"\0" + after
    assert "has " in refused(message, version, before, uvarint(1 << 31), after)


def test_refuses_a_compact_count_above_2_to_the_31_where_null_is_not_allowed() -> None:
    tail = b"\0\0\0\1\2m\0\0"
    assert "group_id has length -2" in refused(HeartbeatRequest, 4, uvarint((1 << 32) - 1), tail)


def refused(message: type[Message], version: int, *parts: bytes) -> str:
    """Return the reason why these bytes are refused."""
    with pytest.raises(DecodeError) as error:
        message.decode(b"".join(parts), version)
    return str(error.value)


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\x00\x00\x00\x02"])
def test_refuses_a_count_that_the_bytes_cannot_hold(count: bytes) -> None:
    assert "topics has" in refused(MetadataRequest, 0, count, b"\0\1")


@pytest.mark.parametrize("count", [0, 3, 1 << 20, (1 << 32) - 1])
def test_refuses_a_compact_count_that_the_bytes_cannot_hold(count: int) -> None:
    request = FetchRequest(max_wait_ms=1).encode(13)
    at = 21  # topics follow after four int32, one int8 and the session's two
    at += 4
    assert request[at:] == b"\x01\x01\x01\x00"
    assert "topics has" in refused(FetchRequest, 13, request[:at], uvarint(count), request[at + 1 :])


@pytest.mark.parametrize("length", [b"\x7f\xff", b"\x00\x04", b"\xff\xff", b"\x80\x00"])
def test_refuses_a_length_that_the_bytes_cannot_hold(length: bytes) -> None:
    assert "group_id has length" in refused(HeartbeatRequest, 0, length, b"abc")


def test_refuses_a_compact_string_above_the_limit() -> None:
    version = 3
    text = "a" * 32767
    assert (
        ApiVersionsRequest.decode(ApiVersionsRequest(text, "1").encode(version), version).client_software_name == text
    )
    too_long = uvarint(32769) + b"a" * 32768
    assert "has length 32768" in refused(ApiVersionsRequest, version, too_long, b"\x021\0")


def test_refuses_a_varint_of_more_than_32_bits() -> None:
    assert "more than 32 bits" in refused(ApiVersionsRequest, 3, b"\xff\xff\xff\xff\x1f", b"\0" * 100)
    assert "more than 32 bits" in refused(ApiVersionsRequest, 3, b"\x80\x80\x80\x80\x80\x00", b"\0" * 100)


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\xc0\x80"])
def test_refuses_what_is_not_utf_8(raw: bytes) -> None:
    tail = b"\0\0\0\0\0\0"
    assert "in a string" in refused(HeartbeatRequest, 0, len(raw).to_bytes(2, "big"), raw, tail)


def test_refuses_null_where_it_is_not_allowed() -> None:
    assert "auth_bytes has length -1" in refused(SaslAuthenticateRequest, 0, b"\xff\xff\xff\xff")
    assert "auth_bytes has length -1" in refused(SaslAuthenticateRequest, 2, b"\0\0")
    assert "topics has -1 elements" in refused(MetadataRequest, 0, b"\xff\xff\xff\xff")


def test_any_byte_but_zero_is_true() -> None:
    whole = StopReplicaRequest(delete_partitions=True).encode(1)
    at = 16
    assert whole[at] == 1
    assert StopReplicaRequest.decode(whole[:at] + b"\x80" + whole[at + 1 :], 1).delete_partitions is True
    assert StopReplicaRequest.decode(whole[:at] + b"\x00" + whole[at + 1 :], 1).delete_partitions is False


def with_tags(*tags: tuple[int, bytes]) -> bytes:
    """Return a FetchRequest v13 with these tagged fields."""
    plain = FetchRequest().encode(13)
    assert plain[-1] == 0
    return plain[:-1] + uvarint(len(tags)) + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in tags)


def test_unknown_tagged_fields_are_skipped() -> None:
    request = FetchRequest.decode(with_tags((0, b"\x02c"), (77, b"what is this"), (70000, b"")), 13)
    assert request == FetchRequest(cluster_id="c")
    assert ApiVersionsRequest.decode(b"\x02a\x02b\x01\x05\x03xyz", 3) == ApiVersionsRequest("a", "b")


def test_tagged_fields_may_come_in_any_order_and_the_last_counts() -> None:
    assert FetchRequest.decode(with_tags((5, b"x"), (0, b"\x02c"), (0, b"\x02d")), 13).cluster_id == "d"


def test_refuses_a_tagged_field_that_differs_from_its_size() -> None:
    for data in (b"\x02", b"\x02cc", b"\x03c"):
        assert "cluster_id" in refused(FetchRequest, 13, with_tags((0, data)))


def test_refuses_a_tagged_field_that_is_longer_than_what_is_left() -> None:
    assert "tagged field 9 has length" in refused(FetchRequest, 13, with_tags()[:-1], b"\x01\x09\x7f\0\0")


def test_many_unknown_tags_take_no_memory() -> None:
    whole = with_tags()[:-1] + uvarint(MOST_TAGGED_FIELDS) + b"\x07\x00" * MOST_TAGGED_FIELDS
    tracemalloc.start()
    try:
        assert FetchRequest.decode(whole, 13) == FetchRequest()
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


def test_a_tag_count_written_at_length_is_still_zero() -> None:
    assert FetchRequest.decode(with_tags()[:-1] + b"\x80\x00", 13) == FetchRequest()


def test_refuses_unknown_versions() -> None:
    assert "no version 99" in refused(FetchRequest, 99, b"")
    assert "no version -1" in refused(FetchRequest, -1, b"")


def test_records_are_a_slice_of_the_buffer() -> None:
    partitions = [PartitionProduceData(index=0, records=b"records")]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=partitions)])
    buffer = bytearray(request.encode(9))
    records = ProduceRequest.decode(memoryview(buffer), 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    buffer[buffer.index(b"records")] = ord("R")
    assert bytes(records) == b"Records"


def test_bytes_are_copied_out_of_the_buffer() -> None:
    buffer = bytearray(SaslAuthenticateRequest(b"secret").encode(2))
    read = SaslAuthenticateRequest.decode(memoryview(buffer), 2)
    buffer[:] = b64encode(buffer)[: len(buffer)]
    assert read.auth_bytes == b"secret"


def test_null_records_are_none() -> None:
    whole = golden()["FetchResponse"]
    read = [FetchResponse.decode(case.bytes, case.version) for case in whole]
    found = {type(part.records) for message in read for topic in message.responses for part in topic.partitions}
    assert found == {memoryview, type(None)}
