"""The findings of a check, in plain lines, and the evidence for them."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, TypeVar

from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS
from pykafka_broker.control.history.facts import (
    Deleted,
    Ended,
    Fact,
    Fetched,
    Joined,
    OffsetCommitted,
    Produced,
    RecordsAcknowledged,
    RecordsAcquired,
    fact_of,
)
from pykafka_broker.control.history.outlines import LOG_ROWS, BatchOutline, Outline, outline_of_row
from pykafka_broker.protocol.enums import PartitionKey

F = TypeVar("F", bound=Fact)
_OF_RECORDS = (Produced, Fetched, OffsetCommitted, Ended, RecordsAcquired, RecordsAcknowledged)

Anomaly = Literal[
    "lost write",
    "inconsistent offsets",
    "duplicate",
    "out of order",
    "fenced writer",
    "write cycle",
    "circular information flow",
    "aborted read",
    "precommitted read",
    "unacknowledged read",
    "poll skip",
    "nonmonotonic poll",
    "commit ahead of fetch",
    "nonmonotonic commit",
    "unseen",
    "acknowledged twice",
    "acknowledgement lost",
    "lost",
    "doubled",
    "invented",
    "split key",
    "not checked",
]
Forbidden = Literal["write cycle", "unacknowledged read"]  # what Kafka allows, and an application may not want


@dataclass
class Finding:
    """An anomaly: which, what happened in one line, at which record, and the way of the record through the broker."""

    anomaly: Anomaly
    text: str
    topic: str
    partition: int
    offset: int
    way: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """Return the finding for people, the way indented."""
        return [f"{self.anomaly}: {self.text}", *(f"  {each}" for each in self.way)]


def clock(at: int) -> str:
    """Return a time of day in UTC, of ms since 1970."""
    return f"{datetime.fromtimestamp(at / 1000, UTC):%H:%M:%S}.{at % 1000:03}"


def place(topic: str, partition: int, offset: int | None = None) -> str:
    """Return a partition, or a record of it: orders-0@17."""
    return f"{topic}-{partition}" if offset is None else f"{topic}-{partition}@{offset}"


class HistoryFull(ValueError):
    """A history has no room for what came later, so nothing in it is certain."""


class Evidence:
    """The facts of one or several brokers in order, and the outlines of the logs.

    is_empty: whether no client has produced, fetched or committed anything.
    whole: whether the history begins with the data. Facts about a topic that was deleted since are left out, and those
        about one of which only the id was told, and nobody knows the name any more.
    in_order: whether the order of facts within a millisecond is certain, as it is at one broker.
    unread: why a log could not be read, by partition.
    """

    def __init__(
        self,
        facts: Iterable[Fact],
        outlines: Iterable[Outline],
        *,
        whole: bool,
        in_order: bool = True,
        unread: Mapping[PartitionKey, str] | None = None,
    ) -> None:
        self.in_order = in_order
        self.unread = unread or {}
        self.outlines = {(each.topic, each.partition): each for each in outlines}
        self.whole = whole
        told = list(enumerate(facts))
        self.is_empty = not any(isinstance(fact, _OF_RECORDS) for _, fact in told)
        deletions = {  # the last of each topic
            fact.topic: index for index, fact in told if isinstance(fact, Deleted) and fact.done
        }
        topics = [(index, fact, getattr(fact, "topic", None)) for index, fact in told]
        self.facts = [fact for index, fact, name in topics if name != "" and index >= deletions.get(name or "", -1)]

    def of(self, kind: type[F]) -> Iterator[F]:
        return (each for each in self.facts if isinstance(each, kind))

    @cached_property
    def _batches_sent(self) -> Mapping[PartitionKey, Mapping[int, list[Produced]]]:
        """The batches that producers sent, by partition and CRC."""
        found: dict[PartitionKey, dict[int, list[Produced]]] = defaultdict(lambda: defaultdict(list))
        for fact in self.of(Produced):
            if fact.count:
                found[fact.topic, fact.partition][fact.crc].append(fact)
        return found

    def attempts(self, partition: PartitionKey, batch: BatchOutline) -> list[Produced]:
        """Return the requests that sent a batch, in order."""
        sent = self._batches_sent.get(partition, {})
        if batch.is_as_sent and batch.crc in sent:
            return sent[batch.crc]
        return [each for all_of in sent.values() for each in all_of if each.done and each.offset == batch.base]

    def sent(self, partition: PartitionKey, offset: int) -> list[Produced]:
        """Return the requests that sent the batch of a record, in order."""
        outline = self.outlines.get(partition)
        batch = None if outline is None else outline.at(offset)
        return [] if batch is None else self.attempts(partition, batch)

    def written(self, partition: PartitionKey, offset: int) -> str:
        """Return when and by whom a record was produced."""
        sent = self.sent(partition, offset)
        if not sent:
            return f"{place(*partition, offset)} was produced before the history, or in a way that it does not have"
        times = "" if len(sent) == 1 else f" in {len(sent)} attempts"
        return f"{place(*partition, offset)} was produced at {clock(sent[0].at)} by {sent[0].who}{times}"

    @cached_property
    def _commits(self) -> Mapping[int, list[OffsetCommitted]]:
        """The commits that count, by identity of the fact with which they do: themselves, or a transaction's end."""
        found: dict[int, list[OffsetCommitted]] = {}
        pending: dict[int, list[OffsetCommitted]] = defaultdict(list)
        for fact in self.facts:
            if isinstance(fact, OffsetCommitted) and fact.done:
                if fact.producer_id < 0:
                    found[id(fact)] = [fact]
                else:
                    pending[fact.producer_id].append(fact)
            elif isinstance(fact, Ended) and fact.done:
                ended = pending.pop(fact.producer_id, [])
                if fact.commit:  # those of an earlier epoch are of a transaction that was aborted
                    found[id(fact)] = [each for each in ended if each.epoch == fact.epoch]
        return found

    def commits_at(self, fact: Fact) -> Sequence[OffsetCommitted]:
        """Return the commits of offsets that count from a fact on."""
        return self._commits.get(id(fact), ())

    @cached_property
    def _commits_of(self) -> Mapping[PartitionKey, list[OffsetCommitted]]:
        found: dict[PartitionKey, list[OffsetCommitted]] = defaultdict(list)
        for fact in self.facts:
            for each in self.commits_at(fact):
                found[each.topic, each.partition].append(each)
        return found

    def commits_of(self, partition: PartitionKey) -> Sequence[OffsetCommitted]:
        """Return the commits that count of a partition, in order."""
        return self._commits_of.get(partition, ())

    @cached_property
    def _fetches(self) -> Mapping[PartitionKey, list[tuple[int, float, Fetched]]]:
        """The fetches of each partition, with the first offset and the end."""
        found: dict[PartitionKey, list[tuple[int, float, Fetched]]] = defaultdict(list)
        for fact in self.of(Fetched):
            first, end = self.range_of(fact)
            found[fact.topic, fact.partition].append((first, math.inf if end is None else end, fact))
        return found

    def fetches_of(self, partition: PartitionKey, offset: int) -> list[Fetched]:
        """Return the fetches that gave, or may have given, a record to a consumer, in order."""
        return [fact for first, end, fact in self._fetches.get(partition, ()) if first <= offset < end]

    @cached_property
    def groups_of_clients(self) -> Mapping[str, frozenset[str]]:
        """The groups by client id."""
        found: dict[str, set[str]] = defaultdict(set)
        for fact in self.facts:
            if isinstance(fact, Joined | OffsetCommitted):
                found[fact.client].add(fact.group)
        return {client: frozenset(groups) for client, groups in found.items()}

    def range_of(self, fact: Fetched) -> tuple[int, int | None]:
        """Return the first offset that a consumer got with an answer, and the end; None where it is not known."""
        first = max(fact.position, fact.base)
        outline = self.outlines.get((fact.topic, fact.partition))
        return first, None if outline is None else outline.end_of(fact.base, fact.size)


def evidence_of(nodes: Iterable[Sequence[Mapping[str, Any]]]) -> Evidence:
    """Return the evidence in the histories of several nodes, each as the rows of `history`. Raises HistoryFull."""
    facts: list[list[tuple[int, int, Fact]]] = []
    logs = _Logs()
    whole = True
    for rows in nodes:
        of_node: list[tuple[int, int, Fact]] = []
        latest = 0
        for row in map(dict, rows):
            if row["kind"] == "history":
                whole = whole and row["whole"]
                if row["full"]:
                    raise HistoryFull(
                        f"the history is full with {row['size_bytes']} bytes, and what came later is missing: "
                        "start it with more bytes, or clear it between the tests"
                    )
            elif row["kind"] in LOG_ROWS:
                logs.take(row)
            else:
                fact = fact_of(row)
                latest = max(latest, fact.at)  # a test may set the clock back
                of_node.append((latest, len(of_node), fact))
        facts.append(of_node)
    merged = [fact for _, _, fact in heapq.merge(*facts, key=lambda each: each[:2])]
    deletions = [each for each in merged if isinstance(each, Deleted)]
    logs.forget_remade(each.topic for each in deletions if each.done)
    logs.miss_topics({each.topic for each in deletions}, merged)
    return Evidence(merged, logs.outlines.values(), whole=whole, in_order=len(facts) == 1, unread=logs.unread())


class _Logs:
    """The logs as several nodes tell them: where the leader of a partition has moved meanwhile, the last leader's."""

    def __init__(self) -> None:
        self.outlines: dict[PartitionKey, Outline] = {}
        self._unread: dict[PartitionKey, str] = {}
        self._ids: dict[str, set[str]] = defaultdict(set)  # of topics, in the order of the rows
        self._are_topics_told = False

    def take(self, row: dict[str, Any]) -> None:
        if row["kind"] == "topics":
            self._are_topics_told = True
            for name, topic in row["topics"].items():
                self._ids[name].add(topic["id"])
        elif row["kind"] == "unread":
            self._unread[row["topic"], row["partition"]] = row["why"]
        else:
            outline = outline_of_row(row)
            known = self.outlines.setdefault((outline.topic, outline.partition), outline)
            if outline.leader_epoch > known.leader_epoch:
                self.outlines[outline.topic, outline.partition] = outline

    def forget_remade(self, deleted: Iterable[str]) -> None:
        """Forget the logs of topics that were deleted and made again after the facts had been read."""
        times = Counter(deleted)
        remade = {name for name, ids in self._ids.items() if len(ids) - 1 > times[name]}
        for partition in [each for each in self.outlines if each[0] in remade]:
            del self.outlines[partition]
            self._unread[partition] = "the topic was made anew meanwhile"

    def miss_topics(self, deleted: Collection[str], facts: Iterable[Fact]) -> None:
        """Note the partitions of topics that are gone, and that no client has asked to delete."""
        if not self._are_topics_told or "" in deleted:
            return
        there = {*self._ids, *deleted, *INTERNAL_TOPICS, ""}
        for fact in facts:
            topic = getattr(fact, "topic", "")
            if topic not in there:
                self._unread[topic, getattr(fact, "partition", 0)] = "the topic is gone, and nobody has deleted it"

    def unread(self) -> dict[PartitionKey, str]:
        return {partition: why for partition, why in self._unread.items() if partition not in self.outlines}
