"""Frames of metadata records: what Kafka wrote, what can't be."""

from __future__ import annotations

import pytest

from pykafka_broker.cluster.records import (
    ApiMessageAndVersion,
    MetadataError,
    RecordType,
    decode_record,
    decode_versioned,
    encode_record,
    record_class,
)
from pykafka_broker.protocol.stored.topic_record import TopicRecord
from pykafka_broker.protocol.stored_keys import METADATA_RECORDS


def test_a_frame_is_three_varints_and_the_body() -> None:
    record = TopicRecord("t", b"i" * 16)
    value = encode_record(ApiMessageAndVersion(record, 0))
    assert value == b"\x01\x02\x00" + record.encode(0)
    assert decode_versioned(value) == ApiMessageAndVersion(record, 0)
    assert decode_record(memoryview(value)) == record


def test_every_record_type_of_kafka_has_a_name_here() -> None:
    assert {int(kind) for kind in RecordType} == set(METADATA_RECORDS)
    assert all(kind == record_class(kind).API_KEY for kind in RecordType)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "no frame"),
        (b"\x01\x02", "no frame"),
        (b"\x02\x02\x00" + TopicRecord("t").encode(0), "frame version 2"),
        (b"\x01\x06\x00\x00", "unknown type 6"),
        (b"\x01\x02\x01" + TopicRecord("t").encode(0), "version 1 is newer"),
        (b"\x01\x02\x00\x05", "does not decode"),
        (b"\x01\x02\x00" + TopicRecord("t").encode(0) + b"!", "1 bytes after its end"),
        (b"\xff\xff\xff\xff\xff\xff", "does not decode"),
    ],
)
def test_what_makes_no_sense_is_refused(value: bytes, reason: str) -> None:
    with pytest.raises(MetadataError, match=reason):
        decode_record(value)
