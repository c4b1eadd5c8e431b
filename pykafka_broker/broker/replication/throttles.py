"""How fast replicas may catch up (`leader.` and `follower.replication.throttled.rate` and `.replicas`).

Rule: a throttle holds back only replicas that the topic's settings name, and never a replica in sync: an operator who
moves partitions wants these to keep up. The bytes of the throttled replicas are measured as Kafka measures them.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.security.quotas.rate import SteadyRate, Windows

_ALL = ["*"]
_SHORTEST_MS = 50


class Throttle:
    """The replicated bytes of a node in one direction (Kafka: ReplicationQuotaManager).

    named: returns the replicas that a topic names.
    limit: returns the bytes a second; None for any.
    """

    def __init__(
        self, node_id: int, windows: Windows, named: Callable[[Partition], list[str]], limit: Callable[[], int | None]
    ) -> None:
        self._node_id = node_id
        self._rate = SteadyRate(windows)
        self._named = named
        self._limit = limit

    def concerns(self, partition: Partition) -> bool:
        """Return whether the node's replica of a partition is throttled."""
        named = self._named(partition)
        return bool(named) and (named == _ALL or f"{partition.index}:{self._node_id}" in named)

    def record(self, partition: Partition, size: int, now: int) -> None:
        """Count replicated bytes."""
        if size and self.concerns(partition):
            self._rate.record(size, now)

    def held_ms(self, partition: Partition, replica_id: int, now: int) -> int:
        """Return for how long a replica is to wait; 0 if the replica may continue.

        With a limit of 0 a replica waits while the windows still hold replicated bytes, as with Kafka.
        """
        limit = self._limit()
        if limit is None or replica_id in partition.isr or not self.concerns(partition):
            return 0
        over_ms = self._rate.throttle_ms(limit, now) if limit else self._rate.matters(now)
        return max(over_ms, _SHORTEST_MS) if over_ms else 0
