"""How a broker of a cluster comes to serve, and leaves (KIP-500, KIP-631).

Rule: the broker knows the metadata up to its own registration before it looks at a log of clients', looks at all of
them before it lets clients in, and lets clients in before the controller sends them. Replicas that are not its own by
then are put aside, never served. Nothing is deleted or compacted before that: the topics' settings are not known.
`BrokerLifecycle` decides what the controller is told and when, be it another node or in this process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pykafka_broker.broker.lifecycle import BrokerLifecycle, Directories, Timing
from pykafka_broker.broker.strays import put_strays_aside
from pykafka_broker.cluster.bootstrap import SECURITY_PROTOCOLS
from pykafka_broker.cluster.controller import CORDONED_FROM
from pykafka_broker.cluster.features import METADATA_VERSION, SUPPORTED
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.log.log_directory import NO_EPOCH
from pykafka_broker.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener

if TYPE_CHECKING:
    from pykafka_broker.broker.assignments import AssignmentsManager
    from pykafka_broker.broker.metadata_publisher import MetadataPublisher
    from pykafka_broker.broker.node import Node
    from pykafka_broker.broker.services import Endpoint, Services, Timed
    from pykafka_broker.log.log_directory import LogDirectory

logger = logging.getLogger(__name__)


class BrokerStartup:
    """The start and the end of one broker of a cluster.

    on_serving: called when clients may be let in.
    on_unfenced: called when the controller sends clients here.
    on_refused: called with the reason why the broker can't go on.
    """

    def __init__(self, node: Node, assignments: AssignmentsManager) -> None:
        self.on_serving: Callable[[], None] = _ignore
        self.on_unfenced: Callable[[], None] = _ignore
        self.on_refused: Callable[[str], None] = logger.critical
        self._node = node
        self._assignments = assignments
        self._services: Services
        self._publisher: MetadataPublisher
        self._lifecycle: BrokerLifecycle | None = None
        if node.observed is not None:
            node.observed.on_refused = self.refused

    def join(
        self,
        services: Services,
        publisher: MetadataPublisher,
        listeners: Iterable[Endpoint],
        drive: Callable[[Timed], None],
    ) -> None:
        """Register, and go on as the answers come.

        Args:
            services: starts its coordinators when the broker serves.
            publisher: follows the partitions from then on.
            listeners: the broker's, for clients and other brokers.
            drive: takes what has deadlines.
        """
        self._services, self._publisher = services, publisher
        config = self._node.config
        self._lifecycle = lifecycle = BrokerLifecycle(
            self._registration(listeners),
            self._node.metadata.ask,
            self,
            Timing(
                config.broker_heartbeat_interval_ms,
                config.broker_session_timeout_ms,
                config.initial_broker_registration_timeout_ms,
                config.log_dir_failure_timeout_ms,
            ),
            self._node.clock.now,
        )
        self._assignments.on_change = lifecycle.tell
        drive(lifecycle)

    def _registration(self, listeners: Iterable[Endpoint]) -> BrokerRegistrationRequest:
        node = self._node
        return BrokerRegistrationRequest(
            node.id,
            node.cluster_id,
            node.new_uuid(),
            [
                Listener(each.name, *(each.advertised or (each.host, each.port)), SECURITY_PROTOCOLS[each.protocol])
                for each in listeners
            ],
            [Feature(name, lowest, highest) for name, (lowest, highest) in SUPPORTED.items()],
            node.config.broker_rack,
            previous_broker_epoch=self._previous_epoch(),
        )

    def _previous_epoch(self) -> int:
        """Return the epoch in which every directory was left cleanly: what is there is then all that the broker had."""
        directories = self._node.logs.partition_directories
        if self._node.local is not None and all(each.clean for each in directories):
            return self._node.broker_epoch  # also where this node was alone before, which notes no epoch
        epochs = {each.clean_epoch for each in directories if each.online}
        return epochs.pop() if len(epochs) == 1 else NO_EPOCH

    # -- what the lifecycle asks

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
            [each.id for each in known if logs.directory_map.is_cordoned(each)] if knows_cordoned else [],
        )

    def caught_up(self) -> None:
        node, lifecycle = self._node, self._lifecycle
        assert lifecycle is not None
        put_strays_aside(node)
        node.logs.topics_are_known = True
        node.replicas.start(MetadataDelta(), node.new_uuid)
        self._publisher.follows_partitions = True
        self._assignments.start()
        self._services.start_coordinators()
        self.on_serving()
        lifecycle.serves()

    def unfenced(self) -> None:
        logger.info("unfenced: clients are sent here from now on")
        if self._node.local is None:
            self._node.producer_ids.prepare()
        self.on_unfenced()

    def refused(self, why: str) -> None:
        self.on_refused(why)

    # -- the end

    def directory_lost(self, directory: LogDirectory) -> None:
        """End a broker that can't keep the metadata any more, as Kafka's do."""
        if self._node.logs.directory_of((CLUSTER_METADATA, 0)) is directory:
            self.refused(f"the metadata log is out of reach: {directory.trouble}")

    def leave(self, left: Callable[[], None]) -> None:
        """Ask the controller to be shut down: others lead before this broker goes. `left` is called when it may."""
        node = self._node
        if self._lifecycle is None or not node.config.controlled_shutdown_enable or self._is_last():
            left()
        else:
            self._lifecycle.leave(node.clock.now, left)

    def _is_last(self) -> bool:
        """Return whether this process is all that serves: nobody else could lead."""
        others = (broker for broker in self._node.image.brokers.values() if broker.id != self._node.id)
        return self._node.local is not None and all(broker.fenced for broker in others)

    def close(self) -> None:
        """Ask nobody any more; the directories are about to be left.

        A broker that never came to be registered leaves them as they were.
        """
        if self._node.observed is not None:
            self._node.observed.close()
        if self._lifecycle is not None:
            epoch = self._lifecycle.epoch
            for directory in self._node.logs.directories:
                directory.broker_epoch = directory.clean_epoch if epoch == NO_EPOCH else epoch


def _ignore() -> None: ...
