"""The broker's `LogListener`: events of its logs go to the replicas, the directories and the broker.

Rule: events are passed on and nothing is kept. The parts are asked for when an event comes, since the logs are made
before all of them. Apart from `Broker`, its only reader, since it is the one place where the logs reach upward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka_broker.log.manager import LogListener

if TYPE_CHECKING:
    from pykafka_broker.broker.assignments import AssignmentsManager
    from pykafka_broker.broker.replicas import Replicas
    from pykafka_broker.log.flush import Waiter
    from pykafka_broker.log.log_directory import LogDirectory, TopicPartition
    from pykafka_broker.log.partition_log import PartitionLog


class BrokerLogListener(LogListener):
    """The listener of one broker's logs.

    Args:
        replicas: returns the node's replicas.
        assignments: returns the part that tells the controller where the node's replicas are.
        directory_failed: acts on a directory that is offline, with the partitions in it.
    """

    def __init__(
        self,
        replicas: Callable[[], Replicas],
        assignments: Callable[[], AssignmentsManager],
        directory_failed: Callable[[LogDirectory, list[TopicPartition]], None],
    ) -> None:
        self._replicas = replicas
        self._assignments = assignments
        self._directory_failed = directory_failed

    def is_replicated(self, partition: TopicPartition) -> bool:
        return self._replicas().is_replicated(partition)

    def synced(self, log: PartitionLog) -> None:
        self._replicas().log_synced(log)

    def lost(self, log: PartitionLog, offset: int, error: OSError) -> None:
        self._replicas().log_lost(log, offset, error)

    def directory_failed(self, directory: LogDirectory, partitions: list[TopicPartition]) -> None:
        self._directory_failed(directory, partitions)

    def moving(self, partition: TopicPartition, target: LogDirectory, waiter: Waiter) -> None:
        self._assignments().prepare_move(partition, target, waiter)

    def moved(self, partition: TopicPartition) -> None:
        self._assignments().assign_directory(partition)
