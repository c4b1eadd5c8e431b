"""Recordings: what clients asked and were answered, whole, with the state before and what the control API did.

Rule: a recording is lines of JSON. The first line describes the broker; lines of state follow, as `seed` takes them;
then exchanges in the order of their answers, calls of the control API and closed connections, as they come. `at` and
`answered` are microseconds since the start; a frame is base64 without its length prefix. An exchange that met a fault
has its number, and `served`, where the broker carried out another request than came, or none. While it goes on, frames
are kept as they are in a temporary file; one that has reached its most bytes takes nothing more and says so in its last
line.
"""

from __future__ import annotations

import json
import os
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from struct import Struct
from time import perf_counter_ns
from typing import Any

from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import Pieces

FORMAT = 1
MOST_BYTES = 1 << 30
_IN_MEMORY_BYTES = 1 << 20
_PREFIX_BYTES = 4  # of an answer: its length
# Connection, at, answered, bytes of the request and of the response, fault, bytes of the request that was carried out.
_HEAD = Struct(">qqqiiii")
_LINE = -1  # in the place of a connection: a line follows
_NO_ANSWER = -1  # also for a request that was not carried out
_AS_IT_CAME = -2
_NO_FAULT = -(1 << 31)
WITH_SECRETS = frozenset(
    {
        *(ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
        *(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.CREATE_DELEGATION_TOKEN),
    }
)


class Recorder:
    """A recording that goes on. head: describes the broker."""

    def __init__(self, head: dict[str, Any], most_bytes: int = MOST_BYTES) -> None:
        self.exchanges = 0
        self.size_bytes = 0
        self.is_full = False
        self._most_bytes = most_bytes
        self._began_ns = perf_counter_ns()
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115  # it lives as long as this
        self._write_line(json.dumps({"recording": FORMAT, **head}))

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
        if exchange.api_key in WITH_SECRETS or exchange.duration_ns < self._began_ns:
            return
        response_bytes = sum(map(len, answer)) - _PREFIX_BYTES if answer else _NO_ANSWER
        began = self._began_ns
        at, answered = (exchange.duration_ns - began) // 1000, (perf_counter_ns() - began) // 1000
        fault, served, served_bytes = _NO_FAULT, b"", _AS_IT_CAME
        if exchange.fault is not None:
            fault = exchange.fault
            if exchange.served != exchange.frame:
                served = exchange.served or b""
                served_bytes = _NO_ANSWER if exchange.served is None else len(served)
        head = _HEAD.pack(
            exchange.connection.id, at, answered, len(exchange.frame), response_bytes, fault, served_bytes
        )
        if self._has_room(len(head) + len(exchange.frame) + max(response_bytes, 0) + len(served)):
            self.exchanges += 1
            write = self._file.write
            write(head)
            write(exchange.frame)
            if answer:
                write(answer[0][_PREFIX_BYTES:])
                for piece in answer[1:]:
                    write(piece)
            if served:
                write(served)

    def add_close(self, connection_id: int) -> None:
        """Add the end of a client's connection."""
        at = (perf_counter_ns() - self._began_ns) // 1000
        self._write_line(f'{{"closed":{connection_id},"at":{at}}}')

    def _write_line(self, line: str) -> None:
        data = line.encode()
        if self._has_room(_HEAD.size + len(data)):
            self._file.write(_HEAD.pack(_LINE, 0, 0, len(data), _NO_ANSWER, _NO_FAULT, _AS_IT_CAME))
            self._file.write(data)

    def _has_room(self, size: int) -> bool:
        self.is_full = self.is_full or self.size_bytes + size > self._most_bytes
        if not self.is_full:
            self.size_bytes += size
        return not self.is_full

    def lines(self) -> Iterator[str]:
        """Yield the lines so far, without line ends."""
        at, end = 0, self.size_bytes
        while at < end:
            self._file.seek(at)
            head = _HEAD.unpack(self._file.read(_HEAD.size))
            connection, began, answered, request_bytes, response_bytes, fault, served_bytes = head
            request = self._file.read(request_bytes)
            response = self._file.read(response_bytes) if response_bytes >= 0 else None
            served = self._file.read(served_bytes) if served_bytes >= 0 else None
            at = self._file.tell()
            self._file.seek(0, os.SEEK_END)  # the next exchange goes to the end
            if connection == _LINE:
                yield request.decode()
            else:
                met = "" if fault == _NO_FAULT else f',"fault":{fault}'
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
