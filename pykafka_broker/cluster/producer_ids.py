"""AllocateProducerIds v0: a block of producer ids for a broker (KIP-730).

Rule: no id is handed out twice, whatever becomes of the broker: what is left of its block is lost with it.
"""

from __future__ import annotations

from pykafka_broker.cluster.controller import PRODUCER_ID_BLOCK_SIZE, Controller, Decision
from pykafka_broker.cluster.heartbeats import known_broker
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from pykafka_broker.protocol.stored.producer_ids_record import ProducerIdsRecord


def allocate_producer_ids(
    controller: Controller, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """Raises STALE_BROKER_EPOCH for a broker that is not registered so."""
    broker = known_broker(controller, request.broker_id, request.broker_epoch)
    first = controller.image.next_producer_id
    record = ProducerIdsRecord(broker.id, broker.epoch, first + PRODUCER_ID_BLOCK_SIZE)
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE)
    return Decision([ApiMessageAndVersion(record, 0)], response)
