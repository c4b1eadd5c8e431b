"""Recordings: what clients asked and were answered, whole, with the state before and what the control API did.

Rule: a recording is lines of JSON. The first line describes the broker; lines of state follow, as `seed` takes them;
then exchanges in the order of their answers, calls of the control API and closed connections, as they come. `at` and
`answered` are microseconds since the start; a frame is base64 without its length prefix. An exchange that met a fault
has its number, and `served`, where the broker carried out another request than came, or none. A proxy tells to which
of its addresses a connection is, as each stands for a broker. While it goes on, frames
are kept as they are in a temporary file; one that has reached its most bytes, or for which the disk has no room, takes
nothing more and says so in its last line.
"""

from __future__ import annotations

import json
import os
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from struct import Struct
from time import perf_counter_ns
from typing import Any

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.config.describe import is_secret
from pykafka_broker.control.traffic.exchange import Exchange, decoded_request
from pykafka_broker.platform import copy_range
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.runtime import Pieces

FORMAT = 1
MOST_BYTES = 1 << 30
_BYTES_AT_ONCE = 256 << 10
_PREFIX_BYTES = 4  # of an answer: its length
# Connection, at, answered, bytes of the request and of the response, fault, bytes of the request that was carried out.
_HEAD = Struct(">qqqiiii")
_LINE = -1  # in the place of a connection: a line follows
_NO_ANSWER = -1  # also for a request that was not carried out
_AS_IT_CAME = -2
_NO_FAULT = -(1 << 31), _AS_IT_CAME
WITH_SECRETS = frozenset(
    {
        *(ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
        *(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.CREATE_DELEGATION_TOKEN),
    }
)
_SECRET = frozenset(int(each).to_bytes(2, "big") for each in WITH_SECRETS)
_ALTERING = frozenset(int(each).to_bytes(2, "big") for each in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS))


def _sets_password(frame: bytes) -> bool:
    """Return whether a request that alters configs has a password, or can't be read."""
    request = decoded_request(frame, SPECS[int.from_bytes(frame[:2], "big")])
    return request is None or any(
        config.value and is_secret(config.name) for resource in request.resources for config in resource.configs
    )


class Recorder:
    """A recording that goes on. head: describes the broker."""

    def __init__(self, head: dict[str, Any], most_bytes: int = MOST_BYTES) -> None:
        self.exchanges = 0
        self.size_bytes = 0
        self.is_full = False
        self._most_bytes = most_bytes
        self._head = head
        self._began_ns = perf_counter_ns()
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # it lives as long as this
        self._written_bytes = 0  # of whole entries

    def begin(self) -> None:
        """Take exchanges from now on: of a request that came before not all may have been kept."""
        self._began_ns = perf_counter_ns()

    def add_state(self, line: str) -> None:
        """Add a line of the state before."""
        self._write_line(f'{{"state":{line}}}')

    def add_call(self, method: str, target: str, body: str) -> None:
        """Add a call of the control API. Its body is JSON or lines."""
        at = (perf_counter_ns() - self._began_ns) // 1000
        self._write_line(json.dumps({"call": method, "target": target, "body": body, "at": at}))

    def add(self, exchange: Exchange, answer: Pieces | None) -> None:
        """Add an exchange. `answer` has the length prefix."""
        whole: bytes | Pieces | None = answer or None
        if answer and not any(hasattr(piece, "fileno") for piece in answer):
            whole = b"".join(answer)
        if exchange.fault is None:
            self.add_served(exchange.connection.id, exchange.frame, exchange.duration_ns, whole)
        else:
            served = exchange.frame if exchange.served is None else exchange.served
            served_bytes = _NO_ANSWER if exchange.served is None else len(served)
            if served == exchange.frame:
                served = b""
                served_bytes = _AS_IT_CAME if served_bytes >= 0 else served_bytes
            met = exchange.fault, served_bytes
            self.add_served(exchange.connection.id, exchange.frame, exchange.duration_ns, whole, met, served)

    def add_served(
        self,
        connection_id: int,
        frame: bytes,
        came_ns: int,
        answer: bytes | Pieces | None,
        met: tuple[int, int] = _NO_FAULT,
        served: bytes = b"",
    ) -> None:
        """Add an exchange by its parts.

        Args:
            came_ns: the time of arrival.
            answer: with the length prefix; in pieces where slices of files are among them.
            met: the fault, and the bytes of the request that was carried out.
        """
        began = self._began_ns
        if came_ns < began or frame[:2] in _SECRET or (frame[:2] in _ALTERING and _sets_password(frame)):
            return
        sent_bytes = sum(map(len, answer)) if isinstance(answer, list) else len(answer or b"")
        response_bytes = sent_bytes - _PREFIX_BYTES if sent_bytes else _NO_ANSWER
        at, answered = (came_ns - began) // 1000, (perf_counter_ns() - began) // 1000
        head = _HEAD.pack(connection_id, at, answered, len(frame), response_bytes, *met)
        size = _HEAD.size + len(frame) + sent_bytes + len(served)
        if not self._has_room(size):
            return
        self.exchanges += 1
        if isinstance(answer, list):
            self._write_pieces([head, frame, *answer, served], size)
            return
        self._keep(size, head, frame, answer or b"", served)

    def _keep(self, size: int, *parts: bytes) -> None:
        """Write an entry later, with others."""
        self._unwritten += parts
        self._unwritten_bytes += size
        if self._unwritten_bytes > _BYTES_AT_ONCE:
            self._write()

    def _write_pieces(self, pieces: Pieces, size: int) -> None:
        """Write at once: what a slice of a file has may be cut off later."""
        self._write()
        with self._writing(size):
            for piece in pieces:
                if not hasattr(piece, "fileno"):
                    self._put(piece)
                elif copy_range(piece.fileno(), piece.position, self._file.fileno(), len(piece)):
                    self._file.seek(0, os.SEEK_END)
                else:
                    self._put(piece.read())

    def _write(self) -> None:
        size, parts = self._unwritten_bytes, self._unwritten
        self._unwritten, self._unwritten_bytes = [], 0
        with self._writing(size):
            self._put(b"".join(parts))

    def _put(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]

    @contextmanager
    def _writing(self, size: int) -> Iterator[None]:
        """Add `size` bytes to the file; where it has no room for them, end with the entries that it has."""
        try:
            yield
            self._written_bytes += size
        except OSError:
            self.is_full, self.size_bytes = True, self._written_bytes
            self._file.truncate(self._written_bytes)
            self._file.seek(0, os.SEEK_END)

    def add_server(self, connection: ConnectionContext) -> None:
        """Add the address that a client has connected to."""
        server = connection.local_host, connection.local_port
        self._write_line(json.dumps({"connection": connection.id, "server": server}))

    def add_close(self, connection_id: int) -> None:
        """Add the end of a client's connection."""
        at = (perf_counter_ns() - self._began_ns) // 1000
        self._write_line(f'{{"closed":{connection_id},"at":{at}}}')

    def _write_line(self, line: str) -> None:
        data = line.encode()
        if self._has_room(_HEAD.size + len(data)):
            head = _HEAD.pack(_LINE, 0, 0, len(data), _NO_ANSWER, *_NO_FAULT)
            self._keep(_HEAD.size + len(data), head, data)

    def _has_room(self, size: int) -> bool:
        self.is_full = self.is_full or self.size_bytes + size > self._most_bytes
        if not self.is_full:
            self.size_bytes += size
        return not self.is_full

    def lines(self, more: Mapping[str, Any] | None = None) -> Iterator[str]:
        """Yield the lines so far, without line ends. more: for the first line."""
        yield json.dumps({"recording": FORMAT, **self._head, "began_ns": self._began_ns, **(more or {})})
        self._write()
        at, end = 0, self.size_bytes
        while at < min(end, self.size_bytes):  # a full disk may take entries back
            self._write()
            self._file.seek(at)
            head = _HEAD.unpack(self._file.read(_HEAD.size))
            connection, began, answered, request_bytes, response_bytes, fault, served_bytes = head
            request = self._file.read(request_bytes)
            response = self._file.read(_PREFIX_BYTES + response_bytes)[_PREFIX_BYTES:] if response_bytes >= 0 else None
            served = self._file.read(served_bytes) if served_bytes >= 0 else None
            at = self._file.tell()
            self._file.seek(0, os.SEEK_END)  # the next exchange goes to the end
            if connection == _LINE:
                yield request.decode()
            else:
                met = "" if fault == _NO_FAULT[0] else f',"fault":{fault}'
                if served_bytes != _AS_IT_CAME:
                    met += f',"served":{_in_base64(served)}'
                yield (
                    f'{{"connection":{connection},"at":{began},"answered":{answered},'
                    f'"request":{_in_base64(request)},"response":{_in_base64(response)}{met}}}'
                )
        if self.is_full:
            yield '{"full":true}'

    def close(self) -> None:
        """Forget the recording."""
        self._file.close()


def _in_base64(frame: bytes | None) -> str:
    return "null" if frame is None else f'"{b64encode(frame).decode()}"'
