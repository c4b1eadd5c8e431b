"""AllocateProducerIds: a broker wants a block of producer ids (KIP-730).

Rule: no id is in two blocks, whoever asks, and whatever became of the answer.
"""

from __future__ import annotations

from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from pykafka_broker.protocol.stored.producer_ids_record import ProducerIdsRecord

PRODUCER_ID_BLOCK_SIZE = 1000


def allocate_producer_ids(
    controller: Controller, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """Give the broker the next block (version 0), also while it is fenced: it needs the block as soon as it serves."""
    if not controller.image.is_registered(request.broker_id, request.broker_epoch):
        return Decision([], AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    first = controller.image.next_producer_id
    record = ProducerIdsRecord(request.broker_id, request.broker_epoch, first + PRODUCER_ID_BLOCK_SIZE)
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE)
    return Decision([ApiMessageAndVersion(record, 0)], response)
