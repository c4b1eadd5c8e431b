"""Anomalies: facts that contradict each other, or the logs.

Rule: only what is certain is an anomaly. Where a right client could have done the same (it may have sought, a record
may have been deleted, the history began later), nothing is said. The names are Jepsen's where Jepsen has one.

A transaction is known by its batches and by the offsets that it committed: it has read the records between a group's
offset before and after. Only committed transactions count. Where the history does not tell for certain to which
transaction of a producer a batch belongs, the batch is left out. Kafka lets transactions write into partitions in any
order, so cycles of writes alone are looked for only on demand.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from pykafka_broker.control.history.facts import (
    Ended,
    Fact,
    Fetched,
    OffsetCommitted,
    Produced,
    RecordsAcquired,
    Registered,
)
from pykafka_broker.control.history.findings import (
    Anomaly,
    Evidence,
    Finding,
    Forbidden,
    clock,
    place,
)
from pykafka_broker.control.history.groups import group_findings, share_findings
from pykafka_broker.control.history.outlines import (
    ABORT_MARKER,
    ABORTED,
    COMMITTED,
    MARKERS,
    OPEN,
    BatchOutline,
    Outline,
)
from pykafka_broker.protocol.enums import PartitionKey

_Producer = tuple[int, int]  # id and epoch
Dependency = Literal["wrote", "read"]


def findings(
    evidence: Evidence, seen_by: str | None = None, forbid: Collection[Forbidden] = (), empty_ok: bool = False
) -> list[Finding]:
    """Return all anomalies.

    Args:
        seen_by: a group that must have fetched all records of its topics.
        forbid: what Kafka allows, and is an anomaly here.
        empty_ok: a history that no client has used is no error.

    Raises:
        ValueError: nothing could be found: no client has used the history.
    """
    found = [
        *_not_checked(evidence),
        *_writes(evidence),
        *_duplicates(evidence),
        *_out_of_order(evidence),
        *_out_of_sequence(evidence),
        *_fenced(evidence),
        *_dirty_reads(evidence),
        *(_unacknowledged_reads(evidence) if "unacknowledged read" in forbid else ()),
        *cycles(evidence, forbid),
        *group_findings(evidence, seen_by),
        *share_findings(evidence),
    ]
    if evidence.is_empty and not found and not empty_ok:
        raise ValueError(
            "nothing was recorded: no client has produced, fetched or committed anything since the history began; "
            "empty_ok allows that"
        )
    return found


def _not_checked(evidence: Evidence) -> Iterator[Finding]:
    """Find partitions that clients used and whose logs could not be read, so that nothing is known of their records."""
    told: set[PartitionKey] = set()
    for fact in evidence.facts:
        if isinstance(fact, Produced | Fetched | OffsetCommitted | RecordsAcquired) and fact.done:
            partition = fact.topic, fact.partition
            if partition in evidence.unread and partition not in told:
                told.add(partition)
                text = f"{place(*partition)} could not be checked: {evidence.unread[partition]}"
                yield Finding("not checked", text, *partition, 0)


# -- what is in the logs


_HALF_OF_ALL_SEQUENCES = 1 << 30
_REPLACED = "another record is there now"


def _writes(evidence: Evidence) -> Iterator[Finding]:
    """Find acknowledged batches that are gone, and two that were acknowledged at one offset."""
    twice: set[int] = set()
    for first, second in _at_one_offset(evidence):
        twice |= {id(first), id(second)}
        where = second.topic, second.partition, second.offset
        text = (
            f"{place(*where)} was told to {second.who} at {clock(second.at)}, and {first.who} had been told "
            f"{place(*where[:2], first.offset)} for other records at {clock(first.at)}"
        )
        yield Finding("inconsistent offsets", text, *where)
    yield from _lost_writes(evidence, twice)


def _at_one_offset(evidence: Evidence) -> Iterator[tuple[Produced, Produced]]:
    """Yield pairs of different batches that were acknowledged with the same offsets."""
    acknowledged: dict[PartitionKey, list[Produced]] = defaultdict(list)
    for fact in evidence.of(Produced):
        if fact.done and fact.acks and fact.offset >= 0 and fact.count:
            acknowledged[fact.topic, fact.partition].append(fact)
    for facts in acknowledged.values():
        facts.sort(key=lambda each: each.offset)
        for first, second in pairwise(facts):
            again = first.crc == second.crc
            if first.producer_id >= 0:  # a batch that comes again gets the offset of the first attempt
                same = first.producer_id, first.epoch, first.sequence
                again = again or same == (second.producer_id, second.epoch, second.sequence)
            if second.offset < first.offset + first.count and not again:
                yield first, second


def _lost_writes(evidence: Evidence, twice: Collection[int]) -> Iterator[Finding]:
    """Find acknowledged batches that are gone. What retention, compaction or a client has deleted is not lost.

    Args:
        twice: identities of facts whose offsets were told for other batches too.
    """
    for fact in evidence.of(Produced):
        outline = evidence.outlines.get((fact.topic, fact.partition))
        if outline is None or not fact.done or not fact.acks or fact.offset < 0:
            continue
        why = _missing_of_compacted(fact, outline) if outline.compacted else _missing(fact, outline)
        if why and not (why == _REPLACED and id(fact) in twice):
            where = fact.topic, fact.partition, fact.offset
            text = f"{place(*where)} was produced at {clock(fact.at)} by {fact.who} and acknowledged, and {why}"
            yield Finding("lost write", text, *where)


def _missing(fact: Produced, outline: Outline) -> str:
    if fact.offset + max(fact.count, 1) <= outline.start:
        return ""
    if fact.offset >= outline.end:
        return f"the log ends at {outline.end}"
    batch = outline.at(fact.offset)
    if batch is None:
        return "" if fact.offset < outline.start else "the log has no record there"
    if not fact.count:  # an old format, whose batches are written anew
        return ""
    same = batch.base == fact.offset and (batch.producer_id, batch.epoch) == (fact.producer_id, fact.epoch)
    if fact.producer_id >= 0:  # KafkaJS sends another batch with the same sequence number, and the first one is there
        same = same and batch.sequence == fact.sequence
    elif batch.is_as_sent and batch.attributes == fact.attributes:
        same = same and batch.crc == fact.crc
    return "" if same else _REPLACED


def _missing_of_compacted(fact: Produced, outline: Outline) -> str:
    """Return why a batch is certainly lost: the cleaner moves no end, and leaves batches their offsets and producer."""
    if fact.offset >= outline.end:
        return f"the log ends at {outline.end}"
    end = fact.offset + fact.count
    told = fact.offset, end - 1, fact.producer_id, fact.epoch, fact.sequence
    there = outline.between(fact.offset, end) if fact.count else ()
    same = all(told == (each.base, each.last, each.producer_id, each.epoch, each.sequence) for each in there)
    return "" if same else _REPLACED


def _duplicates(evidence: Evidence) -> Iterator[Finding]:
    """Find batches that are there more often than they were acknowledged: a client sent one again after an attempt
    without a good answer. Of batches with one sequence number there may be one.
    """
    for partition, outline in evidence.outlines.items():
        copies: dict[tuple[int, ...], list[BatchOutline]] = defaultdict(list)
        for batch in outline.batches:
            if batch.producer_id >= 0 and batch.outcome not in MARKERS:
                copies[batch.producer_id, batch.epoch, batch.sequence].append(batch)
            elif batch.producer_id < 0:
                copies[batch.crc, batch.records].append(batch)
        for first, *others in copies.values():
            sent = evidence.attempts(partition, first) if others else []
            surplus = len(others)
            if first.producer_id < 0:
                meant = sum(each.done or not each.acks for each in sent)
                surplus = min(surplus, len(others) + 1 - meant) if _is_sent_again(sent) else 0
            if surplus > 0:
                for again in others[-surplus:]:
                    text = f"{place(*partition, again.base)} is {place(*partition, first.base)} once more"
                    yield Finding("duplicate", text + _records(again), *partition, again.base, _attempt_lines(sent))


def _is_sent_again(attempts: Iterable[Produced]) -> bool:
    """Return whether a client sent a batch again after an attempt that was refused or not answered."""
    failed: set[str] = set()
    for each in attempts:
        if each.client in failed:
            return True
        if each.acks and not each.done:
            failed.add(each.client)
    return False


def _attempt_lines(attempts: Iterable[Produced]) -> list[str]:
    """Return what the producers were told, a line for each attempt."""
    return [
        f"sent at {clock(each.at)} by {each.who}: "
        + (each.error or (f"acknowledged at {each.offset}" if each.answered else "not answered"))
        for each in attempts
    ]


def _records(batch: BatchOutline) -> str:
    return f", with the {batch.records} records of its batch" if batch.records > 1 else ""


def _out_of_order(evidence: Evidence) -> Iterator[Finding]:
    """Find batches that a producer sent before others, and that are behind these since they were sent again."""
    sent: dict[PartitionKey, dict[str, list[Produced]]] = defaultdict(lambda: defaultdict(list))
    for fact in evidence.of(Produced):
        if fact.count and fact.producer_id < 0:
            sent[fact.topic, fact.partition][fact.address].append(fact)
    for partition, by_connection in sent.items():
        for facts in by_connection.values():
            yield from _told_backwards(partition, facts)
        outline = evidence.outlines.get(partition)
        if outline is None:
            continue
        first_copy: dict[int, int] = {}
        for batch in outline.batches:
            first_copy.setdefault(batch.crc, batch.base)
        for facts in by_connection.values():
            for index, fact in enumerate(facts):
                offset = first_copy.get(fact.crc)
                if fact.done or offset is None:
                    continue
                later = (each for each in facts[index + 1 :] if each.done and each.crc != fact.crc)
                before = next((each for each in later if 0 <= each.offset < offset), None)
                if before is not None:
                    text = (
                        f"{place(*partition, offset)} was sent at {clock(fact.at)} by {fact.who}, before "
                        f"{place(*partition, before.offset)}, and is behind it: "
                        f"the first attempt met {fact.error or 'no answer'}"
                    )
                    yield Finding("out of order", text, *partition, offset)
                    break


def _told_backwards(partition: PartitionKey, facts: Iterable[Produced]) -> Iterator[Finding]:
    """Find a batch that was told a smaller offset than one that was sent before it on the same connection."""
    highest: Produced | None = None
    for fact in facts:
        if not fact.done or fact.offset < 0:
            continue
        if highest is not None and fact.offset < highest.offset:
            text = (
                f"{place(*partition, highest.offset)} was sent at {clock(highest.at)} by {highest.who}, before "
                f"{place(*partition, fact.offset)}, and is behind it"
            )
            yield Finding("out of order", text, *partition, highest.offset)
            return
        highest = fact


def _out_of_sequence(evidence: Evidence) -> Iterator[Finding]:
    """Find batches of an idempotent producer that lie in another order than their sequence numbers."""
    for partition, outline in evidence.outlines.items():
        last: dict[tuple[int, int], BatchOutline] = {}
        for batch in outline.batches:
            if batch.producer_id < 0 or batch.sequence < 0:  # a marker has no number
                continue
            before = last.get((batch.producer_id, batch.epoch), batch)
            if 0 < before.sequence - batch.sequence < _HALF_OF_ALL_SEQUENCES:  # numbers begin anew after the highest
                text = (
                    f"{place(*partition, batch.base)} has number {batch.sequence} of producer {batch.producer_id}, "
                    f"and is behind {place(*partition, before.base)} with number {before.sequence}"
                )
                yield Finding("out of order", text, *partition, batch.base, [evidence.written(partition, batch.base)])
                break
            last[batch.producer_id, batch.epoch] = batch


def _fenced(evidence: Evidence) -> Iterator[Finding]:
    """Find batches of a producer that a newer one of the same id had replaced."""
    for partition, outline in evidence.outlines.items():
        newest: dict[int, BatchOutline] = {}
        for batch in outline.batches:
            if batch.producer_id < 0:
                continue
            known = newest.setdefault(batch.producer_id, batch)
            if batch.epoch < known.epoch:
                text = (
                    f"{place(*partition, batch.base)} has epoch {batch.epoch} of producer {batch.producer_id}, "
                    f"which had epoch {known.epoch} at {place(*partition, known.base)} already"
                )
                way = [evidence.written(partition, batch.base)]
                yield Finding("fenced writer", text, *partition, batch.base, way)
            else:
                newest[batch.producer_id] = batch
    registered: dict[str, Registered] = {}
    for fact in evidence.facts:
        if isinstance(fact, Registered) and fact.transactional_id and fact.done:
            registered[fact.transactional_id] = fact
        elif isinstance(fact, Produced) and fact.done and fact.transactional_id in registered:
            newer = registered[fact.transactional_id]
            older = fact.producer_id != newer.producer_id or fact.epoch < newer.epoch
            if older and fact.at > max(newer.at, newer.until):
                text = (
                    f"{place(fact.topic, fact.partition, fact.offset)} was written at {clock(fact.at)} by {fact.who} "
                    f"with epoch {fact.epoch} of {fact.transactional_id}, "
                    f"which {newer.who} took over at {clock(newer.at)} with epoch {newer.epoch}"
                )
                yield Finding("fenced writer", text, fact.topic, fact.partition, fact.offset)


# -- what was read


def _dirty_reads(evidence: Evidence) -> Iterator[Finding]:
    """Find records that consumers got of aborted transactions, and of transactions that were still open."""
    told: set[tuple[str, str, PartitionKey]] = set()
    for fact in evidence.of(Fetched):
        partition = fact.topic, fact.partition
        outline = evidence.outlines.get(partition)
        first, end = evidence.range_of(fact)
        if outline is None or end is None:
            continue
        ended: dict[int, int] = {}  # the last end of an aborted transaction that the consumer got, by producer
        for batch in outline.between(first, end):
            if batch.outcome == ABORT_MARKER:
                ended[batch.producer_id] = batch.base
            anomaly = _dirty(fact, batch, ended.get(batch.producer_id, -1))
            if anomaly is None or (anomaly, fact.client, partition) in told:
                continue
            told.add((anomaly, fact.client, partition))
            what = "an aborted transaction" if anomaly == "aborted read" else "a transaction that was still open"
            level = "read_committed" if fact.committed_only else "read_uncommitted"
            text = (
                f"{place(*partition, batch.base)} is of {what} and was fetched at {clock(fact.at)} by {fact.who} "
                f"with {level}"
            )
            yield Finding(anomaly, text, *partition, batch.base, [evidence.written(partition, batch.base)])


def _dirty(fact: Fetched, batch: BatchOutline, ended: int) -> Anomaly | None:
    """Return what is wrong with a batch that a consumer got.

    Args:
        ended: the offset at which the consumer saw the last aborted transaction of the producer end, -1 for none: what
            it was told of an earlier one does not count any more.
    """
    if batch.outcome == ABORTED:
        skipped = fact.committed_only and any(
            producer_id == batch.producer_id and ended < offset <= batch.base for producer_id, offset in fact.aborted
        )
        return None if skipped else "aborted read"
    if batch.outcome == OPEN or (batch.outcome == COMMITTED and 0 <= fact.last_stable_offset <= batch.base):
        return "precommitted read"
    return None


def _unacknowledged_reads(evidence: Evidence) -> Iterator[Finding]:
    """Find records that consumers got, and of which no attempt to produce them was acknowledged."""
    told: set[tuple[PartitionKey, int]] = set()
    for fact, partition, batches in _reads(evidence):
        for batch in batches:
            sent = evidence.attempts(partition, batch)
            if not sent or any(each.done or not each.acks for each in sent) or (partition, batch.base) in told:
                continue
            told.add((partition, batch.base))
            text = (
                f"{place(*partition, batch.base)} was fetched at {clock(fact.at)} by {fact.who} and never acknowledged"
            )
            yield Finding("unacknowledged read", text + _records(batch), *partition, batch.base, _attempt_lines(sent))


def _reads(evidence: Evidence) -> Iterator[tuple[Fact, PartitionKey, Iterator[BatchOutline]]]:
    """Yield what consumers and members of share groups got: the fact, the partition and its batches."""
    for fact in evidence.facts:
        if not isinstance(fact, Fetched | RecordsAcquired):
            continue
        partition = fact.topic, fact.partition
        first, end = (fact.first, fact.last + 1) if isinstance(fact, RecordsAcquired) else evidence.range_of(fact)
        outline = evidence.outlines.get(partition)
        if outline is not None and end is not None:
            yield fact, partition, outline.between(first, end)


# -- cycles of transactions: each wrote or read something that another one of the cycle had written before


@dataclass(frozen=True, eq=False)
class Transaction:
    """A committed transaction: the request that has ended it."""

    end: Ended

    def __str__(self) -> str:
        return f"{self.end.transactional_id} ({clock(self.end.at)})"


@dataclass(frozen=True)
class Edge:
    """`later` wrote behind a batch of `earlier`, or read it. base: of the batch; behind: of the batch behind it."""

    earlier: Transaction
    later: Transaction
    kind: Dependency
    partition: PartitionKey
    base: int
    behind: int = -1

    def __str__(self) -> str:
        at = place(*self.partition, self.base)
        if self.kind == "read":
            return f"{self.later} read {at} of {self.earlier}"
        return f"{self.later} wrote {place(*self.partition, self.behind)} behind {at} of {self.earlier}"


class _Transactions:
    """The committed transactions of a history."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._ends: dict[_Producer, list[Ended]] = defaultdict(list)
        for fact in evidence.of(Ended):
            if fact.done:
                self._ends[fact.producer_id, fact.epoch].append(fact)
        self._known: dict[int, Transaction] = {}
        self._places = {id(fact): index for index, fact in enumerate(evidence.facts)}
        self.of_batches: dict[PartitionKey, list[tuple[BatchOutline, Transaction]]] = {
            partition: list(self._of_batches(partition, outline.batches))
            for partition, outline in evidence.outlines.items()
        }

    def _of_batches(
        self, partition: PartitionKey, batches: Iterable[BatchOutline]
    ) -> Iterator[tuple[BatchOutline, Transaction]]:
        for batch in batches:
            if batch.outcome == COMMITTED:
                sent = self._evidence.attempts(partition, batch)
                transaction = self._of(sent[-1], batch.producer_id, batch.epoch) if sent else None
                if transaction is not None:
                    yield batch, transaction

    def _of(self, fact: Produced, producer_id: int, epoch: int) -> Transaction | None:
        """Return the transaction that a request wrote in: the first one that ended behind it."""
        ends = self._ends[producer_id, epoch]
        next_at = bisect_left(ends, self._places[id(fact)], key=lambda each: self._places[id(each)])
        for end in ends[max(0, next_at - 1) : next_at + 1]:
            certain = self._evidence.in_order or end.address == fact.address  # requests of a connection are in order
            if end.at == fact.at and not certain:  # at two brokers within a millisecond
                return None
        end_of_it = ends[next_at] if next_at < len(ends) else None
        return self.of_end(end_of_it) if end_of_it is not None and end_of_it.commit else None

    def between(self, partition: PartitionKey, first: int, end: int) -> Iterator[tuple[BatchOutline, Transaction]]:
        """Yield the batches with an offset in [first, end), with their transactions."""
        batches = self.of_batches.get(partition, [])
        for index in range(bisect_left(batches, first, key=lambda each: each[0].last), len(batches)):
            if batches[index][0].base >= end:
                return
            yield batches[index]

    def of_end(self, end: Ended) -> Transaction:
        """Return the transaction that a request has ended."""
        return self._known.setdefault(id(end), Transaction(end))


def cycles(evidence: Evidence, forbid: Collection[Forbidden] = ()) -> Iterator[Finding]:
    """Yield cycles of transactions: of reads, and if `forbid` has "write cycle" also of writes, and of both."""
    if not any(isinstance(fact, Ended) for fact in evidence.facts):
        return
    transactions = _Transactions(evidence)
    reads = list(_read_edges(evidence, transactions))
    if "write cycle" not in forbid:
        yield from _cycle_in("circular information flow", _graph(reads))
        return
    writes = list(_write_edges(transactions))
    yield from _cycle_in("write cycle", _graph(writes))
    yield from _cycle_in("circular information flow", _graph([*writes, *reads]))


def _write_edges(transactions: _Transactions) -> Iterator[Edge]:
    for partition, batches in transactions.of_batches.items():
        for (first, earlier), (second, later) in pairwise(batches):
            if earlier is not later:
                yield Edge(earlier, later, "wrote", partition, first.base, second.base)


def _read_edges(evidence: Evidence, transactions: _Transactions) -> Iterator[Edge]:
    positions: dict[tuple[str, PartitionKey], int] = {}
    begun: dict[tuple[str, PartitionKey], int] = {}  # by client, where it fetched first
    for fact in evidence.facts:
        if isinstance(fact, Fetched):
            begun.setdefault((fact.client, (fact.topic, fact.partition)), fact.base)
        for commit in evidence.commits_at(fact):
            partition = commit.topic, commit.partition
            first = positions.get((commit.group, partition))
            if first is None:
                first = _first_fetch(evidence, commit, begun)
            positions[commit.group, partition] = commit.offset
            if isinstance(fact, Ended) and first is not None:
                later = transactions.of_end(fact)
                for batch, earlier in transactions.between(partition, first, commit.offset):
                    if earlier is not later:
                        yield Edge(earlier, later, "read", partition, batch.base)


def _first_fetch(
    evidence: Evidence, commit: OffsetCommitted, begun: Mapping[tuple[str, PartitionKey], int]
) -> int | None:
    """Return where the clients of a group began to fetch, before its first commit."""
    partition = commit.topic, commit.partition
    return min(
        (
            offset
            for (client, where), offset in begun.items()
            if where == partition and commit.group in evidence.groups_of_clients.get(client, ())
        ),
        default=None,
    )


Graph = dict[Transaction, list[Edge]]


def _graph(edges: Iterable[Edge]) -> Graph:
    graph: Graph = defaultdict(list)
    for edge in edges:
        graph[edge.earlier].append(edge)
        graph.setdefault(edge.later, [])
    return graph


def _cycle_in(anomaly: Anomaly, graph: Graph) -> Iterator[Finding]:
    """Yield a cycle of each knot of transactions. Where reads are looked for, a cycle has one at least."""
    for knot in _knots(graph):
        edges = (edge for each in knot for edge in graph[each] if edge.later in knot)
        wanted: Dependency = "wrote" if anomaly == "write cycle" else "read"
        first = next((edge for edge in edges if edge.kind == wanted), None)
        if first is None:
            continue
        cycle = [first, *_way(graph, knot, first.later, first.earlier)]
        names = " -> ".join(str(edge.earlier) for edge in cycle)
        text = f"{len(cycle)} transactions follow each other in a circle: {names} -> {first.earlier}"
        yield Finding(anomaly, text, *first.partition, first.base, [str(edge) for edge in cycle])


def _way(graph: Graph, knot: Collection[Transaction], start: Transaction, goal: Transaction) -> list[Edge]:
    """Return a shortest way between two transactions of a knot."""
    came: dict[Transaction, Edge] = {}
    queue = deque([start])
    while goal not in came:
        for edge in graph[queue.popleft()]:
            if edge.later in knot and edge.later not in came and edge.later is not start:
                came[edge.later] = edge
                queue.append(edge.later)
    way: list[Edge] = []
    while not way or way[-1].earlier is not start:
        way.append(came[way[-1].earlier if way else goal])
    return way[::-1]


def _knots(graph: Graph) -> Iterator[dict[Transaction, None]]:
    """Yield the sets of transactions of which each can be reached from each other (Kosaraju), two or more at a time."""
    order: dict[Transaction, None] = {}
    seen: set[Transaction] = set()
    for root in graph:
        stack = [] if root in seen else [(root, iter(graph[root]))]
        seen.add(root)
        while stack:
            node, edges = stack[-1]
            following = next((edge.later for edge in edges if edge.later not in seen), None)
            if following is None:
                order[stack.pop()[0]] = None
            else:
                seen.add(following)
                stack.append((following, iter(graph[following])))
    before: dict[Transaction, list[Transaction]] = defaultdict(list)
    for node, edges_of in graph.items():
        for edge in edges_of:
            before[edge.later].append(node)
    left = dict.fromkeys(graph)
    for root in reversed(order):
        if root not in left:
            continue
        knot: dict[Transaction, None] = {}
        waiting = [root]
        del left[root]
        while waiting:
            node = waiting.pop()
            knot[node] = None
            for each in before[node]:
                if each in left:
                    del left[each]
                    waiting.append(each)
        if len(knot) > 1:
            yield knot
