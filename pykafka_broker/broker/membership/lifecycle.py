"""The life of one broker of a cluster, from registration to controlled shutdown (KIP-500, KIP-631, KIP-919).

Rule: a start has a fixed order (`Stage`). The broker registers as soon as a controller is known, and is fenced. It
reads the metadata up to its own registration, then opens its partitions, and only then asks to be unfenced. Clients
wait in the backlog until the broker is unfenced, because the first request of a client may create a topic here. Nothing
is deleted or compacted before the metadata is known, since the metadata has the settings of the topics.

Heartbeats tell the controller how far the broker is, and ask whether the broker may be shut down. A final refusal of
the controller ends the broker, with one sentence in the log; everything else is tried again. A broker that has lost a
directory and can't tell the controller ends, too: the partitions that it leads there would stay without a leader.

A log belongs to this broker if the metadata has a topic with the id in the log's folder, and the broker among the
replicas of the partition. Other logs are strays: their topic was deleted or their partition was moved while the broker
or one of its disks was away. Logs of an earlier topic of the same name are strays, too. A stray gets a name that ends
in `-stray`, and is never served.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykafka_broker.broker.requests.router import Endpoint
from pykafka_broker.cluster.bootstrap import SECURITY_PROTOCOLS
from pykafka_broker.cluster.controller import CORDONED_FROM, DIRECTORIES_FROM
from pykafka_broker.cluster.features import METADATA_VERSION, abilities
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.log.checkpoints import PARTITION_METADATA, read_partition_metadata, same_but_damaged
from pykafka_broker.peers import Ask, LinkError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from pykafka_broker.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from pykafka_broker.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS, METADATA_RECORDS, TRANSACTION_RECORDS

if TYPE_CHECKING:
    from pykafka_broker.broker.metadata.assignments import AssignmentsManager
    from pykafka_broker.broker.metadata.metadata_publisher import MetadataPublisher
    from pykafka_broker.broker.node import ServerNode
    from pykafka_broker.broker.services import BoundEndpoint, Services
    from pykafka_broker.clock import Timed
    from pykafka_broker.config import BrokerConfig
    from pykafka_broker.log.log_directory import LogDirectory
    from pykafka_broker.protocol.enums import PartitionKey

logger = logging.getLogger(__name__)

NO_EPOCH = -1
_RETRY_MS = 500  # until a refused registration is sent again
_WHILE_FENCED_MS = 20  # between heartbeats: short, so that the broker serves soon
_GOODBYE_MS = 10_000  # how long the broker waits for the controller's permission to shut down


class Stage(Enum):
    """How far the broker has come."""

    NEW = "not registered yet"
    FENCED = "registered, and reading the metadata"
    OPENING = "opening its partitions"
    SERVING = "asking to be unfenced"
    UNFENCED = "serving"
    LEAVING = "asking to be shut down"
    ENDED = "done"


_NOT_READY = (Stage.FENCED, Stage.OPENING)


class Directories(NamedTuple):
    """The log directories of the broker, by id.

    cordoned: None while the metadata has no room for them: the controller may be one that does not know the field.
    """

    online: Sequence[bytes]
    offline: Sequence[bytes]
    cordoned: list[bytes] | None


class Situation(Protocol):
    """The broker in the eyes of the lifecycle."""

    @property
    def applied_offset(self) -> int:
        """The offset of the newest applied record of the metadata."""

    def directories(self) -> Directories: ...

    def caught_up(self, ready: Callable[[], None]) -> None:
        """Make everything ready for clients, then call `ready`: the metadata has reached the broker's registration."""

    def unfenced(self) -> None:
        """Let clients in: the controller sends them from now on."""

    def refused(self, why: str) -> None:
        """End the broker: the controller will never accept the registration."""


# Answers to a registration that are final: the broker does not ask again.
_FATAL = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "its data is of another cluster",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster has features on that this broker does not know",
    ErrorCode.INVALID_REGISTRATION: "the controller does not accept its log directories or listeners",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "the controller does not know its id",
}


class BrokerLifecycle:
    """The state of a broker, from start to end (Kafka: BrokerLifecycleManager).

    Args:
        registration: the request; its log directories are filled in when it is sent.
        ask: sends a request to the active controller.
        now: the time of the start, in milliseconds of `Clock.now`.
    """

    def __init__(
        self, registration: BrokerRegistrationRequest, ask: Ask, situation: Situation, config: BrokerConfig, now: int
    ) -> None:
        self.stage = Stage.NEW
        self.epoch = NO_EPOCH
        self._registration = registration
        self._ask = ask
        self._situation = situation
        self._config = config
        self._give_up_at = now + config.initial_broker_registration_timeout_ms
        self._due: int | None = now
        self._asking = False
        self._again = False  # whether something has changed since the unanswered request was sent
        self._trouble = ""
        self._now = now
        self._left: Callable[[], None] | None = None
        self._goodbye_until = 0
        self._reported: frozenset[bytes] = frozenset()  # directories that the controller knows to be offline
        self._report_by: dict[bytes, int] = {}  # other failed directories, with the time limit for the report
        self._must_look = False  # whether more directories may have failed
        self._amends = False  # whether the registration must be sent again

    @property
    def is_fenced(self) -> bool:
        """Whether nobody but the controller may count on the broker."""
        return self.stage in (Stage.NEW, *_NOT_READY, Stage.SERVING)

    # -- events

    def heartbeat_now(self) -> None:
        """Send a heartbeat at once: directories have changed, or the controller waits for applied metadata."""
        if self.stage is Stage.ENDED:
            return
        self._must_look = True
        self._again = self._asking
        if not self._asking:
            self._due = self._now

    @property
    def incarnation_id(self) -> bytes:
        return self._registration.incarnation_id

    def amend(self) -> None:
        """Send the registration again: the metadata has room for the log directories from now on."""
        self._amends = True
        self.heartbeat_now()

    def leave(self, now: int, left: Callable[[], None]) -> None:
        """Ask to be shut down, after the broker's leaderships have moved.

        `left` is called when the broker may go, or when the controller has not allowed it within `_GOODBYE_MS`.
        """
        self._now = now
        if self.stage in (Stage.NEW, Stage.ENDED):
            self.stage = Stage.ENDED
            left()
            return
        self.stage, self._left = Stage.LEAVING, left
        self._report_by.clear()
        self._goodbye_until = now + _GOODBYE_MS
        self.heartbeat_now()

    # -- time

    def next_deadline(self) -> int | None:
        if self.stage is Stage.UNFENCED and not self._report_by and not self._must_look:  # asked after every request
            return self._due
        if self.stage is Stage.ENDED:
            return None
        if self._must_look:
            return self._now
        limits = [*self._report_by.values()] if self._due is None else [*self._report_by.values(), self._due]
        if self.stage is Stage.NEW:
            limits.append(self._give_up_at)
        elif self.stage is Stage.LEAVING:
            limits.append(self._goodbye_until)
        return min(limits, default=None)

    def on_deadline(self, now: int) -> None:
        self._now = now
        if self._must_look:
            self._note_failures()
        if self.stage is Stage.NEW and now >= self._give_up_at:
            self._refuse(
                f"no controller has registered it within {self._config.initial_broker_registration_timeout_ms} ms"
            )
        elif self.stage is Stage.LEAVING and now >= self._goodbye_until:
            logger.warning("No controller has said within %d ms that this broker may go: it goes", _GOODBYE_MS)
            self._end()
        elif any(by <= now for by in self._report_by.values()):
            limit_ms = self._config.log_dir_failure_timeout_ms
            self._refuse(f"no controller could be told within {limit_ms} ms that a log directory has failed")
        elif self._due is not None and now >= self._due and not self._asking:
            self._send()

    # -- requests

    def _send(self) -> None:
        self._due, self._asking, self._again = None, True, False
        if self.stage is Stage.NEW or self._amends:
            self._register()
            return
        self._note_failures()
        directories = self._situation.directories()
        heartbeat = BrokerHeartbeatRequest(
            self._registration.broker_id,
            self.epoch,
            self._situation.applied_offset,
            want_fence=self.stage in _NOT_READY,
            want_shut_down=self.stage is Stage.LEAVING,
            offline_log_dirs=list(directories.offline),
            cordoned_log_dirs=None if self.stage in _NOT_READY else directories.cordoned,
        )
        self._ask(
            heartbeat,
            partial(self._heartbeat_answered, frozenset(directories.offline)),
            self._config.broker_session_timeout_ms,
        )

    def _register(self) -> None:
        self._registration.log_dirs = list(self._situation.directories().online)
        limit_ms = self._config.broker_session_timeout_ms
        if self.stage is Stage.NEW:
            limit_ms = min(limit_ms, max(1, self._give_up_at - self._now))
        self._amends = False
        self._ask(self._registration, self._registered, limit_ms)

    def _note_failures(self) -> None:
        """Set a limit for each failed directory unknown to the controller, once the broker is registered."""
        self._must_look = False
        if self.stage in (Stage.NEW, Stage.LEAVING, Stage.ENDED):
            return
        by = self._now + self._config.log_dir_failure_timeout_ms
        for failed in self._situation.directories().offline:
            if failed not in self._reported:
                self._report_by.setdefault(failed, by)

    def _after(self, delay_ms: int) -> None:
        self._due = self._now if self._again else self._now + delay_ms

    def _registered(self, reply: Message | LinkError) -> None:
        """Begin with heartbeats, or go on with them after an amended registration, whose refusal is only logged."""
        self._asking = False
        if self.stage is Stage.ENDED:
            return
        if isinstance(reply, LinkError):
            self._amends = self.stage is not Stage.NEW
            self._log_trouble(f"no controller can be reached: {reply}")
            self._after(_WHILE_FENCED_MS)
            return
        assert isinstance(reply, BrokerRegistrationResponse)
        code = ErrorCode(reply.error_code)
        if self.stage is not Stage.NEW:
            if code is not ErrorCode.NONE:
                self._log_trouble(f"the controller does not take the log directories of this broker: {code.name}")
            self._after(0)
        elif code is ErrorCode.NONE:
            self.epoch, self.stage, self._trouble = reply.broker_epoch, Stage.FENCED, ""
            logger.info("registered with broker epoch %d", self.epoch)
            self._after(0)
        elif code in _FATAL:
            self._refuse(f"the controller refuses this broker: {_FATAL[code]} ({code.name})")
        else:
            usual = code is ErrorCode.DUPLICATE_BROKER_REGISTRATION  # it was here a moment ago, and its session runs on
            level = logging.INFO if usual else logging.WARNING
            self._log_trouble(f"the controller does not register this broker yet: {code.name}", level)
            self._after(_RETRY_MS)

    def _heartbeat_answered(self, offline: frozenset[bytes], reply: Message | LinkError) -> None:
        if self.stage is Stage.ENDED:
            return
        if isinstance(reply, LinkError):
            self._log_trouble(f"no controller answers heartbeats: {reply}")
        else:
            assert isinstance(reply, BrokerHeartbeatResponse)
            code = ErrorCode(reply.error_code)
            if code is ErrorCode.NONE:
                self._trouble = ""
                self._reported = offline
                self._report_by = {failed: by for failed, by in self._report_by.items() if failed not in offline}
                self._follow(reply)
            else:
                self._log_trouble(f"the controller refuses the heartbeats of this broker: {code.name}")
        self._asking = False
        steady = self.stage is Stage.UNFENCED or bool(self._trouble)
        self._after(self._config.broker_heartbeat_interval_ms if steady else _WHILE_FENCED_MS)

    def _follow(self, reply: BrokerHeartbeatResponse) -> None:
        if self.stage is Stage.LEAVING:
            if reply.should_shut_down:
                self._end()
        elif self.stage is Stage.FENCED and reply.is_caught_up:
            self.stage = Stage.OPENING
            self._situation.caught_up(self._ready)
        elif self.stage is Stage.SERVING and not reply.is_fenced:
            self.stage = Stage.UNFENCED
            self._situation.unfenced()

    def _ready(self) -> None:
        if self.stage is Stage.OPENING:
            self.stage = Stage.SERVING
            self.heartbeat_now()

    def _log_trouble(self, trouble: str, level: int = logging.WARNING) -> None:
        """Log a trouble once, until another trouble comes up."""
        if trouble != self._trouble:
            self._trouble = trouble
            logger.log(level, "%s", trouble)

    def _refuse(self, why: str) -> None:
        self.stage = Stage.ENDED
        self._situation.refused(why)

    def _end(self) -> None:
        self.stage = Stage.ENDED
        left, self._left = self._left, None
        if left is not None:
            left()


class BrokerStartup:
    """The start and the end of a broker of a cluster.

    on_unfenced: called when clients are to be let in.
    on_refused: called with the reason why the broker can't go on.
    """

    def __init__(self, node: ServerNode, assignments: AssignmentsManager) -> None:
        self.on_unfenced: Callable[[], None] = lambda: None
        self.on_refused: Callable[[str], None] = logger.critical
        self._node = node
        self._assignments = assignments
        self._services: Services
        self._publisher: MetadataPublisher
        self._lifecycle: BrokerLifecycle | None = None
        if node.metadata_follower is not None:
            node.metadata_follower.on_refused = self.refused

    def join(
        self,
        services: Services,
        publisher: MetadataPublisher,
        listeners: Iterable[BoundEndpoint],
        drive: Callable[[Timed], None],
    ) -> None:
        """Import the modules that clients will need, and begin to register; answers lead to the next stages.

        Args:
            services: starts its coordinators when the broker serves.
            publisher: follows the partitions once the broker serves.
            listeners: the broker's listeners, for clients and other brokers.
            drive: adds a part with deadlines.
        """
        preload()
        self._services, self._publisher = services, publisher
        config = self._node.config
        self._lifecycle = lifecycle = BrokerLifecycle(
            self._registration(listeners), self._node.metadata.ask, self, config, self._node.clock.now
        )
        self._assignments.on_change = lifecycle.heartbeat_now
        self._node.subscribe(self._on_metadata)
        drive(lifecycle)

    def _on_metadata(self, delta: MetadataDelta) -> None:
        """Have the registration amended once the metadata has room for log directories (KIP-858).

        Without the directories the controller could not move leaderships away from one that fails. (Kafka:
        BrokerRegistrationTracker)
        """
        image, lifecycle = self._node.image, self._lifecycle
        broker = image.brokers.get(self._node.id)
        if (
            METADATA_VERSION in delta.features
            and image.features.get(METADATA_VERSION, 0) >= DIRECTORIES_FROM
            and lifecycle is not None
            and broker is not None
            and broker.incarnation_id == lifecycle.incarnation_id
            and not broker.log_dirs
        ):
            lifecycle.amend()

    def _registration(self, listeners: Iterable[BoundEndpoint]) -> BrokerRegistrationRequest:
        node = self._node
        return BrokerRegistrationRequest(
            node.id,
            node.cluster_id,
            node.new_uuid(),
            [
                Listener(each.name, *(each.advertised or (each.host, each.port)), SECURITY_PROTOCOLS[each.protocol])
                for each in listeners
            ],
            [Feature(name, lowest, highest) for name, (lowest, highest) in abilities(node.config).items()],
            node.config.broker_rack,
            previous_broker_epoch=self._previous_epoch(),
        )

    def _previous_epoch(self) -> int:
        """Return the broker epoch of the last clean shutdown, after which no record is missing in any directory; -1
        without a clean shutdown.
        """
        directories = self._node.logs.partition_directories
        if self._node.metadata_leader is not None and all(each.clean for each in directories):
            return self._node.broker_epoch  # also for a node that was alone before, and so has noted no epoch
        epochs = {each.clean_epoch for each in directories if each.online}
        return epochs.pop() if len(epochs) == 1 else NO_EPOCH

    # -- the `Situation` of the lifecycle

    @property
    def applied_offset(self) -> int:
        return self._node.metadata.applied_offset

    def directories(self) -> Directories:
        logs = self._node.logs
        known = [each for each in logs.partition_directories if each.id]
        knows_cordoned = self._node.image.features.get(METADATA_VERSION, 0) >= CORDONED_FROM
        return Directories(
            [each.id for each in known if each.online],
            [each.id for each in known if not each.online],
            [each.id for each in known if logs.directory_map.is_cordoned(each)] if knows_cordoned else None,
        )

    def caught_up(self, ready: Callable[[], None]) -> None:
        node = self._node
        put_strays_aside(node)
        node.logs.topics_are_known = True
        opening = node.replicas.start(MetadataDelta(), node.new_uuid)
        self._publisher.follows_partitions = True
        self._assignments.start()
        self._services.start_coordinators()
        opening.add_done_callback(lambda _: ready())

    def unfenced(self) -> None:
        logger.info("unfenced: clients are sent here from now on")
        if self._node.metadata_leader is None:
            self._node.producer_ids.prepare()
        self.on_unfenced()

    def refused(self, why: str) -> None:
        self.on_refused(why)

    # -- the end

    def directory_lost(self, directory: LogDirectory) -> None:
        """End a broker without a metadata log, as Kafka does."""
        if self._node.logs.directory_of((CLUSTER_METADATA, 0)) is directory:
            self.refused(f"the metadata log is out of reach: {directory.trouble}")

    def leave(self, left: Callable[[], None]) -> None:
        """Ask the controller to be shut down; `left` is called when the broker may go: then other brokers lead."""
        node = self._node
        if self._lifecycle is None or not node.config.controlled_shutdown_enable or self._is_last():
            left()
        else:
            self._lifecycle.leave(node.clock.now, left)

    def _is_last(self) -> bool:
        """Return whether no other process serves, so nobody else could lead."""
        others = (broker for broker in self._node.image.brokers.values() if broker.id != self._node.id)
        return self._node.metadata_leader is not None and all(broker.fenced for broker in others)

    def close(self) -> None:
        """Stop asking the controller, and note the broker epoch in the directories, for a clean end.

        A broker that was never registered keeps the epochs that the directories have.
        """
        if self._node.metadata_follower is not None:
            self._node.metadata_follower.close()
        if self._lifecycle is not None:
            epoch = self._lifecycle.epoch
            for directory in self._node.logs.directories:
                directory.broker_epoch = directory.clean_epoch if epoch == NO_EPOCH else epoch


def put_strays_aside(node: ServerNode) -> None:
    """Rename strays: logs of no replica of the node. Called before any log of a client's topic is used."""
    strays: dict[LogDirectory, list[PartitionKey]] = {}
    for key, directory in node.logs.copies():
        if key[0] == CLUSTER_METADATA or not directory.online:
            continue
        try:
            is_own = _is_own(node, key, directory)
        except OSError as error:
            node.logs.directory_failed(directory, error)
        else:
            if not is_own:
                strays.setdefault(directory, []).append(key)
    for directory, keys in strays.items():
        try:
            node.logs.maintenance.drop_checkpoints(directory, *keys)
        except OSError as error:
            node.logs.directory_failed(directory, error)
        for key in keys:
            if directory.online:
                node.logs.quarantine(key, directory)


def _is_own(node: ServerNode, key: PartitionKey, directory: LogDirectory) -> bool:
    partition = node.image.partition(*key)
    if partition is None or node.id not in partition.replicas:
        return False
    path = f"{directory.partition_path(key)}/{PARTITION_METADATA}"
    known, wanted = read_partition_metadata(directory.fs, path), node.image.topic_id(key[0])
    return known is None or wanted is None or same_but_damaged(known, wanted)


# -- imports before the registration


# What replicas, producers, consumers and transactions ask for. All other APIs, such as those of share groups, still
# cost nothing until their first request.
PRELOADED_APIS = (
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
)
_MODULES = (
    "broker.api.replica_fetch",
    "broker.coordinators.add_partitions_to_txn",
    "broker.coordinators.group_host",
    "broker.coordinators.transaction_host",
    "broker.coordinators.transaction_markers",
    "broker.requests.controller_routes",
    "protocol.messages.allocate_producer_ids_response",
)


@cache  # many brokers of a process need it once
def preload() -> None:
    """Import the modules behind the APIs of `PRELOADED_APIS`, and the coordinators, with the records of all logs.

    A first request imports its modules on the event loop. On a machine with a load of 25 a broker gets a fiftieth of a
    core, and the 150 modules behind a first produce, a first replica fetch and a first member of a group (0.13 s of
    CPU, 0.8 s where Python writes no bytecode) stop the loop for 5 to 40 s. A broker of a cluster is in sync by then:
    no record with acks=all is acknowledged in all its partitions, and the controller hears no heartbeat and fences the
    broker. A node alone keeps nobody waiting but the client that asks, and starts faster without these modules.
    """
    for api_key in PRELOADED_APIS:
        Endpoint(api_key)
    for name in _MODULES:
        import_module(f"pykafka_broker.{name}")
    for record in (*GROUP_RECORDS.values(), *TRANSACTION_RECORDS.values()):
        record.key_class()
        record.value_class()
    for metadata_record in METADATA_RECORDS.values():
        metadata_record.value_class()
