"""`pykafka-broker help [COMMAND]`: all commands in their groups, or the flags of one; the parser of each command.

Rule: only a command's own parser knows what the command takes; nothing is listed a second time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pykafka_broker.cli.commands import (
    COMMANDS,
    CONTROLLING,
    STORAGE,
    SUMMARIES,
    CommandParser,
    subcommands,
    what_was_meant,
)
from pykafka_broker.tools import TOOLS

# -- the parser of each command


_SHELLS = ("bash", "zsh", "fish")


def parser_of(command: str) -> argparse.ArgumentParser:
    """Return the parser of a command, or of the broker for the empty word."""
    if command in TOOLS:
        from pykafka_broker.tools.frame import parser_of as of_tool

        return of_tool(command)
    if command in STORAGE:
        from pykafka_broker.cli.format import parser as storage

        return _within(storage(), command)
    if command in CONTROLLING:
        from pykafka_broker.cli.control import parser as control

        return control() if command == "control" else _within(control(), command)
    return _OWN[command]()


def help_parser() -> argparse.ArgumentParser:
    command = CommandParser(prog="pykafka-broker help", description="List the commands, or the flags of one.")
    command.add_argument(
        "command", nargs="?", choices=sorted({*COMMANDS, *TOOLS}), metavar="COMMAND", help="only this one"
    )
    return command


def completion_parser() -> argparse.ArgumentParser:
    command = CommandParser(
        prog="pykafka-broker completion",
        description="Print a script that completes commands and flags. For bash: "
        'eval "$(pykafka-broker completion bash)" in ~/.bashrc; for zsh the same in ~/.zshrc, behind compinit; '
        "for fish: pykafka-broker completion fish > ~/.config/fish/completions/pykafka-broker.fish",
    )
    command.add_argument("shell", choices=_SHELLS, help="whose script")
    return command


def _within(parser: argparse.ArgumentParser, command: str) -> argparse.ArgumentParser:
    return subcommands(parser)[command]


def _serve() -> argparse.ArgumentParser:
    from pykafka_broker.cli.serve import parser

    return parser()


def _log() -> argparse.ArgumentParser:
    from pykafka_broker.log.tool.command import parser

    return parser()


def _trace() -> argparse.ArgumentParser:
    from pykafka_broker.cli.trace import parser

    return parser()


def _proxy() -> argparse.ArgumentParser:
    from pykafka_broker.cli.proxy import parser

    return parser()


def _cluster() -> argparse.ArgumentParser:
    from pykafka_broker.cli.cluster import parser

    return parser()


_OWN = {
    "": _serve,
    "log": _log,
    "trace": _trace,
    "proxy": _proxy,
    "cluster": _cluster,
    "help": help_parser,
    "completion": completion_parser,
}


# -- the command


_UNKNOWN = 2


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `help`. Returns the exit code."""
    if len(arguments) == 1:
        print(
            "pykafka-broker [server.properties] [options]    serve until SIGTERM or Ctrl-C; --help shows the options\n"
        )
        for title, commands in SUMMARIES.items():
            print(f"{title}:")
            for name, summary in sorted(commands.items()):
                print(f"  {name:<28}{summary}")
            print()
        print("pykafka-broker help COMMAND, or pykafka-broker COMMAND --help, shows what a command takes.")
        return 0
    if arguments[1] not in COMMANDS and arguments[1] not in TOOLS and not arguments[1].startswith("-"):
        print(f"pykafka-broker help: there is no {arguments[1]}: {what_was_meant(arguments[1])}", file=sys.stderr)
        return _UNKNOWN
    parser_of(help_parser().parse_args(arguments[1:]).command).print_help()
    return 0
