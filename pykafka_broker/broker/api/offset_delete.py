"""OffsetDelete v0 (KIP-496).

Behaviour: offsets of topics that a live member of the group reads stay (GROUP_SUBSCRIBED_TO_TOPIC); a group that is not
of consumers must be empty (NON_EMPTY_GROUP).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.offset_delete_request import OffsetDeleteRequest
from pykafka_broker.protocol.messages.offset_delete_response import OffsetDeleteResponse

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


@handles(ApiKey.OFFSET_DELETE)
def offset_delete(broker: Broker, context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    host = broker.groups
    if request.group_id:
        host.require(request.group_id, context.now)
    reply: OffsetDeleteResponse = host.answer(host.coordinator.delete_offsets(request), context.now)
    return reply
