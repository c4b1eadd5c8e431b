"""Contradictions between what groups fetch and commit, and what share groups deliver and acknowledge.

Rule: a fetch names no group. It counts for every group that its client id has joined or committed for, so a group may
seem to have fetched more than it has, and never less. Offsets that operators set are no mistake: a commit without
membership for a group that has members at other times, or by a client that fetches nothing of the partition.

An acknowledgement of a share group counts when its member was told so. A record that was accepted or rejected is done
with: the record is neither delivered nor acknowledged again, whatever happens to brokers meanwhile. A group that was
deleted, or whose offsets were set, begins anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from pykafka_broker.control.history.facts import (
    Fact,
    Fetched,
    GroupReset,
    Joined,
    Located,
    OffsetCommitted,
    RecordsAcknowledged,
    RecordsAcquired,
)
from pykafka_broker.control.history.findings import Anomaly, Evidence, Finding, clock, place
from pykafka_broker.control.history.outlines import ABORTED, MARKERS, Outline
from pykafka_broker.protocol.enums import PartitionKey

_LATE_MS = 1_000


class Ranges:
    """Offsets as ranges that neither touch nor overlap, in order."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, first: int, end: int) -> None:
        """Add the offsets in [first, end)."""
        if end <= first:
            return
        kept = []
        for low, high in self._ranges:
            if high < first or low > end:
                kept.append((low, high))
            else:
                first, end = min(first, low), max(end, high)
        self._ranges = sorted([*kept, (first, end)])

    @property
    def first(self) -> int | None:
        return self._ranges[0][0] if self._ranges else None

    @property
    def end(self) -> int:
        """Return the offset after the last one, 0 without any."""
        return self._ranges[-1][1] if self._ranges else 0

    def missing(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield what of [first, end) is not there."""
        for low, high in self._ranges:
            if low >= end:
                break
            if low > first:
                yield first, low
            first = max(first, high)
        if first < end:
            yield first, end


class GroupProgress:
    """How far a group is in a partition."""

    def __init__(self) -> None:
        self.fetched = Ranges()
        self.reached: dict[str, int] = {}  # the end of what each connection has fetched
        self.committed: OffsetCommitted | None = None
        self.went_back: dict[str, int] = {}  # the lowest position since the last commit, by client
        self.found: set[str] = set()


def group_findings(evidence: Evidence, seen_by: str | None = None) -> list[Finding]:
    """Return the anomalies of groups.

    Args:
        seen_by: a group that must have fetched all records of its topics.

    Raises:
        ValueError: the topics of `seen_by` never had a record.
    """
    found: list[Finding] = []
    progress: dict[str, dict[PartitionKey, GroupProgress]] = defaultdict(lambda: defaultdict(GroupProgress))
    fetching: set[tuple[str, PartitionKey]] = set()
    located: set[tuple[str, PartitionKey, int]] = set()  # by group
    for fact in evidence.facts:
        if isinstance(fact, Fetched):
            fetching.add((fact.client, (fact.topic, fact.partition)))
    managed = {fact.group for fact in evidence.of(Joined)}
    for fact in _in_order(evidence):
        if isinstance(fact, Located):
            partition = fact.topic, fact.partition
            for group in evidence.groups_of_clients.get(fact.client, ()):
                if fact.address not in progress[group][partition].reached:  # a client that begins
                    located.add((group, partition, fact.offset))
        elif isinstance(fact, Fetched):
            groups = evidence.groups_of_clients.get(fact.client, frozenset())
            for group in groups:
                state = progress[group][fact.topic, fact.partition]
                if len(groups) == 1:
                    found += _went_back(evidence, group, fact, state)
                _fetch(evidence, fact, state)
        elif isinstance(fact, RecordsAcquired):
            progress[fact.group][fact.topic, fact.partition].fetched.add(fact.first, fact.last + 1)
        elif isinstance(fact, GroupReset):
            for state in progress[fact.group].values():
                state.committed = None
        for commit in evidence.commits_at(fact):
            partition = commit.topic, commit.partition
            state = progress[commit.group][partition]
            if commit.member or ((commit.client, partition) in fetching and commit.group not in managed):
                found += _commit(evidence, commit, state, located)
            state.committed = commit
            state.went_back.clear()
    if seen_by is not None:
        topics = {topic for topic, _ in progress[seen_by]}
        of_group = {key: each for key, each in evidence.outlines.items() if not topics or key[0] in topics}
        if not evidence.unread and not any(outline.end for outline in of_group.values()):
            raise ValueError(f"the topics of group {seen_by} never had a record: it could not have missed any")
        for partition, outline in of_group.items():
            found += _unseen(seen_by, partition, outline, progress[seen_by][partition].fetched)
    return found


def _in_order(evidence: Evidence) -> Sequence[Fact]:
    """Return the facts, commits later than they came where several brokers tell of them: each broker has its own clock,
    which it reads once a turn, so a commit may seem to have come before the fetch of its records.
    """
    if evidence.in_order:
        return evidence.facts
    latest, timed = 0, []
    for fact in evidence.facts:
        latest = max(latest, fact.at)
        timed.append((latest + _LATE_MS * bool(evidence.commits_at(fact)), fact))
    return [fact for _, fact in sorted(timed, key=lambda each: each[0])]


def _fetch(evidence: Evidence, fact: Fetched, state: GroupProgress) -> None:
    first, end = evidence.range_of(fact)
    if end is None:
        end = max(fact.high_watermark, first + 1)  # it may have been as much as that
    state.fetched.add(first, end)
    state.reached[fact.address] = max(end, state.reached.get(fact.address, 0))
    state.went_back[fact.client] = min(first, state.went_back.get(fact.client, first))


def _went_back(evidence: Evidence, group: str, fact: Fetched, state: GroupProgress) -> Iterator[Finding]:
    """Find a client that fetches again what it had fetched and its group has committed. Where the session alone knows
    the position, it may be any offset of the first batch.
    """
    committed, first = state.committed, max(fact.position, fact.base)
    if fact.position < 0:
        outline = evidence.outlines.get((fact.topic, fact.partition))
        batch = None if outline is None else outline.at(fact.base)
        if batch is None:
            return
        first = batch.last
    if committed is None or first >= committed.offset or "nonmonotonic poll" in state.found:
        return
    if state.reached.get(fact.address, 0) < committed.offset:
        return  # a client that was replaced, or one that has not read so far
    state.found.add("nonmonotonic poll")
    text = (
        f"{place(fact.topic, fact.partition, first)} was fetched once more at {clock(fact.at)} by {fact.who}, "
        f"and group {group} had committed {committed.offset} at {clock(committed.at)}"
    )
    yield Finding("nonmonotonic poll", text, fact.topic, fact.partition, first)


def _commit(
    evidence: Evidence,
    fact: OffsetCommitted,
    state: GroupProgress,
    located: Collection[tuple[str, PartitionKey, int]],
) -> Iterator[Finding]:
    """Find records that a group passes over. A group that has not committed yet begins where its clients are told."""
    partition, before = (fact.topic, fact.partition), state.committed
    outline = evidence.outlines.get(partition)
    if outline is None:
        return
    if before is not None and fact.offset < before.offset:
        yield from _commit_back(fact, before, state)
        return
    if before is None and state.fetched.first is None and not evidence.whole:
        return  # what was fetched before the history began is not known
    first = state.fetched.first if before is None else before.offset
    begin = outline.start if first is None else max(first, outline.start)
    for low, high in state.fetched.missing(begin, fact.offset):
        ahead = low >= state.fetched.end
        if before is None and (fact.group, partition, high) in located:
            continue  # a group that begins there
        skipped = _readable(outline, low, high)
        if not skipped:
            continue
        anomaly: Anomaly = "commit ahead of fetch" if ahead else "poll skip"
        reached = f"had fetched up to {state.fetched.end}" if state.fetched.end else "had fetched nothing"
        text = (
            f"group {fact.group} committed {fact.offset} of {place(*partition)} at {clock(fact.at)} by {fact.who}, "
            + (f"and its members {reached}" if ahead else f"and its members never fetched {_span(low, high)}")
        )
        if anomaly not in state.found:
            state.found.add(anomaly)
            yield Finding(anomaly, text, *partition, skipped[0], [evidence.written(partition, skipped[0])])


def _commit_back(fact: OffsetCommitted, before: OffsetCommitted, state: GroupProgress) -> Iterator[Finding]:
    if state.went_back.get(fact.client, fact.offset + 1) <= fact.offset or "nonmonotonic commit" in state.found:
        return  # it sought, and reads again from there
    state.found.add("nonmonotonic commit")
    text = (
        f"group {fact.group} committed {fact.offset} of {place(fact.topic, fact.partition)} at {clock(fact.at)} by "
        f"{fact.who}, and {before.offset} was committed at {clock(before.at)} by {before.who}"
    )
    yield Finding("nonmonotonic commit", text, fact.topic, fact.partition, fact.offset)


def _readable(outline: Outline, first: int, end: int) -> list[int]:
    """Return the beginnings of what a consumer would have got in [first, end): batches that are there yet."""
    batches = (each for each in outline.between(first, end) if each.outcome not in MARKERS | {ABORTED} and each.records)
    return [max(first, each.base) for each in batches]


def _span(first: int, end: int) -> str:
    return str(first) if end == first + 1 else f"{first} to {end - 1}"


def _unseen(group: str, partition: PartitionKey, outline: Outline, fetched: Ranges) -> Iterable[Finding]:
    for low, high in fetched.missing(outline.start, outline.readable_end):
        for offset in _readable(outline, low, high)[:1]:
            text = f"{place(*partition, offset)} and the rest up to {high - 1} were never fetched by group {group}"
            yield Finding("unseen", text, *partition, offset)


# -- share groups


_FINAL = {1: "accepted", 3: "rejected"}


class _SharedPartition:
    """The deliveries and acknowledgements of a partition."""

    def __init__(self) -> None:
        self.delivered: list[RecordsAcquired] = []
        self.done: dict[int, RecordsAcknowledged] = {}  # by offset
        self.found: set[Anomaly] = set()


def share_findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield the anomalies of share groups."""
    groups: dict[str, dict[PartitionKey, _SharedPartition]] = defaultdict(lambda: defaultdict(_SharedPartition))
    for fact in evidence.facts:
        if isinstance(fact, GroupReset):
            groups.pop(fact.group, None)
        elif isinstance(fact, RecordsAcknowledged) and fact.done:
            yield from _acknowledge(evidence, fact, groups[fact.group][fact.topic, fact.partition])
        elif isinstance(fact, RecordsAcquired) and fact.done:
            yield from _acquire(evidence, fact, groups[fact.group][fact.topic, fact.partition])


def _acknowledge(evidence: Evidence, fact: RecordsAcknowledged, state: _SharedPartition) -> Iterator[Finding]:
    for offset in range(fact.first, fact.last + 1):
        if fact.type_of(offset) not in _FINAL:
            continue
        before = state.done.setdefault(offset, fact)
        if before is not fact and "acknowledged twice" not in state.found:
            text = f"{place(fact.topic, fact.partition, offset)} was acknowledged twice in share group {fact.group}"
            yield _finding(evidence, "acknowledged twice", text, offset, fact, state, [before, fact])


def _acquire(evidence: Evidence, fact: RecordsAcquired, state: _SharedPartition) -> Iterator[Finding]:
    state.delivered.append(fact)
    if "acknowledgement lost" in state.found:
        return
    for offset in range(fact.first, fact.last + 1):
        before = state.done.get(offset)
        if before is not None:
            text = (
                f"{place(fact.topic, fact.partition, offset)} was delivered again in share group {fact.group} at "
                f"{clock(fact.at)} to {fact.who}, and had been acknowledged"
            )
            yield _finding(evidence, "acknowledgement lost", text, offset, fact, state, [before])
            return


def _finding(
    evidence: Evidence,
    anomaly: Anomaly,
    text: str,
    offset: int,
    fact: RecordsAcquired | RecordsAcknowledged,
    state: _SharedPartition,
    acknowledged: list[RecordsAcknowledged],
) -> Finding:
    state.found.add(anomaly)
    partition = fact.topic, fact.partition
    deliveries = [
        f"delivered at {clock(each.at)} to {each.who}" for each in state.delivered if each.first <= offset <= each.last
    ]
    steps = [f"{_FINAL[each.type_of(offset)]} at {clock(each.at)} by {each.who}" for each in acknowledged]
    return Finding(anomaly, text, *partition, offset, [evidence.written(partition, offset), *deliveries, *steps])
