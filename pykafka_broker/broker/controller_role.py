"""A controller of several brokers, without the metadata that it leads (KIP-500).

Rule: a node without a controller listener has none of this. All state here is soft: it begins anew with each start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.broker.controller_duties import ControllerDuties
from pykafka_broker.broker.metadata_source import MetadataLeader
from pykafka_broker.broker.node import Node
from pykafka_broker.cluster import heartbeats, registration
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.heartbeats import Sessions
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.cluster.raft.leader import RaftLeader
from pykafka_broker.cluster.registration import CONTROLLERS_FROM, controller_registration
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.peers import Address
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from pykafka_broker.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from pykafka_broker.protocol.messages.broker_registration_response import BrokerRegistrationResponse

# name, host, port and security protocol
Endpoint = tuple[str, str, int, str]
Dispatch = Callable[[ConnectionContext, memoryview], Any]
METADATA = "metadata"  # the key under which observers wait in the purgatory


class ControllerRole:
    """The sessions of brokers, the quorum as observers see it, and the controller's duties.

    dispatch: serves the frames that come in envelopes.
    """

    def __init__(
        self,
        node: Node,
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
        self.duties = ControllerDuties(metadata, self.sessions, self.quorum, node.clock)

    def start(self) -> None:
        """Give each known broker a session, and register this controller."""
        node, metadata = self._node, self._metadata
        self.sessions.follow(node.image, list(node.image.brokers), node.clock.now)
        node.subscribe(self._follow)
        metadata.on_synced = self._synced
        metadata.controller.alone = False
        metadata.decisions[ApiKey.BROKER_REGISTRATION] = self.register_broker
        metadata.decisions[ApiKey.BROKER_HEARTBEAT] = self.heartbeat
        metadata.voter_endpoints = self.quorum.endpoints
        if node.image.features.get(METADATA_VERSION, 0) >= CONTROLLERS_FROM:
            metadata.commit([controller_registration(node.id, node.new_uuid(), self._listeners)])

    def register_broker(
        self, controller: Controller, request: BrokerRegistrationRequest
    ) -> Decision[BrokerRegistrationResponse]:
        """Decide on the registration of a broker. Raises what is wrong with it."""
        return registration.register_broker(
            controller,
            self.sessions,
            request,
            cluster_id=self._node.cluster_id,
            next_offset=self._metadata.applied_offset + 1,
            now=self._node.clock.now,
        )

    def heartbeat(self, controller: Controller, request: BrokerHeartbeatRequest) -> Decision[BrokerHeartbeatResponse]:
        """Decide on what a broker wants. Raises STALE_BROKER_EPOCH for one that is not registered so."""
        next_offset = self._metadata.applied_offset + 1
        return heartbeats.broker_heartbeat(
            controller, self.sessions, request, next_offset=next_offset, now=self._node.clock.now
        )

    def _synced(self, error: OSError | None) -> None:
        self._node.purgatory.touch(METADATA)

    def _follow(self, delta: MetadataDelta) -> None:
        if delta.brokers:
            self.sessions.follow(self._node.image, delta.brokers, self._node.clock.now)
        if delta.configs:
            self.duties.configs_changed()
