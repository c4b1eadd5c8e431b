"""The records of `__share_group_state`, in the versions that Kafka 4.3 writes.

Rule: a snapshot holds the whole state of a share partition, an update what has changed since. The tombstone of a
snapshot removes the share partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.coordinators.share.delivery import StateRun
from pykafka_broker.protocol.runtime import uuid_text
from pykafka_broker.protocol.stored.share_snapshot_key import ShareSnapshotKey
from pykafka_broker.protocol.stored.share_snapshot_value import ShareSnapshotValue
from pykafka_broker.protocol.stored.share_snapshot_value import StateBatch as SnapshotBatch
from pykafka_broker.protocol.stored.share_update_key import ShareUpdateKey
from pykafka_broker.protocol.stored.share_update_value import ShareUpdateValue
from pykafka_broker.protocol.stored.share_update_value import StateBatch as UpdateBatch


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
) -> CoordinatorRecord:
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
    return CoordinatorRecord(ShareSnapshotKey(*key), value)


def update(
    key: ShareKey,
    snapshot_epoch: int,
    leader_epoch: int,
    start_offset: int,
    complete_count: int,
    runs: Iterable[StateRun],
) -> CoordinatorRecord:
    """What has changed since the snapshot."""
    value = ShareUpdateValue(
        snapshot_epoch, leader_epoch, start_offset, complete_count, [UpdateBatch(*run) for run in runs]
    )
    return CoordinatorRecord(ShareUpdateKey(*key), value)


def runs_of(value: ShareSnapshotValue | ShareUpdateValue) -> list[StateRun]:
    """Return the runs of a record."""
    return [
        StateRun(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in value.state_batches
    ]


def tombstone(key: ShareKey) -> CoordinatorRecord:
    """Return the end of a share partition."""
    return CoordinatorRecord(ShareSnapshotKey(*key), None)
