"""`__cluster_metadata-0` on a node that follows it: the fetched log, and the committed part of it.

Rule: the image holds committed records and nothing else, so a start begins with the newest snapshot and continues when
the leader has told the high watermark. Committed records are never cut off. A snapshot of the leader is written and
synced before the log begins anew behind it, so wherever a crash comes, either the old log or the snapshot is there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.metadata_log import (
    READ_BYTES,
    MetadataLog,
    Replay,
    read_quorum_epoch,
    write_quorum_leader,
)
from pykafka_broker.cluster.records import MetadataError
from pykafka_broker.cluster.snapshot import MetadataSnapshot, list_snapshots, snapshot_name
from pykafka_broker.log.filesystem import Buffer, FileSystem, write_file
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.records.header import iter_batches

logger = logging.getLogger(__name__)

UNKNOWN = -1
NO_LEADER = -1


class FollowedLog(MetadataLog):
    """The metadata log as fetched from a leader: `epoch` is the newest known, `high_watermark` the last told by the
    leader.
    """

    def __init__(
        self, log: PartitionLog, fs: FileSystem, node_id: int, directory_id: bytes, voters: Sequence[int]
    ) -> None:
        super().__init__(log, fs, node_id, directory_id)
        log.set_sole_replica(False)
        self.leader_id = NO_LEADER
        self.high_watermark = UNKNOWN
        self._voter_ids = voters  # of kraft.version 0
        self._kept = (UNKNOWN, NO_LEADER, 0)  # epoch, leader and kraft.version in quorum-state
        self._applied_end = self._applied_epoch = 0
        self._read_end = 0  # records from `_applied_end` on are of an unfinished transaction
        self._replay: Replay

    @property
    def applied_end(self) -> int:
        return self._applied_end

    @property
    def applied_epoch(self) -> int:
        return self._applied_epoch

    @property
    def last_epoch(self) -> int:
        """Return the epoch of the last record in the log, 0 for none."""
        return max([self.log.epochs.latest, 0, *(snapshot.epoch for snapshot in self.snapshots[-1:])])

    # -- life

    def load(self, image: MetadataImage) -> MetadataDelta:
        """Bring an empty `image` to the newest snapshot, which is committed for certain."""
        self.snapshots = self._forget_outlived(list_snapshots(self._fs, self.log.directory))
        if self.snapshots and self.snapshots[-1].end_offset > self.log.log_end_offset:
            self.log.restart_at(
                self.snapshots[-1].end_offset, 0
            )  # a crash came between the snapshot and the log's new start
        self._replay = Replay(image, MetadataDelta())
        self._go_to(self._load_snapshot(self._replay))
        known = read_quorum_epoch(self._fs, self._quorum_state)
        self.epoch = max(known, self.last_epoch)
        return self._replay.delta

    def _go_to(self, end: int) -> None:
        """Take note of an image replayed from the newest snapshot, which ends at `end`."""
        self._applied_end = self._read_end = end
        self._applied_epoch = self.snapshots[-1].epoch if self.snapshots else 0
        self.voters = self._replay.voters
        self.log.advance_high_watermark(end)

    def enter(self, epoch: int, leader_id: int) -> None:
        """Enter an epoch, on disk before any node hears of the epoch.

        Raises:
            OSError: the disk refused.
        """
        version = self.voters.kraft_version
        if (epoch, leader_id, version) == self._kept:
            return
        write_quorum_leader(self._fs, self._quorum_state, leader_id, epoch, version, self._voter_ids)
        self._kept = epoch, leader_id, version
        self.epoch, self.leader_id = epoch, leader_id

    # -- what the leader has sent

    def append_fetched(self, records: Buffer, wall: int) -> None:
        """Append fetched batches.

        Raises:
            CorruptBatch: a batch is damaged.
            ApiError: the disk refused.
        """
        self.log.append_fetched(records, wall)

    def truncate_to(self, epoch: int, end_offset: int) -> None:
        """Cut the log where the leader's history differs.

        Raises:
            OSError: the disk refused.
            MetadataError: committed records would be cut off.
        """
        log = self.log
        _, own_end = log.epochs.end_offset_for(epoch, log.log_end_offset)
        to = max(log.log_start_offset, min(end_offset, own_end if own_end >= 0 else log.log_start_offset))
        if to < self._read_end:
            raise MetadataError(
                f"the quorum has other records from {to} on than those below {self._read_end} that it had committed"
            )
        logger.info("The metadata log is cut to %d: the leader has another history from there on", to)
        log.truncate_to(to)

    def raise_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark to the leader's, and return whether more records can be applied."""
        self.high_watermark = max(self.high_watermark, offset)
        return min(self.high_watermark, self.log.log_end_offset) > self._read_end

    def install(self, end_offset: int, epoch: int, data: bytes, wall: int) -> None:
        """Begin anew with the leader's snapshot; `replace` is to follow.

        Raises:
            OSError: the disk refused.
            MetadataError: the snapshot is not sound.
        """
        path = f"{self.log.directory}/{snapshot_name(end_offset, epoch)}"
        write_file(self._fs, path, data)
        snapshot = MetadataSnapshot(self._fs, path, end_offset, epoch)
        try:
            snapshot.whole()
        except MetadataError:
            self._fs.remove(path)
            raise
        if self.log.log_end_offset > end_offset:
            self.log.truncate_to(end_offset)  # records behind the snapshot are of another history
        self.log.restart_at(end_offset, wall)
        outlived, self.snapshots = self.snapshots, [snapshot]
        for each in outlived:
            if each.path != path:
                self._fs.remove(each.path)

    # -- what is committed

    def replace(self, image: MetadataImage) -> None:
        """Bring an empty `image` to the installed snapshot. Later records change the same image."""
        self._replay = Replay(image, MetadataDelta())
        self._go_to(self._load_snapshot(self._replay))
        self.bytes_since_snapshot = 0

    def continue_with(self, image: MetadataImage) -> None:
        """Continue with the same image in another object."""
        self._replay.image = image

    def apply_committed(self) -> MetadataDelta:
        """Bring the image to the high watermark, and return the changes.

        Raises:
            MetadataError: a record makes no sense.
            ApiError: the disk refused.
        """
        replay, log = self._replay, self.log
        replay.delta = delta = MetadataDelta()
        end = min(self.high_watermark, log.log_end_offset)
        while self._read_end < end:
            read = log.read(self._read_end, READ_BYTES, end)
            if read is None:
                break  # the high watermark lies within a batch
            for header, batch in iter_batches(read.records.read()):
                replay.checked(log.directory, header, batch)
                self.bytes_since_snapshot += header.size
                self.last_timestamp = header.max_timestamp
                self._read_end = header.next_offset
                if not replay.in_transaction:
                    self._applied_end, self._applied_epoch = header.next_offset, header.partition_leader_epoch
        self.voters = replay.voters
        log.advance_high_watermark(self._read_end)
        return delta
