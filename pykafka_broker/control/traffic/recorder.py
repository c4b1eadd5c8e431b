"""Recordings: what clients asked and were answered, whole, with the state before and what the control API did.

Rule: a recording is lines of JSON. The first line describes the broker; lines of state follow, as `seed` takes them;
then exchanges in the order of their answers, calls of the control API and closed connections, as they come. `at` and
`answered` are microseconds since the start; a frame is base64 without its length prefix. An exchange that met a fault
has its number, and `served`, where the broker carried out another request than came, or none. A proxy tells to which
of its addresses a connection is, as each stands for a broker.

While it goes on, exchanges are kept in a temporary file, many at a time, and records that a segment of the log has are
not copied: the segment's file is held instead. A recording that has reached its most bytes, or finds the disk full,
takes nothing more and says so in its last line.
"""

from __future__ import annotations

import json
import logging
import marshal
import os
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import perf_counter_ns
from typing import Any, NamedTuple

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.config.describe import is_secret
from pykafka_broker.control.traffic.exchange import Exchange, decoded_request
from pykafka_broker.control.traffic.mentions import Known
from pykafka_broker.log.filesystem import CachedFile, FileSlice, OsFile
from pykafka_broker.platform import HOLDS_FOLDERS
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.messages.produce_request import ProduceRequest, TopicProduceData
from pykafka_broker.protocol.runtime import Pieces
from pykafka_broker.records.header import HEADER_SIZE

logger = logging.getLogger(__name__)

FORMAT = 1
MOST_BYTES = 1 << 30
_BYTES_AT_ONCE = 256 << 10
_MOST_HELD_FILES = 0 if HOLDS_FOLDERS else 100
_ENTRY_BYTES = 60  # besides request and answer
_PREFIX_BYTES = 4  # of an answer: its length
# Where bytes stand: number of the held file, or `_OWN` for the temporary one, position and length.
_Slice = tuple[int, int, int]
_OWN = -1
Kept = bytes | tuple[bytes | _Slice, ...]
# Of what met a fault its number, and the request that was carried out; nothing of others.
_Met = tuple[()] | tuple[int, bytes | None]
# A line; or connection, time of arrival, time of the answer, request, answer with the length prefix, and fault.
_Entry = str | tuple[int, int, int, Kept, Kept | None, _Met]
WITH_SECRETS = frozenset(
    {
        *(ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
        *(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.CREATE_DELEGATION_TOKEN),
    }
)
_KEY = slice(1, 2)  # the low byte of a frame's API key; no key is above 255
_SECRET = frozenset(bytes([each]) for each in WITH_SECRETS)
_WATCHED = _SECRET | {bytes([each]) for each in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)}

_PRODUCE = ApiKey.PRODUCE.to_bytes(2, "big")
_BATCHES_FROM = 3  # requests of earlier versions have message sets
_LEAST_BYTES = 4 << 10  # a shorter batch is copied as quickly
_MOST_BETWEEN = 2 << 10  # bytes before the first batch, and from one to the next
# Of a header that a log stores: the length, and what comes after the leader epoch, with the checksum of the rest.
_LENGTH, _AFTER_EPOCH = slice(8, 12), slice(16, HEADER_SIZE)


def _sets_password(frame: bytes) -> bool:
    """Return whether a request that alters configs has a password, or can't be read."""
    request = decoded_request(frame, SPECS[int.from_bytes(frame[:2], "big")])
    return request is None or any(
        config.value and is_secret(config.name) for resource in request.resources for config in resource.configs
    )


class Recorder:
    """A recording that goes on. Its files are closed with the last reference.

    head: describes the broker. Raises OSError where there is no room for the temporary file.
    """

    def __init__(self, head: dict[str, Any], most_bytes: int = MOST_BYTES) -> None:
        self.exchanges = 0
        self.size_bytes = 0
        self.is_full = False
        self._most_bytes = most_bytes
        self._head = head
        self._began_ns = perf_counter_ns()
        self._unwritten: list[_Entry] = []
        self._unwritten_bytes = 0
        with tempfile.TemporaryFile(buffering=0) as file:
            self._file = OsFile(os.dup(file.fileno()))
        self._end = 0  # of the file
        self._written: list[_Slice] = []  # entries in the file
        self._held: list[OsFile] = []
        self._numbers: dict[CachedFile, int] = {}  # of the files in `_held`

    def begin(self) -> None:
        """Take exchanges from now on: of a request that came before not all may have been kept."""
        self._began_ns = perf_counter_ns()

    def add_state(self, line: str) -> None:
        self._add_line(f'{{"state":{line}}}')

    def add_call(self, method: str, target: str, body: str) -> None:
        """Add a call of the control API. Its body is JSON or lines."""
        at = (perf_counter_ns() - self._began_ns) // 1000
        self._add_line(json.dumps({"call": method, "target": target, "body": body, "at": at}))

    def add_server(self, connection: ConnectionContext) -> None:
        """Add the address that a client has connected to."""
        server = connection.local_host, connection.local_port
        self._add_line(json.dumps({"connection": connection.id, "server": server}))

    def add_close(self, connection_id: int) -> None:
        """Add the end of a client's connection."""
        at = (perf_counter_ns() - self._began_ns) // 1000
        self._add_line(f'{{"closed":{connection_id},"at":{at}}}')

    def _add_line(self, line: str) -> None:
        size = _ENTRY_BYTES + len(line)
        if self._has_room(size):
            self._add(line, size)

    def take(self, frame: memoryview, stored: Sequence[tuple[int, FileSlice]] = ()) -> Kept:
        """Return a long request as it is added once there is an answer; its bytes may change from now on.

        Args:
            stored: the parts that a log has, in order, each with its position in the frame.
        """
        if bytes(frame[_KEY]) in _WATCHED or not self._has_room(len(frame)):
            return bytes(frame)
        try:
            return self._beside(frame, stored) if stored else (self._append(frame),)
        except OSError as error:
            self._end_for(error)
            return bytes(frame)

    def _beside(self, frame: memoryview, stored: Iterable[tuple[int, FileSlice]]) -> Kept:
        """Return a request of which a log has parts."""
        pieces: list[bytes | _Slice] = []
        end = 0
        for start, part in stored:
            pieces += bytes(frame[end:start]), self._kept(part)
            end = start + len(part)
        return (*pieces, bytes(frame[end:]))

    def add(self, exchange: Exchange, answer: Pieces | None) -> None:
        """Add an exchange. `answer` has the length prefix."""
        request = exchange.frame if exchange.recorded is None else exchange.recorded
        met = () if exchange.fault is None else (exchange.fault, exchange.served)
        self.add_served(exchange.connection.id, request, exchange.duration_ns, answer or None, met)

    def add_served(
        self,
        connection_id: int,
        request: Kept,
        came_ns: int,
        answer: Pieces | tuple[bytes, ...] | bytes | None,
        met: _Met = (),
    ) -> None:
        """Add an exchange by its parts.

        Args:
            came_ns: the time of arrival.
            answer: with the length prefix; a list may have slices of files.
            met: the fault, and the request that was carried out.
        """
        if came_ns < self._began_ns:
            return
        if isinstance(request, bytes):
            key, size = request[_KEY], _ENTRY_BYTES + len(request)
            if key in _WATCHED and (key in _SECRET or _sets_password(request)):
                return
        else:
            size = _ENTRY_BYTES + _length(request)
        if answer is not None:
            size += len(answer) if isinstance(answer, bytes) else sum(map(len, answer))
        if met and met[1] is not None and met[1] != request:
            size += len(met[1])
        if not self._has_room(size):
            return
        try:
            kept: Kept | None = tuple(map(self._kept, answer)) if isinstance(answer, list) else answer
        except OSError as error:
            self._end_for(error)
            return
        self._add((connection_id, came_ns, perf_counter_ns(), request, kept, met), size)
        self.exchanges += 1

    def _kept(self, piece: Any) -> bytes | _Slice:
        """Return a piece of an answer; of a slice of a file, where it stands in a held one."""
        if not isinstance(piece, FileSlice):
            return bytes(piece)
        number = self._numbers.get(piece.file)
        if number is None or not piece.file.is_held:
            file = OsFile(os.dup(piece.fileno()))
            if len(self._held) >= _MOST_HELD_FILES:
                return file.read_at(len(piece), piece.position)
            number = self._numbers[piece.file] = len(self._held)
            self._held.append(file)
            piece.file.is_held = True
        return number, piece.position, len(piece)

    def _has_room(self, size: int) -> bool:
        self.is_full = self.is_full or self.size_bytes + size > self._most_bytes
        return not self.is_full

    def _add(self, entry: _Entry, size: int) -> None:
        self.size_bytes += size
        self._unwritten.append(entry)
        self._unwritten_bytes += size
        if self._unwritten_bytes > _BYTES_AT_ONCE:
            self._write()

    def _write(self) -> None:
        """Write the entries that are not written yet."""
        data = marshal.dumps(self._unwritten)
        self._unwritten.clear()
        self._unwritten_bytes = 0
        try:
            self._written.append(self._append(data))
        except OSError as error:
            self._end_for(error)

    def _append(self, data: bytes | memoryview) -> _Slice:
        """Write to the end of the temporary file, and return where. Raises OSError."""
        start = self._end
        self._file.write_at(data, start)
        self._end += len(data)
        return _OWN, start, len(data)

    def _end_for(self, error: OSError) -> None:
        """Take nothing more: a recording with a gap could not be played. No request fails for it."""
        logger.warning("The recording ends here: %s", error)
        self.is_full = True

    def lines(self, more: Mapping[str, Any] | None = None) -> Iterator[str]:
        """Yield the lines so far, without line ends. more: for the first line."""
        yield json.dumps({"recording": FORMAT, **self._head, "began_ns": self._began_ns, **(more or {})})
        self._write()
        for place in self._written.copy():
            entry: _Entry
            for entry in marshal.loads(self._read(*place)):
                yield entry if isinstance(entry, str) else self._line(*entry)
        if self.is_full:
            yield '{"full":true}'

    def _line(
        self,
        connection: int,
        came_ns: int,
        answered_ns: int,
        request: Kept,
        answer: Kept | None,
        met: _Met,
    ) -> str:
        request = self._whole(request)
        at, answered = (came_ns - self._began_ns) // 1000, (answered_ns - self._began_ns) // 1000
        response = None if answer is None else self._whole(answer)[_PREFIX_BYTES:]
        fault = f',"fault":{met[0]}' if met else ""
        if met and met[1] != request:
            fault += f',"served":{_in_base64(met[1])}'
        return (
            f'{{"connection":{connection},"at":{at},"answered":{answered},'
            f'"request":{_in_base64(request)},"response":{_in_base64(response)}{fault}}}'
        )

    def _whole(self, kept: Kept) -> bytes:
        if isinstance(kept, bytes):
            return kept
        return b"".join([each if isinstance(each, bytes) else self._read(*each) for each in kept])

    def _read(self, number: int, position: int, length: int) -> bytes:
        file = self._file if number == _OWN else self._held[number]
        return file.read_at(length, position)


def _length(pieces: tuple[bytes | _Slice, ...]) -> int:
    return sum([len(each) if isinstance(each, bytes) else each[2] for each in pieces])


def _in_base64(frame: bytes | None) -> str:
    return "null" if frame is None else f'"{b64encode(frame).decode()}"'


class _Batch(NamedTuple):
    topic: TopicProduceData
    partition: int
    start: int  # in the frame
    size: int
    header: bytes  # as it came


class ProducedBatches(list[_Batch]):
    """The batches of a frame; none where the frame is no Produce, or where one of them is short.

    A log writes offsets and leader epochs into the frame: the batches are found before, and their records afterwards.
    A batch counts as stored where the end of the partition's log has the same header, but for what the log sets, and
    so the same checksum.
    """

    def __init__(self, frame: memoryview) -> None:
        self._frame = frame
        if frame[:2] == _PRODUCE and int.from_bytes(frame[2:4], "big") >= _BATCHES_FROM:
            with suppress(ValueError):
                self.extend(self._found())

    def _found(self) -> list[_Batch]:
        """Return the batches. Raises ValueError where one is short, or not where it is looked for."""
        request: ProduceRequest | None = decoded_request(self._frame, SPECS[ApiKey.PRODUCE])
        found: list[_Batch] = []
        end = 0
        for topic in () if request is None else request.topic_data:
            for data in topic.partition_data:
                if data.records is None or len(data.records) < _LEAST_BYTES:
                    raise ValueError
                header = bytes(data.records[:HEADER_SIZE])
                start = end + self._frame[end : end + _MOST_BETWEEN].tobytes().index(header)
                end = start + len(data.records)
                found.append(_Batch(topic, data.index, start, end - start, header))
        return found

    def stored(self, known: Known) -> list[tuple[int, FileSlice]]:
        """Return the records of each batch, where the log has them, with their position in the frame; an empty list if
        a log does not have them.

        The frame is afterwards as it came.
        """
        for _, _, start, _, header in self:
            if self._frame[start : start + HEADER_SIZE] != header:
                self._frame[start : start + HEADER_SIZE] = header
        parts: list[tuple[int, FileSlice]] = []
        with suppress(OSError):
            for each in self:
                if (records := _stored(each, known)) is None:
                    return []
                parts.append((each.start + HEADER_SIZE, records))
            return parts
        return []


def _stored(batch: _Batch, known: Known) -> FileSlice | None:
    """Return the records behind a batch's header, from the end of the log. Raises OSError."""
    topic = batch.topic.name or known.topic_name(batch.topic.topic_id)
    end = None if topic is None else known.log_end(topic, batch.partition, batch.size)
    if end is None:
        return None
    header = FileSlice(end.file, end.position, HEADER_SIZE).read()
    is_same = header[_LENGTH] == batch.header[_LENGTH] and header[_AFTER_EPOCH] == batch.header[_AFTER_EPOCH]
    return end.advance(HEADER_SIZE) if is_same else None
