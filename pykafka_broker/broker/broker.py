"""The broker: its parts are made, started in their order, and stopped.

Rule: each part knows its own business, and the broker nothing else. Parts that not every broker has are a list
(`FEATURES`): they are imported and made only where the configuration or the roles ask for them. There is no clock and
no socket here: their owner sets `clock` and calls `settle`, `next_deadline` and `on_deadline`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka_broker.broker.metadata.assignments import AssignmentsManager
from pykafka_broker.broker.metadata.metadata_publisher import MetadataPublisher
from pykafka_broker.broker.node import ServerNode
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.services import BoundEndpoint, Services
from pykafka_broker.broker.setup import NO_SETUP, Setup
from pykafka_broker.broker.waiting.future import Later
from pykafka_broker.clock import Clock, Timed, earliest_deadline
from pykafka_broker.cluster.controller import CheckListener
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.config import BrokerConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import FileSystem, OsFileSystem
from pykafka_broker.log.jobs import Submit, run_inline
from pykafka_broker.log.manager import LogListener
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pykafka_broker.broker.membership.lifecycle import BrokerStartup
    from pykafka_broker.broker.membership.lone_broker import LoneBroker
    from pykafka_broker.broker.requests.metering import Metering
    from pykafka_broker.log.flush import Waiter
    from pykafka_broker.log.log_directory import LogDirectory
    from pykafka_broker.log.partition_log import PartitionLog
    from pykafka_broker.peers import Peers
    from pykafka_broker.protocol.enums import PartitionKey
    from pykafka_broker.security.hooks.quota_callback import HookedQuotas


class Broker:
    """A node with all parts."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        *,
        new_uuid: Callable[[], bytes],
        new_session_id: Callable[[], int],
        submit: Submit = run_inline,
        thread_pool: Callable[[int], Executor] | None = None,
        fs: FileSystem | None = None,
        setup: Setup = NO_SETUP,
        later: Later | None = None,
        peers: Peers | None = None,
    ) -> None:
        self.clock = clock
        self.on_useless: Callable[[], None] | None = None  # called when the last log directory has failed
        self.fs = OsFileSystem() if fs is None else fs
        self.node = node = ServerNode(
            config,
            clock,
            self.fs,
            new_uuid=new_uuid,
            submit=submit,
            thread_pool=thread_pool,
            setup=setup,
            later=later,
            peers=peers,
            log_listener=_BrokerLogListener(self),
        )
        self.assignments = AssignmentsManager(node)
        self.timed: list[Timed] = [node.purgatory, node.logs, self.assignments]
        self.services = Services(node, new_session_id, self.timed.append)
        self.controller_listeners: Sequence[BoundEndpoint] = ()
        self.plugins: list[Any] = []  # objects of classes that the configuration names
        self.startup: BrokerStartup | None = None  # of a broker of a cluster
        self.lone_broker: LoneBroker | None = None  # of a node alone
        self.quota_callback: HookedQuotas | None = None
        self._metering: Metering | None = None  # from the first quota on
        self._publisher = MetadataPublisher(node, self.assignments)
        node.subscribe(self._follow_quotas)
        self._add(FEATURES)

    def _add(self, features: Iterable[Feature]) -> None:
        for feature in features:
            if feature.wanted(self):
                feature.add(self)

    @property
    def config(self) -> BrokerConfig:
        return self.node.config

    # -- life

    def start(
        self, listeners: Mapping[str, BoundEndpoint] | None = None, controller_listeners: Sequence[BoundEndpoint] = ()
    ) -> None:
        """Read the disk, so that requests can be served afterwards.

        A broker of a cluster serves when `startup.on_unfenced` is called.

        Args:
            listeners: the listeners of clients, by name.
        """
        node, services = self.node, self.services
        services.listeners, self.controller_listeners = listeners or {}, controller_listeners
        node.logs.start(self.clock.now, with_metadata=True)
        metadata = node.metadata
        self._publisher.follows_partitions = self.startup is None
        loaded = metadata.load(self._publisher.follow)
        self.timed.append(metadata)
        self._publisher.follow_broker_configs()
        self._apply_quotas()
        self._add(FEATURES_AT_START)
        if self.startup is not None:
            self.startup.join(services, self._publisher, services.listeners.values(), self.timed.append)
        elif self.lone_broker is not None:
            self._start_serving(self.lone_broker, loaded)

    def _start_serving(self, lone_broker: LoneBroker, loaded: MetadataDelta) -> None:
        """Serve at once: the broker of a node alone waits for nobody."""
        node, services = self.node, self.services
        lone_broker.register([_endpoint(each) for each in services.listeners.values()], node.new_uuid)
        node.replicas.start(loaded, node.new_uuid)
        lone_broker.start()
        self.assignments.start()
        if node.setup.leader_epoch >= 0:
            lone_broker.raise_epochs(node.setup.leader_epoch, node.setup.producer_id)
        services.start_coordinators()

    def leave(self, left: Callable[[], None]) -> None:
        """Let other brokers lead before the end; `left` is called when the broker may stop."""
        if self.startup is not None:
            self.startup.leave(left)
        else:
            left()

    def stop_jobs(self) -> None:
        """End long jobs beside the loop, before the wait for all jobs."""
        self.node.slices.stop()
        self.node.logs.stop_jobs()

    def stop(self) -> None:
        """Write checkpoints and, last of all, the clean-shutdown marker."""
        self._close_plugins()
        if self.startup is not None:
            self.startup.close()
        self.node.replicas.finish()
        self.node.logs.shutdown(self.clock.now)

    # -- a successor

    @property
    def successor(self) -> Setup:
        """Return the setup of a successor, whose clients stay connected."""
        node, setup = self.node, self.node.setup
        epochs = (each.leader_epoch for topic in node.image.topics.values() for each in topic.partitions.values())
        return setup._replace(
            cluster_id=node.cluster_id,
            leader_epoch=max(0, setup.leader_epoch, *epochs),
            producer_id=max(setup.producer_id, node.image.next_producer_id),
        )

    def hand_over(self) -> None:
        """Release the directories to another broker."""
        self.on_useless = None
        self.node.logs.hand_over()

    def check_listeners_by(self, checks: Sequence[CheckListener]) -> None:
        """Ask `checks` whether settings of a listener may be altered."""
        local, observed = self.node.metadata_leader, self.node.metadata_follower
        if local is not None:
            local.controller.check_listeners = tuple(checks)
        elif observed is not None:
            observed.checks.check_listeners = tuple(checks)

    def fail_requests(self) -> None:
        """Answer all waiting requests, as a node without partitions and coordinators.

        Called after `hand_over`, once requests go to the other broker.
        """
        node = self.node
        self._close_plugins()
        self.services.stop_coordinators()
        node.replicas.give_up()
        node.logs.close_files()
        node.slices.lose(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        node.purgatory.answer_all(self.clock.now)

    def _close_plugins(self) -> None:
        """Close the objects of configured classes: they may hold resources."""
        for plugin in self.plugins:
            close = getattr(plugin, "close", None)
            if close is not None:
                close()

    def _follow_quotas(self, delta: MetadataDelta) -> None:
        if delta.quotas:
            self._apply_quotas()

    def _apply_quotas(self) -> None:
        quotas = self.node.image.client_quotas
        if self._metering is None and (quotas or self.quota_callback is not None):
            from pykafka_broker.broker.requests.metering import metering_of  # few brokers have any

            self._metering = metering_of(self.services, self.quota_callback)
        if self._metering is not None:
            self.services.quotas = self._metering if self._metering.follow(quotas) else None

    def directory_failed(self, directory: LogDirectory, lost: list[PartitionKey]) -> None:
        """Take the partitions of a failed directory out of service, and tell the controller."""
        self.node.replicas.offline(lost)
        self.assignments.on_change()
        if self.startup is not None and self.node.metadata_leader is None:
            self.startup.directory_lost(directory)
        if self.on_useless is not None and not any(each.online for each in self.node.logs.partition_directories):
            self.on_useless()

    # -- time, driven by the server

    def settle(self) -> None:
        """Answer the waiting requests for everything since the last call."""
        self.node.purgatory.settle(self.clock.now)

    def next_deadline(self) -> int | None:
        """Return when, by `clock.now`, something is due. Called after every request: it must cost next to nothing."""
        return earliest_deadline(self.timed)

    def next_deadline_of_clients(self) -> int | None:
        """Return the next deadline without the maintenance of logs."""
        return earliest_deadline(machine for machine in self.timed if machine is not self.node.logs)

    def on_deadline(self) -> None:
        """Do everything due by now. A defect of a machine keeps no other from its turn, and is raised at the end."""
        now, defect = self.clock.now, None
        for machine in list(self.timed):
            due = machine.next_deadline()
            if due is not None and due <= now:
                try:
                    machine.on_deadline(now)
                except Exception as error:
                    defect = defect or error
        if defect is not None:
            raise defect

    def look_now(self) -> None:
        """Have the logs look for retention and compaction at the next `on_deadline`."""
        self.node.logs.look_now(self.clock.now)

    def connection_closed(self, connection: ConnectionContext) -> None:
        """Tell all parts of a closed connection; the coordinators act at the next deadline."""
        for host in self.services.hosts.values():
            host.connection_closed(connection)
        for on_close in self.services.on_close:
            on_close(connection)


class _BrokerLogListener(LogListener):
    """The listener of a broker's logs. The parts are looked up when an event comes: the logs are made before them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def is_replicated(self, partition: PartitionKey) -> bool:
        return self._broker.node.replicas.is_replicated(partition)

    def synced(self, log: PartitionLog) -> None:
        self._broker.node.replicas.log_synced(log)

    def lost(self, log: PartitionLog, offset: int, error: OSError) -> None:
        self._broker.node.replicas.log_lost(log, offset, error)

    def directory_failed(self, directory: LogDirectory, partitions: list[PartitionKey]) -> None:
        self._broker.directory_failed(directory, partitions)

    def can_spare(self, partition: PartitionKey) -> bool:
        return self._broker.assignments.can_spare(partition)

    def damaged(self, partition: PartitionKey) -> None:
        self._broker.node.replicas.offline([partition])
        self._broker.assignments.assign_directory(partition)

    def moving(self, partition: PartitionKey, target: LogDirectory, waiter: Waiter) -> None:
        self._broker.assignments.prepare_move(partition, target, waiter)

    def moved(self, partition: PartitionKey) -> None:
        self._broker.assignments.assign_directory(partition)


def _endpoint(listener: BoundEndpoint) -> tuple[str, str, int, str]:
    """Return the name, host, port and security protocol by which others reach a listener."""
    host, port = listener.advertised or (listener.host, listener.port)
    return listener.name, host, port, listener.protocol


class Feature(NamedTuple):
    """An optional part of a broker: imported and made only where configuration or roles ask for the part.

    wanted: whether the broker has the part.
    add: imports the part, makes and connects it.
    """

    wanted: Callable[[Broker], object]
    add: Callable[[Broker], None]


def _add_authorizer(broker: Broker) -> None:
    from pykafka_broker.security.acls import authorizer_of

    authorizer = authorizer_of(broker.config, broker.node.image)
    broker.node.authorize_by(authorizer)
    broker.services.authorize_by(authorizer)
    broker.plugins.append(authorizer)


def _add_policies(broker: Broker) -> None:
    from pykafka_broker.security.hooks.policies import HookedPolicies

    if broker.node.metadata_leader is not None:
        policies = HookedPolicies(broker.config)
        broker.node.metadata_leader.controller.policies = policies
        broker.plugins.append(policies)


def _add_quota_callback(broker: Broker) -> None:
    from pykafka_broker.security.hooks.quota_callback import HookedQuotas

    broker.quota_callback = HookedQuotas(broker.config)
    broker.plugins.append(broker.quota_callback)


def _add_emulation(broker: Broker) -> None:
    from pykafka_broker.broker.requests.emulation import Emulation

    release = broker.services.own.release
    assert release is not None
    broker.services.emulation = Emulation(release)


def _add_lone_broker(broker: Broker) -> None:
    from pykafka_broker.broker.membership.lone_broker import LoneBroker

    broker.lone_broker = LoneBroker(broker.node.led_metadata, broker.node.logs)
    broker.assignments.on_change = broker.lone_broker.directories_changed


def _add_startup(broker: Broker) -> None:
    from pykafka_broker.broker.membership.lifecycle import BrokerStartup

    broker.startup = BrokerStartup(broker.node, broker.assignments)
    broker.node.logs.topics_are_known = False
    add_replication(broker)


def add_replication(broker: Broker) -> None:
    """Replicate: partitions have followers and leaders on other brokers."""
    from pykafka_broker.broker.replication.node_replication import NodeReplication

    broker.node.replicas.replication = replication = NodeReplication(broker.node)
    broker.timed.append(replication)


def _add_quorum_controller(broker: Broker) -> None:
    from pykafka_broker.broker.controller import QuorumController
    from pykafka_broker.broker.requests.controller_routes import ControllerRouter

    endpoints = [_endpoint(each) for each in broker.controller_listeners]
    dispatch = ControllerRouter(broker.services).dispatch
    controller = QuorumController(broker.node, broker.node.led_metadata, endpoints, broker.fs, dispatch=dispatch)
    broker.services.quorum_controller = controller
    controller.start()
    broker.timed.append(controller.tasks)


def _add_token_expiry(broker: Broker) -> None:
    from pykafka_broker.broker.controller import DelegationTokenExpiry

    broker.timed.append(DelegationTokenExpiry(broker.node))


def _leads(broker: Broker) -> bool:
    return broker.node.metadata_leader is not None


FEATURES = (
    Feature(lambda broker: broker.config.authorizer_class_name, _add_authorizer),
    Feature(
        lambda broker: broker.config.create_topic_policy_class_name or broker.config.alter_config_policy_class_name,
        _add_policies,
    ),
    Feature(lambda broker: broker.config.client_quota_callback_class, _add_quota_callback),
    Feature(lambda broker: broker.services.own.release is not None, _add_emulation),
    Feature(lambda broker: broker.node.roles.broker and broker.node.roles.alone, _add_lone_broker),
    Feature(lambda broker: broker.node.roles.broker and not broker.node.roles.alone, _add_startup),
)
# Parts of the node that leads the metadata, once the metadata is loaded.
FEATURES_AT_START = (
    Feature(lambda broker: _leads(broker) and broker.controller_listeners, _add_quorum_controller),
    Feature(lambda broker: _leads(broker) and broker.config.delegation_token_secret_key is not None, _add_token_expiry),
)
