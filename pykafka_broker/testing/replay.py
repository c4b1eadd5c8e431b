"""A recording played again, and the answers that differ.

Rule: a request is sent once all requests that had been answered before it came are answered again, so what was at the
same time stays so and nothing waits for the clock. A connection that the client closed is closed, and the broker has
seen that before anything else is sent. A target without a control API can't be given the faults: it gets the requests
that the recorded broker carried out, and answers that met a fault are not compared. Its coordinators are there from the
beginning, so the answer that the recorded one was not there yet is not compared either, and neither are the versions of
requests that it offers: a request of a version that it does not serve shows that. What it can't do at the moment and
the recorded broker could is asked again, as every client does. The brokers of a cluster hear of changes at their own
pace: a question that changes nothing is asked again for a while until its answer is as recorded, and an answer of a
recorded broker that had not heard of a change yet is not compared.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
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
from pykafka_broker.testing.replay_targets import Target, rests_on_epoch

_PATIENCE_S = 30.0
_CLOSE_S = 5.0
_PAUSE_S = 0.02
_LATE_S = 10.0  # that an answer may be late in a cluster
_MOST_LATE_S = 30.0  # that all answers together may be late
_NO_COORDINATOR = ErrorCode.COORDINATOR_NOT_AVAILABLE
# Kafka answers the end of a transaction before its markers are written, and has no ids of producers at first.
_PASSING = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
# What a broker of a cluster answers until it has heard of a change; nothing was done then.
_NOT_HEARD_OF = _PASSING | {
    *(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.LEADER_NOT_AVAILABLE),
    *(ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
    *(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.BROKER_NOT_AVAILABLE),
}
_QUESTIONS = frozenset(
    {
        *(ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS),
        *(ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_TOPIC_PARTITIONS),
        *(ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_TRANSACTIONS),
    }
)

_READING = _QUESTIONS | {ApiKey.FETCH}
# What a client sends again until the end of the transaction before is written, and may be done twice.
_REPEATED = frozenset({ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN})


class Difference(NamedTuple):
    """An answer that differs.

    number: of the request, from 1; path: the field within the answer; node: of a cluster, the broker that was asked.
    """

    number: int
    request: str
    path: str
    recorded: str
    replayed: str
    node: int = 0

    def __str__(self) -> str:
        where = f" at {self.path}" if self.path else ""
        asked = f"{self.request} to node {self.node}" if self.node else self.request
        return f"request {self.number}, {asked}: recorded{where} {self.recorded}, now {self.replayed}"


class RecordingPlayer:
    """A recording on its way through a broker. at_recorded_time: as much time passes there as in the recording; by
    default as much as the play takes.

    requests: how many the recording has.
    number: of the last request that was reached.
    played: how many requests were sent.
    disturbed: how many answers had met a fault that the target can't be given.
    early: how many answers of a cluster's brokers told less than they do now, as the brokers had not heard of a change.
    """

    def __init__(self, recording: Recording, target: Target, at_recorded_time: bool = False) -> None:
        self._recording = recording
        self._target = target
        self._at_recorded_time = at_recorded_time
        self._connections: dict[int, _Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ids = Ids()
        self._late_s = _MOST_LATE_S
        self._events: deque[Recorded] = deque()
        self._pending: list[tuple[Recorded, asyncio.Task[None]]] = []
        self.requests = sum(bool(each.request) for each in recording.events)
        self.number = 0
        self.played = 0
        self.disturbed = 0
        self.early = 0
        self.differences: list[Difference] = []

    async def run(self, until: int | None = None, hold: Callable[[], Awaitable[object]] | None = None) -> None:
        """Play all of it.

        Args:
            until: the number of the last request that is played; what stands behind it is left out.
            hold: awaited at the end, while all connections are still open.

        Raises:
            BadRecording: the target can't begin with the recorded state.
            OSError: the target can't be reached.
        """
        try:
            await self.begin()
            await self.play(until)
            if hold is not None:
                await hold()
        finally:
            await self.end()

    async def begin(self) -> None:
        """Make the state that the recording begins with. Raises BadRecording and OSError."""
        self._events = deque((await self._target.begin(self._recording)).events)
        self._ids = Ids(of_partial=bool(self._recording.unknown), nodes=self._target.nodes)

    async def play(self, until: int | None = None) -> None:
        """Play on, up to the request of a number; all connections stay open. Raises OSError."""
        while self._events and self.number != until:
            event = self._events.popleft()
            await self._pass_to(event.at)
            await self._answered(event.at)
            if event.call is not None:
                await self._target.call(event)
            elif event.is_close:
                await self._close(event.connection)
            else:
                self.number += 1
                await self._fetched(event.connection)
                self._pending += await self._send(self.number, event)
        if self._events:
            await self._answered(self._events[0].at)
        else:
            await self._pass_to(
                max((event.answered for event, _ in self._pending if event.response is not None), default=0)
            )
            await _done(task for event, task in self._pending if event.response is not None)

    async def _pass_to(self, at: int) -> None:
        """Let the time of the recording pass."""
        if self._at_recorded_time:
            await self._target.pass_to(-(-at // 1000))

    async def _answered(self, at: int) -> None:
        """Wait for all that was answered before a time of the recording."""
        await _done(task for event, task in self._pending if event.answered < at)
        self._pending = [each for each in self._pending if not each[1].done()]

    async def _fetched(self, connection: int) -> None:
        """Wait for the records that a Fetch got: one that waits for records yields to the next request."""
        await _done(task for event, task in self._pending if event.connection == connection and _has_records(event))

    async def end(self) -> None:
        """Close all connections."""
        for task in self._tasks:
            task.cancel()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
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
            connection = self._connections[event.connection] = await _Connection.open(*self._target.address(event.node))
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
                while self._target.lags and self._only_passes_now(event, found):
                    await asyncio.sleep(_PAUSE_S)
                    found = await again()
        is_early = self._is_early(event, found)
        first = None if is_early or self._is_left_out(event) else next(self._differing(event, found), None)
        is_early |= first is None and self._ids.was_early
        until = asyncio.get_running_loop().time() + min(_LATE_S, self._late_s)
        while first is not None and self._may_be_late(event, found) and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(_PAUSE_S)
            self._late_s -= _PAUSE_S
            found = await again()
            first = next(self._differing(event, found), None)
            is_early |= first is None and self._ids.was_early
        self.early += is_early
        if first is not None:
            self.differences.append(Difference(number, _named(event.request), *first, node=event.node))
        elif found is not None and (is_early or self._is_left_out(event)):
            self._ids.learn(event.request, event.response, found)

    def _differing(self, event: Recorded, found: bytes | None) -> Iterator[tuple[str, str, str]]:
        """Yield what differs; the rest of an answer mostly follows from the first of it."""
        assert event.response is not None
        return self._ids.compared(event.request, event.response, found)

    def _is_left_out(self, event: Recorded) -> bool:
        """Return whether an answer is not compared."""
        if self._target.lags and _has_no_coordinator(event):
            return True
        if self._target.knows_faults:
            return False
        if self._recording.unknown and rests_on_epoch(event):
            return True  # it was sent without the epoch, which is another one there
        return event.fault is not None or _api_key(event.request) == ApiKey.API_VERSIONS

    def _is_early(self, event: Recorded, found: bytes | None) -> bool:
        """Return whether a recorded broker of a cluster answered that it had not heard of a change, and now it has; or
        whether a recorded one was still writing the end of a transaction, and a target that may be slower is not.
        """
        api_key = _api_key(event.request)
        passing = _PASSING if api_key in _REPEATED and self._target.lags else None
        if api_key in _READING and self._target.nodes:
            passing = _NOT_HEARD_OF
        if found is None or passing is None:
            return False
        recorded, now = (RecordedMessages(each) for each in (event, event._replace(response=found)))
        return bool(passing & error_codes(recorded.response).keys()) and not error_codes(now.response)

    def _may_be_late(self, event: Recorded, found: bytes | None) -> bool:
        """Return whether a broker of a cluster may answer as recorded once it has heard of a change."""
        return found is not None and bool(self._target.nodes) and _api_key(event.request) in _QUESTIONS

    def _only_passes_now(self, event: Recorded, answer: bytes | None) -> bool:
        """Return whether an answer has an error that every client waits out, and the recorded answer has none."""
        if answer is None:
            return False
        passing = _NOT_HEARD_OF if self._target.nodes else _PASSING
        recorded, found = (RecordedMessages(each) for each in (event, event._replace(response=answer)))
        return not error_codes(recorded.response) and bool(passing & error_codes(found.response).keys())


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
        if self.is_closed:
            answer.set_result(None)
        else:
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
            pass  # the broker has ended it
        finally:
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


def _has_records(event: Recorded) -> bool:
    """Return whether an event is a Fetch that got records."""
    if _api_key(event.request) != ApiKey.FETCH:
        return False
    topics = getattr(RecordedMessages(event).response, "responses", ())
    return any(each.records for topic in topics for each in topic.partitions)


def _has_no_coordinator(event: Recorded) -> bool:
    """Return whether the recorded broker had no coordinator yet."""
    if _api_key(event.request) != ApiKey.FIND_COORDINATOR:
        return False
    return _NO_COORDINATOR in error_codes(RecordedMessages(event).response)


def _api_key(frame: bytes) -> int:
    return int.from_bytes(frame[:2], "big")


def _named(frame: bytes) -> str:
    key, version = unpack_from(">hh", frame)
    return f"{SPECS[key].name if key in SPECS else key} v{version}"
