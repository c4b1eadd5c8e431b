"""Recordings of whole requests and answers, to be played again.

Rule: a recording begins with the state of the broker, so it should be started while clients are quiet. Requests that
wait at its end are not in it, and neither are those that carry passwords. A node of a cluster says which one it is and
where all partitions are, at the beginning and at the end, so that the recordings of all nodes can be put together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from pykafka_broker import __version__
from pykafka_broker.control.answers import RecordingState
from pykafka_broker.control.api.seeding import dumped
from pykafka_broker.control.control import Control
from pykafka_broker.control.operations import Lines
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.traffic.exchange import is_of_a_broker
from pykafka_broker.control.traffic.recorder import Recorder
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import uuid_text

_LINES_AT_ONCE = 50
_LOOK_S, _LOOKS = 0.005, 200
# Requests that wait for what others do.
_WAITS_FOR_OTHERS = frozenset(
    {ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT}
)
_OF_A_PROXY = "a proxy tells nothing of what was there before: topics are made as clients were told of them"


async def start_recording(control: Control) -> RecordingState:
    """Record all requests and answers from now on, whole, after the topics, records and offsets that are there. An
    earlier recording is forgotten. A proxy does not know what is there.
    """
    _forget(control)
    recorder = _new_recorder(control)
    if control.has_broker:
        async for line in dumped(control, batches=True):
            recorder.add_state(line)
    else:
        for connection in control.server.connections:
            recorder.add_server(connection.context)
    _begin(control, recorder)
    return _state(recorder)


def record_process(control: Control) -> None:
    """Record everything that comes to a process of a node from now on. What was there before is in the recordings of
    other processes.
    """
    _begin(control, _new_recorder(control))


def _new_recorder(control: Control) -> Recorder:
    """Return a recorder. Raises `Problem` 503 where there is no place for its file."""
    try:
        return Recorder(_head(control))
    except OSError as error:
        raise Problem(
            503, f"nothing can be recorded: {error.filename or 'a temporary file'}: {error.strerror}"
        ) from None


def _head(control: Control) -> dict[str, Any]:
    """Return what the first line of a recording tells."""
    head: dict[str, Any] = {"version": __version__, "started": control.turns.clock.wall}
    head["last_fault"] = control.observing.faults.last_id
    if not control.has_broker:
        return head | {"unknown": _OF_A_PROXY}
    return head | {"cluster_id": control.services.cluster_id} | _place_in_cluster(control)


def _begin(control: Control, recorder: Recorder) -> None:
    control.observing.faults.set_recording(True)
    control.observing.log.recorder = recorder
    recorder.begin()


async def recording(control: Control, is_ending: bool = False) -> Lines:
    """Return the recording so far, as a file for `pykafka-broker replay`. 404 where nothing is recorded. With
    `is_ending` the broker is about to be killed: requests of clients that have come by now are carried out and
    recorded, and no client is answered any more.
    """
    recorder = _recorder(control)
    if is_ending:
        control.observing.faults.pause(spares=lambda exchange: is_of_a_broker(exchange.frame))
        for _ in range(_LOOKS):
            waiting = [each.so_far() for each in control.observing.log.waiting.values()]
            if all(each.api_key in _WAITS_FOR_OTHERS or is_of_a_broker(each.frame) for each in waiting):
                break
            await asyncio.sleep(_LOOK_S)
    topics_then = _topics(control) if control.has_broker and _is_of_cluster(control) else None

    async def lines() -> AsyncIterator[str]:
        for number, line in enumerate(recorder.lines({} if topics_then is None else {"topics_then": topics_then})):
            if number % _LINES_AT_ONCE == 0:
                await asyncio.sleep(0)  # clients are served meanwhile
                if control.observing.log.recorder is not recorder:
                    raise Problem(409, "the recording was stopped while it was read")
            yield line

    return Lines(lines())


def stop_recording(control: Control) -> RecordingState:
    """Stop recording and forget the recording. 404 where nothing is recorded."""
    state = _state(_recorder(control))
    _forget(control)
    return state


def _is_of_cluster(control: Control) -> bool:
    return len(control.services.image.brokers) > 1


def _place_in_cluster(control: Control) -> dict[str, Any]:
    """Return which node of a cluster this is, and where all partitions are; nothing of a broker alone."""
    services = control.services
    if not _is_of_cluster(control):
        return {}
    quorum = {"controller": services.metadata.quorum.leader_id, "brokers": sorted(services.image.brokers)}
    return {"node": services.node_id, **quorum, "topics": _topics(control)}


def _topics(control: Control) -> dict[str, Any]:
    """Return id and partitions of each topic, a partition as replicas, leader and leader epoch."""
    return {
        topic.name: {
            "id": uuid_text(topic.id),
            "partitions": [
                [list(each.replicas), each.leader, each.leader_epoch] for _, each in sorted(topic.partitions.items())
            ],
        }
        for topic in control.services.image.topics.values()
    }


def _recorder(control: Control) -> Recorder:
    recorder = control.observing.log.recorder
    if recorder is None:
        raise Problem(404, "nothing is recorded: POST /recording starts it")
    return recorder


def _forget(control: Control) -> None:
    control.observing.log.recorder = None
    control.observing.faults.set_recording(False)


def _state(recorder: Recorder) -> RecordingState:
    return RecordingState(exchanges=recorder.exchanges, size_bytes=recorder.size_bytes, full=recorder.is_full)
