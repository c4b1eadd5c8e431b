"""Records and their bytes: those that Apache Kafka 4.4.0 has written (kafka_records.json) are read, and written again
alike.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pykafka_broker.coordinators.record import CoordinatorRecord, decode, encode
from pykafka_broker.protocol.runtime import DecodeError
from pykafka_broker.protocol.specs import RecordSpec
from pykafka_broker.protocol.stored.offset_commit_key import OffsetCommitKey
from pykafka_broker.protocol.stored.offset_commit_value import OffsetCommitValue
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS

RECORDS = json.loads(Path(__file__).with_name("kafka_records.json").read_text())


@pytest.mark.parametrize(("name", "key", "value"), RECORDS)
def test_kafkas_records_come_back_byte_for_byte(name: str, key: str, value: str | None) -> None:
    pair = bytes.fromhex(key), None if value is None else bytes.fromhex(value)
    record = decode(*pair, GROUP_RECORDS)
    assert record is not None
    assert type(record.key).__name__ == name
    assert encode(record) == pair


def test_every_kind_of_record_of_classic_and_consumer_groups_is_there() -> None:
    assert len({name for name, _, value in RECORDS if value is not None}) == 8


@pytest.mark.parametrize("types", [GROUP_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS])
def test_a_type_of_a_newer_release_is_left_alone(types: dict[int, RecordSpec]) -> None:
    assert decode(b"\x03\xe7\x00\x01g", b"\x00\x00", types) is None


@pytest.mark.parametrize("version", [b"\x00\x09", b"\xff\xff"])
def test_a_value_of_an_unknown_version_is_refused_as_by_kafka(version: bytes) -> None:
    key, value = encode(CoordinatorRecord(OffsetCommitKey("g", "t", 0), OffsetCommitValue(5, 1, "m", 7), 4))
    assert value is not None
    with pytest.raises(DecodeError, match="OffsetCommitValue has no version"):
        decode(key, version + value[2:], GROUP_RECORDS)


@pytest.mark.parametrize("types", [GROUP_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS])
@pytest.mark.parametrize(
    ("key", "value"), [(b"", b""), (b"\x00", b""), (b"\x00\x00", b""), (b"\x00\x00\x00\x01g", b"")]
)
def test_what_is_no_record_is_refused(key: bytes, value: bytes, types: dict[int, RecordSpec]) -> None:
    with pytest.raises(DecodeError):
        decode(key, value, types)
