"""`pykafka-broker replay`: a recording or a capture played again, the answers that differ, and what a check finds.

Rule: without a target the recording is played against a broker of its own, a recording of a cluster against a cluster,
which may be another release (`--emulate`). The exit code is 0 where all answers are as recorded and nothing is found, 3
where an answer differs, 4 where `--check` finds something, 1 where the recording can't be played.
"""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pykafka_broker.cli.addresses import TOKEN_VARIABLE
from pykafka_broker.cli.check import add_questions, questions
from pykafka_broker.cli.commands import CommandParser
from pykafka_broker.cli.recorded_events import lines
from pykafka_broker.testing import BrokerError, ControlError, KafkaBroker, KafkaCluster, RemoteBroker
from pykafka_broker.testing.compared_answers import differing
from pykafka_broker.testing.history import Checks
from pykafka_broker.testing.masking import Mask
from pykafka_broker.testing.playing import read_recordings
from pykafka_broker.testing.recording import Recording, lines_of
from pykafka_broker.testing.replay import RecordingPlayer
from pykafka_broker.testing.replay_targets import ClusterTarget, ControlledTarget, PlainTarget, Target

DIFFERS = 3
FOUND = 4


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `replay`. Returns the exit code."""
    own = parser()
    options = own.parse_args(arguments[1:])
    asked = questions(own, options) if options.check or options.input or options.output else None
    if options.to and (options.emulate or options.brokers is not None):
        own.error("--emulate and --brokers are for a broker or cluster of its own: leave out --to")
    if options.page and (options.to or asked is not None):
        own.error("--page plays on a broker of its own, and checks nothing")
    if asked is not None and options.to and not options.url:
        own.error("--check asks the target's control API: --url is missing")
    try:
        recording = read_recordings(options.recording)
        if options.masked is not None:
            masked = Mask(os.urandom(32)).recording(recording)
            Path(options.masked).write_text("\n".join([*lines_of(masked), ""]), encoding="utf-8")
            return 0
        if options.compare is not None:
            return _compared(recording, read_recordings([options.compare]), options.all)
        if options.list:
            print("\n".join(lines(recording)))
            return 0
        if options.to is None:
            return _on_its_own(recording, options, asked)
        if recording.nodes and options.url:
            raise ValueError("--url is the control API of one broker: leave it out for the recording of a cluster")
        host, _, port = options.to.rpartition(":")
        if not port.isdecimal():
            raise ValueError(f"--to {options.to}: it must be HOST:PORT")
        host, remote = host.strip("[]"), None
        if options.url:
            remote = RemoteBroker(options.url, os.environ.get(TOKEN_VARIABLE))
            if asked is not None:
                remote.history.start()
        target: Target = PlainTarget(host, int(port))
        if remote is not None:
            target = ControlledTarget(remote.control, host, int(port))
        player = _played(recording, target, options, options.url or options.to)
        return _told(player, options.all, target, recording, remote, asked)
    except (OSError, ValueError, ControlError, BrokerError) as error:
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename is not None else ""
        print(f"pykafka-broker replay: {where}{getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 1


def parser() -> CommandParser:
    command = CommandParser(
        prog="pykafka-broker replay",
        description="Play a recording again, and print the first answer that differs.",
    )
    recording = "a file of `save_recording` or of a failing test; a pcap or pcapng file; of a cluster one of each node"
    command.add_argument("recording", nargs="+", help=recording)
    command.option("--emulate RELEASE", "play it against this release; by default against the newest")
    to = "play it against this broker, or this Kafka; of a cluster, any broker of another one"
    command.option("--to HOST:PORT", to)
    brokers = "play it on so many brokers; by default on those of the recording"
    command.add_argument("--brokers", type=int, metavar="N", help=brokers)
    command.add_argument("--url", help="address of that broker's control API, for faults and the clock; Kafka has none")
    time = "let as much time pass there as in the recording: the broker's clock is moved, others are waited for"
    command.option("--recorded-time", time)
    command.option("--list", "play nothing: print the requests with their numbers, and what else happened")
    command.add_argument("--until", type=int, metavar="NUMBER", help="the last request to play")
    command.option("--keep", "let the broker run at the end, with all connections, until Enter is pressed")
    page = "show a line of time in the broker's page, which can be moved: the broker is as it was at each request"
    command.option("--page", page)
    command.option("--all", "print all answers that differ, and not only the first")
    compare = "play nothing: print what the clients in that recording, of a new version, write and commit otherwise"
    command.option("--compare FILE", compare)
    masked = "play nothing: write the recording there without addresses, ids, passwords and the content of records"
    command.option("--masked FILE", masked)
    command.option("--check", "check afterwards what was lost, doubled or out of order, as `check` does")
    add_questions(command)
    return command


def _compared(recording: Recording, other: Recording, of_all: bool) -> int:
    """Print what clients did otherwise in another recording; return the exit code."""
    found = list(differing(recording, other))
    print("\n".join(found if of_all else found[:1]) or "the clients wrote and committed the same")
    return DIFFERS if found else 0


def _on_its_own(recording: Recording, options: Namespace, asked: dict[str, Any] | None) -> int:
    """Play a recording on a broker of its own, or on a cluster; return the exit code."""
    history = asked is not None
    if not recording.nodes and options.brokers is None:
        with KafkaBroker(emulate=options.emulate, history=history) as broker:
            if options.page:
                return _shown(
                    recording,
                    options,
                    broker,
                    lambda: ControlledTarget(broker.control, broker.host, broker.port, process=broker),
                )
            target: Target = ControlledTarget(broker.control, broker.host, broker.port, process=broker)
            player = _played(recording, target, options, str(broker.control_url))
            return _told(player, options.all, target, recording, broker, asked)
    count = len(recording.brokers) or 1 if options.brokers is None else options.brokers
    controllers = 0 if recording.nodes and not recording.controller and not recording.unknown else 1
    with KafkaCluster(count, controllers=controllers, emulate=options.emulate, history=history) as cluster:
        if options.page:
            return _shown(recording, options, cluster, lambda: ClusterTarget(cluster))
        target = ClusterTarget(cluster)
        player = _played(recording, target, options, str(cluster.broker(1).control_url))
        return _told(player, options.all, target, recording, cluster, asked)


def _shown(
    recording: Recording, options: Namespace, played_on: KafkaBroker | KafkaCluster, target: Callable[[], Target]
) -> int:
    """Show the page until Enter is pressed; return the exit code."""
    from pykafka_broker.cli.replay_page import ReplayPage

    async def show() -> None:
        async with ReplayPage(recording, played_on, target) as page:
            await page.move(page.requests if options.until is None else options.until)
            print(f"{page.requests} requests: {page.url} has the line of time; Enter ends it", flush=True)
            await asyncio.to_thread(sys.stdin.readline)

    asyncio.run(show())
    return 0


def _played(recording: Recording, target: Target, options: Namespace, shown_at: str) -> RecordingPlayer:
    """Play a recording. shown_at: where to look at the broker at the end, until Enter is pressed."""
    player = RecordingPlayer(recording, target, options.recorded_time)

    async def hold() -> None:
        print(f"{player.played} requests played: {shown_at} shows the broker; Enter ends it", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

    asyncio.run(player.run(options.until, hold if options.keep else None))
    return player


def _told(
    player: RecordingPlayer,
    of_all: bool,
    target: Target,
    recording: Recording,
    checked: Checks | None,
    asked: dict[str, Any] | None,
) -> int:
    """Print what came of it; return the exit code."""
    for difference in player.differences if of_all else player.differences[:1]:
        print(difference)
    early = f"{player.early} answers of brokers that had not heard of a change yet are not compared" * bool(
        player.early
    )
    for told in filter(None, (recording.unknown, _left_out(player, target), early)):
        print(told)
    differing = len(player.differences)
    print(
        f"{player.played} requests played, {differing} answered otherwise"
        if differing
        else f"{player.played} requests played, all answered as recorded"
    )
    found = [] if checked is None or asked is None else checked.check(**asked, raises=False)
    for each in found:
        print("\n".join(each.lines))
    return DIFFERS if differing else FOUND if found else 0


def _left_out(player: RecordingPlayer, target: Target) -> str:
    """Return what a target without a control API was not given; empty where nothing is missing."""
    if not isinstance(target, PlainTarget):
        return ""
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
