"""Recordings of a broker's traffic, as they are read.

Rule: the lines are those of `control/traffic/recorder.py`. Events stand in the order in which they came to the broker.
The recording of a cluster has the node of each event, and in its first line where replicas and leaders were
(`cluster_recording.py` writes it).
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

FORMAT = 1
NEVER = 1 << 62
# In the place of an HTTP method: the process of a node was ended or started; another node became a coordinator.
PROCESS = "PROCESS"
COORDINATOR = "COORDINATOR"


class BadRecording(ValueError):
    """A recording that can't be played."""


class Recorded(NamedTuple):
    """An exchange, a call of the control API, or the end of a connection, which has neither request nor call.

    at, answered: microseconds since the start; `answered` is NEVER without an answer.
    fault: the number of the fault that the exchange met.
    served: the request that the broker carried out; None if a fault kept it from carrying out any.
    node: of a cluster, where it happened; 0 for a broker alone.
    """

    at: int
    answered: int
    connection: int
    request: bytes
    response: bytes | None
    call: tuple[str, str, str] | None = None
    fault: int | None = None
    served: bytes | None = None
    node: int = 0

    @classmethod
    def exchange(cls, at: int, answered: int, connection: int, request: bytes, response: bytes | None) -> Recorded:
        """Return an exchange that met no fault."""
        answered = NEVER if response is None else answered
        return cls(at, answered, connection, request, response, served=request)

    @classmethod
    def close(cls, at: int, connection: int) -> Recorded:
        """Return the end of a connection."""
        return cls(at, at, connection, b"", None)

    @property
    def is_close(self) -> bool:
        return not self.request and self.call is None


class Placement(NamedTuple):
    """The brokers of a partition. leader_epoch: -1 where it is not known."""

    replicas: list[int]
    leader: int
    leader_epoch: int = -1


class Recording(NamedTuple):
    """A recording in the order in which its requests came.

    state: lines for `seed`.
    unknown: what the recording does not tell, in words.
    last_fault: the id of the last fault that was added before; the next one has the next id.
    nodes: of a cluster, the last fault of each node.
    controller: of a cluster, the node that is the controller.
    placements: of a cluster, the partitions of each topic: as they were at the beginning, or when the topic came.
    servers: of each connection that a capture or a proxy tells of, the address that the client had connected to.
    """

    state: list[str]
    events: list[Recorded]
    unknown: str = ""
    last_fault: int = 0
    nodes: Mapping[int, int] = {}
    controller: int = 0
    placements: Mapping[str, list[Placement]] = {}
    servers: Mapping[int, tuple[str, int]] = {}

    @property
    def brokers(self) -> list[int]:
        """The brokers of the cluster that clients may have asked; empty for a broker alone."""
        return sorted({*self.nodes} - {self.controller} | {each.node for each in self.events if each.request} - {0})


def read_recording(lines: Iterable[str]) -> Recording:
    """Read a recording.

    Raises:
        BadRecording: a line is none of a recording.
    """
    state: list[str] = []
    events: list[Recorded] = []
    head: dict[str, Any] = {}
    servers: dict[int, tuple[str, int]] = {}
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            if number == 1:
                if entry["recording"] != FORMAT:
                    raise BadRecording(f"recordings of format {entry['recording']} are not read, those of {FORMAT} are")
                head = _head(entry)
            elif "state" in entry:
                state.append(json.dumps(entry["state"]))
            elif "server" in entry:
                host, port = entry["server"]
                servers[entry["connection"]] = str(host), int(port)
            elif "full" not in entry:
                events.append(_event(entry))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, BadRecording):
                raise
            raise BadRecording(f"line {number} is no line of a recording") from None
    events.sort(key=lambda each: each.at)
    return Recording(state, events, servers=servers, **head)


def lines_in(text: str) -> list[str]:
    """Return the lines of a recording. `str.splitlines` would end lines within texts of records, too."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def lines_of(recording: Recording) -> Iterator[str]:
    """Yield the lines of a recording, without line ends."""
    head: dict[str, Any] = {"recording": FORMAT, "last_fault": recording.last_fault}
    head |= {"unknown": recording.unknown} if recording.unknown else {}
    if recording.nodes:
        head |= {"nodes": recording.nodes, "controller": recording.controller, "placements": recording.placements}
    yield json.dumps(head)
    for line in recording.state:
        yield f'{{"state":{line}}}'
    for each in recording.events:
        node = {"node": each.node} if each.node else {}
        if each.call is not None:
            method, target, body = each.call
            yield json.dumps({"call": method, "target": target, "body": body, "at": each.at, **node})
        elif each.is_close:
            yield json.dumps({"closed": each.connection, "at": each.at, **node})
        else:
            answered = each.at if each.response is None else each.answered
            entry: dict[str, Any] = {"connection": each.connection, "at": each.at, "answered": answered, **node}
            entry |= {"request": in_base64(each.request), "response": in_base64(each.response)}
            if each.fault is not None:
                entry |= {"fault": each.fault, "served": in_base64(each.served)}
            yield json.dumps(entry)


def in_base64(frame: bytes | None) -> str | None:
    """Return bytes as text, None for none."""
    return None if frame is None else b64encode(frame).decode()


def _head(entry: dict[str, Any]) -> dict[str, Any]:
    """Return what the first line tells, as fields of a recording."""
    head: dict[str, Any] = {"unknown": str(entry.get("unknown", "")), "last_fault": int(entry.get("last_fault", 0))}
    if "nodes" in entry:
        head["nodes"] = {int(node): int(last_fault) for node, last_fault in entry["nodes"].items()}
        head["controller"] = int(entry["controller"])
        places = {name: [Placement(*each) for each in of_topic] for name, of_topic in entry["placements"].items()}
        head["placements"] = places
    return head


def _event(entry: dict[str, Any]) -> Recorded:
    node, at = int(entry.get("node", 0)), int(entry["at"])
    if "call" in entry:
        call = entry["call"], entry["target"], entry["body"]
        if not all(isinstance(each, str) for each in call):
            raise TypeError
        return Recorded(at, at, 0, b"", None, call, node=node)
    if "closed" in entry:
        return Recorded.close(at, int(entry["closed"]))._replace(node=node)
    answer = None if entry["response"] is None else b64decode(entry["response"])
    request = b64decode(entry["request"], validate=True)
    answered, connection = int(entry["answered"]), int(entry["connection"])
    event = Recorded.exchange(at, answered, connection, request, answer)._replace(node=node)
    if "fault" not in entry:
        return event
    served = entry.get("served", entry["request"])
    return event._replace(fault=entry["fault"], served=None if served is None else b64decode(served))
