"""OffsetDelete v0 (KIP-496).

Behaviour: offsets of topics that a live member of the group reads stay (GROUP_SUBSCRIBED_TO_TOPIC); a group that is not
of consumers must be empty (NON_EMPTY_GROUP).
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.offset_delete_request import OffsetDeleteRequest


@handles(ApiKey.OFFSET_DELETE)
def offset_delete(services: Services, context: RequestContext, request: OffsetDeleteRequest) -> Any:
    host = services.groups
    if request.group_id:
        host.require(request.group_id)
    return host.answer(request.group_id, host.coordinator.delete_offsets(request))
