"""`__cluster_metadata-0`: the one place where topics, configs and all other metadata are kept (KIP-500, KIP-595).

Rule: records are written as one batch for one decision, and a batch is applied whole or not at all. Every start leads a
new epoch, which begins with a LeaderChange record as in any KRaft quorum, here one of a single voter.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from pykafka_broker.cluster import quorum_state
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion, MetadataError, RecordType, decode_record, encode_record
from pykafka_broker.cluster.snapshot import (
    ControlType,
    latest_snapshot,
    remove_older_snapshots,
    snapshot_name,
    write_snapshot,
)
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.protocol.runtime import ZERO_UUID
from pykafka_broker.protocol.stored.leader_change_message import LeaderChangeMessage, Voter
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.header import BatchHeader, iter_batches
from pykafka_broker.records.record import iter_records

_CONTROL_KEY = struct.Struct(">hh")
_READ_BYTES = 1 << 20


class Replay:
    """Applies what the log holds; what stands between Begin and End (KIP-868) waits for the End."""

    def __init__(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.image = image
        self.delta = delta
        self.kraft_version = 0
        self._open: list[Any] | None = None

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
                self._control(record.key, record.value)
            return
        for record in iter_records(batch, header):
            if record.value is None:
                raise MetadataError("a metadata record without a value")
            self.record(decode_record(record.value))

    def _control(self, key: bytes | None, value: bytes | None) -> None:
        if key is None or value is None or len(key) < _CONTROL_KEY.size:
            raise MetadataError("a control record without a type")
        if _CONTROL_KEY.unpack_from(key)[1] == ControlType.KRAFT_VERSION:
            from pykafka_broker.protocol.stored.kraft_version_record import KRaftVersionRecord

            self.kraft_version = KRaftVersionRecord.decode(value, 0).kraft_version


class MetadataLog:
    """The log and the epoch in which this node writes to it."""

    def __init__(self, log: PartitionLog, fs: FileSystem, node_id: int, directory_id: bytes) -> None:
        self.log = log
        self.epoch = 0
        self.bytes_since_snapshot = 0
        self.kraft_version = 0
        self._last_timestamp = 0
        self._fs = fs
        self._node_id = node_id
        self._directory_id = directory_id
        self._quorum_state = f"{log.directory}/{quorum_state.FILE_NAME}"

    @property
    def last_offset(self) -> int:
        return self.log.log_end_offset - 1

    @property
    def voter_directory_id(self) -> bytes:
        """Voters have directory ids since kraft.version 1 (KIP-853)."""
        return self._directory_id if self.kraft_version else ZERO_UUID

    def load(self, image: MetadataImage) -> MetadataDelta:
        """Bring `image` from nothing to the end of the log: the newest snapshot, and the log from there on."""
        replay = Replay(image, MetadataDelta())
        start = self.log.log_start_offset
        snapshot = latest_snapshot(self._fs, self.log.directory)
        if snapshot is not None and snapshot.end_offset >= start:
            for header, batch in snapshot.batches():
                replay.batch(header, batch)
            start = snapshot.end_offset
            if start > self.log.log_end_offset:
                raise MetadataError(f"{snapshot.path} is ahead of its log, which ends at {self.log.log_end_offset}")
        elif start > 0:
            raise MetadataError(f"{self.log.directory} begins at offset {start} and has no snapshot of what was before")
        while start < self.log.log_end_offset:
            read = self.log.read(start, _READ_BYTES, self.log.log_end_offset)
            if read is None:
                raise MetadataError(f"{self.log.directory} has nothing at offset {start}")
            for header, batch in iter_batches(read.records.read()):
                if header.base_offset >= start:  # snapshots end where a batch ends
                    replay.batch(header, batch)
                    self.bytes_since_snapshot += header.size
                start = header.next_offset
        self.kraft_version = replay.kraft_version
        return replay.delta

    def apply(self, messages: Iterable[Any], image: MetadataImage, delta: MetadataDelta) -> None:
        """Replay what was just appended."""
        replay = Replay(image, delta)
        for message in messages:
            replay.record(message)

    def lead(self, now: int) -> None:
        """Begin a new epoch with this node as its leader."""
        known = max(quorum_state.read_epoch(self._fs, self._quorum_state), self.log.epochs.latest or 0)
        self.epoch = known + 1
        quorum_state.write_leader(self._fs, self._quorum_state, self._node_id, self.epoch, self.kraft_version)
        # Version 1 has directory ids, but a 4.3 broker writes and reads version 0 whatever kraft.version is.
        voter = Voter(self._node_id)
        message = LeaderChangeMessage(0, self._node_id, [voter], [voter])
        builder = BatchBuilder(control=True)
        builder.append(_CONTROL_KEY.pack(0, ControlType.LEADER_CHANGE), message.encode(0), now)
        self._append(builder, now)

    def append(self, records: Iterable[ApiMessageAndVersion], now: int) -> int:
        """Write these as one batch; returns the offset of the last one."""
        builder = BatchBuilder()
        for record in records:
            builder.append(None, encode_record(record), now)
        return self._append(builder, now)

    def _append(self, builder: BatchBuilder, now: int) -> int:
        batch = builder.build()
        info = self.log.append(batch, now, leader_epoch=self.epoch, origin=Origin.RAFT_LEADER)
        self.bytes_since_snapshot += len(batch)
        self._last_timestamp = now
        return info.last_offset

    def write_snapshot(self, records: Iterable[ApiMessageAndVersion], now: int) -> None:
        """Keep what the log says so far as a snapshot, so that the next start reads on from here."""
        if self.kraft_version:
            return  # such a snapshot must also name the voters, which stand in the older one and in the log
        for segment in self.log.segments.starting_from(self.log.recovery_point):
            segment.log.handle().sync()  # a snapshot must never be ahead of its log
        end_offset = self.log.log_end_offset
        path = f"{self.log.directory}/{snapshot_name(end_offset, self.epoch)}"
        write_snapshot(
            self._fs,
            path,
            records,
            now=now,
            epoch=self.epoch,
            last_contained_log_timestamp=self._last_timestamp,
        )
        self.bytes_since_snapshot = 0
        remove_older_snapshots(self._fs, self.log.directory, end_offset)
