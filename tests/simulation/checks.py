"""What must hold after a run, when all is whole again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.simulation.history import Ending, History, TopicPartition, source_of

Found = dict[TopicPartition, dict[int, bytes]]


def check_history(history: History, found: Found, committed: Found) -> list[str]:
    """`found` is everything that is there, `committed` what a reader of committed records gets; what is wrong."""
    wrong = list(history.violations)
    for partition, values in history.acknowledged.items():
        wrong += _lost(partition, values, found.get(partition, {}))
    for read, there in ((history.read, found), (history.read_committed, committed)):
        for partition, records in read.items():
            wrong += _gone(partition, records, there.get(partition, {}))
    for (producer, partition), sent in history.sent.items():
        wrong += _disordered(producer, partition, sent, found.get(partition, {}))
    known = {value for values in history.sent.values() for value in values}
    for partition, records in found.items():
        wrong += [
            f"{partition} {offset}: {value!r} was never sent" for offset, value in records.items() if value not in known
        ]
    return [*wrong, *_torn(history, committed), *_unprocessed(history, committed), *_inexact(history, committed)]


def _lost(partition: TopicPartition, values: dict[bytes, int], there: dict[int, bytes]) -> Iterable[str]:
    present = set(there.values())
    for value, offset in values.items():
        if value not in present:
            yield f"{partition}: {value!r} was acknowledged at {offset} and is lost"
        elif offset >= 0 and there.get(offset) != value:
            yield f"{partition} {offset}: {value!r} was acknowledged, and there is {there.get(offset)!r}"


def _gone(partition: TopicPartition, read: dict[int, bytes], there: dict[int, bytes]) -> Iterable[str]:
    for offset, value in read.items():
        if there.get(offset) != value:
            yield f"{partition} {offset}: {value!r} was read, and now there is {there.get(offset)!r}"


def _disordered(producer: str, partition: TopicPartition, sent: list[bytes], there: dict[int, bytes]) -> Iterable[str]:
    mine = set(sent)
    got = [value for _, value in sorted(there.items()) if value in mine]
    present = set(got)
    if len(got) != len(present):
        twice = sorted(each for each in present if got.count(each) > 1)
        yield f"{partition}: records of {producer} are there twice: {twice}"
    if got != [each for each in sent if each in present]:
        yield f"{partition}: records of {producer} are not in their order"


def _torn(history: History, committed: Found) -> Iterable[str]:
    visible = {(partition, value) for partition, records in committed.items() for value in records.values()}
    for each in history.transactions:
        there = [value for value, partition in each.parts.items() if (partition, value) in visible]
        whole = len(there) == len(each.parts)
        if there and not whole:
            yield f"a transaction of {each.producer} is torn: {there} of {list(each.parts)}"
        elif each.ending is Ending.COMMITTED and not whole:
            yield f"a transaction of {each.producer} was committed, and is not there: {list(each.parts)}"
        elif each.ending in (Ending.ABORTED, Ending.OPEN) and there:
            yield f"a transaction of {each.producer} {each.ending.value}, and is there: {there}"


def _unprocessed(history: History, committed: Found) -> Iterable[str]:
    for (group, partition), processed in history.processed.items():
        missed = committed[partition].keys() - processed
        if missed:
            yield f"{group} has never processed these of {partition}: {sorted(missed)}"


def _inexact(history: History, committed: Found) -> Iterable[str]:
    """Each record that a group has read in transactions has one output; `exact` are those groups."""
    outputs = [source_of(value) for records in committed.values() for value in records.values() if b">" in value]
    for group in history.exact:
        wanted = {(group, partition, offset) for partition in history.ends for offset in committed[partition]}
        got = Counter(each for each in outputs if each[0] == group)
        twice = sorted(each for each, times in got.items() if times > 1)
        if twice:
            yield f"these have more than one output: {twice}"
        if got.keys() != wanted:
            yield f"{group} has no output of {sorted(wanted - got.keys())}, and one of {sorted(got.keys() - wanted)}"
