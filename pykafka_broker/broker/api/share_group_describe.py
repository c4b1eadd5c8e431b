"""ShareGroupDescribe v1 (KIP-932).

Behaviour: each group is answered by itself; a group of another kind is as good as missing.
"""

from __future__ import annotations

from collections.abc import Iterable

from pykafka_broker.broker.api.group_describe import describe_each
from pykafka_broker.broker.coordinators.share_host import is_enabled
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, when_committed
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from pykafka_broker.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse


@handles(ApiKey.SHARE_GROUP_DESCRIBE)
def share_group_describe(
    services: Services, context: RequestContext, request: ShareGroupDescribeRequest
) -> Answer[ShareGroupDescribeResponse]:
    described = describe_each(
        services,
        context,
        request,
        is_enabled(services.image.features),
        services.groups.coordinator.describe_share,
        _topics,
        DescribedGroup,
    )
    return when_committed(ShareGroupDescribeResponse(groups=described), services.groups.committed(*request.group_ids))


def _topics(group: DescribedGroup) -> Iterable[str]:
    return (one.topic_name for member in group.members for one in member.assignment.topic_partitions)
