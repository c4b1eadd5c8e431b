"""The verdict on an application: which input records have no output, and which have one too many.

Rule: an input and an output record belong together if they have the same id, which a function or an expression takes
from a record. Records of aborted transactions are neither. Of an id that comes n times in the input there must be n
outputs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from pykafka_broker.control.history.findings import (
    Anomaly,
    Evidence,
    Finding,
    clock,
    place,
)
from pykafka_broker.protocol.enums import PartitionKey

Guarantee = Literal["exactly_once", "at_least_once", "at_most_once"]
GUARANTEES: tuple[Guarantee, ...] = ("exactly_once", "at_least_once", "at_most_once")
_TOLERATED: dict[Guarantee, frozenset[str]] = {
    "exactly_once": frozenset(),
    "at_least_once": frozenset({"doubled"}),
    "at_most_once": frozenset({"lost"}),
}
_MOST_TOLD = 3  # fetches of a record
HEADER = "header:"


def contradiction(asked: Mapping[str, Any], named: Callable[[str], str] = str) -> str | None:
    """Return which argument a check would not use, and why; None where each is used.

    Args:
        asked: all arguments of a check, by name.
        named: makes the form of a name that the reader writes.
    """
    both = f"{named('input')} and {named('output')}"
    if (asked["input"] is None) != (asked["output"] is None):
        return f"{both} are given together"
    if asked["input"] is None:
        defaults = {"order": None, "key": "key", "guarantee": GUARANTEES[0]}
        unused = [name for name, default in defaults.items() if asked[name] != default]
        of = f"an application: {both} are missing"
    else:
        unused = [name for name in ("seen_by", "forbid", "empty_ok") if asked[name]]
        of = f"the whole history: leave out {both}"
    return f"{named(unused[0])} is of {of}" if unused else None


class StoredRecord(Protocol):
    """A record of a topic, as tests and the broker have it."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key_bytes(self) -> bytes | None: ...
    @property
    def value_bytes(self) -> bytes | None: ...
    @property
    def headers(self) -> Iterable[tuple[str, str | bytes | None]]: ...


@dataclass(frozen=True)
class PlainRecord:
    """A record as the broker reads it from a log."""

    topic: str
    partition: int
    offset: int
    key_bytes: bytes | None
    value_bytes: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


Identify = Callable[[Any], Hashable]


def identify_by(expression: str) -> Identify:
    """Return the function from a record to its id.

    Args:
        expression: "key", "value", "header:NAME", or a JSON pointer into the value ("/order/id").

    Raises:
        ValueError: for another text.
    """
    if expression == "key":
        return lambda record: record.key_bytes
    if expression == "value":
        return lambda record: record.value_bytes
    if expression.startswith(HEADER):
        name = expression.removeprefix(HEADER)
        return lambda record: next((_bytes(value) for header, value in record.headers if header == name), None)
    if expression.startswith("/"):
        parts = [part.replace("~1", "/").replace("~0", "~") for part in expression[1:].split("/")]
        return lambda record: _pointed(record.value_bytes, parts)
    raise ValueError(f'key must be "key", "value", "header:NAME" or a JSON pointer such as "/id", not {expression!r}')


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


def _pointed(value: bytes | None, parts: Iterable[str]) -> str | None:
    """Return the value at a JSON pointer as JSON text; None where there is none."""
    try:
        found = json.loads(value or b"", parse_float=_number)
        for part in parts:
            found = found[int(part) if isinstance(found, list) and part.isdecimal() else part]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    return json.dumps(found, sort_keys=True)


def _number(text: str) -> float:
    """Return a number of JSON, which does not tell 1.0 from 1."""
    number = float(text)
    return int(number) if number.is_integer() else number


def verdict(
    evidence: Evidence,
    inputs: Iterable[StoredRecord],
    outputs: Iterable[StoredRecord],
    identify: Identify,
    guarantee: Guarantee,
    *,
    order: Identify | None = None,
    skips: bool = False,
) -> list[Finding]:
    """Return what the guarantee forbids: lost, doubled and invented records, each with its way.

    Args:
        order: from an input record to what has an order: of the same value, outputs come as their inputs did.
        skips: an input without id (None) wants no output.

    Raises:
        ValueError: an input has no id, and `skips` is not set; or a compaction has removed records, so that nobody
            knows how many there were; or nothing could be found: there are no records, or none with an id, or one topic
            is input and output, or there are no outputs where records may be lost, or no input has an order.
    """
    wanted, found = _by_id(inputs, identify), _by_id(outputs, identify)
    without = wanted.pop(None, None)
    if without and not skips:
        raise ValueError(f"{_place(without[0])} has no id: key must name what every input record has")
    strays = found.pop(None, [])
    of_inputs, of_outputs = _topics(wanted), _topics(found)
    for topic in of_inputs & of_outputs:
        raise ValueError(f"topic {topic} is input and output: each of its records would be its own output")
    for (topic, partition), outline in evidence.outlines.items():
        if topic in of_inputs | of_outputs and outline.compacted and outline.has_holes:
            raise ValueError(f"{place(topic, partition)} was compacted: how many records there were is not known")
    if not wanted and not found and not strays:
        why = "no input record has an id, and there is no output" if without else "neither topic has records"
        raise ValueError(f"{why}: nothing could be lost, doubled or invented")
    tolerated = _TOLERATED[guarantee]
    if "lost" in tolerated and not found and not strays:
        raise ValueError(f"the output has no records: with {guarantee} nothing could be doubled or invented")
    if order is not None and wanted and all(order(each) is None for records in wanted.values() for each in records):
        raise ValueError("no input record has an order: order must name what some of them have")
    made: list[Finding] = []
    for key, records in wanted.items():
        made_of_key = found.get(key, [])
        missing = len(records) - len(made_of_key)
        if missing > 0:
            made += [_lost(evidence, each, len(records), made_of_key) for each in records[-missing:]]
        elif missing < 0:
            made.append(_doubled(evidence, records, made_of_key))
    cut = any(outline.start for (topic, _), outline in evidence.outlines.items() if topic in of_inputs)
    for key, records in found.items():
        if key not in wanted and not cut:
            strays += records
    made += [_invented(evidence, each) for each in strays]
    if order is not None:
        made += _disorder(evidence, wanted, found, order)
    return [each for each in made if each.anomaly not in tolerated]


def _topics(records: Mapping[Any, list[StoredRecord]]) -> set[str]:
    return {each.topic for of_id in records.values() for each in of_id}


def _by_id(records: Iterable[StoredRecord], identify: Identify) -> dict[Hashable, list[StoredRecord]]:
    found: dict[Hashable, list[StoredRecord]] = defaultdict(list)
    for record in records:
        found[identify(record)].append(record)
    return found


def _place(record: StoredRecord) -> str:
    return place(record.topic, record.partition, record.offset)


def _finding(anomaly: Anomaly, text: str, record: StoredRecord, way: list[str]) -> Finding:
    return Finding(anomaly, text, record.topic, record.partition, record.offset, way)


def _lost(evidence: Evidence, record: StoredRecord, inputs: int, outputs: list[StoredRecord]) -> Finding:
    text = f"{_place(record)} has no output"
    if inputs > 1:
        text = f"{inputs} input records have the id of {_place(record)}, and there are {len(outputs)} outputs"
    return _finding("lost", text, record, [*_way(evidence, record), *_came_out(evidence, outputs)])


def _doubled(evidence: Evidence, records: list[StoredRecord], outputs: list[StoredRecord]) -> Finding:
    first = records[0]
    several = f"{len(records)} input records with the id of " if len(records) > 1 else ""
    text = f"{several}{_place(first)} came out {len(outputs)} times: {', '.join(map(_place, outputs))}"
    return _finding("doubled", text, outputs[-1], [*_way(evidence, first), *_came_out(evidence, outputs)])


def _invented(evidence: Evidence, record: StoredRecord) -> Finding:
    return _finding("invented", f"{_place(record)} belongs to no input", record, _came_out(evidence, [record]))


# -- order


class _Latest(NamedTuple):
    """An output, and the input that it is of."""

    input: StoredRecord
    output: StoredRecord


def _disorder(
    evidence: Evidence,
    inputs: Mapping[Hashable, list[StoredRecord]],
    outputs: Mapping[Hashable, list[StoredRecord]],
    order: Identify,
) -> Iterator[Finding]:
    """Find outputs of a key in several partitions, and outputs that are behind those of later inputs.

    An id that came in twice is left out, and of the outputs of an id the first of each partition counts.
    """
    by_key: dict[Hashable, list[_Latest]] = defaultdict(list)
    for key, (first, *more) in inputs.items():
        if not more and (value := order(first)) is not None:
            by_partition: dict[int, StoredRecord] = {}
            for each in sorted(outputs.get(key, ()), key=lambda each: each.offset):
                by_partition.setdefault(each.partition, each)
            by_key[value] += [_Latest(first, each) for each in by_partition.values()]
    for pairs in by_key.values():
        pairs.sort(key=lambda each: (each.output.partition, each.output.offset))
        one = next((each for each in pairs if each.output.partition != pairs[0].output.partition), None)
        if one is not None:
            yield _split(evidence, pairs[0], one)
        found = _behind_later(evidence, pairs)
        if found is not None:
            yield found


def _split(evidence: Evidence, one: _Latest, other: _Latest) -> Finding:
    text = (
        f"{_place(one.output)} and {_place(other.output)} belong to one key, so no consumer can tell their order: "
        f"they are of {_place(one.input)} and {_place(other.input)}"
    )
    return _finding("split key", text, other.output, _came_out(evidence, [one.output, other.output]))


def _behind_later(evidence: Evidence, pairs: Iterable[_Latest]) -> Finding | None:
    """Return the first output of a key behind one whose input came later."""
    latest: dict[tuple[int, int], _Latest] = {}  # the latest input, by partitions of output and input
    for each in pairs:
        for (output, partition), before in latest.items():
            if output != each.output.partition:
                continue
            same = partition == each.input.partition
            if each.input.offset < before.input.offset if same else _earlier(evidence, each.input, before.input):
                text = (
                    f"{_place(each.output)} is of {_place(each.input)}, and is behind {_place(before.output)} of "
                    f"{_place(before.input)}, which came later"
                )
                inputs = [
                    evidence.written((one.topic, one.partition), one.offset) for one in (each.input, before.input)
                ]
                return _finding(
                    "out of order", text, each.output, [*inputs, *_came_out(evidence, [before.output, each.output])]
                )
        latest[each.output.partition, each.input.partition] = each
    return None


def _earlier(evidence: Evidence, one: StoredRecord, other: StoredRecord) -> bool:
    """Return whether a record was acknowledged before another one, of another partition, was sent."""
    first, second = (evidence.sent((each.topic, each.partition), each.offset) for each in (one, other))
    return bool(first and second) and first[-1].done and 0 <= first[-1].until < second[0].at


def _came_out(evidence: Evidence, outputs: Iterable[StoredRecord]) -> list[str]:
    return [evidence.written((each.topic, each.partition), each.offset) for each in outputs]


def _way(evidence: Evidence, record: StoredRecord) -> list[str]:
    """Return the way of an input record: produced, fetched, committed."""
    partition = record.topic, record.partition
    fetches = evidence.fetches_of(partition, record.offset)
    told = [f"fetched at {clock(each.at)} by {each.who}" for each in fetches[:_MOST_TOLD]]
    if len(fetches) > _MOST_TOLD:
        told.append(f"fetched {len(fetches) - _MOST_TOLD} times more")
    return [
        evidence.written(partition, record.offset),
        *(told or ["never fetched"]),
        *(_commits(evidence, partition, record.offset) or ["never committed"]),
    ]


def _commits(evidence: Evidence, partition: PartitionKey, offset: int) -> list[str]:
    """Return a line for each group: when it committed an offset above the record's first."""
    told: dict[str, str] = {}
    for each in evidence.commits_of(partition):
        if each.offset > offset and each.group not in told:
            told[each.group] = f"committed by group {each.group} ({each.offset}) at {clock(each.at)} by {each.who}"
    return list(told.values())
