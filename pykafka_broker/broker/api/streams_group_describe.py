"""StreamsGroupDescribe v0 (KIP-1071).

Behaviour: a group of another kind is GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from collections.abc import Iterable

from pykafka_broker.broker.api.consumer_group_heartbeat import offers
from pykafka_broker.broker.api.group_describe import describe_each
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, when_committed
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from pykafka_broker.protocol.messages.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)


@handles(ApiKey.STREAMS_GROUP_DESCRIBE)
def streams_group_describe(
    services: Services, context: RequestContext, request: StreamsGroupDescribeRequest
) -> Answer[StreamsGroupDescribeResponse]:
    described = describe_each(
        services,
        context,
        request,
        offers(services, "streams"),
        services.groups.coordinator.describe_streams,
        _topics,
        DescribedGroup,
    )
    return when_committed(StreamsGroupDescribeResponse(groups=described), services.groups.committed(*request.group_ids))


def _topics(group: DescribedGroup) -> Iterable[str]:
    for one in group.topology.subtopologies or () if group.topology is not None else ():
        yield from one.source_topics
        yield from one.repartition_sink_topics
        yield from (topic.name for topic in (*one.repartition_source_topics, *one.state_changelog_topics))
