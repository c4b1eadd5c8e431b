"""The header and the CRC of a v2 record batch.

Rule: 61 bytes tell everything that the hot path needs; the records stay unread.

Layout (Kafka docs, "Record Batch"), offsets in bytes: base offset 0, length 8, partition leader epoch 12, magic 16, crc
17, attributes 21, last offset delta 23, base timestamp 27, max timestamp 35, producer id 43, producer epoch 51, base
sequence 53, count 57. The CRC covers everything from the attributes on, so base offset and leader epoch can be written
into a batch without computing it again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from operator import attrgetter
from struct import Struct
from struct import error as StructError

from pykafka_broker.records.errors import CorruptBatch, TruncatedBatch

Buffer = bytes | bytearray | memoryview

HEADER_SIZE = 61
LENGTH_OVERHEAD = 12  # base offset and length, which the length field does not count
MAGIC_OFFSET = 16
CRC_OFFSET = 17
ATTRIBUTES_OFFSET = 21
MAX_TIMESTAMP_OFFSET = 35

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40  # KIP-534: the base timestamp is the time from which tombstones may go

NO_TIMESTAMP = -1
NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

HEADER = Struct(">qiibIhiqqqhii")
HEADER_UP_TO_CRC = Struct(">qiibI")  # the CRC covers the rest of the header and the records
HEADER_UNDER_CRC = Struct(">hiqqqhii")
_OFFSET_AND_LENGTH = Struct(">qi")
_LENGTH_AND_MAGIC = Struct(">8xi4xB")
_SHORTEST_LENGTH = 14  # of a message of format v0
_INT64 = Struct(">q")
_INT16 = Struct(">h")
_UINT32 = Struct(">I")
_MAX_LENGTH = 0x7FFFFFFF - LENGTH_OVERHEAD
_SEQUENCES = 1 << 31


def _load_crc32c() -> Callable[[Buffer], int]:
    """Load the extension module of the package `crc32c`, and not the package.

    The package's `__init__` builds a command line and asks for its own version, which parses the metadata of installed
    distributions: 20 to 40 ms of a start that may take 250. Where the extension isn't found as expected, the package is
    imported the ordinary way.
    """
    package = PathFinder.find_spec("crc32c")
    if "crc32c" not in sys.modules and package is not None:
        spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules.setdefault(spec.name, module)  # a later import finds this module
            function: Callable[[Buffer], int] = module.crc32c
            return function
    from crc32c import crc32c

    return crc32c


crc32c = _load_crc32c()


@dataclass(slots=True, eq=False)
class BatchHeader:
    """The fields of a batch's header, as read; later patches of the buffer don't change the fields.

    length: bytes after the length field.
    """

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def size(self) -> int:
        """Return the size of the whole batch in bytes."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Return the last record's sequence number; sequence numbers wrap from 2**31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        """Return whether every record's timestamp is the batch's max timestamp."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def timestamp_type(self) -> int:
        """Return 0 for CreateTime, 1 for LogAppendTime."""
        return (self.attributes & LOG_APPEND_TIME_BIT) >> 3

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


_fields_of = attrgetter(*BatchHeader.__slots__)


def read_header(buffer: Buffer, offset: int = 0) -> BatchHeader:
    """Read the header at `offset`; the records may lie outside of the buffer."""
    try:
        header = BatchHeader(*HEADER.unpack_from(buffer, offset))
    except StructError:
        raise _why_no_header(buffer, offset) from None
    if header.magic != 2:
        raise CorruptBatch(f"magic {header.magic} at byte {offset}, not 2")
    if not HEADER_SIZE - LENGTH_OVERHEAD <= header.length <= _MAX_LENGTH:
        raise CorruptBatch(f"batch length {header.length} at byte {offset}")
    return header


def _why_no_header(buffer: Buffer, offset: int) -> CorruptBatch:
    left = len(buffer) - offset
    if left > MAGIC_OFFSET and buffer[offset + MAGIC_OFFSET] != 2:
        return CorruptBatch(f"magic {buffer[offset + MAGIC_OFFSET]} at byte {offset}, not 2")
    if left >= LENGTH_OVERHEAD:
        length: int = _OFFSET_AND_LENGTH.unpack_from(buffer, offset)[1]
        if not HEADER_SIZE - LENGTH_OVERHEAD <= length <= _MAX_LENGTH:
            return CorruptBatch(f"batch length {length} at byte {offset}")
    return TruncatedBatch(f"{max(left, 0)} bytes at byte {offset}, a batch header has {HEADER_SIZE}")


def peek(buffer: Buffer, offset: int = 0) -> int | None:
    """Return the format of the batch or message at `offset`, None if not whole.

    Raises:
        CorruptBatch: the size or the format is impossible.
    """
    if len(buffer) - offset <= MAGIC_OFFSET:
        return None
    length, magic = _LENGTH_AND_MAGIC.unpack_from(buffer, offset)
    if not _SHORTEST_LENGTH <= length <= _MAX_LENGTH:
        raise CorruptBatch(f"a length of {length} at byte {offset}")
    if magic > 2:
        raise CorruptBatch(f"magic {magic} at byte {offset}")
    return int(magic) if offset + LENGTH_OVERHEAD + length <= len(buffer) else None


def iter_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield every batch of a concatenation with the batch's bytes, uncopied.

    Raises:
        TruncatedBatch: the last batch is cut short.
    """
    view = memoryview(buffer)
    offset, end = 0, len(view)
    while offset < end:
        header = read_header(view, offset)
        stop = require_whole(view, header, offset)
        yield header, view[offset:stop]
        offset = stop


def sound_batch_at(view: memoryview, at: int, next_offset: int) -> BatchHeader | None:
    """Return the header of the batch at position `at`; None if the batch is not whole.

    Raises:
        CorruptBatch: the batch is damaged, or begins below `next_offset`.
    """
    left = len(view) - at
    if left < HEADER_SIZE:
        return None
    header = read_header(view, at)
    if header.size > left:
        return None
    check_crc(view, header, at)
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        raise CorruptBatch(f"a batch from {header.base_offset} to {header.last_offset} where {next_offset} is expected")
    return header


def require_whole(buffer: Buffer, header: BatchHeader, offset: int = 0) -> int:
    """Return the end of the batch at `offset`. Raises TruncatedBatch if the end lies outside the buffer."""
    stop = offset + header.length + LENGTH_OVERHEAD
    if stop > len(buffer):
        raise TruncatedBatch(f"{len(buffer) - offset} bytes at byte {offset} of a batch of {header.size}")
    return stop


def check_crc(buffer: Buffer, header: BatchHeader, offset: int = 0) -> None:
    """Compare the CRC of the batch at `offset` with the header, without copying. Raises CorruptBatch if they differ."""
    stop = offset + header.length + LENGTH_OVERHEAD
    if stop > len(buffer):
        require_whole(buffer, header, offset)  # raises
    found = crc32c(memoryview(buffer)[offset + ATTRIBUTES_OFFSET : stop])
    if found != header.crc:
        raise CorruptBatch(f"crc of the batch at byte {offset} is {found:#010x}, its header says {header.crc:#010x}")


def write_crc(batch: bytearray | memoryview) -> None:
    """Write the CRC of the batch which fills the buffer."""
    _UINT32.pack_into(batch, CRC_OFFSET, crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:]))


def batch_of(header: BatchHeader, records: Buffer) -> bytearray:
    """Return the batch of the header's fields and the records, with the right length and CRC."""
    batch = bytearray(HEADER_SIZE)
    batch += records
    HEADER.pack_into(batch, 0, *_fields_of(replace(header, length=len(batch) - LENGTH_OVERHEAD)))
    write_crc(batch)
    return batch


def set_max_timestamp(buffer: bytearray | memoryview, max_timestamp: int, *, log_append_time: bool) -> None:
    """Write timestamp type and max timestamp, and the new CRC; LogAppendTime gives every record the max timestamp."""
    header = read_header(buffer)
    attributes = header.attributes & ~LOG_APPEND_TIME_BIT | (LOG_APPEND_TIME_BIT if log_append_time else 0)
    if attributes == header.attributes and max_timestamp == header.max_timestamp:
        return
    batch = memoryview(buffer)[: require_whole(buffer, header)]
    _INT16.pack_into(batch, ATTRIBUTES_OFFSET, attributes)
    _INT64.pack_into(batch, MAX_TIMESTAMP_OFFSET, max_timestamp)
    write_crc(batch)
