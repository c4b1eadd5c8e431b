"""Recordings by the names of their files: read, played and compared. The Python form of `pykafka-broker replay`.

Rule: a file of `save_recording`, of a failing test, of a proxy and a capture are read alike, and so are the files of a
cluster's nodes, which make one recording. Played is what `RecordingPlayer` plays.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pykafka_broker.testing.cluster import KafkaCluster
from pykafka_broker.testing.cluster_recording import NodeRecording, joined
from pykafka_broker.testing.compared_answers import differing
from pykafka_broker.testing.partial_recordings import completed
from pykafka_broker.testing.process import KafkaBroker
from pykafka_broker.testing.recording import BadRecording, Recorded, Recording, lines_in, read_recording
from pykafka_broker.testing.remote import RemoteBroker
from pykafka_broker.testing.replay import Difference, RecordingPlayer
from pykafka_broker.testing.replay_targets import ClusterTarget, ControlledTarget, Target

if TYPE_CHECKING:
    from pykafka_broker.cli.trace import Conversation

D = TypeVar("D")
R = TypeVar("R")
Named = str | os.PathLike[str]
_OF_A_CAPTURE = "a capture tells nothing of what was there before: topics are made as clients were told of them"


class PlayedRecording(NamedTuple):
    """The end of a play.

    played: how many requests were sent.
    differences: the answers that differ; the text of each is the line that `pykafka-broker replay` prints.
    """

    played: int
    differences: list[Difference]


def replay_recording(
    *recordings: Named,
    on: KafkaBroker | KafkaCluster | RemoteBroker,
    recorded_time: bool = False,
    until: int | None = None,
) -> PlayedRecording:
    """Play a recording on a broker or cluster, which should be empty, and return `played` and `differences`.

    Args:
        recordings: a file of `save_recording` or of a failing test, or a capture; of a cluster it may be one of each
            node.
        on: the broker or cluster; a recording of a cluster wants a cluster.
        recorded_time: let as much time pass as in the recording: by the broker's clock, in a cluster by waiting.
        until: the number of the last request that is played.

    Raises:
        ValueError: a file is no recording, or can't be played there.
        OSError: a file can't be read.
    """
    recording = read_recordings(recordings)
    player = RecordingPlayer(recording, _target(on, recording, recordings[0]), recorded_time)
    with ThreadPoolExecutor(1) as thread:  # the test's own thread may have an event loop
        thread.submit(lambda: asyncio.run(player.run(until))).result()
    return PlayedRecording(player.played, player.differences)


def _target(on: KafkaBroker | KafkaCluster | RemoteBroker, recording: Recording, path: Named) -> Target:
    if isinstance(on, KafkaCluster):
        return ClusterTarget(on)
    if recording.nodes:
        raise BadRecording(f"{os.fspath(path)}: it is the recording of a cluster: play it on a KafkaCluster")
    host, _, port = on.bootstrap_servers.partition(",")[0].rpartition(":")
    return ControlledTarget(
        on.control, host.strip("[]"), int(port), process=on if isinstance(on, KafkaBroker) else None
    )


def compare_recordings(recording: Named, other: Named) -> list[str]:
    """Compare two recordings of an application, and return what its clients wrote and committed otherwise in the
    other, by client and partition, as `pykafka-broker replay RECORDING --compare OTHER --all` prints it.

    Raises:
        ValueError: a file is no recording.
        OSError: a file can't be read.
    """
    return list(differing(read_recordings([recording]), read_recordings([other])))


def read_recordings(paths: Sequence[Named]) -> Recording:
    """Return the recording in a file, which may be a capture, or in those of a cluster's nodes. Raises OSError or
    ValueError.
    """
    data = Path(paths[0]).read_bytes()
    if len(paths) > 1 or b'"topics_then"' in data.partition(b"\n")[0]:
        return joined([_named(path, NodeRecording, Path(path).read_text(encoding="utf-8")) for path in paths])
    return _named(paths[0], _recording_in, data)


def _named(path: Named, read: Callable[[D], R], data: D) -> R:
    """Read the content of a file. Raises ValueError, which names the file."""
    try:
        return read(data)
    except ValueError as error:
        raise BadRecording(f"{os.fspath(path)}: {error}") from None


def _recording_in(data: bytes) -> Recording:
    """Return the recording of one broker, or the content of a capture. Raises ValueError."""
    if not data.startswith(b"{"):
        from pykafka_broker.cli.trace import conversations, read_packets

        found = conversations(read_packets(data))
        return completed(Recording([], _captured(found), _OF_A_CAPTURE, servers=_servers(found)))
    recording = read_recording(lines_in(data.decode()))
    return completed(recording) if recording.unknown and not recording.state else recording


def _captured(found: list[Conversation]) -> list[Recorded]:
    """Return the events of a capture."""
    began = min((time for each in found for time in each.times), default=0.0)
    events: list[Recorded] = []
    for number, each in enumerate(found, 1):
        for exchange, time in zip(each.exchanges, each.times, strict=True):
            at, answer = int((time - began) * 1e6), exchange.answer
            response = None if answer is None else b"".join(map(bytes, answer))[4:]
            answered = at + exchange.duration_ns // 1000
            events.append(Recorded.exchange(at, answered, number, exchange.frame, response))
        if each.ended is not None:
            events.append(Recorded.close(int((each.ended - began) * 1e6), number))
    return sorted(events, key=lambda each: each.at)


def _servers(found: list[Conversation]) -> dict[int, tuple[str, int]]:
    """Return the address that the client had connected to, of each connection that asked something."""
    connections = ((number, each.exchanges[0].connection) for number, each in enumerate(found, 1) if each.exchanges)
    return {number: (each.local_host, each.local_port) for number, each in connections}
