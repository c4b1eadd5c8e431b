"""The logs of coordinators: `__consumer_offsets`, `__transaction_state`, `__share_group_state`.

Rule: the partition of a key is the key's Java hash modulo the number of partitions, as for every Kafka client and tool.
The records of one decision are one batch, and a load replays batch after batch in the order of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import mul
from struct import unpack

from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import BatchHeader, check_crc, iter_batches
from pykafka_broker.records.record import BatchRecord, iter_records

_READ_BYTES = 1 << 20
_MOST_DECOMPRESSED = 32 << 20  # of one batch; other requests are served between two batches
# The exceptions of a replay for an invalid record.
SENSELESS = (ValueError, LookupError, TypeError, ArithmeticError)


class SenselessRecord(Exception):
    """A record of a coordinator's log can't be replayed."""

    def __init__(self, offset: int, error: Exception) -> None:
        super().__init__(f"the record at offset {offset} makes no sense: {type(error).__name__}: {error}")


# Errors of a coordinator, or of the way to it, that may be over in a moment.
ANOTHER_TIME = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

# From an error of the coordinator's log to the coordinator's answer: clients look for the coordinator again, or hear of
# a defect of the broker.
_REFUSALS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(error: ApiError) -> ApiError:
    return ApiError(_REFUSALS.get(error.code, error.code), error.message)


_POWERS = [pow(31, n, 1 << 32) for n in range(256)]


@lru_cache(maxsize=1 << 14)  # for each shard that is loaded or unloaded the keys of all shards are looked at
def partition_for(key: str, partitions: int) -> int:
    """Return the partition of a group or a transactional id: the absolute Java `hashCode`, modulo the count."""
    units: Sequence[int] = key.encode() if key.isascii() else _utf16(key)
    while len(units) > len(_POWERS):
        _POWERS.append(_POWERS[-1] * 31 & 0xFFFFFFFF)
    hash_code = sum(map(mul, reversed(units), _POWERS)) & 0xFFFFFFFF
    if hash_code >= 1 << 31:
        hash_code = (1 << 32) - hash_code
    return 0 if hash_code == 1 << 31 else hash_code % partitions


def _utf16(text: str) -> tuple[int, ...]:
    encoded = text.encode("utf-16-be", "surrogatepass")
    return unpack(f">{len(encoded) // 2}H", encoded)


def read_batches(log: PartitionLog) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield every batch of a log, in order, also batches appended meanwhile.

    Raises:
        CorruptBatch: the CRC or the offset of a batch is wrong.
    """
    offset = log.log_start_offset
    while offset < (end := log.log_end_offset) and (found := log.read(offset, _READ_BYTES, end)) is not None:
        for header, batch in iter_batches(log.bytes_of(found.records)):
            check_crc(batch, header)
            if header.next_offset <= offset:
                raise CorruptBatch(f"offset {header.base_offset} after {offset - 1}")
            yield header, batch
            offset = header.next_offset


def replay_batch(header: BatchHeader, batch: memoryview, replay: Callable[[BatchRecord], object]) -> None:
    """Replay each record; a missing key counts as an empty key.

    Raises:
        SenselessRecord: a record can't be replayed.
    """
    offset = header.base_offset
    try:
        for record in iter_records(batch, header, max_bytes=_MOST_DECOMPRESSED):
            offset = record.offset
            replay(record)
    except SENSELESS as error:
        raise SenselessRecord(offset, error) from error
