"""The leader's answers to nodes that follow the metadata log (KIP-595): Fetch v4-v18, FetchSnapshot v0-v1.

Rule: only committed records are given, those that the single voter has synced, so no observer ever has to give anything
back. A node in another epoch is told the leader and its epoch; a node with another history, where it parts from this
log; a node that needs records no longer in the log, which snapshot to fetch instead. Versions of Fetch: 12 epochs of
the last fetched records, 13 topics by id, 16 addresses, 18 the high watermark that the observer knows: a higher one is
answered at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pykafka_broker.cluster.metadata_log import MetadataLog
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import METADATA_TOPIC_ID
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.peers import Address
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import fetch_snapshot_response as snapshots
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest
from pykafka_broker.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from pykafka_broker.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest, PartitionSnapshot

_IDS_FROM = 13
_REPLICA_STATE_FROM = 15
_EPOCHS_FROM = 12
_ADDRESSES_FROM = 16
_SNAPSHOT_ADDRESSES_FROM = 1
_MOST_BYTES = 8 << 20  # of one answer
_FORGOTTEN_AFTER_MS = 300_000
_NOBODY = -1


class ObserverState(NamedTuple):
    """A fetching node, for DescribeQuorum, in wall clock times. leader_end: the log's end at the last fetch."""

    id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch: int
    last_caught_up: int
    leader_end: int


class RaftLeader:
    """The leader of a quorum with a single voter; `endpoints` are the node's controller listeners."""

    def __init__(
        self, log: MetadataLog, fs: FileSystem, *, node_id: int, cluster_id: str, endpoints: Sequence[Address]
    ) -> None:
        self._log = log
        self._fs = fs
        self._node_id = node_id
        self._cluster_id = cluster_id
        self.endpoints = tuple(endpoints)
        self._observers: dict[tuple[int, bytes], ObserverState] = {}

    @property
    def epoch(self) -> int:
        return self._log.epoch

    @property
    def high_watermark(self) -> int:
        return self._log.log.recovery_point

    def endpoint(self, listener: str) -> Address:
        """Return the address of the node on the listener, or on the first listener."""
        return next((each for each in self.endpoints if each.listener == listener), self.endpoints[0])

    def check_cluster(self, cluster_id: str | None) -> None:
        """Check the cluster id of a request; a request without an id is believed. Raises INCONSISTENT_CLUSTER_ID."""
        if cluster_id is not None and cluster_id != self._cluster_id:
            raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID)

    def epoch_error(self, epoch: int) -> ErrorCode:
        """Return the error of a request with the epoch; NONE if current."""
        if epoch < self._log.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > self._log.epoch else ErrorCode.NONE

    # -- Fetch

    def fetch(self, request: FetchRequest, version: int, listener: str, wall: int) -> FetchResponse | None:
        """Return the answer, or None for nothing new yet.

        Before version 12 a request says nothing of epochs, and none is answered.

        Raises:
            ApiError: the whole request is wrong.
        """
        self.check_cluster(request.cluster_id)
        wanted = _partition_of(request, version)
        answer = self._empty()
        if wanted.fetch_offset < 0 or not 0 <= wanted.last_fetched_epoch <= wanted.current_leader_epoch:
            answer.error_code = ErrorCode.INVALID_REQUEST
        else:
            answer.error_code = self.epoch_error(wanted.current_leader_epoch)
        if answer.error_code:
            answer.high_watermark = -1
            return self._answer(answer, version, listener)
        if self._is_elsewhere(wanted, answer):
            return self._answer(answer, version, listener)
        replica = request.replica_state.replica_id if version >= _REPLICA_STATE_FROM else request.replica_id
        if replica != _NOBODY:
            self._heard(replica, wanted, wall)
        limit = max(1, min(request.max_bytes, _MOST_BYTES))
        read = self._log.log.read(wanted.fetch_offset, limit, self.high_watermark)
        if read is not None:
            answer.records = read.records
        elif self.high_watermark <= wanted.high_watermark:
            return None
        return self._answer(answer, version, listener)

    def nothing_new(self, version: int, listener: str) -> FetchResponse:
        """Return the answer after the wait."""
        return self._answer(self._empty(), version, listener)

    def _empty(self) -> PartitionData:
        return PartitionData(
            0,
            high_watermark=self.high_watermark,
            log_start_offset=self._log.log.log_start_offset,
            current_leader=LeaderIdAndEpoch(self._node_id, self._log.epoch),
            records=b"",
        )

    def _is_elsewhere(self, wanted: FetchPartition, answer: PartitionData) -> bool:
        """Return whether the wanted offset is not in the log; the answer tells where to continue."""
        log, offset, epoch = self._log.log, wanted.fetch_offset, wanted.last_fetched_epoch
        newest = self._log.snapshots[-1] if self._log.snapshots else None
        if newest is not None and (offset < log.log_start_offset or offset == 0 < newest.end_offset):
            answer.snapshot_id = SnapshotId(newest.end_offset, newest.epoch)
            return True
        if offset == 0 and epoch <= 0:
            return False
        known, end = log.epochs.led_end_offset_for(epoch, log.log_end_offset)
        if known == epoch and offset <= end:
            return False
        answer.diverging_epoch = EpochEndOffset(known, end)
        return True

    def _answer(self, partition: PartitionData, version: int, listener: str) -> FetchResponse:
        topic = FetchableTopicResponse(partitions=[partition])
        if version >= _IDS_FROM:
            topic.topic_id = METADATA_TOPIC_ID
        else:
            topic.topic = CLUSTER_METADATA
        if version < _EPOCHS_FROM:
            partition.current_leader = LeaderIdAndEpoch()
        if version < _ADDRESSES_FROM:
            return FetchResponse(responses=[topic])
        address = self.endpoint(listener)
        node = NodeEndpoint(self._node_id, address.host, address.port)
        return FetchResponse(responses=[topic], node_endpoints=[node])

    # -- FetchSnapshot

    def fetch_snapshot(
        self, request: FetchSnapshotRequest, version: int, listener: str
    ) -> snapshots.FetchSnapshotResponse:
        """Return a piece of a snapshot, for a request about one partition. Raises ApiError: the request is wrong."""
        self.check_cluster(request.cluster_id)
        if [len(topic.partitions) for topic in request.topics] != [1]:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        name, wanted = request.topics[0].name, request.topics[0].partitions[0]
        if (name, wanted.partition) == (CLUSTER_METADATA, 0):
            piece = self._piece(wanted, request.max_bytes)
        else:
            piece = snapshots.PartitionSnapshot(
                wanted.partition,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                snapshots.SnapshotId(),
                snapshots.LeaderIdAndEpoch(),
            )
        topics = [snapshots.TopicSnapshot(name, [piece])]
        if version < _SNAPSHOT_ADDRESSES_FROM:
            return snapshots.FetchSnapshotResponse(topics=topics)
        address = self.endpoint(listener)
        node = snapshots.NodeEndpoint(self._node_id, address.host, address.port)
        return snapshots.FetchSnapshotResponse(topics=topics, node_endpoints=[node])

    def _piece(self, wanted: PartitionSnapshot, max_bytes: int) -> snapshots.PartitionSnapshot:
        wanted_id = wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch
        answer = snapshots.PartitionSnapshot(
            0,
            self.epoch_error(wanted.current_leader_epoch),
            snapshots.SnapshotId(*wanted_id),
            snapshots.LeaderIdAndEpoch(self._node_id, self._log.epoch),
            position=wanted.position,
        )
        if answer.error_code:
            return answer
        found = [each for each in self._log.snapshots if (each.end_offset, each.epoch) == wanted_id]
        if not found:
            answer.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
            return answer
        handle = self._fs.open(found[0].path, writable=False)
        size = handle.size()
        if not 0 <= wanted.position < size:
            answer.error_code = ErrorCode.POSITION_OUT_OF_RANGE
            return answer
        answer.size = size
        answer.unaligned_records = handle.read_at(max(1, min(max_bytes, _MOST_BYTES)), wanted.position)
        return answer

    # -- who observes

    def _heard(self, replica: int, wanted: FetchPartition, wall: int) -> None:
        key = replica, bytes(wanted.replica_directory_id)
        end = self._log.log.log_end_offset
        before = self._observers.get(key)
        caught_up = -1
        if wanted.fetch_offset >= end:
            caught_up = wall
        elif before is not None:
            caught_up = before.last_fetch if wanted.fetch_offset >= before.leader_end else before.last_caught_up
        self._observers[key] = ObserverState(*key, wanted.fetch_offset, wall, caught_up, end)

    def observers(self, wall: int) -> list[ObserverState]:
        """Return the observers heard of in the last five minutes."""
        for key in [key for key, each in self._observers.items() if each.last_fetch + _FORGOTTEN_AFTER_MS <= wall]:
            del self._observers[key]
        return list(self._observers.values())


def _partition_of(request: FetchRequest, version: int) -> FetchPartition:
    """Return the metadata's only partition in a request. Raises INVALID_REQUEST for any other content."""
    if len(request.topics) == 1 and len(request.topics[0].partitions) == 1:
        topic = request.topics[0]
        is_it = topic.topic_id == METADATA_TOPIC_ID if version >= _IDS_FROM else topic.topic == CLUSTER_METADATA
        wanted = topic.partitions[0]
        if is_it and wanted.partition == 0:
            return wanted
    raise ApiError(ErrorCode.INVALID_REQUEST)
