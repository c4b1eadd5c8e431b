"""Writing snapshots of the metadata, and removing old ones (KIP-630).

Rule: the log is synced before a snapshot of it is written, a snapshot is whole and synced before the log's start moves
up to it, and older records and snapshots are removed last. So wherever a crash comes, a snapshot and the log after it
are there. The newest snapshot always stays. A large snapshot is encoded in steps, between which the loop runs and the
image may change: the snapshot has the image of the first step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from pykafka_broker.clock import Clock
from pykafka_broker.cluster.metadata_log import MetadataLog
from pykafka_broker.cluster.records import ApiMessageAndVersion, MetadataError
from pykafka_broker.cluster.snapshot import MetadataSnapshot, snapshot_name, snapshot_pieces
from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.log.deletion import Removal, RemovalJob
from pykafka_broker.log.filesystem import Buffer, FileSystem, write_file
from pykafka_broker.log.flush import Waiter
from pykafka_broker.log.jobs import Submit

logger = logging.getLogger(__name__)

_TRIM_INTERVAL_MS = 60_000  # as Kafka has it, not configurable there either
_UNLIMITED = -1


class _Encoding(NamedTuple):
    """A snapshot being encoded."""

    snapshot: MetadataSnapshot
    coming: Iterator[Buffer]
    pieces: list[Buffer]


class _SnapshotJob:
    def __init__(self, keeper: SnapshotKeeper, snapshot: MetadataSnapshot, pieces: list[Buffer], now: int) -> None:
        self._keeper = keeper
        self._snapshot = snapshot
        self._pieces = pieces
        self._now = now

    def run(self) -> None:
        write_file(self._snapshot.fs, self._snapshot.path, b"".join(self._pieces))

    def apply(self) -> None:
        self._keeper.written(self._snapshot, self._now)

    def failed(self, error: OSError) -> None:
        self._keeper.refused(error)


class SnapshotKeeper:
    """Writes and trims the snapshots of a metadata log.

    `records` are those of the image as it is; `flush` syncs the log and calls its waiter. Intervals go by `clock.now`,
    the age of a snapshot by `clock.wall`.
    """

    def __init__(
        self,
        log: MetadataLog,
        fs: FileSystem,
        config: BrokerConfig,
        *,
        submit: Submit,
        flush: Callable[[int, Waiter], None],
        records: Callable[[], Iterable[ApiMessageAndVersion]],
        clock: Clock,
    ) -> None:
        self._log = log
        self._fs = fs
        self._submit = submit
        self._flush = flush
        self._records = records
        self._max_bytes = config.metadata_log_max_record_bytes_between_snapshots
        self._interval_ms = config.metadata_log_max_snapshot_interval_ms  # 0: only the bytes count
        self._retention_bytes = config.metadata_max_retention_bytes
        self._retention_ms = config.metadata_max_retention_ms
        self._clock = clock
        self._last_ms = now = clock.now
        self._trim_due_ms = now + _TRIM_INTERVAL_MS
        self._writing = False
        self._encoding: _Encoding | None = None

    # -- time

    def next_deadline(self) -> int | None:
        if self._encoding is not None:
            return 0
        due = self._trim_due_ms if len(self._log.snapshots) > 1 else None
        if self._interval_ms and self._log.bytes_since_snapshot and not self._writing:
            snapshot_due = self._last_ms + self._interval_ms
            due = snapshot_due if due is None else min(due, snapshot_due)
        return due

    def on_deadline(self, now: int) -> None:
        if self._encoding is not None:
            self._encode_on(self._encoding, now)
        self.on_commit(now)
        if now >= self._trim_due_ms:
            self.trim(now)

    def on_commit(self, now: int) -> None:
        """Begin a snapshot if the log has grown enough."""
        grown = self._log.bytes_since_snapshot
        too_late = bool(self._interval_ms) and grown > 0 and now - self._last_ms >= self._interval_ms
        if grown >= self._max_bytes or too_late:
            self.begin(now)

    # -- writing

    def begin(self, now: int) -> None:
        """Begin a snapshot of the log so far, from whose end the next start reads on."""
        if self._writing:
            return
        log = self._log
        end_offset, epoch = log.applied_end, log.applied_epoch
        pieces = snapshot_pieces(
            self._records(),
            now=self._clock.wall,
            epoch=epoch,
            last_contained_log_timestamp=log.last_timestamp,
            voters=log.voters,
        )
        path = f"{log.log.directory}/{snapshot_name(end_offset, epoch)}"
        snapshot = MetadataSnapshot(self._fs, path, end_offset, epoch, log.last_timestamp)
        self._writing = True
        self._last_ms = now
        log.bytes_since_snapshot = 0
        self._encoding = _Encoding(snapshot, pieces, [])
        self._encode_on(self._encoding, now)

    def _encode_on(self, encoding: _Encoding, now: int) -> None:
        """Encode a step; write the snapshot after the last step."""
        for piece in encoding.coming:
            if not piece:
                return
            encoding.pieces.append(piece)
        self._encoding = None

        def synced(error: OSError | None) -> None:
            if error is None:
                self._submit(_SnapshotJob(self, encoding.snapshot, encoding.pieces, now))
            else:
                self.refused(error)

        self._flush(now, synced)

    def written(self, snapshot: MetadataSnapshot, now: int) -> None:
        self._writing = False
        self._log.snapshots.append(snapshot)
        self.trim(now)

    def refused(self, error: OSError) -> None:
        """Take note of a failed write; the next snapshot is tried after as much growth again."""
        self._writing = False
        logger.warning("Could not write a snapshot of the metadata: %s", error)

    # -- trimming

    def trim(self, now: int) -> None:
        """Drop the oldest snapshots beyond retention, and the log up to the oldest remaining snapshot."""
        self._trim_due_ms = now + _TRIM_INTERVAL_MS
        snapshots = self._log.snapshots
        dropped = []
        try:
            while len(snapshots) > 1 and (self._too_much() or self._too_old(snapshots[0])):
                self._drop_below(snapshots[1].end_offset)
                dropped.append(snapshots.pop(0))
        except OSError as error:
            logger.warning("Could not trim the metadata log: %s", error)
        if dropped:
            start = self._log.log.log_start_offset
            logger.info("The metadata log begins at offset %d now, %d snapshots are gone", start, len(dropped))
            removals: list[Removal] = [partial(self._fs.remove, snapshot.path) for snapshot in dropped]
            self._submit(RemovalJob(removals, self._not_removed))

    def _too_much(self) -> bool:
        if self._retention_bytes == _UNLIMITED:
            return False
        kept = sum(snapshot.size for snapshot in self._log.snapshots)
        return self._log.log.size_bytes + kept > self._retention_bytes

    def _too_old(self, snapshot: MetadataSnapshot) -> bool:
        if self._retention_ms == _UNLIMITED:
            return False
        try:
            return self._clock.wall - snapshot.timestamp > self._retention_ms
        except MetadataError:
            return True  # damaged, and a newer snapshot exists

    def _drop_below(self, offset: int) -> None:
        log, wall = self._log.log, self._clock.wall
        log.raise_log_start(offset)
        if log.log_start_offset > log.segments.active.base_offset:
            log.roll(wall)  # otherwise the segment keeps outdated records until it is full
        log.retain(wall)

    def _not_removed(self, error: OSError) -> None:
        logger.warning("Could not remove an old snapshot of the metadata, the next start tries again: %s", error)
