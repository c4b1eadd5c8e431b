"""This node as a member of a cluster whose controllers are other nodes.

Rule: `BrokerLifecycle` decides what is told to the controller and when; here stands what there is to tell, and what
follows: the broker begins to serve when it has caught up, and clients may come when it is unfenced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pykafka_broker.broker.lifecycle import BrokerLifecycle, Directories, Timing
from pykafka_broker.broker.services import Endpoint
from pykafka_broker.cluster.bootstrap import SECURITY_PROTOCOLS
from pykafka_broker.cluster.controller import CORDONED_FROM
from pykafka_broker.cluster.features import METADATA_VERSION, SUPPORTED
from pykafka_broker.log.log_directory import NO_EPOCH
from pykafka_broker.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener

if TYPE_CHECKING:
    from pykafka_broker.broker.node import Node
    from pykafka_broker.broker.observed_metadata import ObservedMetadata

logger = logging.getLogger(__name__)


class Membership:
    """`serve` begins to serve; `on_unfenced` and `on_refused` are told to whoever runs the node."""

    def __init__(
        self,
        node: Node,
        metadata: ObservedMetadata,
        listeners: Iterable[Endpoint],
        *,
        serve: Callable[[], None],
        on_unfenced: Callable[[], None],
        on_refused: Callable[[str], None],
    ) -> None:
        self._node = node
        self._metadata = metadata
        self._serve = serve
        self._on_unfenced = on_unfenced
        self._on_refused = on_refused
        metadata.on_refused = self.refused
        config = node.config
        self.lifecycle = BrokerLifecycle(
            self._registration(listeners),
            metadata.ask,
            self,
            Timing(
                config.broker_heartbeat_interval_ms,
                config.broker_session_timeout_ms,
                config.initial_broker_registration_timeout_ms,
                config.log_dir_failure_timeout_ms,
            ),
            node.clock.now,
        )

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
        """The epoch in which every directory was left cleanly: what is there is then all that the broker had."""
        epochs = {each.clean_epoch for each in self._node.logs.partition_directories if each.online}
        return epochs.pop() if len(epochs) == 1 else NO_EPOCH

    # -- what the lifecycle asks

    @property
    def applied_offset(self) -> int:
        return self._metadata.applied_offset

    def directories(self) -> Directories:
        logs = self._node.logs
        known = [each for each in logs.partition_directories if each.id]
        knows_cordoned = self._metadata.image.features.get(METADATA_VERSION, 0) >= CORDONED_FROM
        return Directories(
            [each.id for each in known if each.online],
            [each.id for each in known if not each.online],
            [each.id for each in known if logs.directory_map.is_cordoned(each)] if knows_cordoned else [],
        )

    def caught_up(self) -> None:
        self._serve()
        self.lifecycle.serves()

    def close(self) -> None:
        """The directories are about to be left. Who never came to be registered leaves them as they were."""
        epoch = self.lifecycle.epoch
        for directory in self._node.logs.directories:
            directory.broker_epoch = directory.clean_epoch if epoch == NO_EPOCH else epoch

    def unfenced(self) -> None:
        logger.info("unfenced: clients are sent here from now on")
        self._node.producer_ids.prepare()
        self._on_unfenced()

    def refused(self, why: str) -> None:
        self._on_refused(why)
