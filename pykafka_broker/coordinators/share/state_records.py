"""The records of `__share_group_state`, in the versions that Kafka 4.3 writes.

Rule: a key is its type as int16 and then the key message; a value is its version as int16 and then the value message;
a snapshot's tombstone removes the share partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from pykafka_broker.coordinators.effects import KeyValue, Said
from pykafka_broker.coordinators.share.delivery import StateRun
from pykafka_broker.protocol.runtime import Buffer, DecodeError, uuid_text
from pykafka_broker.protocol.stored.share_snapshot_key import ShareSnapshotKey
from pykafka_broker.protocol.stored.share_snapshot_value import ShareSnapshotValue
from pykafka_broker.protocol.stored.share_snapshot_value import StateBatch as SnapshotBatch
from pykafka_broker.protocol.stored.share_update_key import ShareUpdateKey
from pykafka_broker.protocol.stored.share_update_value import ShareUpdateValue
from pykafka_broker.protocol.stored.share_update_value import StateBatch as UpdateBatch

_INT16 = Struct(">h")


class ShareKey(NamedTuple):
    """One partition as one group reads it."""

    group_id: str
    topic_id: bytes
    partition: int

    def coordinator_key(self) -> str:
        """What FindCoordinator is asked for, and what the log's partition is worked out from."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"


def snapshot(
    key: ShareKey,
    snapshot_epoch: int,
    state_epoch: int,
    leader_epoch: int,
    start_offset: int,
    complete_count: int,
    created: int,
    now: int,
    runs: Iterable[StateRun],
) -> KeyValue:
    """The whole state of a share partition."""
    value = ShareSnapshotValue(
        snapshot_epoch,
        state_epoch,
        leader_epoch,
        start_offset,
        complete_count,
        created,
        now,
        [SnapshotBatch(*run) for run in runs],
    )
    return _said(_key(ShareSnapshotKey(*key)), key, value)


def update(
    key: ShareKey,
    snapshot_epoch: int,
    leader_epoch: int,
    start_offset: int,
    complete_count: int,
    runs: Iterable[StateRun],
) -> KeyValue:
    """What has changed since the snapshot."""
    value = ShareUpdateValue(
        snapshot_epoch, leader_epoch, start_offset, complete_count, [UpdateBatch(*run) for run in runs]
    )
    return _said(_key(ShareUpdateKey(*key)), key, value)


def runs_of(value: ShareSnapshotValue | ShareUpdateValue) -> list[StateRun]:
    """Return the runs of a record."""
    return [
        StateRun(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in value.state_batches
    ]


def _said(key_bytes: bytes, key: ShareKey, value: ShareSnapshotValue | ShareUpdateValue) -> KeyValue:
    """It may be long, so nobody reads it again."""
    made = Said(key_bytes, _INT16.pack(0) + value.encode(0))
    made.messages = key, value
    return made


def tombstone(key: ShareKey) -> KeyValue:
    """The end of a share partition."""
    return KeyValue(_key(ShareSnapshotKey(*key)), None)


def _key(key: ShareSnapshotKey | ShareUpdateKey) -> bytes:
    return _INT16.pack(key.API_KEY) + key.encode(0)


def read_record(
    key: Buffer, value: Buffer | None
) -> tuple[ShareKey, ShareSnapshotValue | ShareUpdateValue | None] | None:
    """The share partition and what is said of it; None for a type that this release doesn't know. Raises
    DecodeError."""
    if len(key) < 2:
        raise DecodeError(f"a share coordinator key of {len(key)} bytes")
    kind = _INT16.unpack_from(key)[0]
    if kind not in (ShareSnapshotKey.API_KEY, ShareUpdateKey.API_KEY):
        return None
    is_snapshot = kind == ShareSnapshotKey.API_KEY
    read, _ = (ShareSnapshotKey if is_snapshot else ShareUpdateKey).read(key, 2, 0)
    share_key = ShareKey(read.group_id, bytes(read.topic_id), read.partition)
    if value is None:
        if not is_snapshot:
            raise DecodeError("a tombstone of an update, which is never written")
        return share_key, None
    if len(value) < 2:
        raise DecodeError(f"a share coordinator value of {len(value)} bytes")
    version = _INT16.unpack_from(value)[0]
    message, _ = (ShareSnapshotValue if is_snapshot else ShareUpdateValue).read(value, 2, version)
    return share_key, message
