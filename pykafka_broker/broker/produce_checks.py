"""What a broker demands of records before they go into a log.

Rule: a batch that passes here may be appended as it is: one batch of format v2, whole, of the right CRC, size,
timestamps and codec. The common case looks at the 61 bytes of the header and at the CRC and leaves the records alone;
only a topic whose settings ask for more (compaction, another codec, a limit on old timestamps) or an old client
(message formats v0 and v1) pays for parsing.
"""

from __future__ import annotations

from typing import NamedTuple

from pykafka_broker.config import TopicConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.compression import NONE, ZSTD, codec_by_name, decompress
from pykafka_broker.records.errors import CorruptBatch, InvalidRecord, TruncatedBatch, UnsupportedCompression
from pykafka_broker.records.header import (
    HEADER_SIZE,
    BatchHeader,
    check_crc,
    read_header,
    read_magic,
    require_whole,
    set_max_timestamp,
)

Buffer = bytearray | memoryview

MESSAGE_SETS_UP_TO = 2  # Produce v3 is the first that carries record batches v2
ZSTD_FROM = 7  # KIP-110
_UNLIMITED = 0x7FFFFFFFFFFFFFFF
_NO_TIMESTAMP = -1


class RefusedByLog(ApiError):
    """The log itself would not have these records: the answer then tells where it starts, but has no text."""


class Explained(ApiError):
    """One of the few refusals whose text a real broker passes on."""


class RecordErrors(RefusedByLog, Explained):
    """Records that were refused one by one (KIP-467): `records` holds (index in the batch, message)."""

    def __init__(self, code: ErrorCode, message: str, records: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.records = records


class Prepared(NamedTuple):
    """A batch that may be appended. `log_append_time` is -1 where the records keep the times that the client gave
    them.
    """

    batch: Buffer
    header: BatchHeader
    log_append_time: int


def prepare(records: Buffer | None, version: int, config: TopicConfig, now: int) -> Prepared:
    """Both steps of checking what a Produce request of `version` brought for one partition."""
    return check_batch(*read_batch(records, version), config, now)


def read_batch(records: Buffer | None, version: int) -> tuple[Buffer, BatchHeader | None]:
    """What a Produce request of `version` has to bring, whatever the partition is: the batch and its header, or a
    message set, which has none. Raises ApiError as a real broker answers.
    """
    if version <= MESSAGE_SETS_UP_TO:
        if records is None or not len(records):
            raise ApiError(ErrorCode.INVALID_RECORD, "A produced message set is empty")
        return records, None
    try:
        return _one_batch(records, version)
    except (CorruptBatch, InvalidRecord, UnsupportedCompression) as error:
        raise _answer_to(error) from None


def check_batch(records: Buffer, header: BatchHeader | None, config: TopicConfig, now: int) -> Prepared:
    """What the partition's log asks of a batch, or of a message set. Raises ApiError as a real broker answers."""
    try:
        if header is None:
            return _prepare_message_set(records, config, now)
        return _prepare_batch(records, header, config, now)
    except (CorruptBatch, InvalidRecord, UnsupportedCompression) as error:
        raise _answer_to(error) from None


def with_records_read(checked: Prepared) -> Prepared:
    """The batch after every record in it was read, which Kafka does with all: they are what the header says, and the
    header names the latest of their times. Raises ApiError as a real broker answers.
    """
    from pykafka_broker.records.validation import validate_records

    batch, header, log_append_time = checked
    try:
        latest = validate_records(batch, header).max_timestamp
    except (CorruptBatch, InvalidRecord) as error:
        raise _refused(str(error)) from None
    if latest == header.max_timestamp or log_append_time != _NO_TIMESTAMP:
        return checked
    set_max_timestamp(batch, latest, log_append_time=False)
    return Prepared(batch, read_header(batch), log_append_time)


def _answer_to(error: Exception) -> ApiError:
    if isinstance(error, InvalidRecord):
        return _refused(str(error))
    if isinstance(error, UnsupportedCompression):
        return ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error))
    return ApiError(ErrorCode.CORRUPT_MESSAGE, str(error))


def _one_batch(records: Buffer | None, version: int) -> tuple[Buffer, BatchHeader]:
    if records is None or not len(records):
        raise _no_batch(version)
    try:
        magic = read_magic(records)
    except TruncatedBatch:
        raise _no_batch(version) from None
    except CorruptBatch as error:
        raise Explained(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if magic != 2:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} are only allowed to contain record batches with magic version 2",
        )
    try:
        header = read_header(records)
        stop = require_whole(records, header)
    except TruncatedBatch:
        raise _no_batch(version) from None
    if stop < len(records):
        records = _only_one(records, stop, version)
    if header.codec == ZSTD and version < ZSTD_FROM:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    return records, header


def _prepare_batch(records: Buffer, header: BatchHeader, config: TopicConfig, now: int) -> Prepared:
    if header.base_offset != 0:
        raise _refused(f"The base offset of a produced batch is 0, not {header.base_offset}")
    if len(records) > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size is {len(records)} bytes which exceeds the maximum configured value of "
            f"{config.max_message_bytes}.",
        )
    check_crc(records, header)
    check_header(header)
    return _apply_topic_config(records, header, config, now)


def _no_batch(version: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_RECORD, f"Produce requests with version {version} must have at least one record batch"
    )


def _only_one(records: Buffer, stop: int, version: int) -> Buffer:
    """The first batch, where what follows it is too short to be another one, as a real broker reads it."""
    try:
        header = read_header(records, stop)
        require_whole(records, header, stop)
    except TruncatedBatch:
        return memoryview(records)[:stop]
    raise ApiError(
        ErrorCode.INVALID_RECORD,
        f"Produce requests with version {version} are only allowed to contain exactly one record batch per partition",
    )


def check_header(header: BatchHeader) -> None:
    """What a client's batch header may say."""
    if header.count <= 0 or header.count != header.last_offset_delta + 1:
        raise _refused(f"{header.count} records with a last offset delta of {header.last_offset_delta}")
    if header.is_control:
        raise _refused("Clients are not allowed to write control records")
    if header.has_producer_id and header.base_sequence < 0:
        raise _refused(f"Invalid sequence number {header.base_sequence} in a record batch")


def _refused(message: str) -> RefusedByLog:
    return RefusedByLog(ErrorCode.INVALID_RECORD, message)


def _check_compressed(batch: Buffer, header: BatchHeader) -> None:
    """What can't be decompressed would stop every consumer. It is refused with the error that a real broker has."""
    try:
        decompress(header.codec, memoryview(batch)[HEADER_SIZE:])
    except (CorruptBatch, ValueError) as error:
        raise RefusedByLog(ErrorCode.UNKNOWN_SERVER_ERROR, f"a {header.codec} batch: {error}") from None


def _apply_topic_config(batch: Buffer, header: BatchHeader, config: TopicConfig, now: int) -> Prepared:
    if header.codec:
        _check_compressed(batch, header)
    append_time = config.message_timestamp_type == "LogAppendTime"
    keyless = _without_key(batch) if "compact" in config.cleanup_policy else None
    out_of_time = None if append_time else _out_of_time(batch, header, config, now)
    if keyless or out_of_time:
        raise _records_refused(keyless or {}, out_of_time or {})
    if config.compression_type != "producer":
        batch, header = _with_topic_codec(batch, header, config)
    if append_time or header.log_append_time:  # whose time it is says the topic, not the client
        set_max_timestamp(batch, now if append_time else header.max_timestamp, log_append_time=append_time)
        header = read_header(batch)
    if len(batch) > config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The record batch of {len(batch)} bytes does not fit into a segment of {config.segment_bytes}",
        )
    return Prepared(batch, header, now if append_time else _NO_TIMESTAMP)


def _without_key(batch: Buffer) -> dict[int, str] | None:
    """Records that a compacted topic can't take, by their index, and what is said of them."""
    from pykafka_broker.records.record import iter_records
    from pykafka_broker.records.validation import has_null_key

    if not has_null_key(batch):
        return None
    return {
        index: "Compacted topic cannot accept message without key in topic partition"
        for index, record in enumerate(iter_records(batch))
        if record.key is None
    }


def _out_of_time(batch: Buffer, header: BatchHeader, config: TopicConfig, now: int) -> dict[int, str] | None:
    """KIP-937. The greatest timestamp stands in the header; the least does not, so a limit on old ones has to look at
    each.
    """
    latest = now + config.message_timestamp_after_max_ms
    earliest = now - config.message_timestamp_before_max_ms if config.message_timestamp_before_max_ms < now else 0
    if header.max_timestamp <= latest and (earliest <= 0 or header.max_timestamp == _NO_TIMESTAMP):
        return None
    from pykafka_broker.records.record import iter_records

    return {
        index: f"Timestamp {record.timestamp} is out of range. The timestamp should be within [{earliest}, {latest}]"
        for index, record in enumerate(iter_records(batch))
        if record.timestamp != _NO_TIMESTAMP and not earliest <= record.timestamp <= latest
    }


def _records_refused(keyless: dict[int, str], out_of_time: dict[int, str]) -> RecordErrors:
    """One reason for each record, a missing key first; a wrong time names the whole refusal."""
    records = sorted((out_of_time | keyless).items())
    if out_of_time.keys() - keyless.keys():
        message = "One or more records have been rejected due to invalid timestamp"
        return RecordErrors(ErrorCode.INVALID_TIMESTAMP, message, records)
    message = "One or more records have been rejected due to invalid records"
    return RecordErrors(ErrorCode.INVALID_RECORD, message, records)


def _with_topic_codec(batch: Buffer, header: BatchHeader, config: TopicConfig) -> tuple[Buffer, BatchHeader]:
    name = config.compression_type
    codec = NONE if name == "uncompressed" else codec_by_name(name)
    if codec == header.codec:
        return batch, header
    from pykafka_broker.records.conversion import recompress

    recompressed = recompress(batch, codec, level=_level(config, codec))
    return recompressed, read_header(recompressed)


def _level(config: TopicConfig, codec: int) -> int | None:
    from pykafka_broker.records.compression import GZIP, LZ4

    levels = {
        GZIP: config.compression_gzip_level,
        LZ4: config.compression_lz4_level,
        ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)


def _prepare_message_set(records: Buffer, config: TopicConfig, now: int) -> Prepared:
    """Produce v0-v2: message formats v0 and v1, converted as a whole into one batch."""
    from pykafka_broker.records.conversion import to_v2

    if len(records) > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The message set of {len(records)} bytes exceeds the maximum configured value of "
            f"{config.max_message_bytes}.",
        )
    batch = to_v2(records)
    return _apply_topic_config(batch, read_header(batch), config, now)
