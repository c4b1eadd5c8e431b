"""Recordings of a cluster: those of all nodes put together, with the nodes' ends and starts.

Rule: each node records what comes to it, and all times are of the one clock that the processes of a machine share. What
brokers ask each other is left out, since they ask each other again when the recording is played. A leader that the test
has moved is moved in the recording where the old leader has learnt of it: until then it went on serving. The topics of
coordinators are made before, so that their leaders can be placed as recorded. A process that ends by itself takes its
part of the recording with it.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pykafka_broker import __version__
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import uuid_text
from pykafka_broker.testing.answers import RecordingState
from pykafka_broker.testing.broker_recording import (
    ProcessEvent,
    ProcessRecorder,
    ProcessRecording,
    events_of,
    in_time,
    write_recording,
)
from pykafka_broker.testing.recorded_coordinators import OF_COORDINATORS, asked_coordinators
from pykafka_broker.testing.recorded_messages import RecordedMessages, partitions_in
from pykafka_broker.testing.recording import (
    BadRecording,
    Placement,
    Recorded,
    Recording,
    lines_of,
)

if TYPE_CHECKING:
    from pykafka_broker.testing.cluster import KafkaCluster

MOVE_LEADER = "/incidents/leader"
_NOT_LED = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH}


class NodeRecording(ProcessRecording):
    """The recording of one process of a node. Raises BadRecording if the lines are none of a node of a cluster."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        try:
            head = self.head
            self.node: int = head["node"]
            self.controller: int = head["controller"]
            self.brokers: list[int] = head["brokers"]
            self.cluster_id: str = head["cluster_id"]
            self.topics = _Topics(head["topics"])
            self.topics_then = _Topics(head["topics_then"])
        except (IndexError, KeyError, TypeError, ValueError):
            raise BadRecording("a recording is of no node of a cluster, so it is played alone") from None


class _Topics:
    """The topics of a cluster at a time: where their partitions are, and their ids."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.placements = {name: [Placement(*each) for each in topic["partitions"]] for name, topic in told.items()}
        self.names = {topic["id"]: name for name, topic in told.items()}


class ClusterRecorder:
    """A recording of a cluster that goes on."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._parts: list[str] = []
        self._processes: list[ProcessEvent] = []
        cluster.coordinator("recording")
        cluster.coordinator(transactional_id="recording")
        cluster._wait_for_all_running()
        cluster.wait_for_metadata()
        for node_id, node in cluster.nodes.items():
            if node.running:
                node.start_recording()
            node._watch = ProcessRecorder(node, node_id, self._parts, self._processes)

    def forget(self) -> None:
        """End the recording without keeping anything of it."""
        for node in self._cluster.nodes.values():
            node._watch = None

    def save(self, path: str | os.PathLike[str]) -> RecordingState:
        """End the recording, and write it into a file."""
        self.forget()
        for node_id, node in self._cluster.nodes.items():
            if node.running:
                ProcessRecorder(node, node_id, self._parts, self._processes).keep_part()
        parts = [NodeRecording(text) for text in self._parts]
        whole = joined(parts, self._processes)
        about = {"version": __version__, "cluster_id": self._cluster.cluster_id}
        head, *rest = lines_of(whole)
        return write_recording(path, [json.dumps(json.loads(head) | about), *rest], parts, whole.events)


# -- all parts together


def joined(parts: Sequence[NodeRecording], processes: Iterable[ProcessEvent] = ()) -> Recording:
    """Return one recording of the recordings of several nodes.

    Raises:
        BadRecording: there are none, or they are of several clusters.
    """
    if len({each.cluster_id for each in parts}) != 1:
        raise BadRecording("the recordings are of no cluster, or of several")
    first: dict[int, NodeRecording] = {}
    for part in parts:
        first.setdefault(part.node, part)
    before, then = min(parts, key=lambda each: each.began_ns).topics, parts[-1].topics_then
    later = {name: of for name, of in then.placements.items() if name not in before.placements}
    placements = before.placements
    placements |= {name: [each._replace(leader_epoch=-1) for each in of] for name, of in later.items()}
    began_ns = min(each.began_ns for each in parts)
    events = [*(each.event(began_ns) for each in in_time(processes, parts)), *events_of(parts, began_ns)]
    return Recording(
        _state(first.values()),
        in_effect(events, before.names | then.names, {name: len(of) for name, of in placements.items()}),
        nodes=dict.fromkeys(parts[0].brokers, 0) | {node: each.recording.last_fault for node, each in first.items()},
        controller=parts[0].controller if parts[0].controller not in parts[0].brokers else 0,
        placements=placements,
    )


def _state(parts: Iterable[NodeRecording]) -> list[str]:
    """Return the lines of state of all nodes: topics once, and offsets as numbers of records."""
    topics: dict[str, str] = {}
    records: dict[TopicPartition, list[int]] = defaultdict(list)  # offsets
    others: list[str] = []
    offsets: list[dict[str, Any]] = []
    for text in (text for part in parts for text in part.recording.state):
        line = json.loads(text)
        if line["type"] == "topic":
            topics.setdefault(line["name"], text)
        elif line["type"] == "offset":
            offsets.append(line)
        elif line["type"] == "record":
            others.append(text)
            known = records[TopicPartition(line["topic"], line["partition"])]
            known.append(max(line["batch"], known[-1] + 1 if known else 0))
    for line in offsets:
        if (at := line.pop("log_offset", None)) is not None:
            line["offset"] = bisect_left(records[TopicPartition(line["topic"], line["partition"])], at)
    return [*topics.values(), *others, *map(json.dumps, offsets)]


def in_effect(
    events: list[Recorded], names: Mapping[str, str], partitions_of: Mapping[str, int] | None = None
) -> list[Recorded]:
    """Return the events in order, with each move of a leader or coordinator where the old one has learnt of it.

    Args:
        names: of topics, by id.
        partitions_of: topics, those of coordinators among them.
    """
    events.sort(key=lambda each: each.at)
    seen: list[tuple[Recorded, dict[TopicPartition, bool]]] = []
    moves = [each for each in events if each.call is not None and each.call[1] == MOVE_LEADER]
    if moves:
        answers = sorted((each for each in events if each.response is not None), key=lambda each: each.answered)
        counts = partitions_of or {}
        seen = [(each, {**dict(served(each, names)), **dict(_coordinated(each, counts))}) for each in answers]
    for move in moves:
        assert move.call is not None
        given = json.loads(move.call[2])
        place = TopicPartition(given["topic"], given.get("partition", 0))
        at = move.at
        for event, partitions in seen:
            if event.answered <= move.at or place not in partitions:
                continue
            if not partitions[place] or event.node == given["leader"]:
                break  # it is known by then
            at = event.answered + 1
        events[events.index(move)] = move._replace(at=at, answered=at)
    return sorted(events, key=lambda each: each.at)


def _coordinated(event: Recorded, partitions_of: Mapping[str, int]) -> Iterator[tuple[TopicPartition, bool]]:
    """Yield the partitions of coordinators that an event was for, and whether the broker was the coordinator."""
    for one, is_theirs in asked_coordinators(event):
        if partitions := partitions_of.get(OF_COORDINATORS[one.kind]):
            yield one.place(partitions), is_theirs


def served(event: Recorded, names: Mapping[str, str]) -> Iterator[tuple[TopicPartition, bool]]:
    """Yield the partitions that a Produce, a Fetch or a ListOffsets was for, and whether the broker led each."""
    message = RecordedMessages(event)
    response = message.response
    if response is None or message.api_key not in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS):
        return
    topics = getattr(response, "responses", None) or getattr(response, "topics", [])
    for partition, each in partitions_in(topics, lambda topic_id: names.get(uuid_text(topic_id), "")):
        yield partition, each.error_code not in _NOT_LED
