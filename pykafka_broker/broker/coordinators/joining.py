"""What a transaction's coordinator says of a partition, and the words in which producers are told.

Rule: no version of a producer is told an error that it does not know, or takes for the end of what it could try again.
"""

from __future__ import annotations

from typing import NamedTuple

from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

IMPLICIT_ADD_FROM_PRODUCE = 12  # KIP-890: producing is joining
ABORTABLE_FROM_PRODUCE = 11
# Older producers don't retry these as they should; this one they do, and without asking for metadata.
_NOT_ENOUGH_REPLICAS = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


def refused_join(error: ErrorCode, implicit: bool, knows_abortable: bool) -> ApiError:
    """What a producer is told whose records or offsets don't belong to its transaction, in words that its version
    knows.
    """
    if error is ErrorCode.PRODUCER_FENCED:
        return ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)  # the only name for it on this path
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ApiError(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    if error in _NOT_ENOUGH_REPLICAS or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not implicit):
        reason = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, reason)
    return ApiError(error)


class Joined(NamedTuple):
    """The verdict of this node's coordinator, which may be told once it is `committed`."""

    verdict: ErrorCode
    committed: Future[None]
