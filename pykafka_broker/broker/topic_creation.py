"""Topics that nobody has asked to create: a client has named them, or a coordinator needs them.

Rule: they come to be as with CreateTopics, decided by the controller; internal topics get their own settings.
Names that can't be topics stay missing, without an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pykafka_broker.broker.node import Node
from pykafka_broker.cluster.controller import Spend, unlimited, usable_brokers
from pykafka_broker.cluster.topic_names import creatable_topic
from pykafka_broker.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


def create_missing_topics(node: Node, names: Iterable[str], spend: Spend = unlimited) -> None:
    """Create them now if that is possible; whoever has asked looks at the image afterwards."""
    brokers = len(usable_brokers(node.image))
    topics = [creatable_topic(name, node.config, brokers) for name in names]
    refused = [
        each for each in node.metadata.create_topics(topics, spend) if each.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    ]
    if refused:
        names_of_all, why = ", ".join(each.name for each in refused), refused[0].error_message
        logger.warning("Could not create %s: %s: %s", names_of_all, ErrorCode.KAFKA_STORAGE_ERROR.name, why)
