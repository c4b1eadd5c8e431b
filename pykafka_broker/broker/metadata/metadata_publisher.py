"""The effects of a change of the metadata on this node.

Rule: changes are followed one after the other, each in this order: settings, partitions, directories, subscribers. A
committed change is a fact: nothing here raises, a step that fails does not keep the next from its turn, and a part that
can't follow now tries again by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.errors import counted
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.runtime import uuid_text

if TYPE_CHECKING:
    from pykafka_broker.broker.metadata.assignments import AssignmentsManager
    from pykafka_broker.broker.node import ServerNode

logger = logging.getLogger(__name__)


class MetadataPublisher:
    """The receiver of changes of the metadata on a node (Kafka: BrokerMetadataPublisher)."""

    def __init__(self, node: ServerNode, assignments: AssignmentsManager) -> None:
        self._node = node
        self._assignments = assignments
        self.follows_partitions = True  # False until this node may look at its logs

    def follow(self, delta: MetadataDelta) -> None:
        """Act on a change of the metadata. Never raises."""
        if self.follows_partitions:
            _log_topics(delta)
        if delta.configs:
            self._step(partial(self._follow_configs, delta.configs))
        if self.follows_partitions:
            self._step(partial(self._node.replicas.follow, delta))
            self._step(partial(self._assignments.follow, delta))
        for subscriber in self._node.subscribers:
            self._step(partial(subscriber, delta))

    @staticmethod
    def _step(step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:  # a defect: the change is committed, so the others have to hear of it all the same
            logger.exception("a defect while following a change of the metadata")

    def follow_broker_configs(self, touched: bool = False) -> None:
        """Lay the dynamic configs over the static configs (KIP-226).

        touched: configs of this broker were set, perhaps to the same values: files that they name are read again.
        """
        node = self._node
        default = node.image.config(ConfigResourceType.BROKER, "")
        own = node.image.config(ConfigResourceType.BROKER, str(node.id))
        if not touched and default == node.config.dynamic_default and own == node.config.dynamic_broker:
            return
        before = node.config
        node.reconfigure(node.static_config.with_dynamic(default, own))
        if node.config.cordoned_dirs != before.cordoned_dirs:
            self._assignments.on_change()
        for name in dict.fromkeys(name for name, _ in node.logs.loaded):  # other logs ask when they are loaded
            if (topic := node.image.topics.get(name)) is not None:
                node.logs.reconfigure(name, topic.partitions, node.topic_config(name))

    def _follow_configs(self, changed: Collection[tuple[int, str]]) -> None:
        node = self._node
        if any(kind == ConfigResourceType.BROKER for kind, _ in changed):
            self.follow_broker_configs(touched=(ConfigResourceType.BROKER, str(node.id)) in changed)
        for kind, name in changed:
            if kind == ConfigResourceType.TOPIC and (topic := node.image.topics.get(name)) is not None:
                node.logs.reconfigure(name, topic.partitions, node.topic_config(name))


def _log_topics(delta: MetadataDelta) -> None:
    """Log new, grown and deleted topics, so that a reader of a mistyped topic finds the cause."""
    for topic in delta.created:
        size = counted(len(topic.partitions), "partition")
        logger.info("topic %s is created: %s, id %s", topic.name, size, uuid_text(topic.id))
    created = {topic.id for topic in delta.created}
    for name, count in {t.name: len(t.partitions) for t, _ in delta.new_partitions if t.id not in created}.items():
        logger.info("topic %s has %s now", name, counted(count, "partition"))
    for topic in delta.deleted:
        logger.info("topic %s is deleted, id %s", topic.name, uuid_text(topic.id))
