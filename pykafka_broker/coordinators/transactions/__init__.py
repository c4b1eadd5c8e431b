"""Transactions (KIP-98, KIP-360, KIP-890): a sans-IO coordinator over `__transaction_state`."""

from pykafka_broker.coordinators.transactions.coordinator import (
    Markers,
    ProducerReply,
    Settings,
    TransactionCoordinator,
)
from pykafka_broker.coordinators.transactions.listing import Filters, select
from pykafka_broker.coordinators.transactions.state import TransactionState
from pykafka_broker.coordinators.transactions.transaction import TopicPartition, Transaction

__all__ = [
    "Filters",
    "Markers",
    "ProducerReply",
    "Settings",
    "TopicPartition",
    "Transaction",
    "TransactionCoordinator",
    "TransactionState",
    "select",
]
