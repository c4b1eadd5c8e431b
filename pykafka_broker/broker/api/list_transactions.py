"""ListTransactions v0-v2 (KIP-664).

Behaviour: the transactional ids that this node coordinates, that pass every filter and that the client may describe; a
state that nobody knows is named in the answer.
Versions: 1 filters by the time a transaction has been running (KIP-994), 2 by a pattern of the whole transactional id
(KIP-1152).
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer, when_committed
from pykafka_broker.coordinators.transactions.coordinator import TransactionFilters, matching_transactions
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.list_transactions_request import ListTransactionsRequest
from pykafka_broker.protocol.messages.list_transactions_response import ListTransactionsResponse, TransactionState


@handles(ApiKey.LIST_TRANSACTIONS)
def list_transactions(
    services: Services, context: RequestContext, request: ListTransactionsRequest
) -> Answer[ListTransactionsResponse]:
    filters = TransactionFilters(
        dict.fromkeys(request.state_filters),
        frozenset(request.producer_id_filters),
        request.duration_filter,
        _matcher(request.transactional_id_pattern),
    )
    found = matching_transactions(services.transactions.transactions(), filters, context.now)
    response = ListTransactionsResponse(
        unknown_state_filters=filters.unknown_titles(),
        transaction_states=[
            TransactionState(name, transaction.producer_id, transaction.state.title)
            for name, transaction in found
            if services.allows(context, AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, name)
        ],
    )
    return when_committed(response, services.transactions.all_committed())


def _matcher(pattern: str | None) -> Callable[[str], bool] | None:
    if not pattern:
        return None
    from pykafka_broker.coordinators.groups.re2 import RegexError, compile_regex  # nothing else here needs it

    try:
        return compile_regex(pattern).matches
    except RegexError as error:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None
