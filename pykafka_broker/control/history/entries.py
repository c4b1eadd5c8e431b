"""The file of a history: the requests that matter with their answers, as bytes.

Rule: an entry is in the file before its client is answered, and outlives a killed process: the file is mapped into
memory, and the kernel keeps what was written. The file is bounded. A full history, or one without room on the disk,
takes no further entry and says so: an anomaly is only certain where nothing is missing. Records are not kept, except
for the headers of their batches: the records are in the logs.

An entry is fixed fields, the length first, then the request, and the pieces of the answer with the zeros in place of
the bytes that are not kept. An entry of length 0 ends the file. In a full history its length is `_FULL`: further
entries are missing.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, NamedTuple

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.control.traffic.exchange import Exchange, Kept, Mark, bytes_of, decoded_request, encoded_request
from pykafka_broker.log.filesystem import FileSlice
from pykafka_broker.platform import allocate, open_file
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.messages.produce_request import SINGLE_READERS, ProduceRequest
from pykafka_broker.protocol.runtime import Pieces
from pykafka_broker.records.header import HEADER_SIZE

MOST_BYTES = 256 << 20
_STEP_BYTES = 4 << 20  # the file grows by
_MOST_WAITED_MS = (1 << 32) - 1
_LENGTH = Struct("<I")
_FULL = (1 << 32) - 1
# Length of the rest, wall time in ms, ms until the answer, connection, pieces of the answer (-1: none), sizes of
# `ThinRequest`.
_FIELDS = Struct("<IqIqiII")
_pack = _FIELDS.pack
_FIXED_BYTES, _LENGTH_BYTES = _FIELDS.size, _LENGTH.size
_PIECE = Struct("<II")  # bytes that are kept, zeros after them
_ABOUT = -2  # in the place of the pieces: the request is JSON about the history or a connection
WHOLE, BODY = -3, -4  # in the place of the pieces: the rest of the entry is the answer, or its body
_WHOLE_BYTES = 4 << 10  # pieces up to here are kept whole
SHORT_BYTES = 1 << 10  # requests up to here are kept whole

_RECORDED = (
    *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.JOIN_GROUP, ApiKey.DELETE_TOPICS),
    *(ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.CONSUMER_GROUP_HEARTBEAT),
    *(ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.ALTER_SHARE_GROUP_OFFSETS),
    *(ApiKey.DELETE_SHARE_GROUP_OFFSETS, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE),
)
RECORDED: frozenset[int] = frozenset(map(int, _RECORDED))


class HistoryEntry(NamedTuple):
    """A request and its answer, None where there was none. client: host and port. until: the time of the answer."""

    number: int
    exchange: Exchange
    client: str
    until: int


class HistoryFile:
    """The entries of a broker's history, in the order of the answers.

    path: the file, which is made if it is missing, and continued if it is there.
    whole: whether the history begins with the broker's data, so nothing came before.

    Raises OSError, also for a file with something else in it, which stays as it is.
    """

    def __init__(self, path: str, most_bytes: int = MOST_BYTES, *, whole: bool = False) -> None:
        self.path = path
        self.full = False
        self.times_forgotten = 0
        self._most_bytes = most_bytes
        self._known: set[int] = set()  # connections with an entry about them
        self._file = open_file(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _check_history(os.read(self._file, _FIELDS.size), path)
            self._map = self._mapped(max(os.fstat(self._file).st_size, _STEP_BYTES))
        except OSError:
            os.close(self._file)
            raise
        self._end = 0
        for place, length in self._places():
            self._end = place + length
        if not self._end:
            self._about({"whole": whole})
        if self._map[self._end : self._end + _LENGTH.size] == _LENGTH.pack(_FULL):
            self._fill()

    def _mapped(self, size: int) -> mmap.mmap:
        allocate(self._file, size)  # a write into the map without room on the disk would end the process
        mapped = mmap.mmap(self._file, size)
        self._limit = size - _LENGTH.size  # the last length is 0
        return mapped

    def close(self) -> None:
        """Close the file and leave it where it is. Requests that wait are not written when they are answered."""
        self._limit, self.full = 0, True
        self.times_forgotten += 1
        self._map.close()
        os.close(self._file)

    def clear(self, *, whole: bool) -> None:
        """Forget all entries. whole: whether the broker has no data any more."""
        self.times_forgotten += 1
        self._map.close()
        os.ftruncate(self._file, 0)
        try:
            self._map, self.full = self._mapped(_STEP_BYTES), False
        except OSError:  # the disk is full
            self._map, self.full = mmap.mmap(-1, _STEP_BYTES), True
            self._limit = _STEP_BYTES - _LENGTH.size
        self._end = 0
        self._known.clear()
        self._about({"whole": whole})
        if self.full:
            self._fill()

    @property
    def size_bytes(self) -> int:
        return self._end

    # -- writing

    def note(
        self, wall_ms: int, until_ms: int, connection: ConnectionContext, request: ThinRequest, answer: Pieces | None
    ) -> None:
        """Write an entry of a request that arrived at `wall_ms` and was answered at `until_ms`."""
        frame, size = request
        if answer is None:
            self._write(wall_ms, until_ms, connection, -1, frame, size, ())
            return
        parts: list[bytes] = []
        for piece in answer:
            if len(piece) <= _WHOLE_BYTES:
                kept = bytes_of(piece)
                parts += (_PIECE.pack(len(kept), 0), kept)
            else:
                kept = _beginning(piece)
                parts += (_PIECE.pack(len(kept), len(piece) - len(kept)), kept)
        self._write(wall_ms, until_ms, connection, len(answer), frame, size, parts)

    def note_small(
        self, wall_ms: int, until_ms: int, connection: ConnectionContext, frame: bytes, answer: bytes, form: int
    ) -> None:
        """Write an entry of a short request and a short answer. form: `WHOLE`, or `BODY` for an answer's body."""
        if connection.id not in self._known:
            self._introduce(connection)
        size, begin = len(frame), self._end
        rest = frame + answer
        end = begin + _FIXED_BYTES + len(rest)
        if end > self._limit and not self._grow(end):
            return
        waited = _waited_ms(wall_ms, until_ms)
        self._map[begin:end] = (
            _pack(end - begin - _LENGTH_BYTES, wall_ms, waited, connection.id, form, size, size) + rest
        )
        self._end = end

    def _introduce(self, connection: ConnectionContext) -> None:
        client = f"{connection.client_host}:{connection.client_port}"
        self._known.add(connection.id)
        self._about({"connection": connection.id, "client": client})

    def _about(self, fact: dict[str, Any]) -> None:
        text = json.dumps(fact).encode()
        self._add(_FIELDS.pack(_FIELDS.size - _LENGTH.size + len(text), 0, 0, 0, _ABOUT, len(text), 0) + text)

    def _write(
        self,
        wall_ms: int,
        until_ms: int,
        connection: ConnectionContext,
        pieces: int,
        frame: bytes,
        size: int,
        parts: Sequence[bytes],
    ) -> None:
        if connection.id not in self._known:
            self._introduce(connection)
        rest = b"".join((frame, *parts))
        length = _FIELDS.size - _LENGTH.size + len(rest)
        waited = _waited_ms(wall_ms, until_ms)
        self._add(_FIELDS.pack(length, wall_ms, waited, connection.id, pieces, len(frame), size) + rest)

    def _add(self, entry: bytes) -> None:
        begin, end = self._end, self._end + len(entry)
        if end > self._limit and not self._grow(end):
            return
        self._map[begin:end] = entry
        self._end = end

    def _grow(self, end: int) -> bool:
        size = -(-(end + _LENGTH.size) // _STEP_BYTES) * _STEP_BYTES
        if self.full:
            return False
        try:
            grown = self._mapped(size) if size <= self._most_bytes else None
        except OSError:  # the disk is full
            grown = None
        if grown is None:
            self._fill()
            return False
        self._map.close()
        self._map = grown
        return True

    def _fill(self) -> None:
        """Take no further entry, a short one neither, nor after a start with the same file."""
        self.full, self._limit = True, 0
        _LENGTH.pack_into(self._map, self._end, _FULL)

    # -- reading

    def _places(self) -> Iterator[tuple[int, int]]:
        """Yield the beginning and the length of each entry, the length field included."""
        place, forgotten = 0, self.times_forgotten
        while self.times_forgotten == forgotten and place + _LENGTH.size <= len(self._map):
            (length,) = _LENGTH.unpack_from(self._map, place)
            if length in (0, _FULL):
                return
            yield place, length + _LENGTH.size
            place += length + _LENGTH.size

    def entries(self) -> Iterator[HistoryEntry]:
        """Return all entries that are there at the call, until they are forgotten."""
        return self._entries(self._end)

    def _entries(self, end: int) -> Iterator[HistoryEntry]:
        clients: dict[int, str] = {}
        for number, (place, length) in enumerate(self._places()):
            if place >= end:
                return
            body = memoryview(self._map[place : place + length])
            _, wall_ms, waited, connection, pieces, size, request_bytes = _FIELDS.unpack_from(body)
            frame = bytes(body[_FIELDS.size : _FIELDS.size + size])
            if pieces == _ABOUT:
                about = json.loads(frame)
                if "connection" in about:
                    clients[about["connection"]] = about["client"]
                continue
            host, _, port = clients.get(connection, ":0").rpartition(":")
            context = ConnectionContext(connection, "", ("", 0), (host, int(port)))
            answer: Kept | None = None
            if pieces in (WHOLE, BODY):
                rest = bytes(body[_FIELDS.size + size :])
                answer = (rest,) if pieces == WHOLE else rest
            elif pieces >= 0:
                answer = tuple(_kept(body, _FIELDS.size + size, pieces))
            exchange = Exchange((wall_ms, context, frame, answer, 0), mark=Mark(request_bytes, None))
            yield HistoryEntry(number, exchange, f"{host}:{port}", wall_ms + waited)

    @property
    def whole(self) -> bool:
        """Return whether the history begins with the broker's data."""
        place, length = next(self._places())
        return bool(json.loads(self._map[place + _FIELDS.size : place + length])["whole"])


def _check_history(begin: bytes, path: str) -> None:
    """Raise OSError unless a file begins as a history, or is empty, or filled with zeros."""
    if any(begin) and (len(begin) < _FIELDS.size or _FIELDS.unpack(begin)[4] != _ABOUT):
        raise OSError(errno.EINVAL, "it has something else in it than a history", path)


def _waited_ms(wall_ms: int, until_ms: int) -> int:
    """Return how long a request waited: a test may set the clock back, or move it by years."""
    return min(max(until_ms - wall_ms, 0), _MOST_WAITED_MS)


def _kept(body: memoryview, place: int, pieces: int) -> Iterator[bytes | int]:
    """Yield the pieces of an answer; a number stands for as many zeros."""
    for _ in range(pieces):
        size, zeros = _PIECE.unpack_from(body, place)
        place += _PIECE.size
        yield bytes(body[place : place + size])
        if zeros:
            yield zeros
        place += size


def _beginning(piece: Any) -> bytes:
    """Return the header of the first batch in a long piece."""
    if hasattr(piece, "fileno"):
        return FileSlice(piece.file, piece.position, HEADER_SIZE).read()
    return bytes(memoryview(piece)[:HEADER_SIZE])


class ThinRequest(NamedTuple):
    """A request without records, except for the headers of their batches.

    size: with as many bytes, the rest of them zeros, the request decodes.
    """

    frame: bytes
    size: int


def thin_request(frame: memoryview) -> ThinRequest:
    """Return the part of a request that a history keeps."""
    size = len(frame)
    if size <= SHORT_BYTES or frame[1] != ApiKey.PRODUCE:
        return ThinRequest(bytes(frame), size)
    version, name_length = frame[3], int.from_bytes(frame[8:10], "big", signed=True)
    read = SINGLE_READERS.get(version)
    body = 10 + max(name_length, 0) + (version >= ProduceRequest.FLEXIBLE_FROM)
    alone = None if read is None else read(frame, body)
    if alone is not None and alone[-1] is not None:
        return ThinRequest(bytes(frame[: size - len(alone[-1]) + HEADER_SIZE]), size)
    spec = SPECS[ApiKey.PRODUCE]
    request = decoded_request(frame, spec)
    if request is None:
        return ThinRequest(bytes(frame[:SHORT_BYTES]), size)
    for topic in request.topic_data:
        for partition in topic.partition_data:
            if partition.records is not None:
                partition.records = partition.records[:HEADER_SIZE]
    thin = bytes(encoded_request(bytes(frame), spec, version, request))
    return ThinRequest(thin, len(thin))
