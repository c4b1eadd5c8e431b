"""What clients did and were told in one run, for the checks after it.

Rule: what was sent is noted before it is sent, and an answer when it has come: what is in between may or may not have
happened.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum

TopicPartition = tuple[str, int]
Place = tuple[str, TopicPartition]  # of a group


class Ending(Enum):
    """Of a transaction, as its producer knows it."""

    OPEN = "was not asked to end"
    UNKNOWN = "was asked to end, and nobody knows"
    COMMITTED = "was committed"
    ABORTED = "was aborted"


class Transaction:
    """`parts`: where its records went, by value, with their partition."""

    def __init__(self, producer: str) -> None:
        self.producer = producer
        self.parts: dict[bytes, TopicPartition] = {}
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
        self.asked_offsets: dict[Place, int] = {}  # the highest that a commit was sent for
        self.committed_offsets: dict[Place, int] = {}  # the highest that was acknowledged
        self.processed: dict[Place, set[int]] = defaultdict(set)  # offsets, by groups that process at least once
        self.accepted: dict[Place, set[int]] = defaultdict(set)  # offsets, by share groups
        self.there: dict[TopicPartition, set[int]] = {}  # offsets of records, once there come no more
        self.exact: set[str] = set()  # groups that write one record for each that they have read
        self.ends: dict[TopicPartition, int] = {}  # once there comes nothing more
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

    def note_asked(self, group: str, partition: TopicPartition, offset: int) -> int:
        """It may be committed from now on. Returns what is known to be committed: what no such commit may go behind.

        To be called for each attempt: one that is answered late, or never, was before what others commit meanwhile.
        """
        key = group, partition
        self.asked_offsets[key] = max(offset, self.asked_offsets.get(key, -1))
        return self.committed_offsets.get(key, -1)

    def note_committed(self, group: str, partition: TopicPartition, offset: int, known: int) -> None:
        """Somebody was told that it is. Nobody commits less than what was `known` as the attempt was sent."""
        key = group, partition
        if offset < known:
            self.violation(f"{group} has committed {offset} of {partition}, and had {known}")
        self.committed_offsets[key] = max(offset, self.committed_offsets.get(key, -1))

    def is_shared_out(self, group: str) -> bool:
        """Whether members of a share group have been given everything."""
        return all(offsets <= self.processed[group, each] for each, offsets in self.there.items())

    def is_worked_off(self, group: str) -> bool:
        """Whether it has committed everything."""
        return all(self.committed_offsets.get((group, each), 0) >= end for each, end in self.ends.items())


def output_value(name: str, number: int, group: str, partition: TopicPartition, offset: int) -> bytes:
    """Of that record; no two attempts write the same."""
    return f"{name}.{number}>{group}:{partition[0]}:{partition[1]}:{offset}".encode()


def source_of(value: bytes) -> tuple[str, TopicPartition, int]:
    """What `output_value` says."""
    group, topic, number, offset = value.decode().partition(">")[2].split(":")
    return group, (topic, int(number)), int(offset)
