"""A recording played again, and the answers that differ.

Rule: a request is sent once all requests that had been answered before it came are answered again, so what was at the
same time stays so and nothing waits for the clock. Ids that a broker chooses (of topics, members, producers, fetch
sessions, the cluster) are learnt from the answers and put into later requests. What differs by nature is not compared:
addresses, throttling, and in batches the times of the log, checksums and producer ids.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from struct import unpack_from
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from pykafka_broker.control.traffic.exchange import decoded_request, decoded_response, encoded_request
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.runtime import EncodeError, Fields, uuid_text
from pykafka_broker.records.errors import CorruptBatch, TruncatedBatch
from pykafka_broker.records.header import HEADER_SIZE, Buffer, batch_of, iter_batches
from pykafka_broker.testing.control_client import ControlClient

_FORMAT = 1
_PATIENCE_S = 30.0
_NEVER = 1 << 62
_MOST_SHOWN = 60  # characters of a value
# Fields that a broker chooses, by the kind of id.
_CHOSEN = {
    **dict.fromkeys(("topic_id", "topic_ids"), "topic id"),
    **dict.fromkeys(("member_id", "leader"), "member id"),
    "producer_id": "producer id",
    "session_id": "fetch session",
    "cluster_id": "cluster id",
    "client_instance_id": "client instance id",
    "subscription_id": "subscription id",
}
_NOT_COMPARED = frozenset({"host", "port", "throttle_time_ms", "log_append_time_ms", "acquisition_lock_timeout_ms"})
_WITHOUT_ID = ("", 0, -1, bytes(16))


class BadRecording(ValueError):
    """A recording that can't be played."""


class Recorded(NamedTuple):
    """An exchange or a call of the control API. answered: microseconds since the start, as `at`; never without an
    answer.
    """

    at: int
    answered: int
    connection: int
    request: bytes
    response: bytes | None
    call: tuple[str, str, str] | None = None


class Recording(NamedTuple):
    """A recording in the order in which its requests came. state: lines for `seed`."""

    state: list[str]
    events: list[Recorded]


def read_recording(lines: Iterable[str]) -> Recording:
    """Read a recording.

    Raises:
        BadRecording: a line is none of a recording.
    """
    state: list[str] = []
    events: list[Recorded] = []
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            if number == 1:
                if entry["recording"] != _FORMAT:
                    raise BadRecording(
                        f"recordings of format {entry['recording']} are not read, those of {_FORMAT} are"
                    )
            elif "state" in entry:
                state.append(json.dumps(entry["state"]))
            elif "call" in entry:
                call = entry["call"], entry["target"], entry["body"]
                events.append(Recorded(entry["at"], entry["at"], 0, b"", None, call))
            elif "full" not in entry:
                response = entry["response"]
                answer = None if response is None else b64decode(response)
                answered = _NEVER if answer is None else entry["answered"]
                request = b64decode(entry["request"], validate=True)
                events.append(Recorded(entry["at"], answered, entry["connection"], request, answer))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, BadRecording):
                raise
            raise BadRecording(f"line {number} is no line of a recording") from None
    events.sort(key=lambda each: each.at)
    return Recording(state, events)


class Difference(NamedTuple):
    """An answer that differs. number: of the request, from 1; path: the field within the answer."""

    number: int
    request: str
    path: str
    recorded: str
    replayed: str

    def __str__(self) -> str:
        where = f" at {self.path}" if self.path else ""
        return f"request {self.number}, {self.request}: recorded{where} {self.recorded}, now {self.replayed}"


class RecordingPlayer:
    """A recording on its way through a broker."""

    def __init__(self, recording: Recording, host: str, port: int, control: ControlClient | None = None) -> None:
        self._recording = recording
        self._address = host, port
        self._control = control
        self._connections: dict[int, _Connection] = {}
        self._ids = Ids()
        self.played = 0
        self.differences: list[Difference] = []

    async def run(self) -> None:
        """Play all of it.

        Raises:
            BadRecording: the target can't begin with the recorded state, or has no control API for a recorded call.
            OSError: the target can't be reached.
        """
        if (self._recording.state or any(each.call for each in self._recording.events)) and self._control is None:
            raise BadRecording("the recording has topics or calls of the control API: the target needs a control API")
        if self._recording.state and self._control is not None:
            await asyncio.to_thread(self._control.call, "POST", "/seed", "\n".join(self._recording.state))
        pending: list[tuple[Recorded, asyncio.Task[None]]] = []
        try:
            for event in self._recording.events:
                await _done(task for before, task in pending if before.answered < event.at)
                pending = [each for each in pending if not each[1].done()]
                if event.call is not None:
                    await self._call(*event.call)
                    continue
                pending.append((event, await self._send(event)))
            await _done(task for event, task in pending if event.response is not None)
        finally:
            for _, task in pending:
                task.cancel()
            for connection in self._connections.values():
                connection.close()
        self.differences.sort(key=lambda each: each.number)

    async def _call(self, method: str, target: str, body: str) -> None:
        assert self._control is not None
        path, _, query = target.partition("?")
        given: Any = body or None
        with suppress(ValueError):
            given = json.loads(body)
        await asyncio.to_thread(self._control.call, method, path, given, query=dict(parse_qsl(query)))

    async def _send(self, event: Recorded) -> asyncio.Task[None]:
        connection = self._connections.get(event.connection)
        if connection is None or connection.is_closed:
            connection = self._connections[event.connection] = await _Connection.open(*self._address)
        frame = self._ids.put_into(event.request)
        answer = connection.send(frame, expected=event.response is not None)
        self.played += 1
        return asyncio.create_task(self._compare(self.played, event, answer))

    async def _compare(self, number: int, event: Recorded, answer: asyncio.Future[bytes | None]) -> None:
        try:
            found = await asyncio.wait_for(answer, _PATIENCE_S)
        except TimeoutError:
            found = None
        if event.response is None:
            return
        for path, recorded, replayed in self._ids.compared(event.request, event.response, found):
            self.differences.append(Difference(number, _named(event.request), path, recorded, replayed))
            break  # what follows in an answer mostly follows from it


class _Connection:
    """A connection of the recording, made again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._expected: asyncio.Queue[asyncio.Future[bytes | None]] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read(reader))
        self.is_closed = False

    @classmethod
    async def open(cls, host: str, port: int) -> _Connection:
        return cls(*await asyncio.open_connection(host, port))

    def send(self, frame: bytes, expected: bool) -> asyncio.Future[bytes | None]:
        """Send a request; return its answer, None where the connection ends before."""
        answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        if expected:
            self._expected.put_nowait(answer)
        self._writer.write(len(frame).to_bytes(4, "big") + frame)
        return answer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        waiting: asyncio.Future[bytes | None] | None = None
        try:
            while True:
                waiting = await self._expected.get()
                (size,) = unpack_from(">i", await reader.readexactly(4))
                answer = await reader.readexactly(size)
                if not waiting.done():
                    waiting.set_result(answer)
        except (OSError, asyncio.IncompleteReadError):
            self.is_closed = True
            while waiting is not None:
                if not waiting.done():
                    waiting.set_result(None)
                waiting = None if self._expected.empty() else self._expected.get_nowait()

    def close(self) -> None:
        self._reading.cancel()
        self._writer.close()


async def _done(tasks: Iterable[asyncio.Task[None]]) -> None:
    if waited := list(tasks):
        await asyncio.gather(*waited)


class Ids:
    """Ids that the recorded broker chose, and those of the target."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, Any], Any] = {}

    def put_into(self, frame: bytes) -> bytes:
        """Return a recorded request with the target's ids."""
        spec = SPECS.get(int.from_bytes(frame[:2], "big"))
        request = None if spec is None else decoded_request(frame, spec)
        if spec is None or request is None or not self._of:
            return frame
        self._change(request)
        try:
            return bytes(encoded_request(frame, spec, int.from_bytes(frame[2:4], "big"), request))
        except EncodeError:
            return frame

    def _change(self, struct: Any) -> None:
        for name in struct.__match_args__:
            value = getattr(struct, name)
            if isinstance(value, Fields):
                self._change(value)
            elif isinstance(value, list) and value and isinstance(value[0], Fields):
                for each in value:
                    self._change(each)
            elif name in _CHOSEN:
                setattr(struct, name, self._target(name, value))
            elif name == "records" and value is not None:
                struct.records = self._rewritten(bytes(value))

    def _target(self, name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._of.get((_CHOSEN[name], each), each) for each in value]
        return self._of.get((_CHOSEN[name], value), value)

    def _rewritten(self, records: bytes) -> bytes:
        """Return produced batches with the target's producer ids."""
        batches: list[Buffer] = []
        try:
            for header, batch in iter_batches(records):
                target = self._of.get(("producer id", header.producer_id), header.producer_id)
                if target == header.producer_id:
                    batches.append(batch)
                else:
                    batches.append(batch_of(replace(header, producer_id=target), batch[HEADER_SIZE:]))
        except CorruptBatch:  # what a client sent is sent again as it was
            return records
        return b"".join(batches)

    def compared(self, request: bytes, recorded: bytes, replayed: bytes | None) -> Iterator[tuple[str, str, str]]:
        """Yield what differs between two answers to a request: the path, and both values. New ids are learnt."""
        if replayed is None:
            yield "", "an answer", "none"
            return
        spec = SPECS.get(int.from_bytes(request[:2], "big"))
        version = int.from_bytes(request[2:4], "big")
        first = None if spec is None else decoded_response(recorded, spec, version)
        second = None if spec is None else decoded_response(replayed, spec, version)
        if first is None or second is None:
            if recorded[4:] != replayed[4:]:
                yield "", f"{len(recorded)} bytes", f"{len(replayed)} other bytes"
            return
        yield from self._fields(first, second, "")

    def _fields(self, recorded: Any, replayed: Any, path: str) -> Iterator[tuple[str, str, str]]:
        for name in recorded.__match_args__:
            if name not in _NOT_COMPARED:
                at = f"{path}.{name}" if path else name
                yield from self._values(name, getattr(recorded, name), getattr(replayed, name), at)

    def _values(self, name: str, recorded: Any, replayed: Any, path: str) -> Iterator[tuple[str, str, str]]:
        if isinstance(recorded, Fields) and isinstance(replayed, Fields):
            yield from self._fields(recorded, replayed, path)
        elif isinstance(recorded, list) and isinstance(replayed, list):
            if len(recorded) != len(replayed):
                yield path, f"{len(recorded)} of them", str(len(replayed))
            for index, (one, other) in enumerate(zip(recorded, replayed, strict=False)):
                yield from self._values(name, one, other, f"{path}[{index}]")
        elif name in _CHOSEN:
            known = self._of.get((_CHOSEN[name], recorded))
            if known is None and recorded not in _WITHOUT_ID and replayed not in _WITHOUT_ID:
                self._of[_CHOSEN[name], recorded] = replayed
            elif (recorded if known is None else known) != replayed:
                yield path, _shown(recorded), _shown(replayed)
        elif name == "records":
            if _outline(recorded) != _outline(replayed):
                yield path, f"records {_outline(recorded)}", f"{_outline(replayed)}"
        elif recorded != replayed:
            yield path, _shown(recorded), _shown(replayed)


def _outline(records: Any) -> list[Any]:
    """Return base offset, number and content of each batch, without what differs by nature."""
    data = bytes(records or b"")
    outline: list[Any] = []
    try:
        for header, batch in iter_batches(data):
            outline.append((header.base_offset, header.count, bytes(batch[HEADER_SIZE:])))
    except TruncatedBatch:  # what was fetched ends anywhere
        pass
    except CorruptBatch:  # an older format
        outline.append(data[sum(HEADER_SIZE + len(content) for *_, content in outline) :])
    return outline


def _named(frame: bytes) -> str:
    key, version = unpack_from(">hh", frame)
    return f"{SPECS[key].name if key in SPECS else key} v{version}"


def _shown(value: Any) -> str:
    text = uuid_text(value) if isinstance(value, bytes) and len(value) == 16 else repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
