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
from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.config.describe import is_secret
from pykafka_broker.control.traffic.exchange import Exchange, decoded_request
from pykafka_broker.log.filesystem import CachedFile, FileSlice, OsFile
from pykafka_broker.platform import HOLDS_FOLDERS
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.runtime import Pieces

logger = logging.getLogger(__name__)

FORMAT = 1
MOST_BYTES = 1 << 30
_BYTES_AT_ONCE = 256 << 10
_MOST_HELD_FILES = 0 if HOLDS_FOLDERS else 100
_ENTRY_BYTES = 60  # besides request and answer
_PREFIX_BYTES = 4  # of an answer: its length
# A long request in the temporary file: position and length. A slice of a held file: number of the file before these.
_Place = tuple[int, int]
_Slice = tuple[int, int, int]
Request = bytes | _Place
_Answer = bytes | tuple[bytes | _Slice, ...] | None
# Of what met a fault its number, and the request that was carried out; nothing of others.
_Met = tuple[()] | tuple[int, bytes | None]
# A line; or connection, time of arrival, time of the answer, request, answer with the length prefix, and fault.
_Entry = str | tuple[int, int, int, Request, _Answer, _Met]
WITH_SECRETS = frozenset(
    {
        *(ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
        *(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.CREATE_DELEGATION_TOKEN),
    }
)
_KEY = slice(1, 2)  # the low byte of a frame's API key; no key is above 255
_SECRET = frozenset(bytes([each]) for each in WITH_SECRETS)
_WATCHED = _SECRET | {bytes([each]) for each in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)}


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
        self._written: list[_Place] = []  # entries in the file
        self._held: list[OsFile] = []
        self._numbers: dict[CachedFile, int] = {}  # of the files in `_held`

    def begin(self) -> None:
        """Take exchanges from now on: of a request that came before not all may have been kept."""
        self._began_ns = perf_counter_ns()

    def add_state(self, line: str) -> None:
        """Add a line of the state before."""
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

    def take(self, frame: memoryview) -> Request:
        """Return a long request as it is added once there is an answer; its bytes may change from now on."""
        key = bytes(frame[_KEY])
        if key in _WATCHED or not self._has_room(len(frame)):
            return bytes(frame)
        return self._append(frame) or bytes(frame)

    def add(self, exchange: Exchange, answer: Pieces | None) -> None:
        """Add an exchange. `answer` has the length prefix."""
        request = exchange.frame if exchange.recorded is None else exchange.recorded
        met = () if exchange.fault is None else (exchange.fault, exchange.served)
        self.add_served(exchange.connection.id, request, exchange.duration_ns, answer or None, met)

    def add_served(
        self,
        connection_id: int,
        request: Request,
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
            size = _ENTRY_BYTES + request[1]
        if answer is not None:
            size += len(answer) if isinstance(answer, bytes) else sum(map(len, answer))
        if met and met[1] is not None and met[1] != request:
            size += len(met[1])
        if not self._has_room(size):
            return
        try:
            kept: _Answer = tuple(map(self._kept, answer)) if isinstance(answer, list) else answer
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
        if (place := self._append(data)) is not None:
            self._written.append(place)

    def _append(self, data: bytes | memoryview) -> _Place | None:
        """Write to the end of the temporary file, and return where; None where that fails."""
        place = self._end, len(data)
        try:
            self._file.write_at(data, self._end)
        except OSError as error:
            self._end_for(error)
            return None
        self._end += len(data)
        return place

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
        request: Request,
        answer: _Answer,
        met: _Met,
    ) -> str:
        """Return the line of an exchange."""
        if isinstance(request, tuple):
            request = self._read(*request)
        at, answered = (came_ns - self._began_ns) // 1000, (answered_ns - self._began_ns) // 1000
        if isinstance(answer, tuple):
            answer = b"".join([each if isinstance(each, bytes) else self._slice(*each) for each in answer])
        response = None if answer is None else answer[_PREFIX_BYTES:]
        fault = f',"fault":{met[0]}' if met else ""
        if met and met[1] != request:
            fault += f',"served":{_in_base64(met[1])}'
        return (
            f'{{"connection":{connection},"at":{at},"answered":{answered},'
            f'"request":{_in_base64(request)},"response":{_in_base64(response)}{fault}}}'
        )

    def _read(self, position: int, length: int) -> bytes:
        return self._file.read_at(length, position)

    def _slice(self, number: int, position: int, length: int) -> bytes:
        return self._held[number].read_at(length, position)


def _in_base64(frame: bytes | None) -> str:
    return "null" if frame is None else f'"{b64encode(frame).decode()}"'
