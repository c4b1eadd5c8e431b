"""An observer of the quorum: it finds the leader of `__cluster_metadata-0` and fetches the log from there (KIP-595).

Rule: one node is asked one thing at a time. While the leader is known only the leader is asked; otherwise every node
that may know the leader is asked, so that a silent node delays nobody. An epoch is on disk before other nodes hear of
it, and answers of an older epoch are not looked at.

The image holds committed records and nothing else, so a start begins with the newest snapshot and continues when the
leader has told the high watermark. Committed records are never cut off. A snapshot of the leader is written and synced
before the log begins anew behind it, so wherever a crash comes, either the old log or the snapshot is there.

The requests of the observer and its answers know the protocol: the metadata log is topic id 1 with one partition,
answers without it count as refusals. The only reader is in another layer (`broker`).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from pykafka_broker.addresses import address_text
from pykafka_broker.clock import Clock
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.metadata_log import (
    READ_BYTES,
    MetadataLog,
    Replay,
    read_quorum_epoch,
    write_quorum_leader,
)
from pykafka_broker.cluster.records import MetadataError
from pykafka_broker.cluster.snapshot import MetadataSnapshot, Voters, list_snapshots, snapshot_name
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.config.roles import Roles
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import METADATA_TOPIC_ID
from pykafka_broker.log.filesystem import FileSystem, write_file
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.scan import DamagedLog
from pykafka_broker.peers import Address, LinkError, Peer, Peers
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from pykafka_broker.protocol.messages.fetch_snapshot_request import (
    FetchSnapshotRequest,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.records.errors import CorruptBatch

logger = logging.getLogger(__name__)

_MAX_WAIT_MS = 500  # as Kafka has it, not configurable there either
_NOTHING = -1
_LONGEST_PAUSE_MS = 200  # between two questions to the same node
_LONGEST_SNAPSHOT_PAUSE_MS = 1_000  # after a snapshot that can't be installed: all of it is fetched again
_FETCH_VERSIONS = (15, 18)  # versions that name the replica in `replica_state`
_NOT_FOUND = (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)
_FOREIGN = (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


# -- the log as fetched


NO_LEADER = -1


class FollowedLog(MetadataLog):
    """The log fetched from a leader: `epoch` is the newest known, `high_watermark` the last that the leader told."""

    def __init__(
        self, log: PartitionLog, fs: FileSystem, node_id: int, directory_id: bytes, voters: Sequence[int]
    ) -> None:
        super().__init__(log, fs, node_id, directory_id)
        log.set_sole_replica(False)
        self.leader_id = NO_LEADER
        self.high_watermark = _NOTHING
        self._voter_ids = voters  # of kraft.version 0
        self._kept = (_NOTHING, NO_LEADER, 0)  # epoch, leader and kraft.version in quorum-state
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
        while self.snapshots and (newest := self.snapshots[-1]).end_offset > self.log.log_end_offset:
            try:  # a crash came between the snapshot and the log's new start
                newest.whole()
            except MetadataError as error:
                logger.error("%s; an older snapshot, or the log, is read instead", error)
                self.snapshots.pop()
            else:
                self.log.restart_at(newest.end_offset, 0)
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
        """Enter an epoch, on disk before any node hears of the epoch. Raises OSError: the disk refused."""
        version = self.voters.kraft_version
        if (epoch, leader_id, version) == self._kept:
            return
        write_quorum_leader(self._fs, self._quorum_state, leader_id, epoch, version, self._voter_ids)
        self._kept = epoch, leader_id, version
        self.epoch, self.leader_id = epoch, leader_id

    # -- what the leader has sent

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
                with contextlib.suppress(OSError):  # the next start tries again
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
            for header, batch in self.batches_of(read, self._read_end):
                replay.checked(log.directory, header, batch)
                self.bytes_since_snapshot += header.size
                self.last_timestamp = header.max_timestamp
                self._read_end = header.next_offset
                if not replay.in_transaction:
                    self._applied_end, self._applied_epoch = header.next_offset, header.partition_leader_epoch
        self.voters = replay.voters
        log.advance_high_watermark(self._read_end)
        return delta


# -- requests and answers


class Download:
    """A snapshot being fetched from the leader."""

    def __init__(self, end_offset: int, epoch: int) -> None:
        self.end_offset = end_offset
        self.epoch = epoch
        self.data = bytearray()
        self._size = _NOTHING

    @property
    def whole(self) -> bool:
        return len(self.data) == self._size

    def add(self, part: SnapshotPart) -> bool:
        """Add a part, and return whether the part follows the last."""
        if part.position != len(self.data) or not part.data or part.position + len(part.data) > part.size:
            return False
        self._size = part.size
        self.data += part.data
        return True


class FetchAnswer(NamedTuple):
    """The leader's answer to a fetch.

    `address` is the leader's, where it is told. `diverging` is (epoch, end offset), `snapshot` (end offset, epoch).
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
    """Some bytes of a snapshot, at `position` of `size`."""

    error: ErrorCode
    size: int = 0
    position: int = 0
    data: Any = b""


class Requests:
    def __init__(self, log: FollowedLog, config: BrokerConfig, cluster_id: str) -> None:
        self._log = log
        self._node_id = config.node
        self._cluster_id = cluster_id
        self._fetch_bytes = config.controller_quorum_fetch_max_bytes
        self._snapshot_bytes = config.controller_quorum_fetch_snapshot_max_bytes

    def fetch(self) -> FetchRequest:
        """Return a fetch from the end of the log on; a leader with a newer high watermark answers at once."""
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
        """Return a fetch of the snapshot's next bytes."""
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
    """Return the addresses of a dynamic quorum's voters, by the log (KIP-853)."""
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
    """Return what a FetchResponse says of the metadata log; `listener` is the name of the controllers' listener."""
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
    """Return the part of a snapshot in a FetchSnapshotResponse."""
    data = next((each for topic in response.topics for each in topic.partitions), None)
    if response.error_code or data is None:
        return SnapshotPart(ErrorCode(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))
    return SnapshotPart(ErrorCode(data.error_code), data.size, data.position, data.unaligned_records)


class Leader(NamedTuple):
    """The leader of the metadata log, and so the active controller."""

    id: int
    epoch: int
    address: Address


class ObserverListener(Protocol):
    def on_leader(self, leader: Leader | None) -> None:
        """Act on a new leader, or None for an unknown leader."""

    def on_progress(self) -> None:
        """Act on more committed records."""

    def on_snapshot(self) -> None:
        """Act on a log begun anew behind a snapshot of the leader."""

    def on_refusal(self, why: str) -> None:
        """Act on a refusal: the node can't be part of the cluster, or can't continue the log."""


class _Connection:
    """A connection to a node of the quorum."""

    def __init__(self, address: Address, peer: Peer) -> None:
        self.address = address
        self.peer = peer
        self.waits = False  # for an answer
        self.not_before = 0
        self.failures = 0
        self.closed = False


class Observer:
    """An observer of a quorum, for a single node; `leader` is None while unknown."""

    def __init__(
        self, log: FollowedLog, peers: Peers, clock: Clock, config: BrokerConfig, roles: Roles, cluster_id: str
    ) -> None:
        self.leader: Leader | None = None
        self._log = log
        self._peers = peers
        self._clock = clock
        self._roles = roles
        self._requests = Requests(log, config, cluster_id)
        self._client_id = f"raft-client-{config.node}"
        self._timeout_ms = config.controller_quorum_fetch_timeout_ms
        self._backoff_ms = config.controller_quorum_retry_backoff_ms
        self._listener = roles.bootstrap[0].listener if roles.bootstrap else "CONTROLLER"
        self._connections: dict[Address, _Connection] = {}
        self._lost: Leader | None = None  # the last one, while nobody is known
        self._download: Download | None = None
        self._follower: ObserverListener
        self._closed = False
        self._due: int | None = None
        self._warned_of: tuple[int, type[Exception]] | None = None  # the last failure, told once for all its attempts

    # -- life

    def start(self, follower: ObserverListener) -> None:
        """Begin to fetch."""
        self._follower = follower
        self._send_due()

    def close(self) -> None:
        """Stop fetching."""
        self._closed, self._due = True, None
        for connection in list(self._connections.values()):
            self._close_connection(connection)

    def next_deadline(self) -> int | None:
        return self._due

    def on_deadline(self, now: int) -> None:
        self._send_due()

    # -- asking

    def _send_due(self) -> None:
        self._due = None
        if self._closed:
            return
        for address in self._targets():
            connection = self._connections.get(address)
            if connection is None:
                connection = self._connections[address] = _Connection(
                    address, self._peers.open(address, self._client_id)
                )
            if not connection.waits and connection.not_before <= self._clock.now:
                self._send(connection)
            if not connection.waits and (self._due is None or connection.not_before < self._due):
                self._due = connection.not_before

    def _targets(self) -> list[Address]:
        if self.leader is not None:
            return [self.leader.address]
        known = [*self._roles.bootstrap, *voter_addresses(self._log.voters, self._listener)]
        if self._lost is not None:
            known.append(self._lost.address)
        return list(dict.fromkeys(known))

    def _send(self, connection: _Connection) -> None:
        connection.waits = True
        if self._download is not None and self.leader is not None:
            request = self._requests.fetch_snapshot(self._download)
            answered = partial(self._on_snapshot_part, connection, self._download)
            connection.peer.send(request, answered, self._timeout_ms)
        else:
            answered = partial(self._on_fetch, connection, self._log.log.log_end_offset)
            connection.peer.send(self._requests.fetch(), answered, self._timeout_ms, versions=_FETCH_VERSIONS)

    def _answered(self, connection: _Connection) -> bool:
        """Take note of an answer, and return whether the answer is still wanted."""
        connection.waits = False
        return not connection.closed and not self._closed

    def _pause(self, connection: _Connection, longest_ms: int = _LONGEST_PAUSE_MS) -> None:
        connection.failures += 1
        pause = min(self._backoff_ms * connection.failures, longest_ms)
        connection.not_before = self._clock.now + pause

    def _warn(self, offset: int, text: str, error: Exception) -> None:
        """Log a failure about an offset of the log: a warning the first time, for debugging afterwards."""
        failure = (offset, type(error))
        logger.log(logging.DEBUG if failure == self._warned_of else logging.WARNING, text, offset, error)
        self._warned_of = failure

    def _close_connection(self, connection: _Connection) -> None:
        del self._connections[connection.address]
        connection.closed = True
        connection.peer.close()

    # -- answers

    def _on_fetch(self, connection: _Connection, asked_at: int, reply: Message | LinkError) -> None:
        if not self._answered(connection):
            return
        if isinstance(reply, LinkError):
            self._failed(connection, str(reply))
        else:
            answer = read_fetch(reply, self._listener)
            self._learn(connection, answer)
            if answer.error in _FOREIGN:
                where = address_text(connection.address.host, connection.address.port)
                self._follower.on_refusal(f"{where} answers {answer.error.name}")
                self._pause(connection)
            elif answer.error is not ErrorCode.NONE:
                self._refused(connection, answer)
            elif answer.epoch == self._log.epoch and asked_at == self._log.log.log_end_offset:
                self._follow(connection, answer)
        self._send_due()

    def _refused(self, connection: _Connection, answer: FetchAnswer) -> None:
        """Handle an answer from a node without the lead, or without the lead in the epoch."""
        leads = self.leader is not None and self.leader.address == connection.address
        if leads and answer.error is ErrorCode.FENCED_LEADER_EPOCH:
            return  # the answer has told the epoch of its lead
        self._pause(connection)
        if leads:
            self._leader_lost(answer.error.name)

    def _failed(self, connection: _Connection, why: str) -> None:
        self._pause(connection)
        if self.leader is not None and self.leader.address == connection.address:
            self._leader_lost(why)

    # -- who leads

    def _learn(self, connection: _Connection, answer: FetchAnswer) -> None:
        """Learn epoch and leader from an answer."""
        log = self._log
        leader_id = answer.leader_id
        if answer.epoch < log.epoch or answer.epoch < 0 or (answer.epoch == log.epoch and leader_id == NO_LEADER):
            return
        if answer.epoch > log.epoch and self.leader is not None:
            self._leader_lost(f"epoch {answer.epoch} has begun")
        leads = answer.error is ErrorCode.NONE
        try:
            log.enter(answer.epoch, leader_id)
        except OSError as error:
            self._follower.on_refusal(f"the epoch of the quorum can't be kept: {error}")
            return
        if self.leader is not None or leader_id == NO_LEADER:
            return
        address = answer.address or self._roles.voters.get(leader_id) or (connection.address if leads else None)
        lost = self._lost
        if address is None or (lost is not None and not leads and (lost.id, lost.epoch) == (leader_id, answer.epoch)):
            return  # other nodes don't know yet that this leader is lost
        self._enter_leader(Leader(leader_id, answer.epoch, address))

    def _enter_leader(self, leader: Leader) -> None:
        logger.info("node %d at %s:%d leads the quorum, epoch %d", leader.id, *leader.address[:2], leader.epoch)
        self.leader, self._lost = leader, None
        for connection in list(self._connections.values()):
            if connection.address != leader.address:
                self._close_connection(connection)
            else:
                connection.not_before = 0
        self._follower.on_leader(leader)

    def _leader_lost(self, why: str) -> None:
        logger.info("the leader of the quorum is unknown: %s", why)
        self._lost, self.leader, self._download = self.leader, None, None
        self._follower.on_leader(None)

    # -- the log

    def _follow(self, connection: _Connection, answer: FetchAnswer) -> None:
        """Follow the leader's answer."""
        log = self._log
        try:
            if answer.snapshot is not None:
                self._download = Download(*answer.snapshot)
            elif answer.diverging is not None:
                log.truncate_to(*answer.diverging)
            elif answer.records:
                log.log.append_fetched(answer.records, self._clock.wall, leader_epoch=answer.epoch)
            if answer.snapshot is None:  # else a snapshot that can't be installed would be fetched without a pause
                connection.failures = 0
            connection.not_before = 0
        except (MetadataError, DamagedLog) as error:
            self._follower.on_refusal(str(error))
            self._pause(connection)
        except (CorruptBatch, ApiError, OSError) as error:
            self._warn(log.log.log_end_offset, "records fetched from offset %d of the metadata log on: %s", error)
            self._pause(connection)
        is_compared = answer.snapshot is None and answer.diverging is None  # with the history of the leader
        if is_compared and log.raise_high_watermark(answer.high_watermark):
            self._follower.on_progress()

    def _on_snapshot_part(self, connection: _Connection, download: Download, reply: Message | LinkError) -> None:
        if not self._answered(connection):
            return
        if isinstance(reply, LinkError):
            self._failed(connection, str(reply))
        elif download is self._download:
            part = read_snapshot(reply)
            if part.error is ErrorCode.NONE and download.add(part):
                connection.not_before = 0
                if download.whole:
                    self._install(connection, download)
            else:
                self._download = None
                if part.error in _NOT_FOUND or part.error is ErrorCode.NONE:
                    self._pause(connection)  # the next fetch names the present snapshot
                else:
                    self._failed(connection, part.error.name)
        self._send_due()

    def _install(self, connection: _Connection, download: Download) -> None:
        self._download = None
        try:
            self._log.install(download.end_offset, download.epoch, bytes(download.data), self._clock.wall)
        except (MetadataError, DamagedLog, ApiError, OSError) as error:
            self._warn(download.end_offset, "The snapshot of the metadata up to %d is not used: %s", error)
            self._pause(connection, _LONGEST_SNAPSHOT_PAUSE_MS)
            return
        connection.failures = 0
        logger.info("The metadata begins with the leader's snapshot up to %d", download.end_offset)
        self._log.raise_high_watermark(download.end_offset)
        self._follower.on_snapshot()
