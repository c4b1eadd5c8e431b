"""`pykafka-broker help [COMMAND]`: all commands in their groups, or what one of them takes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pykafka_broker.cli.commands import COMMANDS, SUMMARIES, what_was_meant
from pykafka_broker.cli.parsers import help_parser, parser_of
from pykafka_broker.tools import TOOLS

_UNKNOWN = 2


def main(arguments: Sequence[str]) -> int:
    """`arguments` begin with the word `help`; returns the exit code."""
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
