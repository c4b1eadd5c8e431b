"""`pykafka-broker proxy --to HOST:PORT`: the request log and the faults in front of another broker.

Rule: the ready line and the stop are those of a broker.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from pykafka_broker.cli.addresses import control_address
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
        to, listen = _address("--to", options.to), _address("--listen", options.listen)
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
    command = CommandParser(prog="pykafka-broker proxy", description="Watch and disturb the clients of another broker.")
    command.add_argument("--to", required=True, metavar="HOST:PORT", help="a broker of the cluster behind the proxy")
    command.add_argument(
        "--listen", default=f"{_LOOPBACK}:0", metavar="HOST:PORT", help="where clients connect; port 0 takes a free one"
    )
    command.add_argument("--control", default=f"{_LOOPBACK}:0", metavar="HOST:PORT", help="where the control API is")
    command.add_argument("--control-token-file", metavar="FILE", help="the token that whoever controls the proxy shows")
    return command


def _address(option: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise UsageError(f"{option} {text}: it must be HOST:PORT")
    return host.strip("[]") or _LOOPBACK, int(port)


def _say(line: str) -> None:
    print(line, flush=True)
