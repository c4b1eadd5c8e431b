"""`pykafka-broker replay`: a recording or a capture played again, the answers that differ, and what a check finds.

Rule: without a target the recording is played against a broker of its own, which may be another release
(`--emulate`). The exit code is 0 where all answers are as recorded and nothing is found, 3 where an answer differs, 4
where `--check` finds something, 1 where the recording can't be played.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.cli.addresses import TOKEN_VARIABLE
from pykafka_broker.cli.check import add_questions, questions
from pykafka_broker.cli.commands import CommandParser
from pykafka_broker.cli.trace import Conversation, conversations, read_packets
from pykafka_broker.control.history.findings import clock
from pykafka_broker.control.traffic.exchange import Exchange, Mark
from pykafka_broker.control.traffic.readable import line, seen
from pykafka_broker.testing import BrokerError, ControlError, KafkaBroker, RemoteBroker
from pykafka_broker.testing.history import Checks
from pykafka_broker.testing.masking import Mask
from pykafka_broker.testing.partial_recordings import completed
from pykafka_broker.testing.recording import Recorded, Recording, lines_of, read_recording
from pykafka_broker.testing.replay import RecordingPlayer
from pykafka_broker.testing.replay_targets import ControlledTarget, PlainTarget, Target

DIFFERS = 3
FOUND = 4
_OTHER = " " * 7  # in the place of a request's number
_OF_A_CAPTURE = "a capture tells nothing of what was there before: topics are made as clients were told of them"


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `replay`. Returns the exit code."""
    own = parser()
    options = own.parse_args(arguments[1:])
    asked = questions(own, options) if options.check or options.input or options.output else None
    if asked is not None and options.to and not options.url:
        own.error("--check asks the target's control API: --url is missing")
    try:
        recording = _read(options.recording)
        if options.masked is not None:
            masked = Mask(os.urandom(32)).recording(recording)
            Path(options.masked).write_text("\n".join([*lines_of(masked), ""]), encoding="utf-8")
            return 0
        if options.list:
            print("\n".join(_lines(recording)))
            return 0
        if options.to is None:
            with KafkaBroker(emulate=options.emulate, history=asked is not None) as broker:
                target: Target = ControlledTarget(broker.control)
                keep = str(broker.control_url) if options.keep else None
                player = _played(recording, broker.host, broker.port, target, options.until, keep)
                return _told(player, options.all, target, recording, broker, asked)
        host, _, port = options.to.rpartition(":")
        if not port.isdecimal():
            raise ValueError(f"--to {options.to}: it must be HOST:PORT")
        host, remote = host.strip("[]"), None
        if options.url:
            remote = RemoteBroker(options.url, os.environ.get(TOKEN_VARIABLE))
            if asked is not None:
                remote.history.start()
        target = PlainTarget(host, int(port)) if remote is None else ControlledTarget(remote.control)
        keep = (options.url or options.to) if options.keep else None
        player = _played(recording, host, int(port), target, options.until, keep)
        return _told(player, options.all, target, recording, remote, asked)
    except (OSError, ValueError, ControlError, BrokerError) as error:
        print(f"pykafka-broker replay: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 1


def parser() -> CommandParser:
    command = CommandParser(
        prog="pykafka-broker replay",
        description="Play a recording again, and print the first answer that differs.",
    )
    command.add_argument("recording", help="a file of `save_recording` or of a failing test; a pcap or pcapng file")
    command.option("--emulate RELEASE", "play it against this release; by default against the newest")
    command.option("--to HOST:PORT", "play it against this broker, or this Kafka")
    command.add_argument("--url", help="address of that broker's control API, for faults and the clock; Kafka has none")
    command.option("--list", "play nothing: print the requests with their numbers, and what else happened")
    command.add_argument("--until", type=int, metavar="NUMBER", help="the last request to play")
    command.option("--keep", "let the broker run at the end, with all connections, until Enter is pressed")
    command.option("--all", "print all answers that differ, and not only the first")
    masked = "play nothing: write the recording there without addresses, ids, passwords and the content of records"
    command.option("--masked FILE", masked)
    command.option("--check", "check afterwards what was lost, doubled or out of order, as `check` does")
    add_questions(command)
    return command


def _read(path: str) -> Recording:
    """Return the recording in a file, which may be a capture. Raises OSError or ValueError."""
    data = Path(path).read_bytes()
    if not data.startswith(b"{"):
        return completed(Recording([], _captured(conversations(read_packets(data))), _OF_A_CAPTURE))
    recording = read_recording(data.decode().splitlines())
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


def _played(
    recording: Recording, host: str, port: int, target: Target, until: int | None, keep: str | None
) -> RecordingPlayer:
    """Play a recording. keep: where to look at the broker at the end, until Enter is pressed."""
    player = RecordingPlayer(recording, host, port, target)

    async def hold() -> None:
        print(f"{player.played} requests played: {keep} shows the broker; Enter ends it", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

    asyncio.run(player.run(until, None if keep is None else hold))
    return player


def _lines(recording: Recording) -> Iterator[str]:
    """Yield what happened, with the time since the beginning and the number of each request."""
    number = 0
    for each in recording.events:
        if each.call is not None:
            method, target, body = each.call
            yield f"{_OTHER}{clock(each.at // 1000)} control API: {method} {target} {body}".rstrip()
        elif each.is_close:
            yield f"{_OTHER}{clock(each.at // 1000)} connection:{each.connection} is closed"
        else:
            number += 1
            context = ConnectionContext(each.connection, "", ("", 0), ("connection", each.connection))
            answer = None if each.response is None else (len(each.response).to_bytes(4, "big"), each.response)
            took_ns = 0 if answer is None else (each.answered - each.at) * 1000
            mark = Mark(len(each.request), each.fault)
            exchange = Exchange((each.at // 1000, context, each.request, answer, took_ns), number, mark)
            yield f"{number:6} {line(seen(exchange, False))}"


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
    for told in filter(None, (recording.unknown, _left_out(player, target))):
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
    if not isinstance(target, PlainTarget) or not (target.left_out or player.disturbed):
        return ""
    calls = [name if times == 1 else f"{name} ({times} times)" for name, times in sorted(target.left_out.items())]
    parts = [f"not done there, as it has no control API: {', '.join(calls)}"] if calls else []
    if player.disturbed == 1:
        parts.append("1 answer that met a fault is not compared")
    elif player.disturbed:
        parts.append(f"{player.disturbed} answers that met a fault are not compared")
    return "; ".join(parts)
