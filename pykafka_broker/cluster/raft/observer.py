"""An observer of the quorum: it finds who leads `__cluster_metadata-0` and fetches the log from there (KIP-595).

Rule: one node is asked one thing at a time. While the leader is known only it is asked; while it is not, everybody who
may know is, so that one that is silent holds nobody up. An epoch is on disk before it is told to others, and answers
that speak of an older one are not looked at.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import NamedTuple, Protocol

from pykafka_broker.clock import Clock
from pykafka_broker.cluster.raft.followed_log import NO_LEADER, FollowedLog
from pykafka_broker.cluster.raft.observer_requests import (
    Download,
    FetchAnswer,
    Requests,
    read_fetch,
    read_snapshot,
    voter_addresses,
)
from pykafka_broker.cluster.records import MetadataError
from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.config.roles import Roles
from pykafka_broker.errors import ApiError
from pykafka_broker.peers import Address, LinkError, Peer, Peers
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.records.errors import CorruptBatch

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_MS = 200  # between two questions to the same node
_FETCH_VERSIONS = (15, 18)  # those that name the replica in `replica_state`
_NOT_FOUND = (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)
_FOREIGN = (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class Leader(NamedTuple):
    """Who leads the metadata log, and so is the active controller."""

    id: int
    epoch: int
    address: Address


class Follower(Protocol):
    """Whoever the observer works for."""

    def on_leader(self, leader: Leader | None) -> None:
        """Another one leads, or nobody knows who."""

    def on_progress(self) -> None:
        """More is committed than before."""

    def on_snapshot(self) -> None:
        """The log has begun anew behind a snapshot of the leader's."""

    def on_refusal(self, why: str) -> None:
        """This node can't be part of that cluster, or the log can't be gone on with."""


class _Line:
    """A node that is asked."""

    def __init__(self, address: Address, peer: Peer) -> None:
        self.address = address
        self.peer = peer
        self.waits = False  # for an answer
        self.not_before = 0
        self.failures = 0
        self.closed = False


class Observer:
    """Of one quorum, for one node. `leader` is known or not."""

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
        self._lines: dict[Address, _Line] = {}
        self._lost: Leader | None = None  # the last one, while nobody is known
        self._download: Download | None = None
        self._follower: Follower
        self._closed = False
        self._due: int | None = None
        self._trouble_at: int | None = None  # with what came from that offset on: it is not told at every attempt

    # -- life

    def start(self, follower: Follower) -> None:
        """Begin to ask."""
        self._follower = follower
        self._go_on()

    def close(self) -> None:
        """Ask nobody any more."""
        self._closed, self._due = True, None
        for line in list(self._lines.values()):
            self._hang_up(line)

    def next_deadline(self) -> int | None:
        """When somebody is to be asked again."""
        return self._due

    def on_deadline(self, now: int) -> None:
        """Ask those whose time has come."""
        self._go_on()

    # -- asking

    def _go_on(self) -> None:
        self._due = None
        if self._closed:
            return
        for address in self._whom():
            line = self._lines.get(address)
            if line is None:
                line = self._lines[address] = _Line(address, self._peers.open(address, self._client_id))
            if not line.waits and line.not_before <= self._clock.now:
                self._ask(line)
            if not line.waits and (self._due is None or line.not_before < self._due):
                self._due = line.not_before

    def _whom(self) -> list[Address]:
        if self.leader is not None:
            return [self.leader.address]
        known = [*self._roles.bootstrap, *voter_addresses(self._log.voters, self._listener)]
        if self._lost is not None:
            known.append(self._lost.address)
        return list(dict.fromkeys(known))

    def _ask(self, line: _Line) -> None:
        line.waits = True
        if self._download is not None and self.leader is not None:
            request = self._requests.fetch_snapshot(self._download)
            answered = partial(self._on_snapshot_part, line, self._download)
            line.peer.send(request, answered, self._timeout_ms)
        else:
            answered = partial(self._on_fetch, line, self._log.log.log_end_offset)
            line.peer.send(self._requests.fetch(), answered, self._timeout_ms, versions=_FETCH_VERSIONS)

    def _answered(self, line: _Line) -> bool:
        """Whether anybody still wants to know."""
        line.waits = False
        return not line.closed and not self._closed

    def _pause(self, line: _Line) -> None:
        line.failures += 1
        pause = min(self._backoff_ms * line.failures, _LONGEST_PAUSE_MS)
        line.not_before = self._clock.now + pause

    def _hang_up(self, line: _Line) -> None:
        del self._lines[line.address]
        line.closed = True
        line.peer.close()

    # -- answers

    def _on_fetch(self, line: _Line, asked_at: int, reply: Message | LinkError) -> None:
        if not self._answered(line):
            return
        if isinstance(reply, LinkError):
            self._failed(line, str(reply))
        else:
            answer = read_fetch(reply, self._listener)
            self._learn(line, answer)
            if answer.error in _FOREIGN:
                self._follower.on_refusal(f"{line.address.host}:{line.address.port} answers {answer.error.name}")
                self._pause(line)
            elif answer.error is not ErrorCode.NONE:
                self._refused(line, answer)
            elif answer.epoch == self._log.epoch and asked_at == self._log.log.log_end_offset:
                line.failures = line.not_before = 0
                self._follow(line, answer)
        self._go_on()

    def _refused(self, line: _Line, answer: FetchAnswer) -> None:
        """It does not lead, or not in that epoch."""
        leads = self.leader is not None and self.leader.address == line.address
        if leads and answer.error is ErrorCode.FENCED_LEADER_EPOCH:
            return  # it has told the epoch in which it does
        self._pause(line)
        if leads:
            self._lose(answer.error.name)

    def _failed(self, line: _Line, why: str) -> None:
        self._pause(line)
        if self.leader is not None and self.leader.address == line.address:
            self._lose(why)

    # -- who leads

    def _learn(self, line: _Line, answer: FetchAnswer) -> None:
        """What an answer says of the epoch and its leader."""
        log = self._log
        leader_id = answer.leader_id
        if answer.epoch < log.epoch or answer.epoch < 0 or (answer.epoch == log.epoch and leader_id == NO_LEADER):
            return
        if answer.epoch > log.epoch and self.leader is not None:
            self._lose(f"epoch {answer.epoch} has begun")
        leads = answer.error is ErrorCode.NONE
        try:
            log.enter(answer.epoch, leader_id)
        except OSError as error:
            self._follower.on_refusal(f"the epoch of the quorum can't be kept: {error}")
            return
        if self.leader is not None or leader_id == NO_LEADER:
            return
        address = answer.address or self._roles.voters.get(leader_id) or (line.address if leads else None)
        lost = self._lost
        if address is None or (lost is not None and not leads and (lost.id, lost.epoch) == (leader_id, answer.epoch)):
            return  # others don't know yet that it is gone
        self._found(Leader(leader_id, answer.epoch, address))

    def _found(self, leader: Leader) -> None:
        logger.info("node %d at %s:%d leads the quorum, epoch %d", leader.id, *leader.address[:2], leader.epoch)
        self.leader, self._lost = leader, None
        for line in list(self._lines.values()):
            if line.address != leader.address:
                self._hang_up(line)
            else:
                line.not_before = 0
        self._follower.on_leader(leader)

    def _lose(self, why: str) -> None:
        logger.info("nobody knows who leads the quorum: %s", why)
        self._lost, self.leader, self._download = self.leader, None, None
        self._follower.on_leader(None)

    # -- the log

    def _follow(self, line: _Line, answer: FetchAnswer) -> None:
        """What the leader says."""
        log = self._log
        try:
            if answer.snapshot is not None:
                self._download = Download(*answer.snapshot)
                return
            if answer.diverging is not None:
                log.truncate_to(*answer.diverging)
            elif answer.records:
                log.take(answer.records, self._clock.wall)
        except MetadataError as error:
            self._follower.on_refusal(str(error))
            self._pause(line)
        except (CorruptBatch, ApiError, OSError) as error:
            offset = log.log.log_end_offset
            level = logging.DEBUG if self._trouble_at == offset else logging.WARNING
            logger.log(level, "what came from offset %d of the metadata log on: %s", offset, error)
            self._trouble_at = offset
            self._pause(line)
        if log.raise_high_watermark(answer.high_watermark):
            self._follower.on_progress()

    def _on_snapshot_part(self, line: _Line, download: Download, reply: Message | LinkError) -> None:
        if not self._answered(line):
            return
        if isinstance(reply, LinkError):
            self._failed(line, str(reply))
        elif download is self._download:
            part = read_snapshot(reply)
            if part.error is ErrorCode.NONE and download.add(part):
                line.failures = line.not_before = 0
                if download.whole:
                    self._install(line, download)
            else:
                self._download = None
                if part.error in _NOT_FOUND or part.error is ErrorCode.NONE:
                    self._pause(line)  # a fetch tells of the one that is there now
                else:
                    self._failed(line, part.error.name)
        self._go_on()

    def _install(self, line: _Line, download: Download) -> None:
        self._download = None
        try:
            self._log.install(download.end_offset, download.epoch, bytes(download.data), self._clock.wall)
        except (MetadataError, ApiError, OSError) as error:
            logger.warning("The snapshot of the metadata up to %d is not used: %s", download.end_offset, error)
            self._pause(line)
            return
        logger.info("The metadata begins with the leader's snapshot up to %d", download.end_offset)
        self._log.raise_high_watermark(download.end_offset)
        self._follower.on_snapshot()
