"""Cycles of transactions: each wrote or read something that another one of the cycle had written before.

Rule: a transaction is known by its batches and by the offsets that it committed: it has read the records between a
group's offset before and after. Only committed transactions count. Where the history does not tell for certain to which
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

from pykafka_broker.control.history.facts import Ended, Fetched, OffsetCommitted, Produced
from pykafka_broker.control.history.findings import Anomaly, Evidence, Finding, Forbidden, TopicPartition, clock, place
from pykafka_broker.control.history.outlines import COMMITTED, BatchOutline

_Producer = tuple[int, int]  # id and epoch
Dependency = Literal["wrote", "read"]


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
    partition: TopicPartition
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
        self.of_batches: dict[TopicPartition, list[tuple[BatchOutline, Transaction]]] = {
            partition: list(self._of_batches(partition, outline.batches))
            for partition, outline in evidence.outlines.items()
        }

    def _of_batches(
        self, partition: TopicPartition, batches: Iterable[BatchOutline]
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

    def between(self, partition: TopicPartition, first: int, end: int) -> Iterator[tuple[BatchOutline, Transaction]]:
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
    reads = list(_reads(evidence, transactions))
    if "write cycle" not in forbid:
        yield from _found("circular information flow", _graph(reads))
        return
    writes = list(_writes(transactions))
    yield from _found("write cycle", _graph(writes))
    yield from _found("circular information flow", _graph([*writes, *reads]))


def _writes(transactions: _Transactions) -> Iterator[Edge]:
    for partition, batches in transactions.of_batches.items():
        for (first, earlier), (second, later) in pairwise(batches):
            if earlier is not later:
                yield Edge(earlier, later, "wrote", partition, first.base, second.base)


def _reads(evidence: Evidence, transactions: _Transactions) -> Iterator[Edge]:
    positions: dict[tuple[str, TopicPartition], int] = {}
    begun: dict[tuple[str, TopicPartition], int] = {}  # by client, where it fetched first
    for fact in evidence.facts:
        if isinstance(fact, Fetched):
            begun.setdefault((fact.client, (fact.topic, fact.partition)), max(fact.position, fact.base))
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
    evidence: Evidence, commit: OffsetCommitted, begun: Mapping[tuple[str, TopicPartition], int]
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


def _found(anomaly: Anomaly, graph: Graph) -> Iterator[Finding]:
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
