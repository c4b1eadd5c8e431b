"""Deliveries and acknowledgements of share groups, and where the two do not go together.

Rule: an acknowledgement counts when its member was told so. A record that was accepted or rejected is done with: it is
neither delivered nor acknowledged again, whatever happens to brokers meanwhile. A group that was deleted, or whose
offsets were set, begins anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pykafka_broker.control.history.facts import GroupReset, RecordsAcknowledged, RecordsAcquired
from pykafka_broker.control.history.findings import Anomaly, Evidence, Finding, TopicPartition, clock, place

_FINAL = {1: "accepted", 3: "rejected"}


class _SharedPartition:
    """The deliveries and acknowledgements of a partition."""

    def __init__(self) -> None:
        self.delivered: list[RecordsAcquired] = []
        self.done: dict[int, RecordsAcknowledged] = {}  # by offset
        self.told: set[Anomaly] = set()


def share_findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield the anomalies of share groups."""
    groups: dict[str, dict[TopicPartition, _SharedPartition]] = defaultdict(lambda: defaultdict(_SharedPartition))
    for fact in evidence.facts:
        if isinstance(fact, GroupReset):
            groups.pop(fact.group, None)
        elif isinstance(fact, RecordsAcknowledged) and fact.done:
            yield from _acknowledge(evidence, fact, groups[fact.group][fact.topic, fact.partition])
        elif isinstance(fact, RecordsAcquired) and fact.done:
            yield from _acquire(evidence, fact, groups[fact.group][fact.topic, fact.partition])


def _acknowledge(evidence: Evidence, fact: RecordsAcknowledged, state: _SharedPartition) -> Iterator[Finding]:
    for offset in range(fact.first, fact.last + 1):
        kind = fact.types[0] if len(fact.types) == 1 else fact.types[offset - fact.first]
        if kind not in _FINAL:
            continue
        before = state.done.setdefault(offset, fact)
        if before is not fact and "acknowledged twice" not in state.told:
            text = f"{place(fact.topic, fact.partition, offset)} was acknowledged twice in share group {fact.group}"
            yield _finding(evidence, "acknowledged twice", text, offset, fact, state, [before, fact])


def _acquire(evidence: Evidence, fact: RecordsAcquired, state: _SharedPartition) -> Iterator[Finding]:
    state.delivered.append(fact)
    if "acknowledgement lost" in state.told:
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
    state.told.add(anomaly)
    partition = fact.topic, fact.partition
    deliveries = [
        f"delivered at {clock(each.at)} to {each.who}" for each in state.delivered if each.first <= offset <= each.last
    ]
    steps = [f"{_word(each, offset)} at {clock(each.at)} by {each.who}" for each in acknowledged]
    return Finding(anomaly, text, *partition, offset, [evidence.written(partition, offset), *deliveries, *steps])


def _word(fact: RecordsAcknowledged, offset: int) -> str:
    return _FINAL[fact.types[0] if len(fact.types) == 1 else fact.types[offset - fact.first]]
