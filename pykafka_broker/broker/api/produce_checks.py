"""The checks of produced records before they go into a log (Kafka: LogValidator).

Rule: a batch that passes here may be appended as it is: one batch of format v2, whole, of the right CRC, size,
timestamps and codec, with records as Kafka wants them. Records of the common form are checked at once. Everything else
(compressed records, other forms, a topic of another codec, message formats v0 and v1) is a `BatchCheck`, which works in
steps of about a millisecond: the caller may serve others in between. A module of its own: no request and no partition
is known here.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache
from typing import NamedTuple

from pykafka_broker.config import TopicConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.common_form import RecordLimits, sound_at_once
from pykafka_broker.records.compression import ANY_SIZE, NONE, ZSTD, codec_by_name, level_of
from pykafka_broker.records.errors import CorruptBatch, InvalidRecord, TruncatedBatch, UnsupportedCompression
from pykafka_broker.records.header import (
    CODEC_MASK,
    CONTROL_BIT,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    check_crc,
    peek,
    read_header,
    set_max_timestamp,
)
from pykafka_broker.records.validation import WITHOUT_KEY, WRONG_TYPE, RecordCheck, RefusedRecord

Buffer = bytearray | memoryview

MESSAGE_SETS_UP_TO = 2  # Produce v3 is the first that carries record batches v2
ZSTD_FROM = 7  # KIP-110
_MOST_HELD = 64 << 20  # bytes of records that change their codec or format: all are held at once
_MOST_CONVERTED = 32 << 20  # bytes of messages of old formats, which are held twice
_NO_TIMESTAMP = -1
AS_PRODUCED = "producer"  # `compression.type` of a topic that takes every codec


class RefusedByLog(ApiError):
    """A refusal by the log itself: the answer tells the log start offset, and has no text."""


class Explained(ApiError):
    """A refusal whose text is told, as few are in Kafka."""


class RecordErrors(RefusedByLog, Explained):
    """A refusal of single records (KIP-467). records: (index in the batch, message)."""

    def __init__(self, code: ErrorCode, message: str, records: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.records = records


class Prepared(NamedTuple):
    """A batch that may be appended. log_append_time: -1 where the records keep the client's timestamps."""

    batch: Buffer
    header: BatchHeader
    log_append_time: int


def read_batch(records: Buffer | None, version: int) -> tuple[Buffer, BatchHeader | None]:
    """Return the one batch of a Produce request for any partition, with its header; a message set has no header.

    Raises ApiError as Kafka does.
    """
    if version <= MESSAGE_SETS_UP_TO:
        if records is None or not len(records):
            raise ApiError(ErrorCode.INVALID_RECORD, "A produced message set is empty")
        return records, None
    try:
        return _one_batch(records, version)
    except (CorruptBatch, InvalidRecord, UnsupportedCompression) as error:
        raise _answer_to(error) from None


def check_batch(
    records: Buffer,
    header: BatchHeader | None,
    config: TopicConfig,
    now: int,
    *,
    validate: bool = True,
    is_measured: bool = False,
) -> Prepared | BatchCheck | MessageSetCheck:
    """Check a batch or a message set for a topic; return the batch to append, or a check in steps.

    validate: False leaves out checks of records that the topic does not ask for. is_measured: lengths of decompressed
    records have to make sense. Raises ApiError as Kafka does.
    """
    try:
        limits = _limits(config, now, is_measured)
        if header is None:
            return MessageSetCheck(records, config, limits)
        _check_whole(records, header, config)
        codec = header.attributes & CODEC_MASK
        if config.compression_type == AS_PRODUCED or _codec_for(header, config) == codec:
            newest = None
            if not validate and not _is_bounded(limits):
                newest = header.max_timestamp if limits.allow(header.max_timestamp) else None
            elif codec == NONE:
                newest = sound_at_once(records, header, limits)
            if newest is not None:
                return _timed(records, header, config, limits, newest)
        return BatchCheck(records, header, config, limits)
    except (CorruptBatch, InvalidRecord, UnsupportedCompression) as error:
        raise _answer_to(error) from None


@lru_cache(maxsize=64)
def _limits(config: TopicConfig, now: int, is_measured: bool) -> RecordLimits:
    """Return a topic's limits, which are the same for all requests of a millisecond."""
    return RecordLimits(
        now,
        config.message_timestamp_before_max_ms,
        config.message_timestamp_after_max_ms,
        config.message_timestamp_type == "LogAppendTime",
        "compact" in config.cleanup_policy,
        config.max_decompressed_message_bytes,
        is_measured,
    )


def _is_bounded(limits: RecordLimits) -> bool:
    """Return whether the topic asks for something that has to be looked for in every record."""
    return limits.key_required or limits.before_max_ms < limits.now or limits.max_record_bytes < ANY_SIZE


class BatchCheck:
    """A batch whose records are checked one by one, or change their codec. The batch itself is not kept."""

    def __init__(
        self,
        batch: Buffer,
        header: BatchHeader,
        config: TopicConfig,
        limits: RecordLimits,
        *,
        own: Buffer | None = None,
    ) -> None:
        """Begin the check. own: the batch for the log, in the place of the client's batch."""
        self._header = header
        self._config = config
        self._limits = limits
        self._own = own
        self._codec = _codec_for(header, config)
        try:
            self._records = RecordCheck(batch, header, limits, in_full=self._codec != header.codec)
        except CorruptBatch as error:
            raise _stumbled(error) from None

    def steps(self) -> Generator[None, None, None]:
        """Check step by step. Raises ApiError as Kafka does."""
        try:
            yield from self._records.steps(_MOST_HELD)
        except InvalidRecord as error:
            raise _refused(str(error)) from None
        except CorruptBatch as error:
            raise _stumbled(error) from None
        if self._records.refused:
            raise _records_refused(self._records.refused, self._limits)
        if self._codec != self._header.codec:
            if self._header.has_producer_id and self._header.producer_epoch < 0:
                raise RefusedByLog(ErrorCode.UNKNOWN_SERVER_ERROR, "A new batch can't have a negative producer epoch")
            level, renumber = level_of(self._config), self._records.misnumbered
            from pykafka_broker.records.conversion import with_codec

            self._own = yield from with_codec(self._header, self._records.data, self._codec, level, renumber=renumber)
            if len(self._own) > self._config.max_message_bytes:
                raise _too_large(len(self._own), self._config)

    def prepared(self, batch: Buffer) -> Prepared:
        """Return the batch to append, after the last step. batch: the batch that the check was made for."""
        batch = batch if self._own is None else self._own
        return _timed(batch, read_header(batch), self._config, self._limits, self._records.max_timestamp)


class MessageSetCheck:
    """Messages of format v0 or v1 (Produce v0-v2), which become a batch before the check."""

    def __init__(self, message_set: Buffer, config: TopicConfig, limits: RecordLimits) -> None:
        if len(message_set) > config.max_message_bytes:
            raise _too_large(len(message_set), config)
        self._message_set = bytes(message_set)
        self._config = config
        self._limits = limits
        self._check: BatchCheck | None = None

    def steps(self) -> Generator[None, None, None]:
        """Convert and check step by step. Raises ApiError as Kafka does."""
        from pykafka_broker.records.conversion import to_v2

        try:
            batch = yield from to_v2(self._message_set, max_bytes=_MOST_CONVERTED)
        except (CorruptBatch, UnsupportedCompression) as error:
            raise _answer_to(error) from None
        self._check = BatchCheck(batch, read_header(batch), self._config, self._limits, own=batch)
        yield from self._check.steps()

    def prepared(self, batch: Buffer) -> Prepared:
        """Return the batch to append, after the last step."""
        assert self._check is not None
        return self._check.prepared(batch)


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
        header = read_header(records)
    except CorruptBatch as error:
        raise _why_no_header(records, version, error) from None
    stop = header.length + LENGTH_OVERHEAD
    if stop != len(records):
        if stop > len(records):
            raise _no_batch(version)
        records = _only_one(records, stop, version)
    if version < ZSTD_FROM and header.codec == ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    return records, header


def _why_no_header(records: Buffer, version: int, error: CorruptBatch) -> Exception:
    """Return the error for a batch without a readable header: no whole batch, another format, or `error` itself."""
    magic = peek(records)
    if magic is None or (magic == 2 and isinstance(error, TruncatedBatch)):
        return _no_batch(version)
    if magic == 2:
        return error
    return ApiError(
        ErrorCode.INVALID_RECORD,
        f"Produce requests with version {version} are only allowed to contain record batches with magic version 2",
    )


def _check_whole(records: Buffer, header: BatchHeader, config: TopicConfig) -> None:
    if header.base_offset != 0:
        raise _refused(f"The base offset of a produced batch is 0, not {header.base_offset}")
    if len(records) > config.max_message_bytes:
        raise _too_large(len(records), config)
    check_crc(records, header)
    check_header(header)


def _too_large(size: int, config: TopicConfig) -> ApiError:
    return ApiError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size is {size} bytes which exceeds the maximum configured value of "
        f"{config.max_message_bytes}.",
    )


def _no_batch(version: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_RECORD, f"Produce requests with version {version} must have at least one record batch"
    )


def _only_one(records: Buffer, stop: int, version: int) -> Buffer:
    """Return the first batch, if the bytes behind are too short for another batch, as Kafka does."""
    if peek(records, stop) is None:
        return memoryview(records)[:stop]
    raise ApiError(
        ErrorCode.INVALID_RECORD,
        f"Produce requests with version {version} are only allowed to contain exactly one record batch per partition",
    )


def check_header(header: BatchHeader) -> None:
    """Check the header of a client's batch. Raises ApiError."""
    if header.count <= 0 or header.count != header.last_offset_delta + 1:
        raise _refused(f"{header.count} records with a last offset delta of {header.last_offset_delta}")
    if header.attributes & CONTROL_BIT:
        raise _refused("Clients are not allowed to write control records")
    if header.base_sequence < 0 <= header.producer_id:
        raise _refused(f"Invalid sequence number {header.base_sequence} in a record batch")


def _refused(message: str) -> RefusedByLog:
    return RefusedByLog(ErrorCode.INVALID_RECORD, message)


def _stumbled(error: CorruptBatch) -> RefusedByLog:
    """Return the error for records that Kafka's own reader does not expect."""
    return RefusedByLog(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))


def _timed(batch: Buffer, header: BatchHeader, config: TopicConfig, limits: RecordLimits, newest: int) -> Prepared:
    """Return the batch with its timestamp in the log: the header names the true maximum."""
    if limits.append_time:
        newest = limits.now
    if limits.append_time or header.attributes & LOG_APPEND_TIME_BIT or header.max_timestamp != newest:
        set_max_timestamp(batch, newest, log_append_time=limits.append_time)
        header = read_header(batch)
    if len(batch) > config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The record batch of {len(batch)} bytes does not fit into a segment of {config.segment_bytes}",
        )
    return Prepared(batch, header, newest if limits.append_time else _NO_TIMESTAMP)


def _records_refused(refused: list[RefusedRecord], limits: RecordLimits) -> RecordErrors:
    """Return the refusal, with a reason for each record; a wrong timestamp decides about the code."""
    records = [(record.batch_index, _why(record, limits)) for record in refused]
    if any(record.reason != WITHOUT_KEY for record in refused):
        message = "One or more records have been rejected due to invalid timestamp"
        return RecordErrors(ErrorCode.INVALID_TIMESTAMP, message, records)
    message = f"One or more records have been rejected due to {len(records)} record errors"
    return RecordErrors(ErrorCode.INVALID_RECORD, message, records)


def _why(record: RefusedRecord, limits: RecordLimits) -> str:
    if record.reason == WITHOUT_KEY:
        return "Compacted topic cannot accept message without key in topic partition"
    if record.reason == WRONG_TYPE:
        return "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."
    earliest, latest = limits.now - limits.before_max_ms, limits.now + limits.after_max_ms
    return f"Timestamp {record.timestamp} is out of range. The timestamp should be within [{earliest}, {latest}]"


def _codec_for(header: BatchHeader, config: TopicConfig) -> int:
    name = config.compression_type
    return header.codec if name == AS_PRODUCED else codec_by_name(name)
