"""DescribeTransactions v0 (KIP-664).

Behaviour: what the coordinator knows of each transactional id, also when its last transaction is over. While markers
are being written only the partitions that lack theirs are listed. Topics that the client may not describe are left out.
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
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


@handles(ApiKey.DESCRIBE_TRANSACTIONS)
def describe_transactions(
    services: Services, context: RequestContext, request: DescribeTransactionsRequest
) -> Answer[DescribeTransactionsResponse]:
    response = DescribeTransactionsResponse(
        transaction_states=[_state(services, context, name) for name in request.transactional_ids]
    )
    return when_committed(response, services.transactions.shards.committed(*request.transactional_ids))


def _state(services: Services, context: RequestContext, name: str) -> TransactionState:
    try:
        services.authorise(context, AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, name)
        if not name:
            return TransactionState(ErrorCode.INVALID_REQUEST, name)
        transaction = services.transactions.transaction(name)
    except ApiError as error:
        return TransactionState(error.code, name)
    if transaction is None:
        return TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, name)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(services.transactions.unwritten(name, transaction)):
        if topic in topics or services.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic):
            topics.setdefault(topic, []).append(partition)
    return TransactionState(
        transactional_id=name,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic, partitions) for topic, partitions in topics.items()],
    )
