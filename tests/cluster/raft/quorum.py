"""A quorum in one process: nodes that answer as Kafka's controllers do, and an observer of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pykafka_broker.clock import Clock
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.raft.observer import FollowedLog, Leader, Observer
from pykafka_broker.cluster.records import ApiMessageAndVersion, MetadataError, encode_record
from pykafka_broker.cluster.snapshot import Voters, control_batch, snapshot_pieces
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.roles import roles_of
from pykafka_broker.log.log_directory import LogDirectory
from pykafka_broker.log.manager import LogManager
from pykafka_broker.peers import Address, LinkBroken, LinkError, OnReply, Peer, Versions
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from pykafka_broker.protocol.messages.fetch_snapshot_response import (
    FetchSnapshotResponse,
    PartitionSnapshot,
    TopicSnapshot,
)
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.protocol.stored.leader_change_message import LeaderChangeMessage
from pykafka_broker.protocol.stored.voters_record import Endpoint, VotersRecord
from pykafka_broker.protocol.stored.voters_record import Voter as KnownVoter
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.control import ControlType
from tests.broker.api.real_broker import UnsyncedFileSystem

NOW = 1_700_000_000_000
FS = UnsyncedFileSystem()
CLUSTER_ID = "IN1VHhjRQ5aA0T9ZC9Y9Kg"


def feature(level: int, name: str = "f") -> Any:
    return FeatureLevelRecord(name, level)


class Voter:
    """A controller: the records in its log, and the leader that it believes in."""

    def __init__(self, node_id: int) -> None:
        self.id = node_id
        self.address = Address("127.0.0.1", 9000 + node_id, "CONTROLLER")
        self.alive = True
        self.leader_id = node_id
        self.epoch = 1
        self.batches: list[tuple[int, int, bytes]] = []  # (base offset, epoch, bytes)
        self.end = 0
        self.high_watermark = 0
        self.snapshot: tuple[int, int, bytes] | None = None
        self.chunk = 1 << 20
        self.refuses: ErrorCode | None = None
        self.asked: list[Any] = []

    def lead(self, epoch: int) -> None:
        self.leader_id, self.epoch = self.id, epoch
        value = LeaderChangeMessage(0, self.id).encode(0)
        self._put(control_batch([(ControlType.LEADER_CHANGE, value)], NOW, offset=self.end, epoch=epoch), 1)

    def append(self, *messages: Any) -> None:
        """Append the messages as one batch, which is committed at once."""
        self.append_versioned(*((message, 0) for message in messages))

    def append_versioned(self, *records: tuple[Any, int]) -> None:
        """Append messages with the given versions as one batch, which is committed at once."""
        builder = BatchBuilder(base_offset=self.end, partition_leader_epoch=self.epoch)
        for record in records:
            builder.append(None, encode_record(ApiMessageAndVersion(*record)), NOW)
        self._put(builder.build(), len(records))
        self.high_watermark = self.end

    def append_voters(self, ids: list[int]) -> None:
        """Append the records of a dynamic quorum of these voters."""
        voters = [KnownVoter(each, bytes(16), [Endpoint("CONTROLLER", "127.0.0.1", 9000 + each)]) for each in ids]
        records = Voters(1, VotersRecord(0, voters).encode(0)).control_records()
        self._put(control_batch(records, NOW, offset=self.end, epoch=self.epoch), len(records))
        self.high_watermark = self.end

    def _put(self, batch: bytearray, count: int) -> None:
        self.batches.append((self.end, self.epoch, bytes(batch)))
        self.end += count

    def take_snapshot(self, *messages: Any) -> None:
        """Replace the log by a snapshot of `messages` that ends where the log ends."""
        data = b"".join(snapshot_pieces([ApiMessageAndVersion(message, 0) for message in messages], now=NOW))
        self.snapshot = self.end, self.epoch, data
        self.batches = []

    def answer(self, request: Any) -> Message:
        self.asked.append(request)
        if isinstance(request, FetchRequest):
            return self._fetched(request)
        return self._part(request.topics[0].partitions[0])

    def _fetched(self, request: FetchRequest) -> FetchResponse:
        if self.refuses is not None:
            return FetchResponse(error_code=self.refuses)
        wanted = request.topics[0].partitions[0]
        data = PartitionData(current_leader=LeaderIdAndEpoch(self.leader_id, self.epoch), high_watermark=-1)
        if self.leader_id != self.id:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif wanted.current_leader_epoch < self.epoch:
            data.error_code = ErrorCode.FENCED_LEADER_EPOCH
        else:
            self._serve(wanted, data)
        ends = [NodeEndpoint(self.leader_id, "127.0.0.1", 9000 + self.leader_id)] if self.leader_id > 0 else []
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[data])], node_endpoints=ends)

    def _serve(self, wanted: Any, data: PartitionData) -> None:
        data.high_watermark = self.high_watermark
        start = self.batches[0][0] if self.batches else self.end
        if wanted.fetch_offset < start and self.snapshot is not None:
            data.snapshot_id = SnapshotId(*self.snapshot[:2])
            return
        ends = [base for base, epoch, _ in self.batches if epoch > wanted.last_fetched_epoch]
        end = min([*ends, self.end])
        last = wanted.last_fetched_epoch
        known = max([epoch for _, epoch, _ in self.batches if epoch <= last], default=last)
        if known < last or (wanted.fetch_offset > end and last < self.epoch):
            data.diverging_epoch = EpochEndOffset(known, end)
            return
        data.records = b"".join(batch for base, _, batch in self.batches if base >= wanted.fetch_offset)

    def _part(self, wanted: Any) -> FetchSnapshotResponse:
        part = PartitionSnapshot(0)
        if self.snapshot is None or wanted.snapshot_id.end_offset != self.snapshot[0]:
            part.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        else:
            data = self.snapshot[2]
            part.size, part.position = len(data), wanted.position
            part.unaligned_records = data[wanted.position : wanted.position + self.chunk]
        return FetchSnapshotResponse(topics=[TopicSnapshot("__cluster_metadata", [part])])


class Line:
    """A connection; an answer arrives when the test lets the network bring it."""

    def __init__(self, network: Network, address: Address) -> None:
        self.network = network
        self.address = address
        self.closed = False

    def send(
        self,
        request: Message,
        on_reply: OnReply,
        timeout_ms: int,
        *,
        versions: Versions | None = None,
        copied: bool = False,
    ) -> None:
        self.network.waiting.append((self, request, on_reply))

    def withdraw(self, request: Message) -> bool:
        return False

    def served(self, api_key: int) -> Versions | None:
        return None

    def close(self) -> None:
        self.closed = True


class Network:
    """A network that brings each request to its node, and the answer back."""

    def __init__(self, nodes: dict[Address, Callable[[Any], Message]], is_up: Callable[[Address], bool]) -> None:
        self.nodes = nodes
        self.is_up = is_up
        self.waiting: list[tuple[Line, Any, OnReply]] = []
        self.opened: list[tuple[Address, str]] = []

    def open(self, address: Address, client_id: str) -> Peer:
        self.opened.append((address, client_id))
        return Line(self, address)

    def bring(self) -> int:
        """Bring the answers to all requests sent so far; return their number."""
        waiting, self.waiting = self.waiting, []
        for line, request, on_reply in waiting:
            on_reply(self._answer(line, request))
        return len(waiting)

    def _answer(self, line: Line, request: Any) -> Message | LinkError:
        if line.closed or line.address not in self.nodes or not self.is_up(line.address):
            return LinkBroken("gone")
        return self.nodes[line.address](request)


class ObservedQuorum:
    """Voters 1 to `voters`, and a node that observes them."""

    def __init__(self, directory: Path, voters: int = 1, **settings: str) -> None:
        self.voters = [Voter(number) for number in range(1, voters + 1)]
        self.network = Network(
            {voter.address: voter.answer for voter in self.voters},
            lambda address: self.voters[address.port - 9001].alive,
        )
        self.settings = {key.replace("_", "."): value for key, value in settings.items()}
        self.directory = directory
        self.clock = Clock(NOW)
        self.leaders: list[Leader | None] = []
        self.refusals: list[str] = []
        self.deltas: list[MetadataDelta] = []
        self.snapshots = 0
        self.voters[0].lead(1)
        self.voters[0].high_watermark = 1
        for voter in self.voters[1:]:
            voter.leader_id = 1
        self.open()

    def open(self) -> None:
        """Start the node."""
        ids = itertools.count(1)
        servers = ",".join(f"{voter.id}@127.0.0.1:{voter.address.port}" for voter in self.voters)
        config = BrokerConfig(
            {
                "log.dirs": str(self.directory),
                "node.id": "7",
                "process.roles": "broker",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": servers,
                **self.settings,
            }
        )
        self.logs = LogManager(FS, config, clock=self.clock, new_uuid=lambda: next(ids).to_bytes(16, "big"))
        self.logs.start(self.clock.now)
        self.image = MetadataImage()
        self.log = FollowedLog(self.logs.metadata_log(NOW), FS, 7, b"d" * 16, [voter.id for voter in self.voters])
        self.loaded = self.log.load(self.image)
        self.observer = Observer(self.log, self.network, self.clock, config, roles_of(config), CLUSTER_ID)

    @property
    def leader(self) -> Voter:
        return self.voters[0]

    @property
    def directories(self) -> list[LogDirectory]:
        return self.logs.partition_directories

    def start(self) -> None:
        self.observer.start(self)

    def restart(self) -> None:
        self.observer.close()
        self.network.waiting.clear()
        self.logs.shutdown(self.clock.now)
        self.open()
        self.start()

    def run(self, rounds: int = 8) -> None:
        """Bring requests and answers, and let time pass whenever nobody is waited for."""
        for _ in range(rounds):
            due = self.observer.next_deadline()
            if due is not None:
                self.clock.set(max(self.clock.now, due))
                self.observer.on_deadline(self.clock.now)
            self.network.bring()

    # -- the follower

    def on_leader(self, leader: Leader | None) -> None:
        self.leaders.append(leader)

    def on_progress(self) -> None:
        self.deltas.append(self.log.apply_committed())

    def on_snapshot(self) -> None:
        self.snapshots += 1
        self.image = MetadataImage()
        try:
            self.log.replace(self.image)
        except MetadataError as error:
            self.refusals.append(str(error))

    def on_refusal(self, why: str) -> None:
        self.refusals.append(why)
