"""Checks of produced batches: sound ones go into the log, the others are refused with Kafka's error."""

from __future__ import annotations

import struct

import pytest

from pykafka_broker.broker.api.produce_checks import Buffer, Prepared, RecordErrors, check_batch, read_batch
from pykafka_broker.config import BrokerConfig, TopicConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.compression import GZIP, NONE, ZSTD
from pykafka_broker.records.header import read_header
from pykafka_broker.records.record import iter_records

NOW = 1_700_000_000_000
HOUR = 3_600_000
BROKER = BrokerConfig({})


def prepare(records: Buffer | None, version: int, config: TopicConfig, now: int) -> Prepared:
    """Do all steps of the check of a Produce request's records."""
    batch, header = read_batch(records, version)
    found = check_batch(batch, header, config, now)
    if isinstance(found, Prepared):
        return found
    for _ in found.steps():
        pass
    return found.prepared(batch)


def config(**overrides: str) -> TopicConfig:
    return TopicConfig.resolve(BROKER, {key.replace("_", "."): value for key, value in overrides.items()})


def batch(count: int = 3, *, timestamp: int = NOW, key: bytes | None = b"k", **options: object) -> bytearray:
    builder = BatchBuilder(**options)  # type: ignore[arg-type]
    for number in range(count):
        builder.append(key, b"value %d" % number, timestamp)
    return bytearray(builder.build())


def resealed(data: bytearray) -> bytearray:
    """Return the batch with the CRC that fits its bytes."""
    import crc32c

    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return data


def refusal(data: bytearray | None, version: int = 9, topic: TopicConfig | None = None) -> ApiError:
    with pytest.raises(ApiError) as caught:
        prepare(data, version, topic or config(), NOW)
    return caught.value


def test_a_sound_batch_goes_through_untouched() -> None:
    data = batch()
    before = bytes(data)
    prepared = prepare(data, 9, config(), NOW)
    assert prepared.batch is data
    assert bytes(data) == before
    assert prepared.log_append_time == -1


@pytest.mark.parametrize("data", [None, bytearray()])
def test_no_batch_at_all(data: bytearray | None) -> None:
    assert refusal(data).code is ErrorCode.INVALID_RECORD


def test_two_batches_in_one_request() -> None:
    assert refusal(batch() + batch()).code is ErrorCode.INVALID_RECORD


def test_a_flipped_bit_is_corrupt() -> None:
    data = batch()
    data[-1] ^= 1
    assert refusal(data).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("cut", [1, 20, 60, 61, 80])
def test_a_batch_cut_short_is_no_batch(cut: int) -> None:
    assert refusal(batch()[:-cut]).code is ErrorCode.INVALID_RECORD


def test_bytes_after_the_batch_that_are_no_batch_are_left_out() -> None:
    data = batch()
    prepared = prepare(data + bytes(10), 9, config(), NOW)
    assert bytes(prepared.batch) == bytes(data)


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 7])
def test_what_can_not_be_decompressed_is_refused(codec: int) -> None:
    data = batch()
    data[22] = codec
    assert refusal(resealed(data)).code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_message_format_v1_does_not_pass_as_v3_request() -> None:
    data = batch()
    data[16] = 1
    assert refusal(data).code is ErrorCode.INVALID_RECORD


def test_zstd_needs_version_7() -> None:
    data = batch(codec=ZSTD)
    assert refusal(data, version=6).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert prepare(data, 7, config(), NOW).batch is data


def test_a_base_offset_other_than_zero() -> None:
    data = batch()
    data[7] = 5
    assert refusal(data).code is ErrorCode.INVALID_RECORD


def test_too_large_for_the_topic() -> None:
    data = batch()
    assert refusal(data, topic=config(max_message_bytes=str(len(data) - 1))).code is ErrorCode.MESSAGE_TOO_LARGE
    assert prepare(data, 9, config(max_message_bytes=str(len(data))), NOW).batch is data


def test_a_count_that_does_not_fit_the_offsets() -> None:
    data = batch()
    struct.pack_into(">i", data, 57, 2)
    assert refusal(resealed(data)).code is ErrorCode.INVALID_RECORD


def test_control_batches_are_not_for_clients() -> None:
    assert refusal(batch(control=True)).code is ErrorCode.INVALID_RECORD


def test_a_producer_id_without_a_sequence() -> None:
    data = batch(producer_id=7, producer_epoch=0, base_sequence=-1)
    assert refusal(data).code is ErrorCode.INVALID_RECORD


def test_a_keyless_record_in_a_compacted_topic_is_named() -> None:
    builder = BatchBuilder()
    for key in (b"a", None, b"c", None):
        builder.append(key, b"v", NOW)
    error = refusal(bytearray(builder.build()), topic=config(cleanup_policy="compact"))
    assert error.code is ErrorCode.INVALID_RECORD
    assert isinstance(error, RecordErrors)
    assert [index for index, _ in error.records] == [1, 3]


def test_keys_make_a_compacted_topic_content() -> None:
    data = batch()
    assert prepare(data, 9, config(cleanup_policy="compact,delete"), NOW).batch is data


def test_a_timestamp_from_the_future() -> None:
    late = refusal(batch(timestamp=NOW + HOUR + 1))
    assert late.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(late, RecordErrors)
    assert [index for index, _ in late.records] == [0, 1, 2]
    prepare(batch(timestamp=NOW + HOUR), 9, config(), NOW)


def test_an_old_timestamp_only_where_the_topic_says_so() -> None:
    old = batch(timestamp=NOW - 2 * HOUR)
    prepare(old, 9, config(), NOW)
    topic = config(message_timestamp_before_max_ms=str(HOUR))
    assert refusal(old, topic=topic).code is ErrorCode.INVALID_TIMESTAMP
    prepare(batch(timestamp=NOW - HOUR), 9, topic, NOW)


def test_log_append_time_is_written_into_the_batch() -> None:
    topic = config(message_timestamp_type="LogAppendTime")
    prepared = prepare(batch(timestamp=5), 9, topic, NOW)
    assert prepared.log_append_time == NOW
    assert prepared.header.max_timestamp == NOW
    assert {record.timestamp for record in iter_records(prepared.batch)} == {NOW}


@pytest.mark.parametrize(("codec", "name", "expected"), [(NONE, "gzip", GZIP), (GZIP, "uncompressed", NONE)])
def test_the_topics_codec_is_applied(codec: int, name: str, expected: int) -> None:
    prepared = prepare(batch(codec=codec), 9, config(compression_type=name), NOW)
    assert read_header(prepared.batch).codec == expected
    assert [record.value for record in iter_records(prepared.batch)] == [b"value 0", b"value 1", b"value 2"]


def test_a_batch_larger_than_a_segment() -> None:
    big = batch(count=6000, key=b"k" * 200)
    topic = config(segment_bytes="1048576", max_message_bytes="10000000")
    assert refusal(big, topic=topic).code is ErrorCode.RECORD_LIST_TOO_LARGE
