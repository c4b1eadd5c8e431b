"""AllocateProducerIds: a broker wants a block of producer ids (KIP-730).

Rule: no id is in two blocks, whoever asks, and whatever became of the answer.
"""

from __future__ import annotations

from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse


def allocate_producer_ids(
    controller: Controller, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """Version 0. A broker that is fenced may have one too: it needs it as soon as it is not."""
    if not controller.image.is_registered(request.broker_id, request.broker_epoch):
        return Decision([], AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    decision = controller.allocate_producer_ids(request.broker_id)
    first, size = decision.reply
    return Decision(decision.records, AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=size))
