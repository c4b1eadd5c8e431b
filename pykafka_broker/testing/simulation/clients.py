"""Clients whose behaviour would otherwise depend on more than the seed.

Rule: a client that has been imported is changed while a simulated loop runs, and is itself again afterwards. The
changes concern only what the loop can't reach: time read in C, hashes of addresses, counters of the process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

NowMs = Callable[[], int]


class ClientPatches:
    """The changes to clients on one loop."""

    def __init__(self, now_ms: NowMs) -> None:
        self._now_ms = now_ms
        self._patches: dict[str, list[Any]] = {}

    def apply(self) -> None:
        """Change the clients that have been imported by now."""
        for name, changes in _CLIENTS.items():
            if name in sys.modules and name not in self._patches:
                self._patches[name] = changes(sys.modules[name], self._now_ms)
                for patch in self._patches[name]:
                    patch.start()

    def undo(self) -> None:
        """Change them back."""
        while self._patches:
            for patch in self._patches.popitem()[1]:
                patch.stop()


def _producer(module: Any, now_ms: NowMs) -> list[Any]:
    """Give names to producers from 1 on."""
    return [mock.patch.object(module.AIOKafkaProducer, "_PRODUCER_CLIENT_ID_SEQUENCE", 0)]


def _accumulator(module: Any, now_ms: NowMs) -> list[Any]:
    """Stamp records with the virtual time: the encoder reads the system's clock in C."""
    append = module.BatchBuilder.append

    def stamped(builder: Any, *, timestamp: int | None, **record: Any) -> Any:
        return append(builder, timestamp=now_ms() if timestamp is None else timestamp, **record)

    return [mock.patch.object(module.BatchBuilder, "append", stamped)]


def _cluster(module: Any, now_ms: NowMs) -> list[Any]:
    """Walk brokers in the order of the metadata: the hash of None is an address before Python 3.12."""

    def brokers(metadata: Any) -> Any:
        return dict.fromkeys(metadata._brokers.values() or metadata._bootstrap_brokers.values()).keys()

    return [mock.patch.object(module.ClusterMetadata, "brokers", brokers)]


def _client(module: Any, now_ms: NowMs) -> list[Any]:
    """Ask for the metadata of topics in the order of their names: text in a set has the order of PYTHONHASHSEED."""
    update = module.AIOKafkaClient._metadata_update

    def in_order(client: Any, cluster: Any, topics: Any) -> Any:
        return update(client, cluster, sorted(topics) if topics else topics)

    return [mock.patch.object(module.AIOKafkaClient, "_metadata_update", in_order)]


class _InOrder(frozenset[Any]):
    """A set that is walked in the order of its elements."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__()))


def _subscriptions(module: Any, now_ms: NowMs) -> list[Any]:
    """Walk topics and partitions of a consumer in the order of their names."""

    def sorted_in(owner: Any, name: str) -> Any:
        made = owner.__init__

        def with_order(self: Any, topics: Any, *rest: Any, **named: Any) -> None:
            made(self, topics, *rest, **named)
            setattr(self, name, _InOrder(getattr(self, name)))

        return mock.patch.object(owner, "__init__", with_order)

    return [sorted_in(module.Subscription, "_topics"), sorted_in(module.Assignment, "_topic_partitions")]


def _transactions(module: Any, now_ms: NowMs) -> list[Any]:
    """Add partitions to a transaction in the order of their names."""
    pending = module.TransactionManager.partitions_to_add
    return [mock.patch.object(module.TransactionManager, "partitions_to_add", lambda self: _InOrder(pending(self)))]


_CLIENTS: dict[str, Callable[[Any, NowMs], list[Any]]] = {
    "aiokafka.producer.producer": _producer,
    "aiokafka.producer.message_accumulator": _accumulator,
    "aiokafka.cluster": _cluster,
    "aiokafka.client": _client,
    "aiokafka.producer.transaction_manager": _transactions,
    "aiokafka.consumer.subscription_state": _subscriptions,
}
