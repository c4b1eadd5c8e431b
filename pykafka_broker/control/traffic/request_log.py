"""The last requests and their answers, and sums over them.

Rule: the log is bounded in entries and in bytes; the oldest entries go first. A note costs a client next to nothing:
the values of all entries stand one after the other in one list, with nothing for the garbage collector to look at. The
rest of the work is done for a few hundred entries at a time, and an entry is decoded when somebody asks.

Sealed entries lie in few objects, hundreds in each. Ten thousand requests do not fit into the processor's caches, so
dropping an old object is slow, and the client served at the moment would pay for each.

Sums cost nothing until somebody asks for them. Then the entries of the log are counted, and from then on each entry
when it is sealed. Requests from inside the process are not counted. Sums of a topic begin with an answer that shows
that the topic exists: a client that invents names makes no sums.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from struct import Struct
from typing import Any, Protocol

from pykafka_broker.control.traffic.exchange import (
    CONNECTION,
    FIELDS,
    FRAME,
    Entry,
    Exchange,
    Mark,
    client_id_of,
)
from pykafka_broker.control.traffic.mentions import Known
from pykafka_broker.control.traffic.recorder import Recorder
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode

_ENTRY_BYTES = 100  # besides request and answer


class SealedEntries:
    """Entries of the log in few objects: each field in a list or array.

    bytes: memory in use, about. marks: marks of entries, by index.
    """

    __slots__ = ("_answers", "_connections", "_durations_ns", "_frames", "_lengths", "_walls_ms", "bytes", "marks")

    def __init__(self, fields: list[list[Any]], marks: dict[int, Mark], answer_bytes: int) -> None:
        self._walls_ms, self._connections, frames, self._answers, durations_ns = fields
        self._lengths = array("i", map(len, frames))
        # Marks belong to long requests, whose bytes take longer to copy than their objects to drop.
        self._frames: bytes | list[bytes] = frames if marks else b"".join(frames)
        self._durations_ns = array("q", durations_ns)
        self.marks = marks
        self.bytes = sum(self._lengths) + answer_bytes + len(frames) * _ENTRY_BYTES

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[Entry]:
        whole, ends = self._frames, accumulate(self._lengths)
        frames: Iterable[bytes] = (
            whole
            if isinstance(whole, list)
            else (whole[end - length : end] for end, length in zip(ends, self._lengths, strict=True))
        )
        return zip(self._walls_ms, self._connections, frames, self._answers, self._durations_ns, strict=True)


MOST_ENTRIES = 10_000
MOST_BYTES = 32 << 20
SEALED_AT = 512
FULL = SEALED_AT * FIELDS
_MOST_UNSEALED_BYTES = 1 << 19  # of answers: all of them may be decoded when they are sealed
_COUNTED_BYTES = 512  # of an answer that take as long to decode as another entry
_MOST_CLIENTS = 10_000
_HEADER_BYTES = 300  # of a request: enough for a client id of usual length


class Waiting(Protocol):
    """A request without an answer yet."""

    def so_far(self) -> Exchange:
        """Return the present exchange."""


class RequestLog:
    """The exchanges, in the order of the answers, and waiting requests.

    recorder: takes whole exchanges while there is a recording.
    note: adds an entry; the caller calls `seal` once `recent` has `FULL` values, those of `SEALED_AT` entries.
    """

    def __init__(self, most: int = MOST_ENTRIES, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self.recent: list[Any] = []
        self.note: Callable[[Entry], None] = self.recent.extend
        self.waiting: dict[int, Waiting] = {}  # by identity
        self._sealed: deque[SealedEntries] = deque()  # older entries
        self._count = self._bytes = 0  # entries and bytes of `_sealed`
        self._gone = 0  # entries that were dropped
        self._marks: dict[int, Mark] = {}  # of entries in `recent`, by place
        self.unsealed_bytes = 0  # of answers in `recent`
        self._headers: dict[int, bytes] = {}  # the beginning of the last sealed request, by connection
        self.recorder: Recorder | None = None
        self.on_sealed: Callable[[Iterable[Exchange]], None] | None = None  # called with newly sealed entries

    def __len__(self) -> int:
        return self._count + len(self.recent) // FIELDS

    @property
    def last_number(self) -> int:
        return self._gone + len(self)

    def weigh(self, answer_bytes: int) -> None:
        """Prepare for a long answer noted next: a few may fill the log."""
        if self.unsealed_bytes + answer_bytes > _MOST_UNSEALED_BYTES:
            self.seal()
        self.unsealed_bytes += answer_bytes

    def mark(self, mark: Mark) -> None:
        """Give a mark to the entry noted next."""
        self._marks[len(self.recent) // FIELDS] = mark

    def seal(self) -> None:
        """Seal recent entries, and drop the oldest where the log is too large."""
        fields = [self.recent[place::FIELDS] for place in range(FIELDS)]
        self.recent.clear()
        self._note_clients(fields[CONNECTION], fields[FRAME])
        newest = SealedEntries(fields, self._marks, self.unsealed_bytes)
        self._marks, self.unsealed_bytes = {}, 0
        if self.on_sealed is not None:
            self.on_sealed(_exchanges(newest, newest.marks))
        self._sealed.append(newest)
        self._count += len(newest)
        self._bytes += newest.bytes
        while self._sealed and (self._count > self._most or self._bytes > self._most_bytes):
            oldest = self._sealed.popleft()
            self._count -= len(oldest)
            self._bytes -= oldest.bytes
            self._gone += len(oldest)

    def clear(self) -> None:
        """Forget all entries; numbers go on."""
        if self.recent:
            self.seal()
        self._gone += len(self)
        self._sealed.clear()
        self._count = self._bytes = 0

    def _note_clients(self, connections: list[Any], frames: list[Any]) -> None:
        headers = self._headers
        last = dict(zip(connections, frames, strict=True))
        headers.update({connection.id: frame[:_HEADER_BYTES] for connection, frame in last.items()})
        while len(headers) > _MOST_CLIENTS:  # the oldest connection; an active one comes back
            del headers[next(iter(headers))]

    def client_ids(self) -> dict[int, str | None]:
        """Return the client id of each connection's last request, by connection."""
        found = {id: client_id_of(header) for id, header in self._headers.items()}
        for entry in _each(self.recent):
            found[entry[CONNECTION].id] = client_id_of(entry[FRAME])
        return found | {each.connection.id: each.client_id for each in self.unanswered()}

    def since(self, number: int = 0) -> Iterator[Exchange]:
        """Yield the exchanges after an entry."""
        place = self._gone
        for entries in tuple(self._sealed):
            if number < place + len(entries):
                yield from _exchanges(entries, entries.marks, place, max(0, number - place))
            place += len(entries)
        yield from _exchanges(list(_each(self.recent)), dict(self._marks), place, max(0, number - place))

    def unanswered(self) -> Iterator[Exchange]:
        """Yield the waiting requests."""
        for waiting in self.waiting.values():
            yield waiting.so_far()


def _each(values: list[Any]) -> Iterator[Entry]:
    """Yield entries from a flat list of the values."""
    value = iter(values)
    return zip(*[value] * FIELDS, strict=True)  # five values an entry


def _exchanges(entries: Iterable[Entry], marks: dict[int, Mark], gone: int = 0, first: int = 0) -> Iterator[Exchange]:
    """Yield exchanges from index `first` on; `gone` entries came before."""
    for place, entry in enumerate(islice(entries, first, None), first):
        yield Exchange(entry, gone + place + 1, marks.get(place))


_RECORD_COUNT = Struct(">i")
_RECORD_COUNT_AT = 57
NO_ERROR = "NONE"
_WITHOUT_TOPIC = frozenset(  # errors for a name or an id that no topic need have
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)


@dataclass(slots=True)
class ApiSums:
    """Sums of an API in a version."""

    requests: int = 0
    duration_ns: int = 0
    request_bytes: int = 0
    answer_bytes: int = 0


@dataclass(slots=True)
class TopicSums:
    """Sums of a topic. Bytes are counted in batches, as on the wire."""

    bytes_in: int = 0
    bytes_out: int = 0
    messages_in: int = 0
    total_produce_requests: int = 0
    total_fetch_requests: int = 0
    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0


def _counted_as(exchange: Exchange) -> tuple[str, int]:
    """Return the API and version that an exchange counts for. An API that Kafka has not counts as "unknown", such a
    version as -1: a client that invents them makes no further sums.
    """
    spec = exchange.spec
    if spec is None:
        return "unknown", -1
    return spec.name, exchange.version if spec.min_version <= exchange.version <= spec.max_version else -1


class RequestCounts:
    """Sums over all answered requests."""

    def __init__(self, log: RequestLog, known: Known) -> None:
        self._known = known
        self._log = log
        self.apis: defaultdict[tuple[str, int], ApiSums] = defaultdict(ApiSums)
        self.errors: Counter[tuple[str, str, str]] = Counter()  # by API, version and name of the error
        self.topics: defaultdict[str, TopicSums] = defaultdict(TopicSums)
        self.uncounted = deque(log.since())
        self._uncounted_bytes = 0  # of long answers that came since
        if log.recent:
            log.seal()
        log.on_sealed = self._add_all

    def catch_up(self, most: int | None = None) -> bool:
        """Count up to `most` of the entries that the log had at first, and of long ones since; with the last of them,
        those not sealed yet.

        most: None for all. Otherwise a long answer counts as several entries, and one that is to be decoded first ends
        the count.

        Returns:
            Whether everything is counted.
        """
        left = most
        while self.uncounted and (left is None or (left > 0 and self._is_quick(self.uncounted[0]))):
            exchange = self._next_uncounted()
            self._add(exchange)
            if left is not None:
                left -= 1 + exchange.answer_bytes // _COUNTED_BYTES
        if self._log.recent and not self.uncounted:
            self._log.seal()
        return not self.uncounted

    @staticmethod
    def _is_quick(exchange: Exchange) -> bool:
        return exchange.is_decoded or not exchange.is_long

    def _next_uncounted(self) -> Exchange:
        exchange = self.uncounted.popleft()
        self._uncounted_bytes = max(0, self._uncounted_bytes - exchange.answer_bytes)
        return exchange

    def _add_all(self, exchanges: Iterable[Exchange]) -> None:
        """Count sealed entries. Long ones, which a client would have to wait for, are counted when somebody asks for
        sums; if nobody does, the oldest are counted without their errors and topics.
        """
        for exchange in exchanges:
            if exchange.is_long:
                self.uncounted.append(exchange)
                self._uncounted_bytes += exchange.answer_bytes
            else:
                self._add(exchange)
        while self._uncounted_bytes > MOST_BYTES and self.uncounted:
            self._add_sizes(self._next_uncounted())

    def _add_sizes(self, exchange: Exchange) -> None:
        sums = self.apis[_counted_as(exchange)]
        sums.requests += 1
        sums.duration_ns += exchange.duration_ns
        sums.request_bytes += exchange.request_bytes
        sums.answer_bytes += exchange.answer_bytes

    def _add(self, exchange: Exchange) -> None:
        self._add_sizes(exchange)
        api, version = _counted_as(exchange)
        for error in exchange.errors or (NO_ERROR,):
            self.errors[api, str(version), error] += 1
        if exchange.api_key == ApiKey.PRODUCE:
            self._add_produce(exchange)
        elif exchange.api_key == ApiKey.FETCH:
            self._add_fetch(exchange)

    def _add_produce(self, exchange: Exchange) -> None:
        if exchange.request is None:
            return  # only the beginning of a long request is kept
        refused, unknown = set(), set()
        for topic in exchange.response.responses if exchange.response else ():
            refused |= {(self._name(topic), each.index) for each in topic.partition_responses if each.error_code}
            if all(each.error_code in _WITHOUT_TOPIC for each in topic.partition_responses):
                unknown.add(self._name(topic))
        for topic in exchange.request.topic_data:
            name = self._name(topic)
            if name in unknown or (exchange.response is None and not self._known.has_topic(name)):
                continue
            sums = self.topics[name]
            sums.total_produce_requests += 1
            for partition in topic.partition_data:
                records = partition.records
                if (name, partition.index) in refused:
                    sums.failed_produce_requests += 1
                elif records is not None:
                    sums.bytes_in += len(records)
                    if len(records) >= _RECORD_COUNT_AT + _RECORD_COUNT.size:
                        sums.messages_in += _RECORD_COUNT.unpack_from(records, _RECORD_COUNT_AT)[0]

    def _add_fetch(self, exchange: Exchange) -> None:
        for topic in exchange.response.responses if exchange.response else ():
            if all(each.error_code in _WITHOUT_TOPIC for each in topic.partitions):
                continue
            sums = self.topics[topic.topic or self._known.topic_name(topic.topic_id) or ""]
            sums.total_fetch_requests += 1
            for partition in topic.partitions:
                sums.failed_fetch_requests += bool(partition.error_code)
                sums.bytes_out += len(partition.records or b"")

    def _name(self, topic: object) -> str:
        name: str = getattr(topic, "name", "")
        return name or self._known.topic_name(getattr(topic, "topic_id", b"")) or ""
