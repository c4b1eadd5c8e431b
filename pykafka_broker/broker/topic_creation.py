"""Topics that nobody has asked to create: a client has named them, or a coordinator needs them.

Rule: they come to be as with CreateTopics, decided by the controller; internal topics get their own settings.
Names that can't be topics stay missing, without an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pykafka_broker.broker.node import Node
from pykafka_broker.cluster.internal_topics import creatable_topic
from pykafka_broker.cluster.topics import create_topics
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.messages.create_topics_request import CreateTopicsRequest

logger = logging.getLogger(__name__)


def create_missing_topics(node: Node, names: Iterable[str]) -> None:
    """Create them now if that is possible; whoever has asked looks at the image afterwards."""
    controller = node.metadata.controller
    brokers = len(controller.usable_brokers())
    topics = [creatable_topic(name, node.config, brokers) for name in names]
    decision = create_topics(controller, CreateTopicsRequest(topics), 0)
    try:
        node.metadata.commit(decision.records)
    except ApiError as error:
        logger.warning("Could not create %s: %s", ", ".join(topic.name for topic in topics), error)
