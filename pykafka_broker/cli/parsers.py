"""The parser of each command, for those who describe commands: `help`, `completion`.

Rule: what a command takes is known to its own parser alone; nothing is listed a second time. A mistake is told in one
line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from pykafka_broker.cli.commands import COMMANDS, CONTROLLING, STORAGE
from pykafka_broker.tools import TOOLS

_SHELLS = ("bash", "zsh", "fish")


BAD_USAGE = 2


class CommandParser(argparse.ArgumentParser):
    """A parser of the broker's own commands. A mistake ends the process with one line and without the usage."""

    def parse_args(  # type: ignore[override]  # none of its other forms is used
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        options, rest = self.parse_known_args(args, namespace)
        if rest:
            self.error(f"{rest[0]} is not a recognized option{self._meant(rest[0])}")
        return options

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}", file=sys.stderr)
        raise SystemExit(BAD_USAGE)

    def _meant(self, flag: str) -> str:
        known = [text for action in flags(self) for text in action.option_strings]
        for command in subcommands(self).values():
            known += [text for action in flags(command) for text in action.option_strings]
        meant = get_close_matches(flag.partition("=")[0], known, n=1, cutoff=0.7)
        return f": did you mean {meant[0]}?" if meant else f"; {self.prog} --help lists them"


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


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The words that it takes first, each with its own parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def flags(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Those that are told to anybody."""
    for action in parser._actions:
        if action.option_strings and action.help != argparse.SUPPRESS:
            yield action


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
