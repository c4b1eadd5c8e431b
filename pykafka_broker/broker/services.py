"""The parts of a broker that handlers may reach.

Rule: a handler resolves and authorises the names in its request, calls a part, and answers. A handler never sees a
socket, another request, or the inside of a part.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pykafka_broker.broker.channels import inter_broker_listener
from pykafka_broker.broker.coordinators.coordinator_log import partition_for
from pykafka_broker.broker.metadata.metadata_source import MetadataSource
from pykafka_broker.broker.node import ServerNode
from pykafka_broker.broker.partitions.fetch_session import FetchSessionCache
from pykafka_broker.broker.requests.context import ConnectionContext, RequestContext
from pykafka_broker.broker.requests.encoded_reply import ReplyCache
from pykafka_broker.clock import Timed
from pykafka_broker.cluster.authorizer import AllowAll, Authorizer, Rights, allows, authorise, who_may_see
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from pykafka_broker.config import BrokerConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykafka_broker.broker.client_metrics import ClientMetricsManager
    from pykafka_broker.broker.controller import QuorumController
    from pykafka_broker.broker.coordinators.group_host import GroupHost
    from pykafka_broker.broker.coordinators.shards import CoordinatorShards
    from pykafka_broker.broker.coordinators.share_host import ShareHost
    from pykafka_broker.broker.coordinators.transaction_host import TransactionHost
    from pykafka_broker.broker.requests.emulation import Emulation

_SESSION_EVICTION_MS = 120_000  # as Kafka has it, not configurable there either
_HOSTS = {TRANSACTION_STATE: "transactions", CONSUMER_OFFSETS: "groups", SHARE_GROUP_STATE: "shares"}
NodeAddress = tuple[int, str, int, str | None]  # id, host, port, rack


class BoundEndpoint(Protocol):
    name: str
    host: str
    port: int
    advertised: tuple[str, int] | None
    protocol: str


class Counting(Protocol):
    """A counter of requests against quotas: `metering.Metering`."""

    def metered(self, endpoint: Any, context: RequestContext, size: int) -> tuple[Any, RequestContext]:
        """Return endpoint and context that count a request of `size` bytes."""

    def connection_throttle_ms(self, host: str) -> int:
        """Return for how long a new connection is held before the close; 0 for an accepted connection."""


class CoordinatorHost(Timed, Protocol):
    """A coordinator on the node."""

    @property
    def shards(self) -> CoordinatorShards: ...

    def connection_closed(self, connection: ConnectionContext) -> None:
        """Note a closed connection, to act at the next deadline."""


_Host = TypeVar("_Host", bound=CoordinatorHost)


class Services:
    """The parts of a node for handlers.

    A coordinator's host is made at its first use, so that a broker without groups does not pay for them.

    on_made: takes each new host, to drive its deadlines.
    """

    def __init__(self, node: ServerNode, new_session_id: Callable[[], int], on_made: Callable[[Timed], None]) -> None:
        self.node = node
        self.node_id = node.id
        self.clock = node.clock
        self.logs = node.logs
        self.metadata: MetadataSource = node.metadata
        self.replicas = node.replicas
        self.purgatory = node.purgatory
        self.slices = node.slices
        self.authorize_by(node.authorizer)
        self.replies = ReplyCache()
        self.fetch_sessions = FetchSessionCache(
            node.config.max_incremental_fetch_session_cache_slots, _SESSION_EVICTION_MS, new_session_id
        )
        self.listeners: Mapping[str, BoundEndpoint] = {}  # by name
        self.own = node.static_config.own
        self.emulation: Emulation | None = None  # of a release of Kafka, where the config names one
        self.quotas: Counting | None = None  # while there are none
        # Set by the server. Without a server no client is muted, no time is measured, and each request is served alone.
        self.mute: Callable[[int, int], None] = lambda connection_id, until_ms: None
        self.time_network: Callable[[int], None] = lambda connection_id: None
        self.nanoseconds: Callable[[], int] = lambda: 0
        # Calls a step when everything else of this turn is served, before its answers leave; returns False, without a
        # call, where nothing else is to be served.
        self.at_end_of_turn: Callable[[Callable[[], None]], bool] = lambda step: False
        self.quorum_controller: QuorumController | None = None  # where this node is a controller for others
        self.hosts: dict[str, CoordinatorHost] = {}  # the coordinators that are in use, by topic
        self.on_close: list[Callable[[ConnectionContext], None]] = []  # called with every connection that was closed
        self._on_made = on_made

    @property
    def active_controller(self) -> QuorumController:
        """Return the controller of this node for other nodes. Raises NOT_CONTROLLER."""
        if self.quorum_controller is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        return self.quorum_controller

    # -- coordinators

    def _add(self, topic: str, host: _Host) -> _Host:
        self.hosts[topic] = host
        self._on_made(host)
        return host

    @cached_property
    def groups(self) -> GroupHost:
        from pykafka_broker.broker.coordinators.group_host import GroupHost

        return self._add(CONSUMER_OFFSETS, GroupHost(self.node, lambda step: self.at_end_of_turn(step)))

    @cached_property
    def transactions(self) -> TransactionHost:
        """Return the host of transactional ids and their transactions."""
        from pykafka_broker.broker.coordinators.transaction_host import TransactionHost

        return self._add(TRANSACTION_STATE, TransactionHost(self.node, self.offsets_decided))

    def offsets_decided(self, partition: int, producer_id: int, commit: bool) -> None:
        """Apply a transaction's marker in a partition of `__consumer_offsets`."""
        self.groups.end_transaction(partition, producer_id, commit)

    @cached_property
    def shares(self) -> ShareHost:
        """Return the host of the state of share groups, and of the share partitions of this node."""
        from pykafka_broker.broker.coordinators.share_host import ShareHost

        return self._add(SHARE_GROUP_STATE, ShareHost(self.node, lambda group_id: self.groups.settings(group_id)))

    @cached_property
    def client_metrics(self) -> ClientMetricsManager:
        """Return the manager of the clients that push their metrics, made at the first request about them."""
        from pykafka_broker.broker.client_metrics import ClientMetricsManager

        manager = ClientMetricsManager(lambda: self.image, self.config.telemetry_max_bytes)
        self.on_close.append(lambda connection: manager.connection_closed(connection.id))
        return manager

    def loading(self) -> list[str]:
        """Return the topics of coordinators with logs still to be read."""
        return [topic for topic in _HOSTS if topic in self.hosts and self.hosts[topic].shards.loading]

    def stop_coordinators(self) -> None:
        """Send waiting clients to the next coordinator."""
        for host in self.hosts.values():
            host.shards.drop_all()

    def start_coordinators(self) -> None:
        """Begin to read the coordinators' logs; coordinators without a topic wait for the first use.

        Leaderships in the metadata from before the start may have moved meanwhile, which does no harm.
        """
        self.node.subscribe(self._follow)
        for topic in _HOSTS:
            if topic in self.image.topics:
                self._start_coordinator(topic)

    def _start_coordinator(self, topic: str) -> None:
        getattr(self, _HOSTS[topic])

    def _follow(self, delta: MetadataDelta) -> None:
        """Start coordinators with new leaderships: another node may have left something to be done."""
        for topic, state in (*delta.changed_partitions, *delta.new_partitions):
            name = topic.name
            if name in _HOSTS and state.leader == self.node_id and not self.logs.is_fresh(name, state.partition):
                self._start_coordinator(name)

    # -- the cluster

    @property
    def config(self) -> BrokerConfig:
        return self.node.config

    @property
    def image(self) -> MetadataImage:
        return self.node.metadata.image

    @property
    def cluster_id(self) -> str:
        return self.node.cluster_id

    # -- rights

    def authorize_by(self, authorizer: Authorizer) -> None:
        """Let handlers ask `authorizer` about the rights of clients."""
        self.authorizer = authorizer
        self.allows = partial(allows, authorizer)
        self.authorise = partial(authorise, authorizer)
        self.who_may_see = partial(who_may_see, authorizer)
        # Whether the same request has the same answer while the metadata stays as it is: a class of Python may say
        # something else the next time.
        self.open_to_all = type(authorizer) is AllowAll
        self.remembers = not hasattr(authorizer, "hook")

    def audience(self, connection: ConnectionContext) -> Hashable:
        """Return a key of the clients with the same answer to the same request, while the metadata is unchanged."""
        if type(self.authorizer) is AllowAll:
            return connection.reached
        return connection.reached, self.authorizer, connection.principal, connection.client_host

    def rights(self, context: RequestContext) -> Rights:
        """Return the rights of a request's sender, for handlers with several questions."""
        return Rights(self.authorizer, context)

    # -- topics

    def topic_name(self, topic_id: bytes) -> str:
        """Return the name of a topic. Raises UNKNOWN_TOPIC_ID."""
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic.name

    def emulation_for(self, connection: ConnectionContext) -> Emulation | None:
        """Return the emulation for a connection; brokers of a cluster see none on the inter-broker listener."""
        if self.node.roles.alone or connection.listener != inter_broker_listener(self.node.config):
            return self.emulation
        return None

    @property
    def not_yet_created(self) -> ErrorCode:
        """Return the error for a topic just created by the request.

        A broker with ZooKeeper had no leader for the topic yet, a broker with KRaft has not heard of the topic.
        """
        has_zookeeper = self.emulation is not None and self.emulation.has_zookeeper
        return ErrorCode.LEADER_NOT_AVAILABLE if has_zookeeper else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def offsets_partition(self, group_id: str) -> tuple[str, int]:
        """Return the partition of `__consumer_offsets` for a group, existing or not."""
        topic = self.image.topics.get(CONSUMER_OFFSETS)
        count: int = len(topic.partitions) if topic is not None else self.config.offsets_topic_num_partitions
        return CONSUMER_OFFSETS, partition_for(group_id, count)

    # -- addresses

    def advertised(self, context: RequestContext) -> tuple[str, int]:
        """Return this node's address for a client: the dialled address, unless `advertised.listeners` names another."""
        listener = self.listeners.get(context.connection.listener)
        if listener is not None and listener.advertised is not None:
            host, port = listener.advertised
            return host, port
        return context.connection.local_host, context.connection.local_port

    def leaders(self, context: RequestContext, ids: Container[int]) -> list[NodeAddress]:
        """Return the brokers that lead partitions of a refused request, for the answer (KIP-951)."""
        return [node for node in self.nodes(context) if node[0] in ids] if ids else []

    def nodes(self, context: RequestContext, *, fenced: bool = False) -> list[NodeAddress]:
        """Return the brokers with the addresses for this client; fenced brokers only with `fenced`."""
        nodes: list[NodeAddress] = []
        for broker in self.image.brokers.values():
            if broker.fenced and not fenced:
                continue
            if broker.id == self.node_id:
                nodes.append((broker.id, *self.advertised(context), broker.rack))
            else:
                for name, host, port, _ in broker.endpoints:
                    if name == context.connection.listener:
                        nodes.append((broker.id, host, port, broker.rack))
        return nodes

    def reachable(self, context: RequestContext) -> set[int]:
        """Return the ids of the brokers that have an address for this client."""
        return {node[0] for node in self.nodes(context)}
