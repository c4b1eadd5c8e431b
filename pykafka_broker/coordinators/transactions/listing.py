"""What ListTransactions asks for.

Rule: a filter that is empty lets everything pass; a state that nobody knows is named in the answer and matches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from pykafka_broker.coordinators.transactions.state import STATE_BY_TITLE, TransactionState
from pykafka_broker.coordinators.transactions.transaction import Transaction


class Filters(NamedTuple):
    """state_titles: each once. duration_ms below 0: any age (KIP-994); matches None: any id (KIP-1152)."""

    state_titles: Collection[str] = ()
    producer_ids: Collection[int] = ()
    duration_ms: int = -1
    matches: Callable[[str], bool] | None = None

    def unknown_titles(self) -> list[str]:
        return [title for title in self.state_titles if title not in STATE_BY_TITLE]


def select(
    transactions: Iterable[tuple[str, Transaction]], filters: Filters, now: int
) -> Iterator[tuple[str, Transaction]]:
    """The transactions that pass every filter."""
    states = {STATE_BY_TITLE[title] for title in filters.state_titles if title in STATE_BY_TITLE}
    for transactional_id, transaction in transactions:
        if transaction.state is TransactionState.DEAD:
            continue
        if filters.producer_ids and transaction.producer_id not in filters.producer_ids:
            continue
        if filters.state_titles and transaction.state not in states:
            continue
        if filters.duration_ms >= 0 and now - transaction.start_ms <= filters.duration_ms:
            continue
        if filters.matches is not None and not filters.matches(transactional_id):
            continue
        yield transactional_id, transaction
