"""Records: the bytes that Apache Kafka 4.3.1 has written (kafka_records.json) are read, and written again alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pykafka_broker.coordinators.groups.stored import key_bytes, offset_commit, read_record, value_bytes
from pykafka_broker.protocol.runtime import DecodeError
from pykafka_broker.protocol.stored.offset_commit_value import OffsetCommitValue

RECORDS = json.loads(Path(__file__).with_name("kafka_records.json").read_text())


@pytest.mark.parametrize(("name", "key", "value"), RECORDS)
def test_kafkas_records_come_back_byte_for_byte(name: str, key: str, value: str | None) -> None:
    data = None if value is None else bytes.fromhex(value)
    messages = read_record(bytes.fromhex(key), data)
    assert messages is not None
    key_message, value_message = messages
    assert type(key_message).__name__ == name
    assert key_bytes(key_message).hex() == key
    if data is None:
        assert value_message is None
    else:
        assert value_bytes(value_message, int.from_bytes(data[:2], "big")).hex() == value


def test_every_kind_of_record_of_classic_and_consumer_groups_is_there() -> None:
    assert len({name for name, _, value in RECORDS if value is not None}) == 8


def test_a_type_of_a_newer_release_is_left_alone() -> None:
    assert read_record(b"\x03\xe7\x00\x01g", b"\x00\x00") is None


@pytest.mark.parametrize("version", [b"\x00\x09", b"\xff\xff"])
def test_a_value_of_an_unknown_version_is_refused_as_by_kafka(version: bytes) -> None:
    record = offset_commit("g", "t", 0, OffsetCommitValue(5, 1, "m", 7))
    assert record.value is not None
    with pytest.raises(DecodeError, match="OffsetCommitValue has no version"):
        read_record(record.key, version + record.value[2:])


@pytest.mark.parametrize(("key", "value"), [(b"", b""), (b"\x00\x01", b""), (b"\x00\x01\x00\x01g", b"")])
def test_what_is_no_record_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(DecodeError):
        read_record(key, value)
