"""InitProducerId v0-v6. Not in `transactions.py`, which producers without transactions need not import.

Behaviour: a request without a transactional id gets a new producer id and never fails. With a transactional id it takes
the id over: the producer that held the id is fenced, and its open transaction is aborted first (the answer is then
CONCURRENT_TRANSACTIONS, and the client comes back).
Versions: 3 lets a producer go on with its id and epoch after an error (KIP-360), 4 knows PRODUCER_FENCED, 6 two-phase
commit (KIP-939).
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, all_of, when_committed
from pykafka_broker.coordinators.transactions.coordinator import ProducerReply
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.init_producer_id_response import InitProducerIdResponse

_FENCED_FROM = 4


@handles(ApiKey.INIT_PRODUCER_ID)
def init_producer_id(
    services: Services, context: RequestContext, request: InitProducerIdRequest
) -> Answer[InitProducerIdResponse]:
    try:
        reply = _take_over(services, context, request)
    except ApiError as error:
        reply = ProducerReply(error.code)
    code = reply.error
    if code is ErrorCode.PRODUCER_FENCED and context.api_version < _FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    response = InitProducerIdResponse(
        error_code=code, producer_id=reply.producer_id, producer_epoch=reply.producer_epoch
    )
    committed = services.metadata.committed()  # the id may be of a block whose record is not committed yet
    if request.transactional_id:
        committed = all_of(committed, services.transactions.committed(request.transactional_id, reply.error))
    return when_committed(response, committed)


def _take_over(services: Services, context: RequestContext, request: InitProducerIdRequest) -> ProducerReply:
    _check_rights(services, context, request)
    expected = (request.producer_id, request.producer_epoch)
    if expected.count(-1) == 1:
        return ProducerReply(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return ProducerReply(ErrorCode.NONE, services.node.producer_ids.next_id(), 0)
    if not request.transactional_id:
        return ProducerReply(ErrorCode.INVALID_REQUEST)
    return services.transactions.init_producer_id(
        request.transactional_id,
        request.transaction_timeout_ms,
        None if expected == (-1, -1) else expected,
        context.now,
        two_phase=request.enable2_pc,
        keep_prepared=request.keep_prepared_txn,
    )


def _check_rights(services: Services, context: RequestContext, request: InitProducerIdRequest) -> None:
    """Raise the denial of a client without the rights; a right to write to any topic is enough (KIP-679)."""
    rights, transactional_id = services.rights(context), request.transactional_id
    if transactional_id is not None:
        rights.require(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id)
        if request.enable2_pc:
            rights.require(AclOperation.TWO_PHASE_COMMIT, AclResourceType.TRANSACTIONAL_ID, transactional_id)
    elif not rights.allow_some(AclOperation.WRITE, AclResourceType.TOPIC):
        rights.require(AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER, log=False)
