"""Recordings by the names of their files: read, played and compared. The Python form of `pykafka-broker replay`.

Rule: a file of `save_recording`, of a failing test, of a proxy and a capture are read alike, and so are the files of a
cluster's nodes, which make one recording. Played is what `RecordingPlayer` plays.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from pykafka_broker.addresses import split_address
from pykafka_broker.testing.arguments import check_count
from pykafka_broker.testing.async_client import in_thread
from pykafka_broker.testing.cluster import KafkaCluster
from pykafka_broker.testing.cluster_recording import NodeRecording, joined
from pykafka_broker.testing.compared_answers import differing
from pykafka_broker.testing.history import Questions
from pykafka_broker.testing.partial_recordings import completed
from pykafka_broker.testing.process import KafkaBroker
from pykafka_broker.testing.recording import BadRecording, Recorded, Recording, lines_in, read_recording
from pykafka_broker.testing.remote import RemoteBroker
from pykafka_broker.testing.replay import Difference, RecordingPlayer
from pykafka_broker.testing.replay_targets import ClusterTarget, ControlledTarget, PlainTarget, Target

if TYPE_CHECKING:
    from pykafka_broker.cli.trace import Conversation
    from pykafka_broker.control.history.findings import Finding
    from pykafka_broker.testing.asynchronous import AsyncKafkaBroker, AsyncRemoteBroker
    from pykafka_broker.testing.asynchronous_cluster import AsyncKafkaCluster

    Awaited = AsyncKafkaBroker | AsyncKafkaCluster | AsyncRemoteBroker

D = TypeVar("D")
R = TypeVar("R")
Named = str | os.PathLike[str]
Running = KafkaBroker | KafkaCluster | RemoteBroker
_OF_A_CAPTURE = "a capture tells nothing of what was there before: topics are made as clients were told of them"


class PlayedRecording(NamedTuple):
    """The end of a play.

    played: how many requests were sent.
    differences: the answers that differ; the text of each is the line that `pykafka-broker replay` prints.
    notes: what could not be played or compared, a line each.
    findings: what `check` has found.
    """

    played: int
    differences: list[Difference]
    notes: list[str]
    findings: list[Finding]


@overload
def replay_recording(
    *recordings: Named,
    on: Running | str | None = ...,
    emulate: str | None = ...,
    brokers: int | None = ...,
    recorded_time: bool = ...,
    until: int | None = ...,
    hold: Callable[[], object] | None = ...,
    check: bool | Questions = ...,
) -> PlayedRecording: ...


@overload
def replay_recording(
    *recordings: Named,
    on: Awaited,
    emulate: str | None = ...,
    brokers: int | None = ...,
    recorded_time: bool = ...,
    until: int | None = ...,
    hold: Callable[[], object] | None = ...,
    check: bool | Questions = ...,
) -> Coroutine[Any, Any, PlayedRecording]: ...


def replay_recording(
    *recordings: Named,
    on: Running | Awaited | str | None = None,
    emulate: str | None = None,
    brokers: int | None = None,
    recorded_time: bool = False,
    until: int | None = None,
    hold: Callable[[], object] | None = None,
    check: bool | Questions = False,
) -> PlayedRecording | Coroutine[Any, Any, PlayedRecording]:
    """Play a recording, and return `played`, `differences`, `notes` and `findings`. With an asynchronous broker or
    cluster the call is awaited.

    Args:
        recordings: a file of `save_recording` or of a failing test, or a capture; of a cluster it may be one of each
            node.
        on: the broker or cluster, which should be empty; a recording of a cluster wants a cluster. "HOST:PORT" is a
            Kafka. By default a broker of its own, or a cluster, which ends with the play.
        emulate: the release of the broker of its own.
        brokers: play on a cluster of its own with so many.
        recorded_time: let as much time pass as in the recording: by the broker's clock, in a cluster by waiting.
        until: the number of the last request that is played.
        hold: called at the end, in another thread, while all connections are open.
        check: check afterwards what was lost, doubled or out of order; or the arguments of `check`:
            `check={"input": "orders", "output": "billed"}`.

    Raises:
        ValueError: a file is no recording, or can't be played there.
        OSError: a file can't be read.
    """
    if isinstance(on, KafkaBroker | KafkaCluster | RemoteBroker | str | None):
        play = _Play(recordings, on, emulate, brokers, recorded_time, until, hold, check)
        with ThreadPoolExecutor(1) as thread:  # the test's own thread may have an event loop
            return thread.submit(play.run).result()
    play = _Play(recordings, _of_threads(on), emulate, brokers, recorded_time, until, hold, check)
    return in_thread(play.run, stop=play.stop)


def _of_threads(on: Awaited) -> Running:
    """Return the form of a broker or cluster that threads use. Raises TypeError."""
    from pykafka_broker.testing.asynchronous import AsyncKafkaBroker, AsyncRemoteBroker
    from pykafka_broker.testing.asynchronous_cluster import AsyncKafkaCluster

    if isinstance(on, AsyncKafkaCluster):
        return on._cluster
    if isinstance(on, AsyncKafkaBroker | AsyncRemoteBroker):
        return on._broker
    raise TypeError(f'on must be a KafkaBroker, a KafkaCluster, a RemoteBroker or "HOST:PORT", not {on!r}')


class _Play:
    """A play on an event loop of its own, so that a broker on the test's loop is served meanwhile."""

    def __init__(
        self,
        recordings: Sequence[Named],
        on: Running | str | None,
        emulate: str | None,
        brokers: int | None,
        recorded_time: bool,
        until: int | None,
        hold: Callable[[], object] | None,
        check: bool | Questions,
    ) -> None:
        if check is not False and isinstance(on, str):
            raise TypeError("check asks a control API, which an address alone does not tell: give on a RemoteBroker")
        self._recordings = recordings
        self._on, self._emulate, self._brokers = on, emulate, brokers
        if until is not None:
            check_count("until", until)
        self._recorded_time, self._until, self._hold = recorded_time, until, hold
        self._asked: Questions | None = None if check is False else Questions() if check is True else check
        self._guard = threading.Lock()
        self._is_stopped = False
        self._cancel: Callable[[], object] | None = None

    def run(self) -> PlayedRecording:
        """Play in this thread. Raises CancelledError after `stop`."""
        recording = read_recordings(self._recordings)
        with stage(
            recording, self._on, emulate=self._emulate, brokers=self._brokers, history=self._asked is not None
        ) as found:
            target = found.target()
            player = RecordingPlayer(recording, target, self._recorded_time)
            asyncio.run(self._play(player))
            return played_of(player, target, recording, found, self._asked)

    async def _play(self, player: RecordingPlayer) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with self._guard:
            self._cancel = partial(loop.call_soon_threadsafe, task.cancel)
            if self._is_stopped:
                raise asyncio.CancelledError
        hold = self._hold
        try:
            await player.run(self._until, None if hold is None else partial(asyncio.to_thread, hold))
        finally:
            with self._guard:
                self._cancel = None

    def stop(self) -> None:
        """End the play, from any thread."""
        with self._guard:
            self._is_stopped = True
            if self._cancel is not None:
                self._cancel()


class ReplayStage:
    """The broker, the cluster or the Kafka that a recording is played on.

    running: None of a Kafka, which has no control API.
    shown_at: the address to look at.
    """

    def __init__(self, running: Running | None, address: str = "") -> None:
        self.running = running
        self._address = address
        self.shown_at = address
        if isinstance(running, KafkaCluster):
            self.shown_at = str(running.broker(running._ids[0]).control_url)
        elif running is not None:
            self.shown_at = running.control.url
            self._address = address or running.bootstrap_servers.partition(",")[0]

    def target(self) -> Target:
        """Return the target of a play, which is empty."""
        if isinstance(self.running, KafkaCluster):
            return ClusterTarget(self.running)
        host, port = split_address(self._address)
        if not port.isdecimal():
            raise BadRecording(f"{self._address}: it must be HOST:PORT")
        if self.running is None:
            return PlainTarget(host, int(port))
        process = self.running if isinstance(self.running, KafkaBroker) else None
        return ControlledTarget(self.running.control, host, int(port), process=process)

    def findings(self, asked: Questions) -> list[Finding]:
        """Return what a check finds."""
        return [] if self.running is None else self.running.check(**asked, raises=False)


@contextmanager
def stage(
    recording: Recording,
    on: Running | str | None,
    *,
    emulate: str | None = None,
    brokers: int | None = None,
    history: bool = False,
    address: str = "",
) -> Iterator[ReplayStage]:
    """Have a recording played somewhere: on a broker or cluster, on a Kafka, or for None on one that is made here.

    Args:
        emulate, brokers: of one that is made here.
        history: whether a history is written, for a check.
        address: of a broker's listener, where the one that it tells can't be reached.

    Raises:
        BadRecording: the recording can't be played there.
        TypeError: the arguments contradict each other.
    """
    if on is None:
        with _made_for(recording, emulate, brokers, history) as made:
            yield ReplayStage(made)
        return
    if emulate is not None or brokers is not None:
        raise TypeError("emulate and brokers are of a broker or cluster that is made for the play: leave out on")
    if isinstance(on, KafkaBroker | RemoteBroker) and recording.nodes:
        raise BadRecording("it is the recording of a cluster: play it on a KafkaCluster, or on the address of a Kafka")
    if isinstance(on, str):
        yield ReplayStage(None, on)
        return
    if history:
        on.history.start()
    yield ReplayStage(on, address)


def _made_for(
    recording: Recording, emulate: str | None, brokers: int | None, history: bool
) -> KafkaBroker | KafkaCluster:
    if not recording.nodes and brokers is None:
        return KafkaBroker(emulate=emulate, history=history, in_process=True)
    count = len(recording.brokers) or 1 if brokers is None else brokers
    controllers = 0 if recording.nodes and not recording.controller and not recording.unknown else 1
    return KafkaCluster(count, controllers=controllers, emulate=emulate, history=history, in_process=True)


def played_of(
    player: RecordingPlayer, target: Target, recording: Recording, where: ReplayStage, asked: Questions | None
) -> PlayedRecording:
    """Return what came of a play, and of a check."""
    notes = [recording.unknown, _left_out(player, target) if isinstance(target, PlainTarget) else ""]
    if player.early:
        notes.append(f"{player.early} answers of brokers that had not heard of a change yet are not compared")
    findings = [] if asked is None else where.findings(asked)
    return PlayedRecording(player.played, player.differences, list(filter(None, notes)), findings)


def _left_out(player: RecordingPlayer, target: PlainTarget) -> str:
    """Return what a target without a control API was not given; empty where nothing is missing."""
    calls = [name if times == 1 else f"{name} ({times} times)" for name, times in sorted(target.left_out.items())]
    parts = [f"not done there, as it has no control API: {', '.join(calls)}"] if calls else []
    if player.disturbed == 1:
        parts.append("1 answer that met a fault is not compared")
    elif player.disturbed:
        parts.append(f"{player.disturbed} answers that met a fault are not compared")
    if target.ended is not None and player.number == target.ended[0]:
        of = f"request {player.number} of {player.requests}"
        parts.append(f"played up to {of}: then {target.ended[1]}, which can't be done there")
    return "; ".join(parts)


def recorded_events(*recordings: Named) -> list[str]:
    """Return what happened in a recording, a line each with the numbers of requests, as `pykafka-broker replay
    RECORDING --list` prints it.

    Raises:
        ValueError: a file is no recording.
        OSError: a file can't be read.
    """
    from pykafka_broker.cli.recorded_events import lines

    return list(lines(read_recordings(recordings)))


def compare_recordings(recording: Named | Sequence[Named], other: Named | Sequence[Named]) -> list[str]:
    """Compare two recordings of an application, and return what its clients wrote and committed otherwise in the
    other, by client and partition, as `pykafka-broker replay RECORDING --compare OTHER --all` prints it. The recording
    of a cluster may be a list of files, one of each node.

    Raises:
        ValueError: a file is no recording, or neither has a write or a commit, so that nothing could differ.
        OSError: a file can't be read.
    """
    first, second = ([each] if isinstance(each, str | os.PathLike) else each for each in (recording, other))
    return list(differing(read_recordings(first), read_recordings(second)))


def read_recordings(paths: Sequence[Named]) -> Recording:
    """Return the recording in a file, which may be a capture, or in those of a cluster's nodes. Raises OSError or
    ValueError.
    """
    if not paths:
        raise BadRecording("no recording is named")
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
        from pykafka_broker.cli.trace import conversations, is_capture, read_packets

        if not is_capture(data):
            raise BadRecording("it is neither a recording nor a capture (pcap or pcapng)")
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
