"""A broker whose controllers are other nodes: when it does what (KIP-500, KIP-631).

Rule: it knows the metadata up to its own registration before it looks at a log of clients', looks at all of them before
it lets clients in, and lets clients in before the controller sends them. What it holds that is not its own by then is
put aside, never served. Nothing is deleted or compacted before that: the topics' settings are not known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pykafka_broker.broker.membership import Membership
from pykafka_broker.broker.strays import put_strays_aside
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA

if TYPE_CHECKING:
    from pykafka_broker.broker.assignments import AssignmentsManager
    from pykafka_broker.broker.metadata_publisher import MetadataPublisher
    from pykafka_broker.broker.node import Node
    from pykafka_broker.broker.observed_metadata import ObservedMetadata
    from pykafka_broker.broker.services import Endpoint, Services, Timed
    from pykafka_broker.log.log_directory import LogDirectory

logger = logging.getLogger(__name__)


class Observing:
    """Of one broker. Whoever runs it is told: `on_serving`, let clients in; `on_unfenced`, they are sent here;
    `on_refused`, it can't go on, and why.
    """

    def __init__(self, node: Node, metadata: ObservedMetadata, assignments: AssignmentsManager) -> None:
        self.on_serving: Callable[[], None] = _nobody_cares
        self.on_unfenced: Callable[[], None] = _nobody_cares
        self.on_refused: Callable[[str], None] = logger.critical
        self._node = node
        self._assignments = assignments
        self._metadata = metadata
        self._services: Services
        self._publisher: MetadataPublisher
        self._membership: Membership | None = None

    def join(
        self,
        services: Services,
        publisher: MetadataPublisher,
        listeners: Iterable[Endpoint],
        drive: Callable[[Timed], None],
    ) -> None:
        """Register, and go on as the answers come. `drive` takes what has deadlines."""
        self._services, self._publisher = services, publisher
        self._membership = membership = Membership(
            self._node,
            self._metadata,
            listeners,
            serve=self._serve,
            on_unfenced=lambda: self.on_unfenced(),
            on_refused=lambda why: self.on_refused(why),
        )
        self._assignments.on_change = membership.lifecycle.tell
        drive(membership.lifecycle)

    def _serve(self) -> None:
        node = self._node
        put_strays_aside(node)
        node.logs.topics_are_known = True
        node.replicas.start(MetadataDelta(), node.new_uuid)
        self._publisher.follows_partitions = True
        self._assignments.start()
        self._services.start_coordinators()
        self.on_serving()

    def directory_lost(self, directory: LogDirectory) -> None:
        """A broker that can't keep the metadata any more ends, as Kafka's do."""
        if self._node.logs.directory_of((CLUSTER_METADATA, 0)) is directory:
            self.on_refused(f"the metadata log is out of reach: {directory.trouble}")

    def leave(self, left: Callable[[], None]) -> None:
        """Ask the controller to be shut down: others lead before this broker goes. `left` is called when it may."""
        if self._membership is None or not self._node.config.controlled_shutdown_enable:
            left()
        else:
            self._membership.lifecycle.leave(self._node.clock.now, left)

    def close(self) -> None:
        """Ask nobody any more."""
        self._metadata.close()
        if self._membership is not None:
            self._membership.close()


def _nobody_cares() -> None: ...
