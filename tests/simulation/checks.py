"""Checks of what must hold after a run, when all nodes are well again.

Rule: what was acknowledged or read is there, unless it may be gone: it lies below the start of its log, or a newer
record of its key is there. Replicas clean their logs at different times: a record that may be gone can be there in the
end, and can have been missing for those that read from another leader. Where a log may begin is checked while the run
goes on (`watch.py`). A run whose topic is `lossy` is asked only for what its nodes and clients noted as violations
themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from pykafka_broker.protocol.enums import PartitionKey
from tests.simulation.history import Ending, History, source_of

MayBeGone = Callable[[PartitionKey, int, bytes], bool]
Found = dict[PartitionKey, dict[int, bytes]]


class Gone:
    """The records that may be gone, judged by the records that are there.

    committed: the records that a read_committed reader gets.
    """

    def __init__(self, history: History, committed: Found) -> None:
        self._history = history
        transactions = [each for each in history.transactions if each.ending is not Ending.COMMITTED]
        self._undecided = {value for each in transactions for value in each.parts}
        self._latest: dict[tuple[PartitionKey, bytes], int] = {}
        for partition, records in committed.items():
            for offset, value in records.items():
                self._note(partition, history.keys.get(value), offset)
        for partition, tombstones in history.tombstones.items():
            for key, offset in tombstones.items():
                self._note(partition, key, offset)

    def _note(self, partition: PartitionKey, key: bytes | None, offset: int) -> None:
        if key is not None:
            self._latest[partition, key] = max(offset, self._latest.get((partition, key), -1))

    def must_be_met(self, partition: PartitionKey, records: dict[int, bytes]) -> set[int]:
        """Return the offsets of the records that every read_uncommitted reader gets, whichever replicas lead."""
        return {offset for offset, value in records.items() if not self.may_be_unread(partition, offset, value)}

    def may_be_unread(self, partition: PartitionKey, offset: int, value: bytes) -> bool:
        """Return whether a read_uncommitted reader may miss the record: the cleaner also removes aborted records."""
        if self._history.keeping.keyed and value in self._undecided:
            return True
        return self.may_be(partition, offset, value)

    def may_be(self, partition: PartitionKey, offset: int, value: bytes) -> bool:
        """Return whether the record may be gone; offset: -1 where no answer has told it."""
        history = self._history
        if partition[0] != history.topic:
            return False
        if offset < 0:
            return history.keeping.keyed or history.starts.get(partition, 0) > 0
        return offset < history.starts.get(partition, 0) or self._is_superseded(partition, offset, value)

    def _is_superseded(self, partition: PartitionKey, offset: int, value: bytes) -> bool:
        if not value:  # a tombstone, or a record that nobody has noted
            return self._history.keeping.keyed
        key = self._history.keys.get(value)
        if key is None:
            return False
        return self._latest.get((partition, key), -1) > offset or (partition, key) in self._history.doubtful


def check_history(history: History, found: Found, committed: Found) -> list[str]:
    """Return all violations. found: all records there are; committed: those that a read_committed reader gets."""
    wrong = list(history.violations)
    if history.keeping.lossy:
        return wrong
    gone = Gone(history, committed)
    for partition, values in history.acknowledged.items():
        wrong += _lost(partition, values, found.get(partition, {}), gone)
    for partition, records in history.read.items():
        wrong += _gone(partition, records, found.get(partition, {}), gone.may_be_unread)
    for partition, records in history.read_committed.items():
        wrong += _gone(partition, records, committed.get(partition, {}), gone.may_be)
    for (producer, partition), sent in history.sent.items():
        wrong += _disordered(producer, partition, sent, found.get(partition, {}))
    known = {value for values in history.sent.values() for value in values}
    for partition, records in found.items():
        wrong += [
            f"{partition} {offset}: {value!r} was never sent"
            for offset, value in records.items()
            if value not in known and not (history.keeping.keyed and value == b"")
        ]
    for partition, batch in history.unheard:
        wrong += _incomplete(partition, batch, found.get(partition, {}), gone)
    wrong += _torn(history, committed, gone)
    wrong += _unprocessed(history, committed, gone)
    wrong += _inexact(history, committed, gone)
    wrong += _came_back(history, committed)
    return [*wrong, *_mistimed(history, found, gone)]


def _lost(partition: PartitionKey, values: dict[bytes, int], there: dict[int, bytes], gone: Gone) -> Iterable[str]:
    present = set(there.values())
    for value, offset in values.items():
        if value not in present:
            if not gone.may_be(partition, offset, value):
                yield f"{partition}: {value!r} was acknowledged at {offset} and is lost"
        elif offset >= 0 and there.get(offset) != value:
            yield f"{partition} {offset}: {value!r} was acknowledged, and there is {there.get(offset)!r}"


def _gone(
    partition: PartitionKey, read: dict[int, bytes], there: dict[int, bytes], may_be_gone: MayBeGone
) -> Iterable[str]:
    for offset, value in read.items():
        if there.get(offset) != value and (offset in there or not may_be_gone(partition, offset, value)):
            yield f"{partition} {offset}: {value!r} was read, and now there is {there.get(offset)!r}"


def _disordered(producer: str, partition: PartitionKey, sent: list[bytes], there: dict[int, bytes]) -> Iterable[str]:
    mine = set(sent)
    got = [value for _, value in sorted(there.items()) if value in mine]
    present = set(got)
    if len(got) != len(present):
        twice = sorted(each for each in present if got.count(each) > 1)
        yield f"{partition}: records of {producer} are there twice: {twice}"
    if got != [each for each in sent if each in present]:
        yield f"{partition}: records of {producer} are not in their order"


def _incomplete(partition: PartitionKey, values: list[bytes], there: dict[int, bytes], gone: Gone) -> Iterable[str]:
    """Find a batch that lacks records which can't be gone, or whose records are not in one piece."""
    offsets = {value: offset for offset, value in there.items() if value in values}
    if not offsets:
        return
    bases = {offsets[value] - index for index, value in enumerate(values) if value in offsets}
    if len(bases) > 1:
        yield f"{partition}: records of one batch with acks=0 are apart: {offsets}"
        return
    (base,) = bases
    missing = [
        value
        for index, value in enumerate(values)
        if value not in offsets and not gone.may_be_unread(partition, base + index, value)
    ]
    if missing:
        yield f"{partition}: of a batch with acks=0 {missing} are not there, and {sorted(offsets)} are"


def _torn(history: History, committed: Found, gone: Gone) -> Iterable[str]:
    visible = {(partition, value) for partition, records in committed.items() for value in records.values()}
    for each in history.transactions:
        there = [value for value, partition in each.parts.items() if (partition, value) in visible]
        missing = [
            value
            for value, partition in each.parts.items()
            if value not in there and not gone.may_be(partition, each.offsets.get(value, -1), value)
        ]
        if there and missing:
            yield f"a transaction of {each.producer} is torn: {there} of {list(each.parts)}"
        elif each.ending is Ending.COMMITTED and missing:
            yield f"a transaction of {each.producer} was committed, and is not there: {missing} of {list(each.parts)}"
        elif each.ending in (Ending.ABORTED, Ending.OPEN) and there:
            yield f"a transaction of {each.producer} {each.ending.value}, and is there: {there}"


def _unprocessed(history: History, committed: Found, gone: Gone) -> Iterable[str]:
    for (group, partition), processed in history.processed.items():
        missed = history.wanted_by(group, partition, gone.must_be_met(partition, committed[partition])) - processed
        if missed:
            yield f"{group} has never processed these of {partition}: {sorted(missed)}"


def _inexact(history: History, committed: Found, gone: Gone) -> Iterable[str]:
    """Find records without exactly one output, for the groups of `history.exact`, which read and write in transactions.

    An output may belong to a record that is gone, unless that record's transaction is known not to be committed.
    """
    unread = {
        (partition, each.offsets[value])
        for each in history.transactions
        if each.ending in (Ending.ABORTED, Ending.OPEN)
        for value, partition in each.parts.items()
        if value in each.offsets
    }
    outputs = [source_of(value) for records in committed.values() for value in records.values() if b">" in value]
    for group in history.exact:
        wanted = {
            (group, partition, offset)
            for partition in history.ends
            for offset in history.wanted_by(group, partition, gone.must_be_met(partition, committed[partition]))
        }
        got = Counter(each for each in outputs if each[0] == group)
        twice = sorted(each for each, times in got.items() if times > 1)
        if twice:
            yield f"these have more than one output: {twice}"
        missing = sorted(wanted - got.keys())
        strange = sorted(
            (group, partition, offset)
            for _, partition, offset in got.keys() - wanted
            if (partition, offset) in unread
            or (offset not in committed[partition] and not gone.may_be(partition, offset, b""))
        )
        if missing or strange:
            yield f"{group} has no output of {missing}, and one of {strange}"


def _came_back(history: History, committed: Found) -> Iterable[str]:
    """Find older records of keys whose tombstone, the last record, is gone."""
    for partition, tombstones in history.tombstones.items():
        of_key: dict[bytes, int] = {}
        for offset, value in committed.get(partition, {}).items():
            key = history.keys.get(value)
            if key in tombstones:
                of_key[key] = max(offset, of_key.get(key, -1))
        for key, offset in of_key.items():
            if offset < tombstones[key] and tombstones[key] not in committed[partition]:
                yield f"{partition} {offset}: {key!r} is there again, which {tombstones[key]} has deleted"


def _mistimed(history: History, found: Found, gone: Gone) -> Iterable[str]:
    """Find answers of ListOffsets by time that are not the first record with that time or a later one.

    Records below the highest start of any replica don't count: the leader that was asked may have deleted records that
    its successor still has, or the same node after a crash that lost the checkpoint of its start.
    """
    for partition, wanted, told, timestamp, end, start_is_known in history.by_time:
        lowest, records = history.highest_start(partition), found[partition]
        value = records.get(told)
        if value is not None and value in history.times and history.times[value] != timestamp:
            yield f"{partition} {told}: ListOffsets told the time {timestamp}, and it is {history.times[value]}"
        missed = [
            offset
            for offset, value in records.items()
            if lowest <= offset < (told if told >= 0 else end)
            and history.times.get(value, -1) >= wanted
            and not gone.may_be_unread(partition, offset, value)
        ]
        if missed and start_is_known:
            yield f"{partition}: ListOffsets told {told} for {wanted}, and {min(missed)} is not older"
