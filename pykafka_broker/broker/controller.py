"""The controller of several brokers, without the metadata that it leads (KIP-500), and its periodic tasks.

Rule: a node without a controller listener has no `QuorumController`. All state here is soft and begins anew with each
start, which first finishes what the controller before has left half done. Tasks are done by deadline, and only in a
cluster of several nodes: a node alone writes nothing by itself, save that expired delegation tokens leave the metadata.
At least every `metadata.max.idle.interval.ms` a record is written, by which observers can tell how far they are behind.
When a broker is fenced, the changes of its partitions are written in portions, with others served in between. The last
portion fences the broker, unless the broker was heard of meanwhile. The changes that follow from a heartbeat go the
same way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from pykafka_broker.broker.metadata.metadata_source import MetadataLeader
from pykafka_broker.broker.node import ServerNode
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.clock import Clock
from pykafka_broker.cluster import heartbeats, registration
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.delegation_tokens import expired_tokens
from pykafka_broker.cluster.elections import MAX_ELECTIONS, balance_leaders, elect_missing_leaders, in_lost_directories
from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.heartbeats import Following, Sessions
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.cluster.raft.leader import RaftLeader
from pykafka_broker.cluster.records import ApiMessageAndVersion, RecordIterator
from pykafka_broker.cluster.registration import CONTROLLERS_FROM, controller_registration
from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.peers import Address
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from pykafka_broker.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from pykafka_broker.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from pykafka_broker.protocol.stored.no_op_record import NoOpRecord

logger = logging.getLogger(__name__)

_AGAIN_MS = 1_000  # between two balances of which the first has not done all
_PAUSE_PART = 2  # a deadline missed by this part of a session: this controller did not run
_SIGN_PART = 4  # after this part of a session the controller looks whether it runs


class PeriodicTasks:
    """The periodic tasks of a controller (Kafka: PeriodicTaskControlManager)."""

    def __init__(self, metadata: MetadataLeader, sessions: Sessions, quorum: RaftLeader, clock: Clock) -> None:
        self._metadata = metadata
        self._sessions = sessions
        self._quorum = quorum
        self._clock = clock
        self._idle_ms: int = metadata.controller.config.metadata_max_idle_interval_ms
        self._next_no_op = clock.now + self._idle_ms if self._idle_ms > 0 else None
        self._balance_ms: int = metadata.controller.config.leader_imbalance_check_interval_seconds * 1000
        self._next_balance = clock.now + self._balance_ms
        self._seen_offset = -1
        # A controller that was killed may have left portions of changes, and this one may elect unclean leaders.
        self._look_for_leaders = self._look_at_directories = True
        self._sign_ms = max(1, sessions.timeout_ms // _SIGN_PART)
        self._next_sign = clock.now + self._sign_ms
        self._fencing: dict[int, int] = {}  # last contact with brokers whose fencing is not written whole
        self._retry_at = 0  # portions are written from then on

    def configs_changed(self) -> None:
        """Look for partitions without a leader: an unclean leader may be allowed now."""
        self._look_for_leaders = True

    def next_deadline(self) -> int | None:
        looks = self._look_for_leaders or self._look_at_directories
        busy = looks or self._fencing or self._sessions.unfinished
        return min(self._retry_at, self._next_look()) if busy else self._next_look()

    def _next_look(self) -> int:
        due, silent = min(self._next_balance, self._next_sign), self._sessions.next_deadline()
        if silent is not None:
            due = min(due, silent)
        return due if self._next_no_op is None else min(due, self._next_no_op)

    def on_deadline(self, now: int) -> None:
        late_ms, watched = now - self._next_look(), self._sessions.next_deadline() is not None
        if watched and late_ms > self._sessions.timeout_ms // _PAUSE_PART:
            logger.warning("this controller was not running for a while: brokers have time to be heard of")
            self._sessions.reset_all(now)
        self._next_sign = now + self._sign_ms
        for broker_id in self._sessions.expired(now):
            self._begin_to_fence(broker_id, now)
        if now >= self._retry_at:
            self._write_portions()
        if now >= self._next_balance:
            self._next_balance = now + self._balance_ms
            if self._metadata.controller.config.auto_leader_rebalance_enable:
                self._balance()
        if self._next_no_op is not None and now >= self._next_no_op:
            self._next_no_op = now + self._idle_ms
            self._write_no_op()

    def _write_portions(self) -> None:
        """Write the next portion of each change that is under way."""
        for broker_id in list(self._fencing):
            self._fence(broker_id)
        for broker_id, following in list(self._sessions.unfinished):
            self._continue(broker_id, following)
        if self._fencing or self._sessions.unfinished:
            return  # a broker that is being fenced still counts as active, and would be elected again
        if self._look_at_directories:
            self._look_at_directories = self._write_portion(in_lost_directories(self._metadata.controller))
        elif self._look_for_leaders:
            self._look_for_leaders = self._write_portion(elect_missing_leaders(self._metadata.controller))

    def _write_portion(self, records: RecordIterator) -> bool:
        """Write the first portion of records; return whether any may be left."""
        found = list(islice(records, heartbeats.PORTION))
        return not self._commit(found) or len(found) == heartbeats.PORTION

    def _begin_to_fence(self, broker_id: int, now: int) -> None:
        logger.info("broker %d is fenced: nothing was heard of it for %d ms", broker_id, self._sessions.timeout_ms)
        self._sessions.postpone_fencing(broker_id, now)  # if it can't be written
        self._fencing[broker_id] = self._sessions.last_contact(broker_id)

    def _fence(self, broker_id: int) -> None:
        """Write the next portion of a broker's fencing."""
        controller, heard_at = self._metadata.controller, self._fencing.pop(broker_id)
        broker = controller.image.brokers.get(broker_id)
        if broker is None or broker.fenced or self._sessions.last_contact(broker_id) != heard_at:
            return
        if self._write_portion(heartbeats.fence_records(controller, broker)):
            self._fencing[broker_id] = heard_at

    def _continue(self, broker_id: int, following: Following) -> None:
        """Write the next portion of the changes after a heartbeat."""
        controller, epoch = self._metadata.controller, self._sessions.unfinished.pop((broker_id, following))
        broker = controller.image.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            return
        if self._write_portion(following(controller, broker)):
            self._sessions.unfinished[broker_id, following] = epoch

    def _balance(self) -> None:
        records = balance_leaders(self._metadata.controller)
        if len(records) == MAX_ELECTIONS:
            self._next_balance = min(self._next_balance, self._clock.now + _AGAIN_MS)
        self._commit(records)

    def _write_no_op(self) -> None:
        """Write a record if nothing else was written; observers measure their lag by the record."""
        offset, self._seen_offset = self._seen_offset, self._metadata.applied_offset
        if offset == self._seen_offset and self._quorum.observers(self._clock.wall):
            self._commit([ApiMessageAndVersion(NoOpRecord(), 0)])
            self._seen_offset = self._metadata.applied_offset

    def _commit(self, records: list[ApiMessageAndVersion]) -> bool:
        """Return whether the records are written. After a refusal the next portions wait for a moment."""
        try:
            self._metadata.commit(records)
        except ApiError as error:
            logger.error("the metadata can't be written: %s", error)
            self._retry_at = self._clock.now + _AGAIN_MS
            return False
        return True


# name, host, port and security protocol
Endpoint = tuple[str, str, int, str]
Dispatch = Callable[[ConnectionContext, memoryview], Any]
METADATA = "metadata"  # the key under which observers wait in the purgatory


class QuorumController:
    """The sessions of brokers, the quorum for observers, and the periodic tasks.

    dispatch: serves the frames that come in envelopes.
    """

    def __init__(
        self,
        node: ServerNode,
        metadata: MetadataLeader,
        listeners: Sequence[Endpoint],
        fs: FileSystem,
        *,
        dispatch: Dispatch,
    ) -> None:
        self._node = node
        self.dispatch = dispatch
        self._metadata = metadata
        self._listeners = listeners
        self.sessions = Sessions(node.config.broker_session_timeout_ms, node.id)
        self.quorum = RaftLeader(
            metadata.log,
            fs,
            node_id=node.id,
            cluster_id=node.cluster_id,
            endpoints=[Address(host, port, name) for name, host, port, _ in listeners],
        )
        self.tasks = PeriodicTasks(metadata, self.sessions, self.quorum, node.clock)

    def start(self) -> None:
        """Give each known broker a session, and register the controller."""
        node, metadata = self._node, self._metadata
        self.sessions.follow(node.image, list(node.image.brokers), node.clock.now)
        node.subscribe(self._follow)
        metadata.on_synced = self._synced
        metadata.controller.alone = False
        metadata.decisions = {
            ApiKey.BROKER_REGISTRATION: self.register_broker,
            ApiKey.BROKER_HEARTBEAT: self.heartbeat,
            ApiKey.CONTROLLER_REGISTRATION: registration.register_controller,
        }
        metadata.voter_endpoints = self.quorum.endpoints
        if node.image.features.get(METADATA_VERSION, 0) >= CONTROLLERS_FROM:
            metadata.commit([controller_registration(node.config, node.new_uuid(), self._listeners)])

    def register_broker(
        self, controller: Controller, request: BrokerRegistrationRequest
    ) -> Decision[BrokerRegistrationResponse]:
        """Decide on the registration of a broker. Raises ApiError to refuse."""
        return registration.register_broker(
            controller,
            self.sessions,
            request,
            cluster_id=self._node.cluster_id,
            next_offset=self._metadata.applied_offset + 1,
            now=self._node.clock.now,
        )

    def heartbeat(self, controller: Controller, request: BrokerHeartbeatRequest) -> Decision[BrokerHeartbeatResponse]:
        """Decide on a broker's heartbeat. Raises STALE_BROKER_EPOCH for an unknown registration."""
        now, next_offset = self._node.clock.now, self._metadata.applied_offset + 1
        return heartbeats.broker_heartbeat(controller, self.sessions, request, next_offset=next_offset, now=now)

    def _synced(self, error: OSError | None) -> None:
        self._node.purgatory.touch(METADATA)

    def _follow(self, delta: MetadataDelta) -> None:
        if delta.brokers:
            self.sessions.follow(self._node.image, delta.brokers, self._node.clock.now)
        if delta.configs:
            self.tasks.configs_changed()


class DelegationTokenExpiry:
    """The removal of expired delegation tokens, every `delegation.token.expiry.check.interval.ms`.

    A token expires by the wall clock. Where the disk refuses the records the tokens stay until the next time: they have
    expired all the same.
    """

    def __init__(self, node: ServerNode) -> None:
        self._node = node
        self._next = node.clock.now + node.config.delegation_token_expiry_check_interval_ms

    def next_deadline(self) -> int | None:
        return self._next if self._node.image.delegation_tokens else None

    def on_deadline(self, now: int) -> None:
        node = self._node
        self._next = now + node.config.delegation_token_expiry_check_interval_ms
        try:
            node.led_metadata.commit(expired_tokens(node.image, node.clock.wall))
        except ApiError as error:
            logger.error("Could not remove expired delegation tokens: %s", error)
