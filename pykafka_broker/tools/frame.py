"""What all tools have in common: their flags, how they connect, where they print, and how they end.

Rule: a wrong use is one line on standard error and exit code 1, as with Kafka's scripts; so is what a broker refuses
and what can't be reached, without a stack trace. `--json` replaces what is printed on standard output by one JSON
value.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import logging
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn, TextIO

from pykafka_broker import __version__
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, Refused, TimedOut, Unusable
from pykafka_broker.client.properties import read_properties
from pykafka_broker.protocol.runtime import EncodeError
from pykafka_broker.tools import drop_output
from pykafka_broker.tools.progress import NOTHING, Bar, bar

FAILED = 1  # wrong usage too, as with Kafka's scripts
INTERRUPTED = 130
_GLADLY_HELPING = ("features", "metadata-quorum", "mirror")  # their --help ends with 0, as in Kafka
_HELPING_AT_ONCE = ("producer-perf-test", "verifiable-consumer", "verifiable-producer")  # without any flag, with 0
_BY_ARGPARSE4J = ("transactions", *_GLADLY_HELPING, *_HELPING_AT_ONCE)
_LOG = logging.getLogger("pykafka_broker")


class UsageError(Exception):
    """The flags make no sense; the text says why, in the words of Kafka's script. hint: what may have been meant."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class Misread(UsageError):
    """A flag has a value that can't be read, or more values than one. Kafka's scripts read values late, and some tell
    such a fault as they tell a failed request: their modules say how that begins (`FAILURE`).
    """


class _Once(argparse.Action):
    """A flag with a value. Kafka's scripts refuse one that is given twice."""

    def __call__(self, parser: Any, options: argparse.Namespace, value: Any, flag: str | None = None) -> None:
        given: set[str] = vars(options).setdefault("_given", set())
        if value == self.const is not None:  # a flag that may have a value, and has none
            value = getattr(options, self.dest) or value
        elif flag is not None and self.dest in given:
            raise Misread(f"Found multiple arguments for option {_bare(flag)}, but you asked for only one")
        else:
            given.add(self.dest)
        setattr(options, self.dest, value)


class _Help(argparse.Action):
    """`--help`: a wrong use to most of Kafka's scripts, which print it on standard error, and fail."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        name = parser.prog.rpartition(" ")[2]
        parser.print_help(sys.stdout if name in _BY_ARGPARSE4J else sys.stderr)
        parser.exit(0 if name in _GLADLY_HELPING else FAILED)


class ToolParser(argparse.ArgumentParser):
    """Flags as Kafka's scripts take them: `--flag value` and `--flag=value`.

    Most of them (JOpt Simple) take `-flag` too, and each value once; some (argparse4j) take flags that are shortened
    where that is clear, and the last one of several values.
    """

    def __init__(self, name: str, summary: str) -> None:
        self._shortens = name in _BY_ARGPARSE4J
        super().__init__(
            prog=f"pykafka-broker {name}", description=summary, add_help=False, allow_abbrev=self._shortens
        )
        if not self._shortens:
            self.register("action", None, _Once)
        self._refuses_words = self._shortens
        self._in_full: dict[str, str] = {}  # commands, by how they were shortened
        self.add_argument("-h", "--help", action=_Help, nargs=0, help="show this, and exit")
        self.add_argument("--version", action="version", version=__version__)
        self.add_argument("--json", action="store_true", help="print what was found or done as JSON")

    def add_connection(self, *, controllers: bool = False, config: str = "--command-config") -> None:
        """`--bootstrap-server` and the file of properties of the client; `controllers`: `--bootstrap-controller`."""
        where = self.add_mutually_exclusive_group() if controllers else self
        where.add_argument("--bootstrap-server", metavar="HOST:PORT,...", help="brokers to connect to")
        if controllers:
            where.add_argument("--bootstrap-controller", metavar="HOST:PORT,...", help="controllers to connect to")
        self.add_argument(config, dest="command_config", metavar="FILE", help="properties of the client")

    def add_commands(self) -> Commands:
        """The tool has commands of its own (`transactions list`), one of which has to be given: `options.command`."""
        return Commands(self)

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Words that belong to no flag are left alone, as Kafka's scripts do it. Raises UsageError."""
        options, rest = self.parse_known_args(self._joined(arguments))
        unknown = [each for each in rest if each.startswith("-") or self._refuses_words]
        if unknown:
            raise UsageError(self._unrecognized(unknown[0]), self._meant(unknown[0]))
        if self._in_full:
            options.command = self._in_full[options.command]
        return options

    def _unrecognized(self, flag: str) -> str:
        if self._shortens:
            return f"unrecognized arguments: '{flag}'"
        return f"{_bare(flag.partition('=')[0])} is not a recognized option"

    def _meant(self, flag: str) -> str:
        meant = get_close_matches(flag.partition("=")[0], self._option_string_actions, n=1, cutoff=0.7)
        return f"; did you mean {meant[0]}?" if meant else ""

    def _joined(self, arguments: Sequence[str]) -> list[str]:
        """What stands behind a flag with a value is its value, also where it begins with a dash."""
        found: list[str] = []
        for each in arguments:
            before = self._option_string_actions.get(found[-1]) if found else None
            if each.startswith("-") and before is not None and before.nargs is None:
                found[-1] += f"={each}"
            elif each == "--" and not self._shortens:
                break  # what follows are words, which are left alone
            else:
                found.append(each if self._shortens else self._spelt(each))
        return found

    def _spelt(self, text: str) -> str:
        """With two dashes, and without what stands behind a flag that takes no value."""
        flag, equals, value = text.partition("=")
        if flag.startswith("-") and f"-{flag}" in self._option_string_actions:
            flag = f"-{flag}"
        action = self._option_string_actions.get(flag)
        return flag if action is not None and action.nargs == 0 else flag + equals + value

    def error(self, message: str) -> NoReturn:
        raise _in_argparse4js_words(message) if self._shortens else _in_jopts_words(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Take a command that is shortened where that is clear, as argparse4j does. Raises UsageError."""
        if isinstance(action.choices, dict) and value not in action.choices:
            meant = [name for name in action.choices if name.startswith(value)]
            if len(meant) > 1:
                raise UsageError(f"ambiguous command: {value} could match {', '.join(meant)}")
            if meant:
                action.choices[value] = action.choices[meant[0]]
                self._in_full[value] = meant[0]
        super()._check_value(action, value)


def _bare(flag: str) -> str:
    return flag.lstrip("-")


def _in_jopts_words(message: str) -> UsageError:
    """Tell what is wrong with a flag, as JOpt Simple says it."""
    if missing := re.fullmatch(r"argument (\S+): expected .* arguments?", message):
        return UsageError(f"Option {_bare(missing[1].rpartition('/')[2])} requires an argument")
    if wrong := re.fullmatch(r"argument (\S+): invalid .* value: '(.*)'", message, re.DOTALL):
        return Misread(f"Cannot parse argument '{wrong[2]}' of option {_bare(wrong[1].rpartition('/')[2])}")
    return UsageError(message)


def _in_argparse4js_words(message: str) -> UsageError:
    """Tell what is wrong with a flag, as argparse4j says it."""
    if missing := re.fullmatch(r"the following arguments are required: (.*, )?(\S+)", message):
        flag = missing[2]
        return UsageError(f"argument {flag} is required" if flag.startswith("-") else "too few arguments")
    if wrong := re.fullmatch(r"argument (\S+): invalid (\w+) value: '(.*)'", message, re.DOTALL):
        flag, kind, value = wrong[1], wrong[2].capitalize(), wrong[3]
        return UsageError(f"argument {flag}: could not convert '{value}' to {kind} (For input string: \"{value}\")")
    return UsageError(message.removeprefix("argument COMMAND: "))


class _CommandParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _in_argparse4js_words(message)


class Commands:
    """Those of one tool."""

    def __init__(self, parser: ToolParser) -> None:
        self._prog = parser.prog
        self._parsers = parser.add_subparsers(
            dest="command", metavar="COMMAND", required=True, parser_class=_CommandParser
        )

    def add(self, name: str, summary: str) -> argparse.ArgumentParser:
        """The parser of its flags."""
        it = self._parsers.add_parser(name, prog=f"{self._prog} {name}", description=summary, help=summary)
        it.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print what was found as JSON")
        return it


def explained(error: Exception) -> str:
    """Return what standard error is told: the error and, in a line of its own, its cause."""
    text = error.java if isinstance(error, Refused | TimedOut) else str(error)
    return f"{text}\nCaused by: {error.__cause__}" if isinstance(error.__cause__, ClientError) else text


class Tool:
    """One run of a tool: its options, and where it reads and prints."""

    def __init__(self, options: argparse.Namespace, arguments: Sequence[str] = ()) -> None:
        self.options = options
        self.arguments = arguments
        self.by_argparse4j = False  # as Kafka's script is, which has words of its own for a missing flag
        self.action = ""  # the one of several flags that says what to do
        self.result: Any = None  # what `--json` prints
        self.stdin: TextIO = sys.stdin or io.TextIOWrapper(io.BytesIO())  # a closed one has nothing to tell
        self._bar: Bar = NOTHING

    def print(self, text: str = "") -> None:
        """A line on standard output, unless JSON is asked for."""
        if not self.options.json:
            self._bar.clear()
            print(text)
            self._bar.refresh()

    @contextmanager
    def progress(self, what: str, total: int | None, unit: str) -> Iterator[Bar]:
        """Something on which is told how far it is: `bar.update(n)`. total None: nobody knows how much it is."""
        with bar(what, total, unit) as self._bar:
            yield self._bar
        self._bar = NOTHING

    def warn(self, text: str) -> None:
        """A line on standard error."""
        self._bar.clear()
        print(text, file=sys.stderr)
        self._bar.refresh()

    def fail(self, text: str, cause: ClientError | None = None) -> int:
        """Print an error on standard output, as Kafka's script does, and its cause on standard error, where the script
        prints a stack trace. With `--json` standard output takes nothing but data. Returns the exit code.
        """
        self.result = None
        if self.options.json:
            self.warn(text)
        else:
            print(text)
            if cause is not None:
                self.warn(explained(cause))
        return FAILED

    def properties(self) -> dict[str, str]:
        """Of the client, from the file that was named. Raises Unusable."""
        path = self.options.command_config
        return {} if path is None else read_properties(path)

    def connect(self, extra: dict[str, str] | None = None) -> Client:
        """A client for the addresses that were named: `async with tool.connect() as client`."""
        bootstrap = self.options.bootstrap_server
        controllers = getattr(self.options, "bootstrap_controller", None)
        where = bootstrap if controllers is None else controllers
        if where is None:
            raise UsageError("--bootstrap-server must be specified")
        properties = self.properties() | (extra or {})
        try:
            return Client(where, properties, of_controllers=bootstrap is None)
        except Unusable as error:
            raise ClientError("Failed to create new KafkaAdminClient") from error


def _module(name: str) -> Any:
    return import_module(f"pykafka_broker.tools.{name.replace('-', '_')}")


def parser_of(name: str) -> ToolParser:
    """With the flags of that tool."""
    module = _module(name)
    parser = ToolParser(name, module.SUMMARY)
    module.options(parser)
    return parser


def main(name: str, arguments: Sequence[str]) -> int:
    """Run the tool `name` with what stands behind its name, and return its exit code."""
    module, parser = _module(name), parser_of(name)
    if not _LOG.handlers:
        _LOG.addHandler(logging.NullHandler())  # what a connection has to tell is in the error that ends the tool
    try:
        if not arguments and name in _HELPING_AT_ONCE:
            parser.print_help()
            return 0
        tool = Tool(parser.parse(arguments), arguments)
        tool.by_argparse4j = name in _BY_ARGPARSE4J
        status = _run(module, tool)
        if tool.options.json and tool.result is not None:
            print(json.dumps(tool.result, indent=2, ensure_ascii=False))
        sys.stdout.flush()
        return status
    except UsageError as error:
        if isinstance(error, Misread) and hasattr(module, "FAILURE") and "--json" not in arguments:
            print(f"{module.FAILURE}{error}")
        print(f"{error}\n{parser.prog} --help shows what there is{error.hint}", file=sys.stderr)
    except (ClientError, EncodeError) as error:  # a number or a name that no request can have
        print(explained(error), file=sys.stderr)
    except BrokenPipeError:  # `| head` has seen enough
        drop_output()
        return 0
    return FAILED


def _run(module: Any, tool: Tool) -> int:
    """In an event loop of its own; Ctrl-C and SIGTERM cancel it, so that members leave their groups."""

    async def run() -> int:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or a thread
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
        return int(await module.run(tool))

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
