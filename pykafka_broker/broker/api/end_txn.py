"""EndTxn v0-v5.

Behaviour: answered when the outcome is committed and the markers of partitions without other replicas are on disk, so
that the next request of the producer meets no transaction that is still ending. Markers that other brokers have to
write or fetch are not waited for. Versions: 2 knows PRODUCER_FENCED, 5 bumps the epoch and answers the producer
id and epoch to go on with (KIP-890).
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer, when_committed
from pykafka_broker.coordinators.transactions.coordinator import ProducerReply
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.end_txn_response import EndTxnResponse

FENCED_FROM = 2
BUMPING_FROM = 5


@handles(ApiKey.END_TXN)
def end_txn(services: Services, context: RequestContext, request: EndTxnRequest) -> Answer[EndTxnResponse]:
    version = context.api_version
    try:
        services.authorise(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
        reply = services.transactions.end_transaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            2 if version >= BUMPING_FROM else 0,
            context.now,
        )
    except ApiError as error:
        reply = ProducerReply(error.code)
    code = reply.error
    if code is ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    response = EndTxnResponse(error_code=code, producer_id=reply.producer_id, producer_epoch=reply.producer_epoch)
    return when_committed(response, services.transactions.committed(request.transactional_id, reply.error))
