"""Records of a topic, compared with expected records.

Rule: only the fields named in an expected record are compared. Records of one partition are compared in order. Between
partitions there is no order, so each expected record is searched for among all records, and those found in a partition
must be expected in the partition's order. The text of a difference is short enough to read: long lines and long lists
are cut.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Annotated, Any

from pykafka_broker.control.api.records import Header, RecordAnswer
from pykafka_broker.control.schema import Index, ValueLimits, meant
from pykafka_broker.errors import counted

if TYPE_CHECKING:
    from pykafka_broker.control.control import Decode

SHOWN = 20  # records in the text of a failure
_MOST_LINES = 40
_MOST_DECODED = 1_000  # keys and values
_MOST_BYTES_DECODED = 64 << 10  # of one: a text shows its beginning
_WIDTH = 200
_BEFORE_DIFFERENCE = 60  # characters of a cut line in front of the first one that differs
_CONTEXT = 2  # equal records in front of the first difference
_MOST_PAIRS = 40_000  # looked at for the shortest difference
_MOST_SWAPPED = 2_000  # records among which a first choice of partners is taken back
_MOST_STEPS = 1_000_000  # comparisons for the order of records in several partitions; beyond, any order is taken


class _NotNamed:
    def __repr__(self) -> str:
        return "not named"


NOT_NAMED: Any = _NotNamed()
Readable = Mapping[bytes, str]  # texts for keys and values that a schema reads, by their bytes
NOTHING: Readable = {}
_NO_JSON = object()


@dataclass
class ExpectedRecord:
    """A record expected by a test. Omitted fields are not compared. A null value is a tombstone, a null key
    is no key. Text and base64 are compared byte by byte. Any other JSON is compared with the record's JSON: blanks and
    the order of an object's names make no difference. Named headers must be there, others may be; an empty list of
    headers says that there are none.
    """

    value: Any = NOT_NAMED
    key: Any = NOT_NAMED
    headers: list[Header] | None = None
    timestamp: Annotated[int, ValueLimits(minimum=0, maximum=2**63 - 1, says="epoch milliseconds")] | None = None
    partition: Index | None = None
    value_base64: str | None = None
    key_base64: str | None = None


class _Content:
    """A key or value found."""

    def __init__(self, text: str | None, in_base64: str | None) -> None:
        self.data = meant(text, in_base64, "")

    @cached_property
    def json(self) -> Any:
        """Return the content as comparable, hashable JSON."""
        try:
            return _NO_JSON if self.data is None else _frozen(json.loads(self.data.decode()))
        except (ValueError, RecursionError):
            return _NO_JSON


class _WantedContent:
    """A key or value expected: not named, JSON, or bytes (None for a tombstone or no key)."""

    def __init__(self, value: Any, in_base64: str | None, where: str) -> None:
        self.named = value is not NOT_NAMED or in_base64 is not None
        self.is_json = self.named and in_base64 is None and value is not None and not isinstance(value, str)
        self.json = _frozen(value) if self.is_json else None
        self.data = meant(None if value is NOT_NAMED else value, in_base64, where)

    def fits(self, found: _Content) -> bool:
        if not self.named:
            return True
        return bool(found.json == self.json) if self.is_json else found.data == self.data


class _Seen:
    """A record found."""

    def __init__(self, record: RecordAnswer) -> None:
        self.record = record
        self.key = _Content(record.key, record.key_base64)
        self.value = _Content(record.value, record.value_base64)


class ExpectedMatcher:
    """An expected record, read once. Raises `Problem` 400 where a field can't be read."""

    def __init__(self, expected: ExpectedRecord, readable: Readable = NOTHING) -> None:
        self.expected = expected
        self._readable = readable
        self.key = _WantedContent(expected.key, expected.key_base64, "key")
        self.value = _WantedContent(expected.value, expected.value_base64, "value")
        headers = expected.headers
        self.headers = None if headers is None else [_header(each) for each in headers]

    @property
    def named(self) -> int:
        """Return how many fields are compared."""
        expected = self.expected
        others = (self.headers, expected.timestamp, expected.partition)
        return self.key.named + self.value.named + sum(each is not None for each in others)

    def fits(self, record: RecordAnswer) -> bool:
        return self.fits_seen(_Seen(record))

    def fits_seen(self, seen: _Seen) -> bool:
        """Return whether a record fits, for a record that is compared several times."""
        expected, record = self.expected, seen.record
        return (
            (expected.partition is None or expected.partition == record.partition)
            and (expected.timestamp is None or expected.timestamp == record.timestamp)
            and self.key.fits(seen.key)
            and self.value.fits(seen.value)
            and self._headers_fit(record)
        )

    def _headers_fit(self, record: RecordAnswer) -> bool:
        if self.headers is None:
            return True
        left = [_header(each) for each in record.headers]
        for each in self.headers:
            if each not in left:
                return False
            left.remove(each)
        return bool(self.headers) or not left

    def __str__(self) -> str:
        """Return the expectation as text."""
        expected = self.expected
        parts = [
            f"{name} {_shown(content.data, content.is_json, self._readable)}"
            for name, content in (("key", self.key), ("value", self.value))
            if content.named
        ]
        parts += _shown_headers(self.headers)
        if expected.timestamp is not None:
            parts.append(f"timestamp {expected.timestamp}")
        if expected.partition is not None:
            parts.append(f"partition {expected.partition}")
        return ", ".join(parts) or "any record"


def difference(found: Sequence[RecordAnswer], expected: Sequence[ExpectedRecord], readable: Readable = NOTHING) -> str:
    """Return the missing and the unexpected records, line by line; an empty text without a difference."""
    wanted, seen = [ExpectedMatcher(each, readable) for each in expected], [_Seen(each) for each in found]
    form = _Form(wanted, readable)
    if len({each.partition for each in found}) > 1:
        partners = _partners(wanted, seen)
        taken = [each for each in partners if each is not None]
        left = {*range(len(seen))}.difference(taken)
        lines = [*_unmatched(wanted, partners), *(f"+ {form.line(seen[each])}" for each in sorted(left))]
        lines = lines or list(_disordered(wanted, seen, taken, form))
    else:
        lines = list(_ordered(wanted, seen, form))
    if not lines:
        return ""
    head = f"{counted(len(found), 'record')}, expected {len(expected)} (- missing, + unexpected)"
    return "\n".join([head, *_cut_lines(lines)])


def missing(
    found: Sequence[RecordAnswer], expected: Sequence[ExpectedRecord], readable: Readable = NOTHING
) -> tuple[list[RecordAnswer], list[str]]:
    """Return the matching records, a separate record for each expected record, and a line for each unmatched one."""
    wanted, seen = [ExpectedMatcher(each, readable) for each in expected], [_Seen(each) for each in found]
    partners = _partners(wanted, seen)
    return [found[each] for each in partners if each is not None], _cut_lines(_unmatched(wanted, partners))


def _unmatched(wanted: Sequence[ExpectedMatcher], partners: Sequence[int | None]) -> list[str]:
    return [f"- {each}" for each, partner in zip(wanted, partners, strict=True) if partner is None]


def line_of(record: RecordAnswer, readable: Readable = NOTHING) -> str:
    """Return a record as a line of a listing."""
    key, value = (_shown(data, False, readable) for data in contents_of(record))
    return _cut(f"{record.partition}@{record.offset} key {key}, value {value}") + _mark(record)


def listing(last: Sequence[RecordAnswer], count: int, readable: Readable = NOTHING) -> str:
    """Return the last of `count` records, a line each."""
    more = f"\n  ... {counted(count - len(last), 'record')} before these" if count > len(last) else ""
    return more + "".join(f"\n  {line_of(each, readable)}" for each in last)


async def readable_by(decode: Decode | None, records: Iterable[RecordAnswer | ExpectedRecord]) -> Readable:
    """Return texts for the keys and values that a schema of the registry reads, by their bytes.

    decode: the reader of values by their schemas, None without a registry.
    """
    texts: dict[bytes, str] = {}
    if decode is None:
        return texts
    for record in records:
        ids = {each.name: meant(each.value, each.value_base64, "value") for each in record.headers or ()}
        for part, data in zip(("key", "value"), contents_of(record), strict=True):
            header = ids.get(f"__{part}_schema_id")
            if data is None or data in texts or not (header or data.startswith(b"\0")):
                continue
            if len(data) <= _MOST_BYTES_DECODED and len(texts) < _MOST_DECODED:
                with suppress(ValueError):  # not of its schema: the bytes are shown
                    if (found := await decode(data, header)) is not None:
                        schema_id, kind, told = found
                        texts[data] = f"{told} ({kind}, schema {schema_id})"
    return texts


def hint_of_bytes(expected: Iterable[ExpectedRecord], readable: Readable) -> str:
    """Return a hint where JSON is expected of values that a schema reads."""
    if readable and any(isinstance(each.value, dict | list) for each in expected):
        return "\n(a dict is compared with values that are JSON, not with what a schema reads from bytes)"
    return ""


def contents_of(record: RecordAnswer | ExpectedRecord) -> list[bytes | None]:
    """Return key and value as bytes; None for a key or value that is not there, not named, or compared as JSON."""
    contents = (record.key, record.key_base64), (record.value, record.value_base64)
    return [meant(plain if isinstance(plain, str) else None, in_base64, "") for plain, in_base64 in contents]


# -- one partition


def _ordered(wanted: Sequence[ExpectedMatcher], seen: Sequence[_Seen], form: _Form) -> Iterator[str]:
    """Yield the lines of a difference of two sequences; none where both are the same."""
    start = 0
    while start < min(len(wanted), len(seen)) and wanted[start].fits_seen(seen[start]):
        start += 1
    end = 0
    while end < min(len(wanted), len(seen)) - start and wanted[-1 - end].fits_seen(seen[-1 - end]):
        end += 1
    middle, other = wanted[start : len(wanted) - end], seen[start : len(seen) - end]
    if not middle and not other:
        return
    if start > _CONTEXT:
        yield f"  ... {counted(start - _CONTEXT, 'record')} as expected"
    yield from (f"  {_cut(str(each))}" for each in wanted[max(0, start - _CONTEXT) : start])
    yield from _steps(middle, other, form)
    if end > _CONTEXT:
        yield f"  ... {counted(end, 'record')} as expected"
    elif end:
        yield from (f"  {_cut(str(each))}" for each in wanted[-end:])


def _steps(wanted: Sequence[ExpectedMatcher], seen: Sequence[_Seen], form: _Form) -> Iterator[str]:
    """Yield the lines of a diff: missing records before unexpected records, run by run."""
    missing: list[ExpectedMatcher] = []
    more: list[_Seen] = []
    for one, other in [*_aligned(wanted, seen), (None, None)]:
        if one is not None and other is None:
            missing.append(one)
        elif other is not None and one is None:
            more.append(other)
        else:
            for wish, record in zip_longest(missing, more):
                yield from _pair("" if wish is None else str(wish), "" if record is None else form.line(record, wish))
            missing, more = [], []
            if one is not None:
                yield f"  {_cut(str(one))}"


_Step = tuple[ExpectedMatcher | None, _Seen | None]  # a pair that fits; or a missing record, or an unexpected one


def _aligned(wanted: Sequence[ExpectedMatcher], seen: Sequence[_Seen]) -> list[_Step]:
    """Match records by the longest common sequence, or by position where the sequence would take too long."""
    if len(wanted) * len(seen) > _MOST_PAIRS:
        return _one_by_one(wanted, seen)
    fits = [[one.fits_seen(other) for other in seen] for one in wanted]
    longest = [[0] * (len(seen) + 1) for _ in range(len(wanted) + 1)]
    for i in reversed(range(len(wanted))):
        for j in reversed(range(len(seen))):
            longest[i][j] = longest[i + 1][j + 1] + 1 if fits[i][j] else max(longest[i + 1][j], longest[i][j + 1])
    steps: list[_Step] = []
    i = j = 0
    while i < len(wanted) or j < len(seen):
        if i < len(wanted) and j < len(seen) and fits[i][j]:
            steps.append((wanted[i], seen[j]))
            i, j = i + 1, j + 1
        elif j == len(seen) or (i < len(wanted) and longest[i + 1][j] >= longest[i][j + 1]):
            steps.append((wanted[i], None))
            i += 1
        else:
            steps.append((None, seen[j]))
            j += 1
    return steps


def _one_by_one(wanted: Sequence[ExpectedMatcher], seen: Sequence[_Seen]) -> list[_Step]:
    steps: list[_Step] = []
    for one, other in zip_longest(wanted, seen):
        if one is not None and other is not None and not one.fits_seen(other):
            steps += [(one, None), (None, other)]
        else:
            steps.append((one, other))
    return steps


# -- several partitions


def _partners(wanted: Sequence[ExpectedMatcher], seen: Sequence[_Seen]) -> list[int | None]:
    """Match as many expected records as possible; return the index of the matched record for each, or None."""
    partners: list[int | None] = [None] * len(wanted)
    owner: dict[int, int] = {}  # of a record that was found: the expected one that has it
    buckets = _Buckets(seen)
    for number in sorted(range(len(wanted)), key=lambda each: -wanted[each].named):
        found = next((each for each in buckets.of(wanted[number], owner) if wanted[number].fits_seen(seen[each])), None)
        if found is not None:
            partners[number], owner[found] = found, number
    if len(owner) < min(len(wanted), len(seen)) and len(seen) <= _MOST_SWAPPED:
        for number in range(len(wanted)):
            if partners[number] is None:
                _swap(number, wanted, seen, partners, owner)
    return partners


def _swap(
    number: int,
    wanted: Sequence[ExpectedMatcher],
    seen: Sequence[_Seen],
    partners: list[int | None],
    owner: dict[int, int],
) -> None:
    """Find a partner for an expected record by moving other partners (an augmenting path of a bipartite matching)."""
    came_from: dict[int, int] = {}
    waiting = deque([number])
    while waiting:
        one = waiting.popleft()
        for other in range(len(seen)):
            if other in came_from or not wanted[one].fits_seen(seen[other]):
                continue
            came_from[other] = one
            if other in owner:
                waiting.append(owner[other])
                continue
            free: int | None = other
            while free is not None:
                taker = came_from[free]
                previous = partners[taker]
                partners[taker], owner[free] = free, taker
                free = previous
            return


def _disordered(
    wanted: Sequence[ExpectedMatcher], seen: Sequence[_Seen], partners: Sequence[int], form: _Form
) -> Iterator[str]:
    """Yield the lines of a difference in the order within partitions; none where the order is as expected.

    Args:
        partners: the index of the record found for each expected one; all have one.
    """
    matched: dict[int, list[int]] = {}  # indexes of expected records, by partition
    for index, partner in enumerate(partners):
        matched.setdefault(seen[partner].record.partition, []).append(index)
    if all(partners[a] < partners[b] for indexes in matched.values() for a, b in pairwise(indexes)):
        return
    there = {
        partition: [seen[each] for each in sorted(partners[index] for index in indexes)]
        for partition, indexes in matched.items()
    }
    if _is_interleaved(wanted, list(there.values())):
        return
    for partition, indexes in sorted(matched.items()):
        lines = list(_ordered([wanted[index] for index in indexes], there[partition], form))
        if lines:
            yield f"partition {partition} has another order:"
            yield from lines


def _is_interleaved(wanted: Sequence[ExpectedMatcher], partitions: Sequence[Sequence[_Seen]]) -> bool:
    """Return whether expected records can be taken from the fronts of the partitions, one after the other.

    Equal records may be at several fronts, so all ways are followed at once.
    """
    ways, steps = {(0,) * len(partitions)}, 0
    for one in wanted:
        further: set[tuple[int, ...]] = set()
        for way in ways:
            for index, (place, records) in enumerate(zip(way, partitions, strict=True)):
                if place < len(records) and one.fits_seen(records[place]):
                    further.add((*way[:index], place + 1, *way[index + 1 :]))
        steps += len(ways) * len(partitions)
        if steps > _MOST_STEPS:
            return True
        ways = further
    return bool(ways)


class _Buckets:
    """Records found, by value and by key."""

    def __init__(self, seen: Sequence[_Seen]) -> None:
        self._seen = seen
        self._of: dict[tuple[str, bool], dict[Any, deque[int]]] = {}

    def of(self, wanted: ExpectedMatcher, taken: dict[int, int]) -> Iterator[int]:
        """Return the records that may match and are not taken."""
        name = "value" if wanted.value.named else "key" if wanted.key.named else None
        if name is None:
            return (each for each in range(len(self._seen)) if each not in taken)
        content = wanted.value if name == "value" else wanted.key
        bucket = self._bucket(name, content.is_json).get(content.json if content.is_json else content.data, deque())
        while bucket and bucket[0] in taken:
            bucket.popleft()
        return (each for each in bucket if each not in taken)

    def _bucket(self, name: str, is_json: bool) -> dict[Any, deque[int]]:
        if (name, is_json) not in self._of:
            bucket: dict[Any, deque[int]] = {}
            for number, each in enumerate(self._seen):
                content = each.value if name == "value" else each.key
                bucket.setdefault(content.json if is_json else content.data, deque()).append(number)
            self._of[name, is_json] = bucket
        return self._of[name, is_json]


# -- lines


def _header(header: Header) -> tuple[str, bytes | None]:
    return header.name, meant(header.value, header.value_base64, "value")


def _frozen(value: Any) -> Any:
    """Return JSON in comparable, hashable form. True is not 1; 1 is 1.0."""
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, dict):
        return "object", frozenset((name, _frozen(each)) for name, each in value.items())
    if isinstance(value, list):
        return "array", tuple(map(_frozen, value))
    return value


def _shown(data: bytes | None, as_json: bool, readable: Readable = NOTHING) -> str:
    """Return bytes for people: as their schema reads them, as JSON where JSON is compared, else as text in quotes, else
    as bytes of Python.
    """
    if data is None:
        return "None"
    if data in readable:
        return readable[data]
    try:
        text = data.decode()
        return json.dumps(json.loads(text), ensure_ascii=False, sort_keys=True) if as_json else repr(text)
    except UnicodeDecodeError:
        return repr(data)
    except (ValueError, RecursionError):
        return repr(text)


def _shown_headers(headers: Sequence[tuple[str, bytes | None]] | None) -> list[str]:
    if headers is None:
        return []
    return [f"header {name} {_shown(value, False)}" for name, value in headers] or ["no headers"]


class _Form:
    """The fields shown of found records: all compared fields, so equal records look equal."""

    def __init__(self, wanted: Sequence[ExpectedMatcher], readable: Readable) -> None:
        self._readable = readable
        self._key = any(each.key.named for each in wanted)
        self._value = any(each.value.named for each in wanted) or not self._key
        self._headers = any(each.headers is not None for each in wanted)
        self._timestamp = any(each.expected.timestamp is not None for each in wanted)
        self._key_as_json = _only_json([each.key for each in wanted])
        self._value_as_json = _only_json([each.value for each in wanted])

    def line(self, seen: _Seen, like: ExpectedMatcher | None = None) -> str:
        """Return the record's position and the fields.

        Args:
            like: the expected record whose line is above: text and JSON are shown as there.
        """
        record, parts = seen.record, []
        if self._key:
            as_json = like.key.is_json if like is not None and like.key.named else self._key_as_json
            parts.append(f"key {_shown(seen.key.data, as_json, self._readable)}")
        if self._value:
            as_json = like.value.is_json if like is not None and like.value.named else self._value_as_json
            parts.append(f"value {_shown(seen.value.data, as_json, self._readable)}")
        if self._headers:
            parts += _shown_headers([_header(each) for each in record.headers])
        if self._timestamp:
            parts.append(f"timestamp {record.timestamp}")
        return f"{record.partition}@{record.offset} {', '.join(parts)}{_mark(record)}"


def _only_json(wanted: Sequence[_WantedContent]) -> bool:
    """Return whether JSON is expected, and no text."""
    said = [each for each in wanted if each.named and (each.is_json or each.data is not None)]
    return bool(said) and all(each.is_json for each in said)


def _mark(record: RecordAnswer) -> str:
    return {"aborted": " (aborted)", "open": " (of an open transaction)"}.get(record.transaction or "", "")


def _pair(expected: str, found: str) -> Iterator[str]:
    """Yield two matching lines, both cut around the first different character; or the one that is not empty."""
    if expected and found:
        place, _, rest = found.partition(" ")
        shared = next((n for n, (a, b) in enumerate(zip(expected, rest, strict=False)) if a != b), 0)
        begin = max(0, shared - _BEFORE_DIFFERENCE) if max(len(expected), len(rest)) > _WIDTH else 0
        yield f"- {_cut(expected, begin)}"
        yield f"+ {place} {_cut(rest, begin)}"
    elif expected:
        yield f"- {_cut(expected)}"
    elif found:
        yield f"+ {_cut(found)}"


def _cut(line: str, begin: int = 0) -> str:
    end = begin + _WIDTH
    if not begin and len(line) <= end:
        return line
    more = f"... ({len(line)} characters)" if len(line) > end else ""
    return f"{'...' if begin else ''}{line[begin:end]}{more}"


def _cut_lines(lines: Sequence[str]) -> list[str]:
    shown = [line if len(line) <= _WIDTH * 2 else _cut(line) for line in lines[:_MOST_LINES]]
    more = len(lines) - len(shown)
    return [*shown, f"... and {more} lines more"] if more else shown
