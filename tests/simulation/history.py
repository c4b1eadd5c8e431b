"""The history of one run, all requests and answers of its clients, for the checks after the run.

Rule: a request is noted before it is sent, and an answer after it has arrived. A request without an answer may or may
not have taken effect.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from pykafka_broker.protocol.enums import PartitionKey
from tests.simulation.keeping import KEPT, Keeping

Place = tuple[str, PartitionKey]  # group, and partition


class Ending(Enum):
    """The ending of a transaction, as far as its producer knows."""

    OPEN = "was not asked to end"
    UNKNOWN = "was asked to end, and nobody knows"
    COMMITTED = "was committed"
    ABORTED = "was aborted"


class Transaction:
    """A transaction. parts: partition of each record, by value; offsets: offset of each record whose answer told it."""

    def __init__(self, producer: str) -> None:
        self.producer = producer
        self.parts: dict[bytes, PartitionKey] = {}
        self.offsets: dict[bytes, int] = {}
        self.ending = Ending.OPEN


class TimeAnswer(NamedTuple):
    """An answer of ListOffsets for a time: the first record with that time or a later one, -1 for none."""

    partition: PartitionKey
    wanted: int
    offset: int
    timestamp: int
    end: int  # what the leader certainly had when it was asked
    start_is_known: bool  # whether no log begins above `History.highest_start`


class History:
    """All notes of a run. keeping: the retention of the records of `topic`."""

    def __init__(self, topic: str = "", keeping: Keeping = KEPT) -> None:
        self.topic = topic
        self.keeping = keeping
        self.sent: dict[tuple[str, PartitionKey], list[bytes]] = defaultdict(list)  # by producer, in sending order
        self.acknowledged: dict[PartitionKey, dict[bytes, int]] = defaultdict(
            dict
        )  # offset by value, -1 if no answer told it
        self.read: dict[PartitionKey, dict[int, bytes]] = defaultdict(dict)  # by any reader
        self.read_committed: dict[PartitionKey, dict[int, bytes]] = defaultdict(dict)
        self.unheard: list[tuple[PartitionKey, list[bytes]]] = []  # batches with acks=0
        self.transactions: list[Transaction] = []
        self.asked_offsets: dict[Place, int] = {}  # the highest that a commit was sent for
        self.committed_offsets: dict[Place, int] = {}  # the highest that was acknowledged
        self.processed: dict[Place, set[int]] = defaultdict(set)  # offsets, by groups that process at least once
        self.accepted: dict[Place, set[int]] = defaultdict(set)  # offsets, by share groups
        self.there: dict[PartitionKey, set[int]] = {}  # offsets that every reader gets, known at the end
        self.exact: set[str] = set()  # groups that write exactly one record for each that they read
        self.shared: set[str] = set()  # share groups
        self.beginnings: dict[Place, int] = {}  # offsets that share groups were told to begin at
        self.skipped: dict[Place, list[range]] = defaultdict(list)  # offsets that members skipped as deleted
        self.counts: dict[str, int] = {}  # partitions of topics, as far as their growth was acknowledged
        self.ends: dict[PartitionKey, int] = {}  # log end offsets, known at the end
        self.leaders: dict[tuple[bytes, int, int], int] = {}  # by topic id, partition and epoch
        self._newest: dict[tuple[bytes, int], int] = {}
        self.violations: list[str] = []
        self.did: dict[str, int] = defaultdict(int)  # number of events, by name
        self.rare: Counter[str] = Counter()  # how often each rare state was reached
        self.keys: dict[bytes, bytes] = {}  # keys of values in a compacted topic
        self.times: dict[bytes, int] = {}  # timestamps of values
        self.tombstones: dict[PartitionKey, dict[bytes, int]] = defaultdict(dict)  # by key: the last one's offset
        self.doubtful: set[tuple[PartitionKey, bytes]] = set()  # keys with a tombstone at an unknown offset
        self.asked_starts: dict[PartitionKey, int] = {}  # the highest that DeleteRecords was asked for
        self.emptying: Counter[PartitionKey] = Counter()  # attempts to delete everything whose outcome is unknown
        self.seen_starts: dict[PartitionKey, int] = {}  # the highest log start of any replica
        self.starts_last = False  # whether a log's start outlives every fault of the run
        self.told_starts: dict[PartitionKey, int] = {}  # the highest low watermark that DeleteRecords has told
        self.starts: dict[PartitionKey, int] = {}  # log start offsets, known at the end
        self.by_time: list[TimeAnswer] = []

    def copy(self) -> History:
        """Return what is known now. Rare states are counted together."""
        made = copy.deepcopy(self)
        made.rare = self.rare
        return made

    def violation(self, text: str) -> None:
        """Note a violation."""
        self.violations.append(text)

    def note_read(self, partition: PartitionKey, offset: int, value: bytes, *, committed: bool) -> None:
        """Note a record that a reader got; all readers must get the same record at an offset."""
        if self.keeping.lossy:
            return
        for read in (self.read, self.read_committed)[: 1 + committed]:
            known = read[partition].setdefault(offset, value)
            if known != value:
                self.violation(f"{partition} {offset}: read as {known!r} and as {value!r}")

    def note_leader(self, topic_id: bytes, partition: int, epoch: int, node: int) -> None:
        """Note a node that believes itself the leader; an epoch must have only one."""
        self._newest[topic_id, partition] = max(epoch, self.newest_epoch(topic_id, partition))
        known = self.leaders.setdefault((topic_id, partition, epoch), node)
        if known != node:
            self.violation(f"partition {partition} has two leaders in epoch {epoch}: {known} and {node}")

    def newest_epoch(self, topic_id: bytes, partition: int) -> int:
        """Return the newest epoch in which any node has taken itself for the leader, -1 for none."""
        return self._newest.get((topic_id, partition), -1)

    def note_deleting(self, partition: PartitionKey, offset: int) -> None:
        """Note a DeleteRecords before it is sent. offset: -1 for the high watermark at the time of the deletion."""
        if offset < 0:
            self.emptying[partition] += 1
        self.asked_starts[partition] = max(offset, self.asked_starts.get(partition, 0))

    def note_deleted(self, partition: PartitionKey, offset: int, low_watermark: int, *, lasts: bool) -> None:
        """Note the answer to a DeleteRecords: no record below the low watermark is left.

        lasts: the next leader will not have these records either.
        """
        if offset < 0:
            self.emptying[partition] -= 1
        starts = self.told_starts if lasts else self.asked_starts
        starts[partition] = max(low_watermark, starts.get(partition, 0))

    def note_asked(self, group: str, partition: PartitionKey, offset: int) -> int:
        """Note a commit before it is sent; return the known committed offset, which this commit may not fall below.

        Call this for each attempt: an attempt that is answered late, or never, may precede commits of others.
        """
        key = group, partition
        self.asked_offsets[key] = max(offset, self.asked_offsets.get(key, -1))
        return self.committed_offsets.get(key, -1)

    def note_committed(self, group: str, partition: PartitionKey, offset: int, known: int) -> None:
        """Note an acknowledged commit. known: what was committed when the attempt was sent; less is a violation."""
        key = group, partition
        if offset < known and not self.keeping.lossy:
            self.violation(f"{group} has committed {offset} of {partition}, and had {known}")
        self.committed_offsets[key] = max(offset, self.committed_offsets.get(key, -1))

    def deletes(self, partition: PartitionKey) -> bool:
        """Return whether the partition's log may begin above 0."""
        return partition[0] == self.topic and self.keeping.deletes

    def highest_start(self, partition: PartitionKey) -> int:
        """Return an offset that no log of the partition has ever begun above."""
        starts = (self.asked_starts, self.told_starts, self.seen_starts)
        return max(each.get(partition, 0) for each in starts)

    def note_skipped(self, group: str, partition: PartitionKey, position: int, start: int) -> None:
        """Note that a member's position was deleted and that it goes on at `start`, where the log begins."""
        self.skipped[group, partition].append(range(position, start))

    def wanted_by(self, group: str, partition: PartitionKey, offsets: Iterable[int]) -> set[int]:
        """Return those of the offsets that the group must have processed.

        A new leader may still have records that the old leader had deleted: members that heard of the deletion have
        skipped these records, and may do so. The leader of a share group skips deleted records without telling any
        member, so deletions by any replica count.
        """
        if group in self.shared:
            lowest = max(self.highest_start(partition), self.beginnings.get((group, partition), 0))
            return {offset for offset in offsets if offset >= lowest}
        skipped = self.skipped.get((group, partition), [])
        return {offset for offset in offsets if not any(offset in each for each in skipped)}

    def known_end(self, partition: PartitionKey) -> int:
        """Return the offset behind the last acknowledged record."""
        return 1 + max(self.acknowledged[partition].values(), default=-1)

    def is_shared_out(self, group: str) -> bool:
        """Return whether members of a share group have been given all records."""
        return all(
            self.wanted_by(group, each, offsets) <= self.processed[group, each] for each, offsets in self.there.items()
        )

    def is_worked_off(self, group: str) -> bool:
        """Return whether the group has committed every partition's end."""
        return all(self.committed_offsets.get((group, each), 0) >= end for each, end in self.ends.items())


def output_value(name: str, number: int, group: str, partition: PartitionKey, offset: int) -> bytes:
    """Return the output record for an input record; `name` and `number` make it unique to the attempt."""
    return f"{name}.{number}>{group}:{partition[0]}:{partition[1]}:{offset}".encode()


def source_of(value: bytes) -> tuple[str, PartitionKey, int]:
    """Return the group, partition and offset from a value that `output_value` made."""
    group, topic, number, offset = value.decode().partition(">")[2].split(":")
    return group, (topic, int(number)), int(offset)
