"""Control batches. Rule: a control batch tells about the log itself; its records are for brokers and never for users.

Each takes one offset. A record's key is version int16 and type int16; the value is of the type's own schema. The marker
that ends a transaction is transactional and carries its producer's id and epoch, and as value version int16 and the
epoch of the transaction coordinator int32 (KIP-98). The types above it are those of KRaft logs (KIP-595, 630, 853);
their values are among the stored messages of `protocol/stored`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple, Unpack

from pykafka_broker.records.builder import BatchFields, build_batch
from pykafka_broker.records.errors import InvalidRecord
from pykafka_broker.records.header import BatchHeader, Buffer, read_header
from pykafka_broker.records.record import BatchRecord, iter_records

CONTROL_KEY = Struct(">hh")  # version and type
_END_TRANSACTION = Struct(">hi")


class ControlType(IntEnum):
    """Types of control records."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


class EndTransactionMarker(NamedTuple):
    offset: int
    timestamp: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool


def build_control_batch(
    control_type: int, value: bytes, *, offset: int, timestamp: int, **fields: Unpack[BatchFields]
) -> bytearray:
    """Build a batch of a single control record."""
    record = BatchRecord(offset, timestamp, CONTROL_KEY.pack(0, control_type), value)
    fields["control"] = True
    return build_batch((record,), base_offset=offset, **fields)


def build_end_transaction_marker(
    *, commit: bool, coordinator_epoch: int, timestamp: int, offset: int = 0, **fields: Unpack[BatchFields]
) -> bytearray:
    """Build the marker of a transaction's end. `fields` name the producer."""
    value = _END_TRANSACTION.pack(0, coordinator_epoch)
    kind = COMMIT if commit else ABORT
    fields["transactional"] = True
    return build_control_batch(kind, value, offset=offset, timestamp=timestamp, **fields)


def read_control_type(record: BatchRecord) -> int:
    """Return the type in a control record's key, named in the module or not."""
    try:
        version, control_type = CONTROL_KEY.unpack_from(record.key or b"")
    except StructError:
        raise InvalidRecord(f"a control record's key of {len(record.key or b'')} bytes") from None
    if version < 0:
        raise InvalidRecord(f"a control record's key of version {version}")
    return int(control_type)


def read_end_transaction_marker(batch: Buffer, header: BatchHeader | None = None) -> EndTransactionMarker | None:
    """Return the marker in the batch at the start of `batch`; None if the batch ends no transaction."""
    if header is None:
        header = read_header(batch)
    record = next(iter_records(batch, header), None) if header.is_control else None
    if record is None:  # compaction leaves control batches without a record
        return None
    control_type = read_control_type(record)
    if control_type not in (ABORT, COMMIT):
        return None
    value = record.value or b""
    try:
        version, coordinator_epoch = _END_TRANSACTION.unpack_from(value)
    except StructError:
        raise InvalidRecord(f"an end transaction marker's value of {len(value)} bytes") from None
    if version < 0:
        raise InvalidRecord(f"an end transaction marker's value of version {version}")
    return EndTransactionMarker(
        record.offset,
        record.timestamp,
        header.producer_id,
        header.producer_epoch,
        coordinator_epoch,
        control_type == COMMIT,
    )


class AbortedBatches:
    """The batches of aborted transactions, followed batch by batch in the order of the log.

    aborted: each has the `producer_id` and the `first_offset`, as in a log's index and in an answer to Fetch.
    """

    def __init__(self, aborted: Iterable[Any]) -> None:
        self._to_come = sorted(((each.first_offset, each.producer_id) for each in aborted), reverse=True)
        self._open: set[int] = set()

    def has(self, header: BatchHeader) -> bool:
        self._begin(header)
        return header.is_transactional and header.producer_id in self._open

    def ends(self, header: BatchHeader, batch: memoryview) -> None:
        """Close a marker's transaction: the producer's later batches are not aborted, until the next transaction."""
        self._begin(header)  # the marker may be the first batch that is read
        if header.producer_id in self._open and read_end_transaction_marker(batch, header) is not None:
            self._open.discard(header.producer_id)

    def _begin(self, header: BatchHeader) -> None:
        """Open all aborted transactions that begin up to a batch."""
        while self._to_come and self._to_come[-1][0] <= header.last_offset:
            self._open.add(self._to_come.pop()[1])
