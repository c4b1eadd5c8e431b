"""Errors for a producer whose records don't belong to its transaction."""

from __future__ import annotations

import pytest

from pykafka_broker.broker.coordinators.add_partitions_to_txn import verification_error
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode


@pytest.mark.parametrize(
    ("error", "implicit", "knows_abortable", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, True, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, False, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.NOT_COORDINATOR, True, True, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, True, True, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False, True, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, False, True, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, True, True, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, True, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_a_refusal_in_words_that_a_producer_knows(
    error: ErrorCode, implicit: bool, knows_abortable: bool, told: ErrorCode
) -> None:
    refused = verification_error(error, implicit, knows_abortable)
    assert isinstance(refused, ApiError)
    assert refused.code is told
