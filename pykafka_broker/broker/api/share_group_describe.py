"""ShareGroupDescribe v1 (KIP-932).

Behaviour: each group is answered by itself; a group of another kind is as good as missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.api.group_describe import describe_each
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.share_host import is_enabled
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from pykafka_broker.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


@handles(ApiKey.SHARE_GROUP_DESCRIBE)
def share_group_describe(
    broker: Broker, context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    described = describe_each(
        broker, request, is_enabled(broker), broker.groups.coordinator.describe_share, DescribedGroup, context.now
    )
    return ShareGroupDescribeResponse(groups=described)
