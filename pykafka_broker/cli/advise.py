"""`pykafka-broker advise`: what clients should change, from their requests.

Rule: the source is the request log of a broker or a proxy with a control API, or a capture, as of `trace`. Nothing is
printed of a client with good habits. An unreadable source is one line on standard error and exit code 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from pykafka_broker.cli.addresses import URL_VARIABLE, control_client
from pykafka_broker.cli.commands import CommandParser, error_line
from pykafka_broker.cli.trace import of_packets, read_packets
from pykafka_broker.control.answers import Advice
from pykafka_broker.control.traffic.advice import Adviser
from pykafka_broker.control.traffic.readable import printable
from pykafka_broker.testing.control_client import ControlError


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `advise`. Returns the exit code."""
    own = parser()
    options = own.parse_args(arguments[1:])
    if options.capture and options.url:
        own.error("--url names a broker: leave it out, or the capture")
    try:
        found = _of_capture(options.capture) if options.capture else _of_broker(options.url)
    except (OSError, ValueError, ControlError) as error:
        print(f"pykafka-broker advise: {error_line(error, options.capture)}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    for (client_id, software), advice in groupby(found, lambda each: (each["client_id"], each["software"])):
        print(printable(f"{client_id or 'without a client id'}{f' ({software})' if software else ''}"))
        for each in advice:
            print("\n".join(f"  {line}" for line in lines(each)))
    return 0


def parser() -> CommandParser:
    command = CommandParser(
        prog="pykafka-broker advise",
        description="Say what clients should change: from a broker's last requests, or from a capture.",
    )
    command.add_argument("capture", nargs="?", help="a pcap or pcapng file; without a file, ask a broker")
    command.add_argument("--url", help=f"address of the broker's control API; by default {URL_VARIABLE}")
    command.option("--json", "print JSON")
    return command


def lines(advice: Advice) -> list[str]:
    """Return an advice as text."""
    shown = [f"   requests: {', '.join(map(str, advice['requests']))}"] if advice["requests"] else []
    return [f"{advice['rule']}: {advice['seen']}", f"   {advice['since']}", f"   -> {advice['change']}", *shown]


def _of_capture(path: str) -> list[Advice]:
    adviser = Adviser()
    for exchange in of_packets(read_packets(Path(path).read_bytes())):
        adviser.note(exchange)
    return adviser.advice()


def _of_broker(given: str | None) -> list[Advice]:
    found: list[Advice] = control_client(parser(), given, needs="a capture").call("GET", "/advice")
    return found
