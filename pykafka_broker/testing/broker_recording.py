"""The recording of a broker alone, over the ends and starts of its process.

Rule: each process records what comes to it. What was there before is in the part of the first one; a killed broker
finds it on its disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka_broker.control.traffic.exchange import is_of_a_broker
from pykafka_broker.testing.answers import RecordingState
from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.data import BrokerError
from pykafka_broker.testing.recording import PROCESS, Recorded, Recording, lines_in, lines_of, read_recording

if TYPE_CHECKING:
    from pykafka_broker.testing.process import KafkaBroker


class ProcessRecording:
    """The recording of one process of a broker alone."""

    node = 0
    brokers: Sequence[int] = (0,)

    def __init__(self, text: str) -> None:
        lines = lines_in(text)
        self.recording = read_recording(lines)
        self.head: dict[str, Any] = json.loads(lines[0])
        self.began_ns = int(self.head.get("began_ns", 0))
        self.is_full = lines[-1] == '{"full":true}'
        self.size_bytes = len(text)


class ProcessEvent(NamedTuple):
    """The end or the start of a node's process. at_ns: by the clock of the machine; how: "kill", "stop" or "start"."""

    at_ns: int
    node: int
    how: str

    def event(self, began_ns: int) -> Recorded:
        at = max(0, (self.at_ns - began_ns) // 1000)
        return Recorded(at, at, 0, b"", None, (PROCESS, f"/{self.how}", ""), node=self.node)


class ProcessRecorder:
    """The recordings of a broker's processes, one after the other, with their ends and starts.

    parts, processes: what comes is appended there; the nodes of a cluster have the same lists.
    """

    def __init__(self, broker: KafkaBroker, node: int, parts: list[str], processes: list[ProcessEvent]) -> None:
        self._broker, self._node = broker, node
        self._parts, self._processes = parts, processes

    def ending(self, how: str) -> None:
        """Keep the part of a process that is about to end, and serves no client any more."""
        self.keep_part(is_ending=True)
        self._processes.append(ProcessEvent(perf_counter_ns(), self._node, how))

    def started(self) -> None:
        """Note the new process."""
        self._processes.append(ProcessEvent(perf_counter_ns(), self._node, "start"))

    def keep_part(self, *, is_ending: bool = False) -> None:
        """End the recording of the process, and keep it."""
        control, query = self._broker.control, {"is_ending": True} if is_ending else None
        with suppress(ControlError, BrokerError, OSError):
            self._parts.append(control.call("GET", "/recording", query=query))
            control.call("DELETE", "/recording")


class BrokerRecorder(ProcessRecorder):
    """A recording of a broker that goes on. Its process must have begun to record."""

    def __init__(self, broker: KafkaBroker) -> None:
        super().__init__(broker, 0, [], [])

    def save(self, path: str | os.PathLike[str]) -> RecordingState:
        """End the recording, and write it into a file. Raises ControlError where nothing is left of it."""
        if self._broker.running:
            self.keep_part()
        if not self._parts:
            raise ControlError(404, "nothing is recorded: the broker has ended by itself, or start_recording failed")
        parts = [ProcessRecording(text) for text in self._parts]
        lines = lines_in(self._parts[0])
        if self._processes:
            head, *rest = lines_of(joined_processes(parts, self._processes))
            lines = [json.dumps(json.loads(lines[0]) | json.loads(head)), *rest]
        return write_recording(path, lines, parts, (event for part in parts for event in part.recording.events))


def write_recording(
    path: str | os.PathLike[str], lines: Iterable[str], parts: Sequence[ProcessRecording], events: Iterable[Recorded]
) -> RecordingState:
    """Write the lines of a recording into a file; return what is told of its parts and events."""
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return RecordingState(
        exchanges=sum(bool(each.request) for each in events),
        size_bytes=sum(each.size_bytes for each in parts),
        full=any(each.is_full for each in parts),
    )


def joined_processes(parts: Sequence[ProcessRecording], processes: Iterable[ProcessEvent]) -> Recording:
    """Return one recording of those of a broker's processes."""
    began_ns = parts[0].began_ns
    events = [*(each.event(began_ns) for each in in_time(processes, parts)), *events_of(parts, began_ns)]
    return parts[0].recording._replace(events=sorted(events, key=lambda each: each.at))


def in_time(processes: Iterable[ProcessEvent], parts: Sequence[ProcessRecording]) -> Iterator[ProcessEvent]:
    """Yield ends and starts of processes: a process has started when its recording begins, and the test knows later."""
    ended: dict[int, int] = {}
    for each in processes:
        if each.how == "start":
            since = ended.get(each.node, 0)
            began = [part.began_ns for part in parts if part.node == each.node and part.began_ns > since]
            each = each._replace(at_ns=min([each.at_ns, *began]))
        else:
            ended[each.node] = each.at_ns
        yield each


def events_of(parts: Sequence[ProcessRecording], began_ns: int) -> Iterator[Recorded]:
    """Yield the events of all nodes, with connections that have one number in the whole recording."""
    numbers: dict[tuple[int, int], int] = {}
    for index, part in enumerate(parts):
        later = (part.began_ns - began_ns) // 1000
        inner = {each.connection for each in part.recording.events if is_of_a_broker(each.request)}
        for event in part.recording.events:
            if event.call is None and (event.connection in inner or part.node not in part.brokers):
                continue
            connection = 0
            if event.call is None:
                connection = numbers.setdefault((index, event.connection), len(numbers) + 1)
            answered = event.answered if event.request and event.response is None else event.answered + later
            yield event._replace(at=event.at + later, answered=answered, connection=connection, node=part.node)
