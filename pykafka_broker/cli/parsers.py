"""The parser of each command, for those who describe commands: `help`, `completion`.

Rule: what a command takes is known to its own parser alone; nothing is listed a second time.
"""

from __future__ import annotations

import argparse

from pykafka_broker.cli.commands import COMMANDS, CONTROLLING, STORAGE, CommandParser, subcommands
from pykafka_broker.tools import TOOLS

_SHELLS = ("bash", "zsh", "fish")


def parser_of(command: str) -> argparse.ArgumentParser:
    """Of a command that there is; that of the broker itself for the empty word."""
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
    it = CommandParser(prog="pykafka-broker help", description="List the commands, or the flags of one.")
    it.add_argument("command", nargs="?", choices=sorted({*COMMANDS, *TOOLS}), metavar="COMMAND", help="only this one")
    return it


def completion_parser() -> argparse.ArgumentParser:
    it = CommandParser(
        prog="pykafka-broker completion",
        description="Print a script that completes commands and flags. For bash: "
        'eval "$(pykafka-broker completion bash)" in ~/.bashrc; for zsh the same in ~/.zshrc, behind compinit; '
        "for fish: pykafka-broker completion fish > ~/.config/fish/completions/pykafka-broker.fish",
    )
    it.add_argument("shell", choices=_SHELLS, help="whose script")
    return it


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
