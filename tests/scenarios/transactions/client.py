"""A producer, a consumer and an administrator in one."""

from tests.scenarios.transactions.talk_coordinator import CoordinatorTalk
from tests.scenarios.transactions.talk_partitions import PartitionTalk

A0, A1, NOWHERE = ("a", 0), ("a", 1), ("nowhere", 0)  # partitions


class Client(CoordinatorTalk, PartitionTalk):
    """One connection."""
