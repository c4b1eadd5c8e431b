"""`pykafka-broker replay`: a recording played again, and the answers that differ.

Rule: without a target the recording is played against a broker of its own, which may be another release
(`--emulate`). The exit code is 0 where all answers are as recorded, 3 where one differs, 1 where it can't be played.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from pykafka_broker.cli.addresses import TOKEN_VARIABLE
from pykafka_broker.cli.commands import CommandParser
from pykafka_broker.testing import BrokerError, ControlError, KafkaBroker
from pykafka_broker.testing.control_client import ControlClient
from pykafka_broker.testing.replay import Recording, RecordingPlayer, read_recording

DIFFERS = 3


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `replay`. Returns the exit code."""
    options = parser().parse_args(arguments[1:])
    try:
        with open(options.recording, encoding="utf-8") as file:
            recording = read_recording(file)
        if options.to is not None:
            host, _, port = options.to.rpartition(":")
            if not port.isdecimal():
                raise ValueError(f"--to {options.to}: it must be HOST:PORT")
            control = ControlClient(options.url, os.environ.get(TOKEN_VARIABLE)) if options.url else None
            return _told(_played(recording, host.strip("[]"), int(port), control), options.all)
        with KafkaBroker(emulate=options.emulate) as broker:
            return _told(_played(recording, broker.host, broker.port, broker.control), options.all)
    except (OSError, ValueError, ControlError, BrokerError) as error:
        print(f"pykafka-broker replay: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    command = CommandParser(
        prog="pykafka-broker replay",
        description="Play a recording again, and print the first answer that differs.",
    )
    command.add_argument("recording", help="a file that `save_recording` or a failing test has left")
    command.option("--emulate RELEASE", "play it against this release; by default against the newest")
    command.option("--to HOST:PORT", "play it against this broker")
    command.add_argument("--url", help="address of that broker's control API, for topics and faults of the recording")
    command.option("--all", "print all answers that differ, and not only the first")
    return command


def _played(recording: Recording, host: str, port: int, control: ControlClient | None) -> RecordingPlayer:
    replay = RecordingPlayer(recording, host, port, control)
    asyncio.run(replay.run())
    return replay


def _told(replay: RecordingPlayer, of_all: bool) -> int:
    for difference in replay.differences if of_all else replay.differences[:1]:
        print(difference)
    differing = len(replay.differences)
    print(
        f"{replay.played} requests played, {differing} answered otherwise"
        if differing
        else f"{replay.played} requests played, all answered as recorded"
    )
    return DIFFERS if differing else 0
