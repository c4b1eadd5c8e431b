"""Records of Kafka's own topics are told by version, and what can't be read is no reason to stop."""

from __future__ import annotations

import pytest

from pykafka_broker.client.errors import ClientError
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.protocol.stored.group_metadata_key import GroupMetadataKey
from pykafka_broker.protocol.stored.group_metadata_value import GroupMetadataValue, MemberMetadata
from pykafka_broker.protocol.stored.offset_commit_key import OffsetCommitKey
from pykafka_broker.protocol.stored.offset_commit_value import OffsetCommitValue
from pykafka_broker.records.record import BatchRecord
from pykafka_broker.tools.console_output import FORMATTERS, Consumed, as_data

KEY = b"\0\1" + OffsetCommitKey("g", "t", 0).encode(0)
TOLD = '{"key":{"type":1,"data":{"group":"g","topic":"t","partition":0}},"value":%s}'


def text(key: bytes | None, value: bytes | None) -> str:
    record = BatchRecord(0, 0, key, value)
    return FORMATTERS["OffsetsMessageFormatter"](Consumed(TopicPartition("t", 0), record, 0, 0)).decode()


def test_a_header_whose_name_is_no_text_is_told_in_json() -> None:
    record = BatchRecord(0, 0, headers=[("no text: \udcff", b"1")])
    told = as_data(Consumed(TopicPartition("t", 0), record, 0, 0))
    assert told["headers"] == [{"key": "no text: \ufffd", "value": "1"}]


def test_fields_are_those_of_the_version() -> None:
    value = OffsetCommitValue(5, metadata="m", commit_timestamp=7)
    first, third = b"\0\1" + value.encode(1), b"\0\3" + value.encode(3)
    told = '{"version":1,"data":{"offset":5,"metadata":"m","commitTimestamp":7,"expireTimestamp":-1}}'
    assert text(KEY, first) == TOLD % told
    told = '{"version":3,"data":{"offset":5,"leaderEpoch":-1,"metadata":"m","commitTimestamp":7}}'
    assert text(KEY, third) == TOLD % told


def test_what_is_not_there_is_passed_over() -> None:
    assert text(KEY, None) == TOLD % "null"
    assert text(None, None) == text(b"\0\x4drest", None) == ""
    assert text(b"\0\2" + GroupMetadataKey("g").encode(0), None) == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"x", None), (b"\0\2rest", None), (KEY[:-1], None), (KEY, b"\0"), (KEY, b"\0\3x"), (KEY, b"\0\x63x")],
)
def test_what_can_not_be_read_is_an_error(key: bytes, value: bytes | None) -> None:
    with pytest.raises(ClientError, match="Could not read record at offset 0"):
        text(key, value)


def test_bytes_as_long_as_an_id_are_bytes() -> None:
    member = MemberMetadata("m", subscription=bytes(16), assignment=b"")
    record = BatchRecord(
        0, 0, b"\0\2" + GroupMetadataKey("g").encode(0), b"\0\4" + GroupMetadataValue(members=[member]).encode(4)
    )
    told = FORMATTERS["GroupMetadataMessageFormatter"](Consumed(TopicPartition("t", 0), record, 0, 0)).decode()
    assert '"subscription":"AAAAAAAAAAAAAAAAAAAAAA==","assignment":""' in told
