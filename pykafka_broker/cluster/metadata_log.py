"""`__cluster_metadata-0`: the one place where topics, configs and all other metadata are kept (KIP-500, KIP-595).

Rule: records are written as one batch for one decision, and a batch is applied whole or not at all. Every start leads a
new epoch, which begins with a LeaderChange record as in any KRaft quorum, here with a single voter. The epoch is in the
file `quorum-state` before anything is written in that epoch, so that no epoch is ever led twice. A transaction of
records that was left open is aborted then: later records would become part of the transaction, and be lost at the next
start.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion, MetadataError, RecordType, decode_record, encode_record
from pykafka_broker.cluster.snapshot import (
    NO_VOTERS,
    MetadataSnapshot,
    Voters,
    control_batch,
    control_type,
    list_snapshots,
)
from pykafka_broker.log.filesystem import FileSystem, read_file, write_file
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.log.segments import LogRead
from pykafka_broker.protocol.runtime import ZERO_UUID, uuid_text
from pykafka_broker.protocol.stored.abort_transaction_record import AbortTransactionRecord
from pykafka_broker.protocol.stored.leader_change_message import LeaderChangeMessage, Voter
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.control import ControlType
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import BatchHeader, check_crc, iter_batches
from pykafka_broker.records.record import iter_records

logger = logging.getLogger(__name__)

QUORUM_STATE = "quorum-state"
_NO_NODE = -1
READ_BYTES = 1 << 20
# raised by damaged records; LookupError: a record names a missing object
_SENSELESS = (MetadataError, ValueError, LookupError, TypeError)


def read_quorum_epoch(fs: FileSystem, path: str) -> int:
    """Return the last epoch, 0 before the first."""
    try:
        epoch = json.loads(read_file(fs, path))["leaderEpoch"]
    except FileNotFoundError:
        return 0
    except (ValueError, KeyError, TypeError):
        raise MetadataError(f"{path} is damaged: it names no leader epoch") from None
    if not isinstance(epoch, int) or epoch < 0:
        raise MetadataError(f"{path} is damaged: its epoch is {epoch}")
    return epoch


def write_quorum_leader(
    fs: FileSystem, path: str, leader_id: int, epoch: int, kraft_version: int, voters: Sequence[int] | None = None
) -> None:
    """Write the leader of `epoch`, -1 for an unknown leader.

    With kraft.version 0 the voters stand in the file, the leader alone if there are no others; with 1 they stand in the
    log (KIP-853).
    """
    state: dict[str, Any]
    if kraft_version == 0:
        state = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": epoch,
            "votedId": _NO_NODE,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": each} for each in ([leader_id] if voters is None else voters)],
            "data_version": 0,
        }
    else:
        state = {
            "leaderId": leader_id,
            "leaderEpoch": epoch,
            "votedId": _NO_NODE,
            "votedDirectoryId": uuid_text(ZERO_UUID),
            "data_version": 1,
        }
    write_file(fs, path, json.dumps(state, separators=(",", ":")).encode())


class Replay:
    """Applies the records of the log; records between Begin and End (KIP-868) wait for the End."""

    def __init__(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.image = image
        self.delta = delta
        self.voters = NO_VOTERS
        self._open: list[Any] | None = None

    @property
    def in_transaction(self) -> bool:
        """Return whether records wait for an End."""
        return self._open is not None

    def record(self, record: Any) -> None:
        kind = record.API_KEY
        if kind == RecordType.BEGIN_TRANSACTION:
            self._open = []
        elif kind == RecordType.END_TRANSACTION:
            opened, self._open = self._open or [], None
            for waiting in opened:
                self.image.apply(waiting, self.delta)
        elif kind == RecordType.ABORT_TRANSACTION:
            self._open = None
        elif self._open is not None:
            self._open.append(record)
        else:
            self.image.apply(record, self.delta)

    def batch(self, header: BatchHeader, batch: memoryview) -> None:
        if header.is_control:
            for record in iter_records(batch, header):
                self._control(control_type(record), record.value or b"")
            return
        for record in iter_records(batch, header):
            if record.value is None:
                raise MetadataError("a metadata record without a value")
            self.record(decode_record(record.value))

    def checked(self, where: str, header: BatchHeader, batch: memoryview) -> None:
        """Replay a batch of the log or of a snapshot, after a check of the CRC. Raises MetadataError, with `where`."""
        try:
            check_crc(batch, header)
            self.batch(header, batch)
        except _SENSELESS as error:
            raise MetadataError(
                f"{where}: the records from offset {header.base_offset} on are damaged: {error}"
            ) from error

    def _control(self, kind: int, value: bytes) -> None:
        if kind == ControlType.KRAFT_VERSION:
            from pykafka_broker.protocol.stored.kraft_version_record import KRaftVersionRecord

            version = KRaftVersionRecord.decode(value, 0).kraft_version
            self.voters = self.voters._replace(kraft_version=version)
        elif kind == ControlType.KRAFT_VOTERS:
            self.voters = self.voters._replace(record=bytes(value))


class MetadataLog:
    """The log, and the epoch of the node's own records."""

    def __init__(self, log: PartitionLog, fs: FileSystem, node_id: int, directory_id: bytes) -> None:
        self.log = log
        self.epoch = 0
        self.bytes_since_snapshot = 0
        self.snapshots: list[MetadataSnapshot] = []  # oldest first; none ends below the log's start
        self.voters = NO_VOTERS
        self.last_timestamp = 0
        self._voters_in_log = False
        self._is_transaction_open = False
        self._fs = fs
        self._node_id = node_id
        self.directory_id = directory_id
        self._quorum_state = f"{log.directory}/{QUORUM_STATE}"

    @property
    def last_offset(self) -> int:
        return self.log.log_end_offset - 1

    @property
    def applied_end(self) -> int:
        """Return the offset below which all records are in the image."""
        return self.log.log_end_offset

    @property
    def applied_epoch(self) -> int:
        """Return the epoch of the last applied record."""
        return self.epoch

    @property
    def kraft_version(self) -> int:
        return self.voters.kraft_version

    @property
    def voter_directory_id(self) -> bytes:
        """Return the directory id of the node as a voter; voters have directory ids since kraft.version 1 (KIP-853)."""
        return self.directory_id if self.voters.kraft_version else ZERO_UUID

    def load(self, image: MetadataImage) -> MetadataDelta:
        """Bring an empty `image` to the end of the log, by the newest snapshot and the log after the snapshot."""
        replay = Replay(image, MetadataDelta())
        self.snapshots = self._forget_outlived(list_snapshots(self._fs, self.log.directory))
        start = self._load_snapshot(replay)
        at_snapshot = replay.voters
        while start < self.log.log_end_offset:
            read = self.log.read(start, READ_BYTES, self.log.log_end_offset)
            if read is None:
                raise MetadataError(f"{self.log.directory} has nothing at offset {start}")
            for header, batch in self.batches_of(read, start):
                if not header.base_offset <= start < header.next_offset:
                    raise MetadataError(f"{self.log.directory} has {header.base_offset} where offset {start} should be")
                if header.base_offset == start:  # snapshots end where a batch ends
                    replay.checked(self.log.directory, header, batch)
                    self.bytes_since_snapshot += header.size
                    self.last_timestamp = header.max_timestamp
                start = header.next_offset
        self.voters = replay.voters
        self._is_transaction_open = replay.in_transaction
        self._voters_in_log = self.voters is not at_snapshot or any(each.end_offset for each in self.snapshots)
        return replay.delta

    def batches_of(self, read: LogRead, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield the batches of a read from `offset` on. Raises MetadataError: the disk has broken a header."""
        try:
            for header, batch in iter_batches(read.records.read()):
                yield header, batch
                offset = header.next_offset
        except CorruptBatch as error:
            raise MetadataError(
                f"{self.log.directory}: the records from offset {offset} on are damaged: {error}"
            ) from error

    def _forget_outlived(self, snapshots: list[MetadataSnapshot]) -> list[MetadataSnapshot]:
        """Remove snapshots below the log's start: a crash may have come before the removal."""
        start = self.log.log_start_offset
        for snapshot in snapshots:
            if snapshot.end_offset < start:
                self._fs.remove(snapshot.path)
        return [snapshot for snapshot in snapshots if snapshot.end_offset >= start]

    def _load_snapshot(self, replay: Replay) -> int:
        """Replay the newest whole snapshot, and return the end offset. The log reaches back to the oldest snapshot.

        Metadata records of the snapshot at offset 0, as kafka-storage 4.4 leaves them, are no state yet: who leads
        first writes them into the log (`bootstrap_records`).
        """
        log = self.log
        for snapshot in reversed(self.snapshots):
            if snapshot.end_offset > log.log_end_offset:
                raise MetadataError(f"{snapshot.path} is ahead of its log, which ends at {log.log_end_offset}")
            try:
                batches = snapshot.whole()
            except MetadataError as error:
                if not snapshot.end_offset:
                    raise  # the first snapshot alone has the quorum's beginning
                logger.error("%s; an older snapshot, or the log, is read instead", error)
                self.snapshots.remove(snapshot)
                continue
            for header, batch in batches:
                if header.is_control or snapshot.end_offset:
                    replay.checked(snapshot.path, header, batch)
            self.last_timestamp = snapshot.timestamp
            return snapshot.end_offset
        if log.log_start_offset > 0:
            raise MetadataError(
                f"{log.directory} begins at offset {log.log_start_offset} and has no snapshot of the records before"
            )
        return 0

    def apply(self, messages: Iterable[Any], image: MetadataImage, delta: MetadataDelta) -> None:
        """Replay records just appended."""
        replay = Replay(image, delta)
        for message in messages:
            replay.record(message)

    def lead(self, now: int) -> None:
        """Begin a new epoch, led by the node."""
        in_snapshots = [snapshot.epoch for snapshot in self.snapshots]
        known = max(read_quorum_epoch(self._fs, self._quorum_state), self.log.epochs.latest, 0, *in_snapshots)
        self.epoch = known + 1
        write_quorum_leader(self._fs, self._quorum_state, self._node_id, self.epoch, self.voters.kraft_version)
        # Version 1 has directory ids, but a 4.4 broker writes and reads version 0 whatever kraft.version is.
        voter = Voter(self._node_id)
        message = LeaderChangeMessage(0, self._node_id, [voter], [voter])
        records = [(ControlType.LEADER_CHANGE, message.encode(0))]
        if not self._voters_in_log:
            # the voters written by `kafka-storage format` stand in no log yet
            records += self.voters.control_records()
            self._voters_in_log = True
        self.append_encoded(control_batch(records, now), now)
        if self._is_transaction_open:
            self.append([ApiMessageAndVersion(AbortTransactionRecord("The controller has ended."), 0)], now)
            self._is_transaction_open = False

    def raise_kraft_version(self, voters: Voters, now: int) -> None:
        """Write the voters into the log; from the next epoch on `quorum-state` says so too."""
        self.append_encoded(control_batch(voters.control_records(), now), now)
        self.voters = voters
        self._voters_in_log = True

    def append(self, records: Iterable[ApiMessageAndVersion], now: int) -> int:
        """Write the records as a batch, and return the offset of the last record."""
        builder = BatchBuilder()
        for record in records:
            builder.append(None, encode_record(record), now)
        return self.append_encoded(builder.build(), now)

    def append_encoded(self, batch: bytearray, now: int) -> int:
        info = self.log.append(batch, now, leader_epoch=self.epoch, origin=Origin.RAFT_LEADER)
        self.bytes_since_snapshot += len(batch)
        self.last_timestamp = now
        return info.last_offset
