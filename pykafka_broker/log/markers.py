"""Control batches that end a transaction.

Rule: only COMMIT and ABORT mean anything to a partition's log; other control records (leader changes, snapshots) are
the metadata log's.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from pykafka_broker.log.filesystem import Buffer
from pykafka_broker.records.header import HEADER_SIZE, BatchHeader

_KEY = struct.Struct(">hh")  # version, type
_VALUE = struct.Struct(">hi")  # version, coordinator epoch
ABORT, COMMIT = 0, 1


class Marker(NamedTuple):
    """The end of a producer's transaction, at `offset`."""

    producer_id: int
    epoch: int
    offset: int
    timestamp: int
    commit: bool
    coordinator_epoch: int


def read_marker(batch: Buffer, header: BatchHeader, base_offset: int) -> Marker | None:
    """The marker in this control batch, which holds a single record; None for a control batch of another kind."""
    position = _skip_varint(batch, HEADER_SIZE)  # length
    position = _skip_varint(batch, _skip_varint(batch, position + 1))  # attributes, timestamp delta, offset delta
    position = _skip_varint(batch, position)  # key length
    kind = _KEY.unpack_from(batch, position)[1]
    if kind not in (ABORT, COMMIT):
        return None
    position = _skip_varint(batch, position + _KEY.size)  # value length
    coordinator_epoch = _VALUE.unpack_from(batch, position)[1]
    offset = base_offset + header.last_offset_delta
    return Marker(
        header.producer_id, header.producer_epoch, offset, header.max_timestamp, kind == COMMIT, coordinator_epoch
    )


def _skip_varint(buffer: Buffer, position: int) -> int:
    while buffer[position] & 0x80:
        position += 1
    return position + 1
