"""`pykafka-broker proxy --to HOST:PORT`: the request log and the faults in front of another broker.

Rule: the ready line and the stop are those of a broker.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from pykafka_broker.cli.addresses import control_address, host_and_port
from pykafka_broker.cli.commands import CommandParser
from pykafka_broker.cli.log_lines import log_to_stderr
from pykafka_broker.cli.settings import UsageError
from pykafka_broker.control.proxy import Proxy
from pykafka_broker.server.event_loop import new_event_loop
from pykafka_broker.server.signals import StopSignals

_LOOPBACK = "127.0.0.1"


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `proxy`. Returns the exit code."""
    signals = StopSignals()
    options = parser().parse_args(arguments[1:])
    log_to_stderr("INFO")
    loop = new_event_loop()
    try:
        to, listen = host_and_port("--to", options.to), host_and_port("--listen", options.listen)
        control = control_address(options.control, options.control_token_file)
        stopped = asyncio.Event()
        signals.hand_to(lambda: loop.call_soon_threadsafe(stopped.set))
        loop.run_until_complete(Proxy(loop, to, *listen).run(control, _say, stopped))
    except UsageError as error:
        print(f"pykafka-broker proxy: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"pykafka-broker proxy: cannot start: {error.strerror or error}", file=sys.stderr)
        return 1
    finally:
        signals.ignore()
        loop.close()
    return 0


def parser() -> argparse.ArgumentParser:
    command = CommandParser(
        prog="pykafka-broker proxy",
        description="Record the requests of clients, and inject faults, in front of another broker.",
    )
    command.option("--to HOST:PORT", "a broker of the cluster behind the proxy", required=True)
    command.option("--listen HOST:PORT", "where clients connect; port 0 takes a free one", default=f"{_LOOPBACK}:0")
    command.option("--control HOST:PORT", "where the control API listens", default=f"{_LOOPBACK}:0")
    command.option("--control-token-file FILE", "the file with the token that clients of the control API must send")
    return command


def _say(line: str) -> None:
    print(line, flush=True)
