"""What an observer asks the leader of the quorum, and what of the answers it looks at.

Rule: nothing of the protocol is known beyond here: the metadata log is topic id 1 with one partition, answers without
it count as refusals.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pykafka_broker.cluster.raft.followed_log import FollowedLog
from pykafka_broker.cluster.snapshot import Voters
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.log.checkpoints import METADATA_TOPIC_ID
from pykafka_broker.peers import Address
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from pykafka_broker.protocol.messages.fetch_snapshot_request import (
    FetchSnapshotRequest,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)

_MAX_WAIT_MS = 500  # as Kafka has it, not configurable there either
_NOTHING = -1


class Download:
    """A snapshot of the leader's on its way."""

    def __init__(self, end_offset: int, epoch: int) -> None:
        self.end_offset = end_offset
        self.epoch = epoch
        self.data = bytearray()
        self._size = _NOTHING

    @property
    def whole(self) -> bool:
        return len(self.data) == self._size

    def add(self, part: SnapshotPart) -> bool:
        """Whether it goes on where the last one has ended."""
        if part.position != len(self.data) or not part.data or part.position + len(part.data) > part.size:
            return False
        self._size = part.size
        self.data += part.data
        return True


class FetchAnswer(NamedTuple):
    """`address` is that of the leader, where it is told. `diverging` is (epoch, end offset), `snapshot` (end offset,
    epoch).
    """

    error: ErrorCode
    leader_id: int = _NOTHING
    epoch: int = _NOTHING
    address: Address | None = None
    high_watermark: int = _NOTHING
    diverging: tuple[int, int] | None = None
    snapshot: tuple[int, int] | None = None
    records: Any = None


class SnapshotPart(NamedTuple):
    """Some bytes of a snapshot, which stand at `position` of `size`."""

    error: ErrorCode
    size: int = 0
    position: int = 0
    data: Any = b""


class Requests:
    """Those of one node."""

    def __init__(self, log: FollowedLog, config: BrokerConfig, cluster_id: str) -> None:
        self._log = log
        self._node_id = config.node
        self._cluster_id = cluster_id
        self._fetch_bytes = config.controller_quorum_fetch_max_bytes
        self._snapshot_bytes = config.controller_quorum_fetch_snapshot_max_bytes

    def fetch(self) -> FetchRequest:
        """From the end of the log on. The leader answers at once if its high watermark is a newer one."""
        log = self._log
        partition = FetchPartition(
            current_leader_epoch=log.epoch,
            fetch_offset=log.log.log_end_offset,
            last_fetched_epoch=log.last_epoch,
            replica_directory_id=log.directory_id,
            high_watermark=log.high_watermark,
        )
        return FetchRequest(
            cluster_id=self._cluster_id,
            replica_state=ReplicaState(self._node_id),
            max_wait_ms=_MAX_WAIT_MS,
            max_bytes=self._fetch_bytes,
            topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        )

    def fetch_snapshot(self, download: Download) -> FetchSnapshotRequest:
        """What comes after the bytes that are here."""
        log = self._log
        partition = PartitionSnapshot(
            current_leader_epoch=log.epoch,
            snapshot_id=SnapshotId(download.end_offset, download.epoch),
            position=len(download.data),
            replica_directory_id=log.directory_id,
        )
        return FetchSnapshotRequest(
            cluster_id=self._cluster_id,
            replica_id=self._node_id,
            max_bytes=self._snapshot_bytes,
            topics=[TopicSnapshot(CLUSTER_METADATA, [partition])],
        )


def voter_addresses(voters: Voters, listener: str) -> list[Address]:
    """Where the voters of a dynamic quorum listen, as the log tells (KIP-853)."""
    if voters.record is None:
        return []
    from pykafka_broker.protocol.stored.voters_record import VotersRecord  # there is none with kraft.version 0

    return [
        Address(end.host, end.port, listener)
        for voter in VotersRecord.decode(voters.record, 0).voters
        for end in voter.endpoints
        if end.name.upper() == listener
    ]


def read_fetch(response: Any, listener: str) -> FetchAnswer:
    """What a FetchResponse says of the metadata log; `listener` is the name of that of controllers."""
    data = next((each for topic in response.responses for each in topic.partitions), None)
    if response.error_code or data is None:
        return FetchAnswer(ErrorCode(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))
    leader = data.current_leader
    addresses = {each.node_id: Address(each.host, each.port, listener) for each in response.node_endpoints}
    diverging, snapshot = data.diverging_epoch, data.snapshot_id
    return FetchAnswer(
        ErrorCode(data.error_code),
        leader.leader_id,
        leader.leader_epoch,
        addresses.get(leader.leader_id),
        data.high_watermark,
        (diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
        (snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
        data.records,
    )


def read_snapshot(response: Any) -> SnapshotPart:
    """What a FetchSnapshotResponse brings."""
    data = next((each for topic in response.topics for each in topic.partitions), None)
    if response.error_code or data is None:
        return SnapshotPart(ErrorCode(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))
    return SnapshotPart(ErrorCode(data.error_code), data.size, data.position, data.unaligned_records)
