"""AddOffsetsToTxn v0-v4.

Behaviour: the partition of `__consumer_offsets` that holds the group takes part in the transaction. Versions: 2 knows
PRODUCER_FENCED. Producers of transaction version 2 no longer ask: their TxnOffsetCommit v5 does it (KIP-890).
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer, when_committed
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from pykafka_broker.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse

FENCED_FROM = 2


@handles(ApiKey.ADD_OFFSETS_TO_TXN)
def add_offsets_to_txn(
    services: Services, context: RequestContext, request: AddOffsetsToTxnRequest
) -> Answer[AddOffsetsToTxnResponse]:
    try:
        services.authorise(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
        services.authorise(context, AclOperation.READ, AclResourceType.GROUP, request.group_id)
        code = services.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [services.offsets_partition(request.group_id)],
            0,
            context.now,
        )
    except ApiError as error:
        code = error.code
    if code is ErrorCode.PRODUCER_FENCED and context.api_version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    response = AddOffsetsToTxnResponse(error_code=code)
    return when_committed(response, services.transactions.committed(request.transactional_id, code))
