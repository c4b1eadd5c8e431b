"""The states of a transaction.

Rule: a transaction moves only along `PREVIOUS`; any other step is a defect of the coordinator and raises. The numbers
are those of `__transaction_state`, the names those that ListTransactions and DescribeTransactions speak. The empty
state is also that of a transactional id that has never been used.
"""

from __future__ import annotations

from enum import IntEnum


class TransactionState(IntEnum):
    """Kafka's byte for each state; `title` is its name in requests and answers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6  # on its way out: never written
    PREPARE_EPOCH_FENCE = 7  # between fencing an open transaction and aborting it: never written

    @property
    def title(self) -> str:
        return _TITLES[self]

    @property
    def resting(self) -> bool:
        """No transaction is open; the transactional id may start one, and may expire."""
        return self in _RESTING

    @property
    def preparing(self) -> bool:
        """The outcome is decided and on disk; markers are being written."""
        return self is TransactionState.PREPARE_COMMIT or self is TransactionState.PREPARE_ABORT


_TITLES = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
STATE_BY_TITLE = {title: state for state, title in _TITLES.items()}

_RESTING = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

# KIP-890 lets a producer abort a transaction to which nothing was ever added; hence PREPARE_ABORT follows resting
# states too.
PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: _RESTING,
    TransactionState.ONGOING: _RESTING | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _RESTING | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _RESTING,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}


class InvalidTransition(Exception):
    """A step that `PREVIOUS` does not have."""

    def __init__(self, before: TransactionState, after: TransactionState) -> None:
        super().__init__(f"no transaction goes from {before.name} to {after.name}")
