"""A recording played again, and the answers that differ.

Rule: a request is sent once all requests that had been answered before it came are answered again, so what was at the
same time stays so and nothing waits for the clock. A connection that the client closed is closed, and the broker has
seen that before anything else is sent. A target without a control API can't be given the faults: it gets the requests
that the recorded broker carried out, and answers that met a fault are not compared. Its coordinators are there from the
beginning, so the answer that the recorded one was not there yet is not compared either, and neither are the versions of
requests that it offers: a request of a version that it does not serve shows that. What it can't do at the moment and
the recorded broker could is asked again, as every client does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from struct import unpack_from
from typing import NamedTuple

from pykafka_broker.control.traffic.exchange import error_codes
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.testing.compared_answers import Ids
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import Recorded, Recording
from pykafka_broker.testing.replay_targets import Target

_PATIENCE_S = 30.0
_CLOSE_S = 5.0
_PAUSE_S = 0.02
_NO_COORDINATOR = ErrorCode.COORDINATOR_NOT_AVAILABLE
# Kafka answers the end of a transaction before its markers are written, and has no ids of producers at first.
_PASSING = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


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
    """A recording on its way through a broker.

    played: how many requests were sent.
    disturbed: how many answers had met a fault that the target can't be given.
    """

    def __init__(self, recording: Recording, host: str, port: int, target: Target) -> None:
        self._recording = recording
        self._address = host, port
        self._target = target
        self._connections: dict[int, _Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ids = Ids(of_partial=bool(recording.unknown))
        self.played = 0
        self.disturbed = 0
        self.differences: list[Difference] = []

    async def run(self, until: int | None = None, hold: Callable[[], Awaitable[None]] | None = None) -> None:
        """Play all of it.

        Args:
            until: the number of the last request that is played; what stands behind it is left out.
            hold: awaited at the end, while all connections are still open.

        Raises:
            BadRecording: the target can't begin with the recorded state.
            OSError: the target can't be reached.
        """
        pending: list[tuple[Recorded, asyncio.Task[None]]] = []
        try:
            await self._target.begin(self._recording)
            number = 0
            for event in self._recording.events:
                if number == until:
                    pending = [each for each in pending if each[0].answered < event.at]
                    break
                await _done(task for before, task in pending if before.answered < event.at)
                pending = [each for each in pending if not each[1].done()]
                if event.call is not None:
                    await self._target.call(*event.call)
                elif event.is_close:
                    await self._close(event.connection)
                else:
                    number += 1
                    pending += await self._send(number, event)
            await _done(task for event, task in pending if event.response is not None)
            if hold is not None:
                await hold()
        finally:
            for task in self._tasks:
                task.cancel()
            for connection in self._connections.values():
                connection.close()
            await self._target.end()
        self.differences.sort(key=lambda each: each.number)

    async def _send(self, number: int, event: Recorded) -> list[tuple[Recorded, asyncio.Task[None]]]:
        """Send a request; return it with the task that waits for the answer, unless nothing is to be sent."""
        request: bytes | None = event.request
        if event.fault is not None and not self._target.knows_faults:
            self.disturbed += 1
            request = event.served
        if request is None:
            return []
        connection = self._connections.get(event.connection)
        if connection is None or connection.is_closed:
            connection = self._connections[event.connection] = await _Connection.open(*self._address)
        frame = self._ids.put_into(request)
        answer = connection.send(frame)
        self.played += 1
        task = asyncio.create_task(self._compare(number, event, answer, partial(connection.send, frame)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return [(event, task)]

    async def _close(self, number: int) -> None:
        connection = self._connections.pop(number, None)
        if connection is not None:
            await connection.end()

    async def _compare(self, number: int, event: Recorded, answer: _Answer, again: Callable[[], _Answer]) -> None:
        if event.response is None:
            return
        found = None
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                found = await answer
                while not self._target.knows_faults and _only_passes_now(event, found):
                    await asyncio.sleep(_PAUSE_S)
                    found = await again()
        if not self._target.knows_faults and (event.fault is not None or _is_of_a_broker(event)):
            if found is not None:
                self._ids.learn(event.request, event.response, found)
            return
        for path, recorded, replayed in self._ids.compared(event.request, event.response, found):
            self.differences.append(Difference(number, _named(event.request), path, recorded, replayed))
            break  # what follows in an answer mostly follows from it


_Answer = asyncio.Future[bytes | None]


class _Connection:
    """A connection of the recording, made again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._sent: deque[tuple[bytes, _Answer]] = deque()  # by correlation id
        self._reading = asyncio.create_task(self._read(reader))
        self.is_closed = False

    @classmethod
    async def open(cls, host: str, port: int) -> _Connection:
        return cls(*await asyncio.open_connection(host, port))

    def send(self, frame: bytes) -> _Answer:
        """Send a request; return its answer, None where the connection ends before."""
        answer: _Answer = asyncio.get_running_loop().create_future()
        self._sent.append((frame[4:8], answer))
        self._writer.write(len(frame).to_bytes(4, "big") + frame)
        return answer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                (size,) = unpack_from(">i", await reader.readexactly(4))
                answer = await reader.readexactly(size)
                # Answers come in the order of the requests, some of which have none (acks=0).
                while self._sent:
                    correlation, waiting = self._sent.popleft()
                    found = answer if correlation == answer[:4] else None
                    if not waiting.done():
                        waiting.set_result(found)
                    if found is not None:
                        break
        except (OSError, asyncio.IncompleteReadError):
            self.is_closed = True
            for _, waiting in self._sent:
                if not waiting.done():
                    waiting.set_result(None)

    async def end(self) -> None:
        """Close the connection, and wait until the broker has seen that and has closed it too."""
        with suppress(OSError, TimeoutError):
            if self._writer.can_write_eof():
                self._writer.write_eof()
            await asyncio.wait_for(self._reading, _CLOSE_S)
        self.close()

    def close(self) -> None:
        self._reading.cancel()
        self._writer.close()


async def _done(tasks: Iterable[asyncio.Task[None]]) -> None:
    if waited := list(tasks):
        await asyncio.gather(*waited)


def _only_passes_now(event: Recorded, answer: bytes | None) -> bool:
    """Return whether an answer has an error that every client waits out, and the recorded answer has none."""
    if answer is None:
        return False
    recorded, found = (RecordedMessages(each) for each in (event, event._replace(response=answer)))
    return not error_codes(recorded.response) and bool(_PASSING & error_codes(found.response).keys())


def _is_of_a_broker(event: Recorded) -> bool:
    """Return whether the answer tells of the broker alone: its versions, or that it has no coordinator yet."""
    message = RecordedMessages(event)
    without = message.api_key == ApiKey.FIND_COORDINATOR and _NO_COORDINATOR in error_codes(message.response)
    return without or message.api_key == ApiKey.API_VERSIONS


def _named(frame: bytes) -> str:
    key, version = unpack_from(">hh", frame)
    return f"{SPECS[key].name if key in SPECS else key} v{version}"
