"""What clients did and were told in one run, for the checks after it.

Rule: what was sent is noted before it is sent, and an answer when it has come: what is in between may or may not have
happened.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum

TopicPartition = tuple[str, int]


class Ending(Enum):
    """Of a transaction, as its producer knows it."""

    OPEN = "was not asked to end"
    UNKNOWN = "was asked to end, and nobody knows"
    COMMITTED = "was committed"
    ABORTED = "was aborted"


class Transaction:
    """`parts`: where its records went, by value, with their partition; `offset`: what it commits for its group."""

    def __init__(self, producer: str) -> None:
        self.producer = producer
        self.parts: dict[bytes, TopicPartition] = {}
        self.group = ""
        self.offset = -1
        self.ending = Ending.OPEN


class History:
    """Everything, in the order in which it happened."""

    def __init__(self) -> None:
        self.sent: dict[tuple[str, TopicPartition], list[bytes]] = defaultdict(list)  # by producer: in this order
        self.acknowledged: dict[TopicPartition, dict[bytes, int]] = defaultdict(
            dict
        )  # values with offsets; -1: not told
        self.read: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)  # by any reader
        self.read_committed: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        self.transactions: list[Transaction] = []
        self.asked_offsets: dict[str, int] = {}  # by group: the highest that a commit was sent for
        self.committed_offsets: dict[str, int] = {}  # the highest that was acknowledged
        self.leaders: dict[tuple[bytes, int, int], int] = {}  # by topic id, partition and epoch
        self.violations: list[str] = []
        self.did: dict[str, int] = defaultdict(int)  # how often what happened

    def violation(self, text: str) -> None:
        """Something that must not be."""
        self.violations.append(text)

    def note_read(self, partition: TopicPartition, offset: int, value: bytes, *, committed: bool) -> None:
        """A reader got a record. It must be the one that everybody gets there."""
        for read in (self.read, self.read_committed)[: 1 + committed]:
            known = read[partition].setdefault(offset, value)
            if known != value:
                self.violation(f"{partition} {offset}: read as {known!r} and as {value!r}")

    def note_leader(self, topic_id: bytes, partition: int, epoch: int, node: int) -> None:
        """A node takes itself for the leader."""
        known = self.leaders.setdefault((topic_id, partition, epoch), node)
        if known != node:
            self.violation(f"partition {partition} has two leaders in epoch {epoch}: {known} and {node}")
