"""`pykafka-broker trace`: requests of clients with their answers, live or from a capture.

Rule: one line for each request, in the order of the answers; `--bodies` adds both messages as JSON. An unreadable
source is one line on standard error and exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pykafka_broker.cli.addresses import TOKEN_VARIABLE, URL_VARIABLE
from pykafka_broker.cli.commands import CommandParser
from pykafka_broker.control.answers import SeenRequestAnswer
from pykafka_broker.control.traffic.capture import Direction, exchanges, of_packets, read_packets
from pykafka_broker.control.traffic.faults import pattern
from pykafka_broker.control.traffic.readable import line, seen
from pykafka_broker.testing.control_client import ControlClient, ControlError
from pykafka_broker.tools import drop_output

_WAIT_MS = 60_000
_NOT_IN_TIME = 408
_NOWHERE = ("", 0)


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `trace`. Returns the exit code."""
    options = parser().parse_args(arguments[1:])
    try:
        for each in _seen(options):
            print(line(each))
            if options.bodies:
                print(
                    json.dumps({"request": each["request"], "response": each["response"]}, indent=2, ensure_ascii=False)
                )
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        drop_output()
    except (OSError, ValueError, ControlError) as error:
        where = getattr(error, "filename", None) or options.capture
        reason = getattr(error, "strerror", None) or error
        print(
            f"pykafka-broker trace: {where}: {reason}" if where else f"pykafka-broker trace: {reason}", file=sys.stderr
        )
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    command = CommandParser(
        prog="pykafka-broker trace",
        description="Print the requests of clients and the answers, live or from a capture.",
    )
    command.add_argument("capture", nargs="?", help="a pcap or pcapng file; without a file, watch a broker")
    command.option("--requests FILE", "the raw bytes that one client sent, instead of a capture")
    command.option("--responses FILE", "the raw bytes that the client received")
    command.add_argument("--url", help=f"address of the broker's control API; by default {URL_VARIABLE}")
    command.add_argument("--api", help="only this API; several with commas")
    command.add_argument("--client-id", help="only this client; * stands for any text")
    command.option("--bodies", "print requests and responses in full")
    return command


def _seen(options: argparse.Namespace) -> Iterator[SeenRequestAnswer]:
    if options.requests:
        found = exchanges(_raw(options.requests), _raw(options.responses), _NOWHERE, _NOWHERE)
    elif options.capture:
        found = of_packets(read_packets(Path(options.capture).read_bytes()))
    else:
        yield from _live(options)
        return
    yield from _fitting((seen(each, options.bodies) for each in found), options)


def _fitting(found: Iterable[SeenRequestAnswer], options: argparse.Namespace) -> Iterator[SeenRequestAnswer]:
    apis = {each.lower() for each in options.api.split(",")} if options.api else None
    client = options.client_id
    for each in found:
        if apis is not None and each["api"].lower() not in apis:
            continue
        if client is None or (each["client_id"] is not None and pattern(client).fullmatch(each["client_id"])):
            yield each


def _raw(path: str | None) -> Direction:
    direction = Direction()
    if path is not None:
        direction.add(Path(path).read_bytes(), 0)
    return direction


def _live(options: argparse.Namespace) -> Iterator[SeenRequestAnswer]:
    """Yield the requests answered from now on."""
    url = options.url or os.environ.get(URL_VARIABLE)
    if url is None:
        raise ValueError(f"a capture, --url or {URL_VARIABLE} is needed")
    client = ControlClient(url, os.environ.get(TOKEN_VARIABLE))
    last = client.call("GET", "/requests", query={"limit": 1, "waiting": False})
    after = last[0]["number"] if last else 0
    asked = {"client_id": options.client_id, "api": options.api.split(",") if options.api else None}
    asked |= {"bodies": options.bodies, "timeout_ms": _WAIT_MS, "waiting": False}
    while True:
        try:
            found = client.call("POST", "/waits/request", {**asked, "after": after}, timeout_s=2 * _WAIT_MS / 1000)
        except ControlError as error:
            if error.status != _NOT_IN_TIME:
                raise
            continue
        for each in found:
            yield each
            after = max(after, each["number"])
