"""DeleteGroups v0-v2.

Behaviour: each group is answered by itself; only an empty one can be deleted, and its offsets go with it (KIP-229), a
share group's state too (KIP-932).
Versions: 2 is the flexible encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.coordinators.share.share_group import ShareGroup
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


@handles(ApiKey.DELETE_GROUPS)
def delete_groups(broker: Broker, context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    results = [
        DeletableGroupResult(group_id, _delete(broker, group_id, context.now))
        for group_id in dict.fromkeys(request.groups_names)
    ]
    return DeleteGroupsResponse(results=results)


def _delete(broker: Broker, group_id: str, now: int) -> ErrorCode:
    host = broker.groups
    try:
        if group_id:
            host.require(group_id, now)
        group = host.coordinator.groups.get(group_id)
        if isinstance(group, ShareGroup) and group.is_empty:
            broker.shares.delete_topics(group, list(group.initialized), now)
        error: ErrorCode = host.answer(host.coordinator.delete_group(group_id), now)
    except ApiError as refused:
        return refused.code
    return error
