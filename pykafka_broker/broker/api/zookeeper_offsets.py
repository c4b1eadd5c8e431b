"""Offsets in version 0 of their requests, which Kafka before 4.0 kept in ZooKeeper: any broker was asked, and none was
looked for first.

Rule: here a coordinator has them as all others. So its topic is there as soon as version 0 is spoken, and not only
after FindCoordinator; in a cluster the broker that is asked must be the coordinator.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.offset_fetch_response import OffsetFetchResponse

OF_ZOOKEEPER = 0


def make_room(services: Services, context: RequestContext) -> None:
    """Before a request is looked at."""
    if context.api_version == OF_ZOOKEEPER and CONSUMER_OFFSETS not in services.image.topics:
        services.node.create_missing_topics([CONSUMER_OFFSETS])


def as_zookeeper_said(response: OffsetFetchResponse) -> OffsetFetchResponse:
    """What nobody has committed was an error."""
    for topic in response.topics:
        for one in topic.partitions:
            if one.committed_offset < 0 and not one.error_code:
                one.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return response
