"""The events of a `LogManager` that its node acts on.

Rule: the log manager knows one listener, from its constructor on, and asks or tells it nothing but what stands here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka_broker.log.flush import Waiter
    from pykafka_broker.log.log_directory import LogDirectory, TopicPartition
    from pykafka_broker.log.partition_log import PartitionLog


class LogListener:
    """A listener that acts on nothing, for logs without a node; the broker's overrides every method."""

    def is_replicated(self, partition: TopicPartition) -> bool:
        """Return whether the partition has other replicas: its log then begins with the checkpointed high watermark."""
        return False

    def synced(self, log: PartitionLog) -> None:
        """Act on records that outlive a power cut from now on."""

    def lost(self, log: PartitionLog, offset: int, error: OSError) -> None:
        """Act on the loss of the records from `offset` on: they were cut off, or their sync has failed."""

    def directory_failed(self, directory: LogDirectory, partitions: list[TopicPartition]) -> None:
        """Act on a directory that is offline, with these partitions."""

    def moving(self, partition: TopicPartition, target: LogDirectory, waiter: Waiter) -> None:
        """Announce that the partition is about to be in `target`; call `waiter` when that is known for certain."""
        waiter(None)

    def moved(self, partition: TopicPartition) -> None:
        """Act on a partition that is in another directory now."""
