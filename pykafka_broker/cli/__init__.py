"""The command `pykafka-broker`.

Rule: each mistake of the operator is one clear line on standard error, and the exit code is 2. A broker that can't
start for another reason (a taken port, a locked directory) says why and exits with 1. Standard output has the ready
line and the output of commands, nothing else. A broker that is told to stop exits with 0, also while
it starts; a signal that comes before `main` catches signals ends the process with the system's exit code.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import time
from collections.abc import Sequence

from pykafka_broker.cli.commands import COMMANDS, is_like_a_command, is_tool, module_of, without_script
from pykafka_broker.platform import speak_utf8
from pykafka_broker.tools import TOOLS, drop_output

INTERRUPTED = 130  # a shell's exit code for a command ended by Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    _prepare_streams()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments and not os.path.exists(arguments[0]):
        arguments[0] = without_script(arguments[0])
    if arguments and (arguments[0] in COMMANDS or arguments[0] in TOOLS):
        return _inspect(arguments)
    if arguments and is_like_a_command(arguments[0]) and not os.path.exists(arguments[0]):
        del arguments[1:]  # flags of the mistyped command
    from pykafka_broker.server.signals import StopSignals

    signals = StopSignals()  # before slow imports
    from pykafka_broker.server.lazy_tls import import_asyncio

    import_asyncio()
    return int(module_of("").main(arguments, signals))


def _prepare_streams() -> None:
    """Make every text printable, and replace closed streams: `print` would write to standard output for a closed error
    stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    speak_utf8()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # as for standard error


def _inspect(arguments: Sequence[str]) -> int:
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        drop_output()
        if error.errno == errno.EPIPE:  # `| head` has seen enough
            return 0
        print(f"pykafka-broker: standard output: {error.strerror}", file=sys.stderr)
        return 1


def _run(arguments: Sequence[str]) -> int:
    if is_tool(arguments):
        from pykafka_broker.tools.frame import main as tool

        return tool(arguments[0], arguments[1:])
    module = module_of(arguments[0])
    if arguments[0] == "log":
        return int(module.run(arguments[1:], print, int(time.time() * 1000), complain=_complain))
    return int(module.main(arguments))


def _complain(line: str) -> None:
    print(f"pykafka-broker log: {line}", file=sys.stderr)
