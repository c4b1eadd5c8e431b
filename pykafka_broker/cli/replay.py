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
from collections.abc import Sequence

from pykafka_broker.cli.addresses import TOKEN_VARIABLE
from pykafka_broker.cli.check import add_questions, questions
from pykafka_broker.cli.commands import CommandParser, error_line
from pykafka_broker.testing import BrokerError, ControlError, KafkaBroker, KafkaCluster, RemoteBroker
from pykafka_broker.testing.history import Questions
from pykafka_broker.testing.masking import mask_recording
from pykafka_broker.testing.playing import (
    PlayedRecording,
    ReplayStage,
    compare_recordings,
    played_of,
    read_recordings,
    recorded_events,
    stage,
)
from pykafka_broker.testing.recording import Recording
from pykafka_broker.testing.replay import RecordingPlayer
from pykafka_broker.tools.console_producer import lines_of

DIFFERS = 3
FOUND = 4


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `replay`. Returns the exit code."""
    own = parser()
    options = own.parse_args(arguments[1:])
    asked: Questions | None = questions(own, options)
    if not any((options.check, options.input, options.seen_by, options.allow, options.forbid, options.empty_ok)):
        asked = None
    if options.to and (options.emulate or options.brokers is not None):
        own.error("--emulate and --brokers are for a broker or cluster of its own: leave out --to")
    if options.url and not options.to:
        own.error("--url is of the broker that --to names")
    if options.page and (options.to or asked is not None):
        own.error("--page plays on a broker of its own, and checks nothing")
    first = 0 if options.page else 1  # the page may begin before all requests
    if options.until is not None and options.until < first:
        own.error(f"--until {options.until}: the first request has the number 1")
    if asked is not None and options.to and not options.url:
        own.error("--check asks the target's control API: --url is missing")
    try:
        if options.masked is not None:
            mask_recording(*options.recording, to=options.masked)
            return 0
        if options.compare is not None:
            return _compared(compare_recordings(options.recording, options.compare), options.all)
        if options.list:
            print("\n".join(recorded_events(*options.recording)))
            return 0
        return _played(read_recordings(options.recording), options, asked)
    except (OSError, ValueError, ControlError, BrokerError) as error:
        print(f"pykafka-broker replay: {error_line(error)}", file=sys.stderr)
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


def _compared(found: list[str], of_all: bool) -> int:
    """Print what clients did otherwise in another recording; return the exit code."""
    print("\n".join(found if of_all else found[:1]) or "the clients wrote and committed the same")
    return DIFFERS if found else 0


def _played(recording: Recording, options: Namespace, asked: Questions | None) -> int:
    """Play a recording, and print what came of it; return the exit code."""
    if recording.nodes and options.url:
        raise ValueError("--url is the control API of one broker: leave it out for the recording of a cluster")
    on: RemoteBroker | str | None = options.to
    if options.to and options.url:
        on = RemoteBroker(options.url, os.environ.get(TOKEN_VARIABLE))
    own = {"emulate": options.emulate, "brokers": options.brokers}
    with stage(recording, on, **own, history=asked is not None, address=options.to or "") as where:
        if options.page:
            return _shown(recording, options, where)
        target = where.target()
        player = RecordingPlayer(recording, target, options.recorded_time)

        async def hold() -> None:
            print(f"{player.played} requests played: {where.shown_at} shows the broker; Enter ends it", flush=True)
            await anext(lines_of(sys.stdin), None)

        asyncio.run(player.run(options.until, hold if options.keep else None))
        return _print_outcome(played_of(player, target, recording, where, asked), options.all)


def _shown(recording: Recording, options: Namespace, where: ReplayStage) -> int:
    """Show the page until Enter is pressed; return the exit code."""
    from pykafka_broker.cli.replay_page import ReplayPage

    played_on = where.running
    assert isinstance(played_on, KafkaBroker | KafkaCluster)  # --page and --to exclude each other

    async def show() -> None:
        async with ReplayPage(recording, played_on, where.target) as page:
            await page.move(page.requests if options.until is None else options.until)
            print(f"{page.requests} requests: {page.url} has the line of time; Enter ends it", flush=True)
            await anext(lines_of(sys.stdin), None)

    asyncio.run(show())
    return 0


def _print_outcome(replay: PlayedRecording, of_all: bool) -> int:
    """Print what came of it; return the exit code."""
    differing = len(replay.differences)
    for told in (*replay.differences[: None if of_all else 1], *replay.notes):
        print(told)
    how = f"{differing} answered otherwise" if differing else "all answered as recorded"
    print(f"{replay.played} requests played, {how}")
    for each in replay.findings:
        print("\n".join(each.lines))
    return DIFFERS if differing else FOUND if replay.findings else 0
