"""The first words that `pykafka-broker` knows. Rule: any other word is a file of settings, or a mistake, which is
reported in one line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NoReturn

from pykafka_broker.tools import TOOLS, OptionParser

CONTROLLING = ("control", "seed", "dump")
STORAGE = ("format", "info", "random-uuid", "version-mapping", "feature-dependencies")
SUMMARIES = {  # in the groups in which `pykafka-broker help` shows them
    "the broker": {
        "configs": "list every config key of Kafka and its effect in this broker",
        "cluster": "start several brokers and a controller; with cluster-id, api-versions and others, Kafka's tool",
        "proxy": "record the requests of clients, and inject faults, in front of another broker",
        "trace": "print the requests of clients and the answers",
        "advise": "say what clients should change, from their requests",
        "replay": "play a recording again, and print the first answer that differs",
        "log": "dump, verify or repair a data directory that no broker is using",
        "help": "list all commands, or the flags of one command",
        "completion": "print a script that completes commands and flags in bash, zsh or fish",
    },
    "control, of a broker with --control": {
        "control": "call the control API of a broker",
        "check": "find anomalies in what clients did, at a broker with --history",
        "seed": "create the topics, records and offsets of a file of JSON lines",
        "mcp": "offer the control API as tools for agents (Model Context Protocol)",
        "dump": "print topics, records and offsets as JSON lines, which seed takes",
    },
    "storage": {
        "format": "prepare the data directories of a new node, and create its first users",
        "info": "describe the data directories of a node",
        "random-uuid": "print a new cluster id",
        "version-mapping": "print the feature levels of a release",
        "feature-dependencies": "print the features that a feature needs",
    },
    "tools, with the flags of Kafka's scripts": TOOLS,
}
COMMANDS = tuple(name for group in SUMMARIES.values() if group is not TOOLS for name in group)
MODULES = {  # with the `main` and the `parser` of each command, imported when the command is called
    "": "cli.serve",
    "configs": "cli.configs",
    "check": "cli.check",
    "cluster": "cli.cluster",
    "proxy": "cli.proxy",
    "trace": "cli.trace",
    "advise": "cli.advise",
    "replay": "cli.replay",
    "log": "log.tool.command",
    "mcp": "cli.mcp",
    "help": "cli.help",
    "completion": "cli.help",
    **dict.fromkeys(CONTROLLING, "cli.control"),
    **dict.fromkeys(STORAGE, "cli.format"),
}

BAD_USAGE = 2
_KEYS_FLAGS = ("--scope", "--effect")
OWN_FIRST = ("cluster",)  # names of tools and of commands of our own, whose help is the own command's


def module_of(command: str) -> Any:
    """Import the module of a command, the broker's own for the empty word."""
    return import_module(f"pykafka_broker.{MODULES[command]}")


def is_tool(arguments: Sequence[str]) -> bool:
    """Return whether the words call a tool.

    `configs` with flags of Kafka's tool is the tool; without them it lists all config keys. `cluster` with a word
    behind is the tool; without one it starts brokers.
    """
    if arguments[0] == "cluster":
        return len(arguments) > 1 and not arguments[1].startswith("-")
    if arguments[0] != "configs":
        return arguments[0] in TOOLS
    flags = [each.partition("=")[0] for each in arguments[1:] if each.startswith("-")]
    return bool(flags) and not any(each in _KEYS_FLAGS for each in flags)


def is_like_a_command(word: str) -> bool:
    """Return whether a word looks like a command: a file usually has a dot or a slash."""
    return word.replace("-", "").isalpha() and word[0] != "-"


def without_script(word: str) -> str:
    """Return the command that the name of one of Kafka's scripts means: `topics` of `kafka-topics.sh`."""
    return word.removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")


_OTHER_WORDS = {
    "produce": "console-producer",
    "consume": "console-consumer",
    "version": "--version",
    "dump-log": "log dump",
    "storage": "format or info",
    "mirror-maker": "mirror",
}
_OTHER_FLAGS = {"--port": "--listen", "--host": "--listen", "--bind": "--listen", "--bootstrap-server": "--url"}
_SERVING = ("serve", "start", "run", "broker", "server-start")


def what_was_meant(word: str) -> str:
    """Return a hint for a mistyped command, or for another name of a command."""
    import difflib  # takes 1 ms, which no other start needs

    if word.lower() in _SERVING:
        return "pykafka-broker [server.properties] serves, without a command"
    if word.lower() in _OTHER_WORDS:
        return f"did you mean {_OTHER_WORDS[word.lower()]}?"
    meant = difflib.get_close_matches(word.lower(), (*COMMANDS, *TOOLS), n=1, cutoff=0.7)
    return f"did you mean {meant[0]}?" if meant else "pykafka-broker help lists the commands"


class CommandParser(OptionParser):
    """A parser of the broker's own commands. A mistake ends the process with a single line, without the usage.

    Flags are given in full: `--list`, of a tool, is not `--listen`.
    """

    def __init__(self, **named: Any) -> None:
        super().__init__(**named, allow_abbrev=False)

    def parse_known_args(  # type: ignore[override]  # none of its other forms is used
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse all arguments, with the parser of a subcommand those of the subcommand."""
        options, rest = super().parse_known_args(args, namespace)
        if rest:
            known = (each for each in rest if self.prog == "pykafka-broker" and (each in COMMANDS or each in TOOLS))
            if command := next(known, None):
                self.error(f"the command comes first: {self.prog} {command} {rest[0]} ...")
            self.error(f"{rest[0]} is not a recognized option{self._meant(rest[0])}")
        return options, []

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}", file=sys.stderr)
        raise SystemExit(BAD_USAGE)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse an unknown subcommand with the nearest ones: all of them are in the help."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            import difflib

            meant = difflib.get_close_matches(value, action.choices, n=3)
            told = f"did you mean {' or '.join(meant)}?" if meant else f"{self.prog} --help lists them"
            self.error(f"there is no {str(action.metavar or action.dest).lower()} {value}; {told}")
        super()._check_value(action, value)

    def _meant(self, flag: str) -> str:
        import difflib  # takes 1 ms, which no other start needs

        known = [text for action in flags(self) for text in action.option_strings]
        name = flag.partition("=")[0]
        for action in self._actions:
            if not action.option_strings and name == f"--{action.dest.replace('_', '-')}":
                return f": give {action.metavar or action.dest} without {name}"
        other = _OTHER_FLAGS.get(name, "")
        meant = [other] if other in known else difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        return f": did you mean {meant[0]}?" if meant else f"; {self.prog} --help lists them"


def error_line(error: Exception, where: str | None = None) -> str:
    """Return an error in a line, behind the file that it names, or else behind `where`."""
    where = getattr(error, "filename", None) or where
    reason = getattr(error, "strerror", None) or error
    return f"{where}: {reason}" if where else str(reason)


def parser_for(command: str) -> CommandParser:
    """Return a parser of a command without flags yet, with the summary as the description."""
    [summary] = (names[command] for names in SUMMARIES.values() if names is not TOOLS and command in names)
    return CommandParser(prog=f"pykafka-broker {command}", description=f"{summary[0].upper()}{summary[1:]}.")


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the first words taken by a parser, each with a parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def flags(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the flags shown in the help."""
    for action in parser._actions:
        if action.option_strings and action.help != argparse.SUPPRESS:
            yield action
