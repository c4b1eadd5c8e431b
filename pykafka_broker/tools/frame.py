"""The frame of every tool: flags, connection, output and exit code; properties and topic patterns from flags.

Rule: a wrong use is one line on standard error and exit code 1, as with Kafka's scripts. So are a refused request and
an unreachable broker, without a stack trace. `--json` replaces the text on standard output by one JSON value. In code a
flag is named as in the options (`if_exists`), in texts as on the command line. A flag wins over a file of properties,
and a flag that is deprecated in Kafka 4 excludes its successor.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple, NoReturn, TextIO

from pykafka_broker import __version__
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, KafkaError, TimedOut, Unusable
from pykafka_broker.client.properties import long, read_properties
from pykafka_broker.config.java_regex import JavaRegexError, compile_java
from pykafka_broker.server.event_loop import plain_event_loop
from pykafka_broker.tools import TOOLS, OptionParser, drop_output
from pykafka_broker.tools.progress import INVISIBLE, Bar, bar

# -- the frame


FAILED = 1  # wrong usage too, as with Kafka's scripts
INTERRUPTED = 130
_GLADLY_HELPING = ("features", "metadata-quorum", "mirror")  # their --help ends with 0, as in Kafka
# Without any flag they print their help, and end with 0.
_HELPING_AT_ONCE = ("producer-perf-test", "verifiable-consumer", "verifiable-producer", "verifiable-share-consumer")
_BY_ARGPARSE4J = ("cluster", "transactions", *_GLADLY_HELPING, *_HELPING_AT_ONCE)
_LOG = logging.getLogger("pykafka_broker")
_SILENT = logging.NullHandler()


class ToolUsageError(Exception):
    """A wrong use of flags, in the words of Kafka's script. hint: a likely intention."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class Misread(ToolUsageError):
    """A flag with an unreadable value, or with more values than allowed.

    Kafka's scripts read values late, and some report such a fault as a failed request: their modules say how that text
    begins (`FAILURE`).
    """


class _Once(argparse.Action):
    """A flag with a value, which Kafka's scripts refuse the second time."""

    def __call__(self, parser: Any, options: argparse.Namespace, value: Any, flag: str | None = None) -> None:
        given: set[str] = vars(options).setdefault("_given", set())
        if value == self.const is not None:  # a flag with an optional value, without a value
            value = getattr(options, self.dest) or value
        elif flag is not None and self.dest in given:
            raise Misread(f"Found multiple arguments for option {_bare(flag)}, but you asked for only one")
        else:
            given.add(self.dest)
        setattr(options, self.dest, value)


class _Help(argparse.Action):
    """`--help`: a wrong use for most of Kafka's scripts, with the help on standard error and a failure."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        name = parser.prog.rpartition(" ")[2]
        parser.print_help(sys.stdout if name in _BY_ARGPARSE4J else sys.stderr)
        parser.exit(0 if name in _GLADLY_HELPING else FAILED)


SERVER_VARIABLE = "PYKAFKA_BROKER_BOOTSTRAP_SERVER"  # where neither option names an address


class ToolParser(OptionParser):
    """A parser of flags in the forms of Kafka's scripts: `--flag value` and `--flag=value`.

    Most scripts (JOpt Simple) take `-flag` too, and each value once. Some (argparse4j) take unambiguous abbreviations
    of flags, and the last one of several values.
    """

    def __init__(self, name: str, summary: str) -> None:
        self._shortens = name in _BY_ARGPARSE4J
        super().__init__(
            prog=f"pykafka-broker {name}", description=summary, add_help=False, allow_abbrev=self._shortens
        )
        if not self._shortens:
            self.register("action", None, _Once)
        self._refuses_words = self._shortens
        self._commands: argparse._SubParsersAction[_CommandParser] | None = None
        self._in_full: dict[str, str] = {}  # commands by their abbreviations
        self.add_argument("-h", "--help", action=_Help, nargs=0, help="show this, and exit")
        self.add_argument("--version", action="version", version=__version__)
        self.add_argument("--json", action="store_true", help="print what was found or done as JSON")

    def add_connection(self, *, controllers: bool = False) -> None:
        """Add `--bootstrap-server` and the client's file of properties; with `controllers` `--bootstrap-controller`."""
        where = self.add_mutually_exclusive_group() if controllers else self
        where.add_argument("--bootstrap-server", metavar="HOST:PORT,...", help="brokers to connect to")
        if controllers:
            where.add_argument("--bootstrap-controller", metavar="HOST:PORT,...", help="controllers to connect to")
        self.add_argument("--command-config", metavar="FILE", help="properties of the client")

    def add_properties(self, old: Old, what: str) -> None:
        """Add `--command-property`, and the deprecated names of both flags for properties."""
        self.option("--command-property NAME=VALUE ...", f"property of the {what}, may be repeated")
        self.option(f"--{old.property} NAME=VALUE ...", "the same (deprecated)")
        self.option(f"--{old.config} FILE", "the same as --command-config (deprecated)", dest=_dest(old.config))

    def add_command(self, name: str, summary: str) -> OptionParser:
        """Add a command (`transactions list`) and return the parser of the command's flags."""
        if self._commands is None:
            self._commands = self.add_subparsers(
                dest="command", metavar="COMMAND", required=True, parser_class=_CommandParser
            )
        command = self._commands.add_parser(name, prog=f"{self.prog} {name}", description=summary, help=summary)
        command.option("--json", "print what was found as JSON", default=argparse.SUPPRESS)
        return command

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse the flags; words without a flag are ignored, as by Kafka's scripts. Raises ToolUsageError."""
        options, rest = self.parse_known_args(self._joined(arguments))
        unknown = [each for each in rest if each.startswith("-") or self._refuses_words]
        if unknown:
            raise ToolUsageError(self._unrecognized(unknown[0]), self._meant(unknown[0]))
        if self._in_full:
            options.command = self._in_full[options.command]
        connects = hasattr(options, "bootstrap_server")
        if connects and options.bootstrap_server is None and getattr(options, "bootstrap_controller", None) is None:
            options.bootstrap_server = os.environ.get(SERVER_VARIABLE) or None
        return options

    def _unrecognized(self, flag: str) -> str:
        if self._shortens:
            return f"unrecognized arguments: '{flag}'"
        return f"{_bare(flag.partition('=')[0])} is not a recognized option"

    def _meant(self, flag: str) -> str:
        name = flag.partition("=")[0]
        if name in self._option_string_actions:
            return f"; {name} stands before the command"
        meant = get_close_matches(name, self._option_string_actions, n=1, cutoff=0.7)
        return f"; did you mean {meant[0]}?" if meant else ""

    def _joined(self, arguments: Sequence[str]) -> list[str]:
        """Join a flag with the word behind, which is the value also with a dash in front."""
        found: list[str] = []
        for each in arguments:
            before = self._option_string_actions.get(found[-1]) if found else None
            if each.startswith("-") and before is not None and before.nargs is None:
                found[-1] += f"={each}"
            elif each == "--" and not self._shortens:
                break  # words follow, which are ignored
            else:
                found.append(each if self._shortens else self._spelt(each))
        return found

    def _spelt(self, text: str) -> str:
        """Return a flag with two dashes, and without a value if the flag takes none."""
        flag, equals, value = text.partition("=")
        if flag.startswith("-") and f"-{flag}" in self._option_string_actions:
            flag = f"-{flag}"
        action = self._option_string_actions.get(flag)
        return flag if action is not None and action.nargs == 0 else flag + equals + value

    def error(self, message: str) -> NoReturn:
        raise _in_argparse4js_words(message) if self._shortens else _in_jopts_words(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Accept an unambiguous abbreviation of a command, as argparse4j does. Raises ToolUsageError."""
        if isinstance(action.choices, dict) and value not in action.choices:
            meant = [name for name in action.choices if name.startswith(value)]
            if len(meant) > 1:
                raise ToolUsageError(f"ambiguous command: {value} could match {', '.join(meant)}")
            if meant:
                action.choices[value] = action.choices[meant[0]]
                self._in_full[value] = meant[0]
        super()._check_value(action, value)


def _bare(flag: str) -> str:
    return flag.lstrip("-")


def _in_jopts_words(message: str) -> ToolUsageError:
    """Return the error about a flag in the words of JOpt Simple."""
    if missing := re.fullmatch(r"argument (\S+): expected .* arguments?", message):
        return ToolUsageError(f"Option {_bare(missing[1].rpartition('/')[2])} requires an argument")
    if wrong := re.fullmatch(r"argument (\S+): invalid .* value: '(.*)'", message, re.DOTALL):
        return Misread(f"Cannot parse argument '{wrong[2]}' of option {_bare(wrong[1].rpartition('/')[2])}")
    return ToolUsageError(message)


def _in_argparse4js_words(message: str) -> ToolUsageError:
    """Return the error about a flag in the words of argparse4j."""
    if missing := re.fullmatch(r"the following arguments are required: (.*, )?(\S+)", message):
        flag = missing[2]
        return ToolUsageError(f"argument {flag} is required" if flag.startswith("-") else "too few arguments")
    if wrong := re.fullmatch(r"argument (\S+): invalid (\w+) value: '(.*)'", message, re.DOTALL):
        flag, kind, value = wrong[1], wrong[2].capitalize(), wrong[3]
        return ToolUsageError(f"argument {flag}: could not convert '{value}' to {kind} (For input string: \"{value}\")")
    return ToolUsageError(message.removeprefix("argument COMMAND: "))


class _CommandParser(OptionParser):
    def error(self, message: str) -> NoReturn:
        raise _in_argparse4js_words(message)


def conflict(flag: str, other: str) -> ToolUsageError:
    """Return the error for two flags that can't be combined."""
    return ToolUsageError(f'Option "[{_dashed(flag)}]" can\'t be used with option "[{_dashed(other)}]"')


def _spelt(flag: str) -> str:
    return f"--{_dashed(flag)}"


def _dashed(flag: str) -> str:
    return flag.replace("_", "-")


_DEPRECATED = "Option --{} is deprecated and will be removed in a future version. Use --{} instead."


class Old(NamedTuple):
    """Deprecated names of `--command-config` and `--command-property`. says: the warning."""

    config: str
    property: str
    says: str = _DEPRECATED


def _dest(flag: str) -> str:
    return flag.replace("-", "_").replace(".", "_")


def explained(error: Exception) -> str:
    """Return an error's text for standard error, with the cause on a second line."""
    text = error.java if isinstance(error, KafkaError | TimedOut) else str(error)
    return f"{text}\nCaused by: {error.__cause__}" if isinstance(error.__cause__, ClientError) else text


class Tool:
    """A run of a tool: options, input and output."""

    def __init__(self, options: argparse.Namespace, arguments: Sequence[str] = ()) -> None:
        self.options = options
        self.arguments = arguments
        self.by_argparse4j = False  # the script is parsed by argparse4j, with its own texts
        self.action = ""  # the flag with the action, among several
        self.result: Any = None  # printed by `--json`
        self.stdin: TextIO = sys.stdin
        self._bar: Bar = INVISIBLE

    def print(self, text: str = "") -> None:
        """Print a line on standard output, unless JSON is asked for."""
        if not self.options.json:
            self._bar.clear()
            print(text)
            self._bar.refresh()

    def print_columns(self, headings: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
        """Print rows below the headings, also without rows; a tab ends each cell."""
        lines = [list(headings), *([str(cell) for cell in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            self.print("".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)))

    @contextmanager
    def progress(self, what: str, total: int | None, unit: str) -> Iterator[Bar]:
        """Show a progress bar, updated by `bar.update(n)`. total: None if unknown."""
        with bar(what, total, unit) as self._bar:
            yield self._bar
        self._bar = INVISIBLE

    def warn(self, text: str) -> None:
        """Print a line on standard error."""
        self._bar.clear()
        print(text, file=sys.stderr)
        self._bar.refresh()

    def fail(self, text: str, cause: ClientError | None = None) -> int:
        """Print an error on standard output, as Kafka's script does; returns the exit code.

        The cause goes to standard error, where the script prints a stack trace. With `--json` only the error is
        printed, on standard error.
        """
        self.result = None
        if self.options.json:
            self.warn(text)
        else:
            print(text)
            if cause is not None:
                self.warn(explained(cause))
        return FAILED

    # -- combinations of flags

    def given(self, flag: str) -> bool:
        """Return whether a flag was given: with a value, or at all for a flag without values."""
        value = getattr(self.options, flag)
        return not (value is None or value is False or value == [])

    def number(self, flag: str) -> int:
        """Return the value of a flag as a number of 64 bits. Raises ClientError."""
        text = getattr(self.options, flag)
        try:
            return long(text)
        except ValueError:
            raise ClientError(f"Cannot parse argument '{text}' of option {_dashed(flag)}") from None

    def one_of(self, *flags: str, last: str = " or ") -> str:
        """Return the only given flag among several. Raises ToolUsageError.

        Args:
            last: the text before the last flag in the error.
        """
        found = [flag for flag in flags if self.given(flag)]
        if len(found) != 1:
            listed = ", ".join(map(_spelt, flags[:-1]))
            raise ToolUsageError(f"Command must include exactly one action: {listed}{last}{_spelt(flags[-1])}")
        self.action = found[0]
        return self.action

    def required(self, *flags: str) -> None:
        """Require all of the flags. Raises ToolUsageError."""
        for flag in flags:
            if not self.given(flag):
                if self.by_argparse4j:
                    raise ToolUsageError(f"argument {_spelt(flag)} is required")
                raise ToolUsageError(f'Missing required argument "[{_dashed(flag)}]"')

    def only_with(self, flag: str, *others: str) -> None:
        """Refuse `flag` without any of the given actions. Raises ToolUsageError."""
        if self.given(flag) and not any(map(self.given, others)):
            raise conflict(flag, self.action)

    def never_with(self, flag: str, *others: str) -> None:
        """Refuse `flag` together with any of the others. Raises ToolUsageError."""
        for other in others:
            if self.given(flag) and self.given(other):
                raise conflict(flag, other)

    def deprecated(self, flag: str, instead: str, says: str = _DEPRECATED) -> None:
        """Print on standard output, as Kafka's scripts do, if the deprecated `flag` was used."""
        if self.given(_dest(flag)):
            self.print(says.format(flag, instead))

    # -- the client

    def properties(self, *files: str, pairs: Sequence[str] = ()) -> dict[str, str]:
        """Return the properties of a client, reader or formatter. Raises ToolUsageError and Unusable.

        Args:
            files: the flag that names the file, and deprecated names of the flag.
            pairs: the flag with `name=value` texts, which win over the file, and deprecated names of the flag.
        """
        for flags in filter(None, (pairs, files)):
            self.never_with(*flags)
        path, texts = map(self._first, (files, pairs))
        found = {} if path is None else read_properties(path)
        return found | {name: value for name, _, value in (each.partition("=") for each in texts or ())}

    def _first(self, flags: Sequence[str]) -> Any:
        """Return the value of the first given flag, else of the last."""
        values = [getattr(self.options, flag) for flag in flags]
        return next(filter(None, values), values[-1] if values else None)

    def properties_of(self, old: Old) -> dict[str, str]:
        """Return the client's properties, and warn of deprecated flags. Raises ToolUsageError and Unusable."""
        found = self.properties("command_config", _dest(old.config), pairs=("command_property", _dest(old.property)))
        self.deprecated(old.property, "command-property", old.says)
        self.deprecated(old.config, "command-config", old.says)
        return found

    def connect(self, extra: dict[str, str] | None = None) -> Client:
        """Return a client for the named addresses: `async with tool.connect() as client`."""
        bootstrap = self.options.bootstrap_server
        controllers = getattr(self.options, "bootstrap_controller", None)
        where = bootstrap if controllers is None else controllers
        if where is None:
            raise ToolUsageError("--bootstrap-server must be specified")
        properties = self.properties("command_config") | (extra or {})
        try:
            return Client(where, properties, of_controllers=bootstrap is None)
        except Unusable as error:
            raise ClientError("Failed to create new KafkaAdminClient") from error


def _module(name: str) -> Any:
    return import_module(f"pykafka_broker.tools.{name.replace('-', '_')}")


def parser_of(name: str) -> ToolParser:
    """Return a parser with the flags of the tool."""
    module = _module(name)
    parser = ToolParser(name, f"{TOOLS[name][0].upper()}{TOOLS[name][1:]}.")
    module.options(parser)
    return parser


def main(name: str, arguments: Sequence[str]) -> int:
    """Run a tool with the arguments behind the name, and return the exit code."""
    module, parser = _module(name), parser_of(name)
    try:
        if not arguments and name in _HELPING_AT_ONCE:
            parser.print_help()
            return 0
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)  # as Java's: a program behind a pipe reads each line at once
        tool = Tool(parser.parse(arguments), arguments)
        tool.by_argparse4j = name in _BY_ARGPARSE4J
        status = _run(module, tool)
        if tool.options.json and tool.result is not None:
            print(json.dumps(tool.result, indent=2, ensure_ascii=False))
        sys.stdout.flush()
        return status
    except ToolUsageError as error:
        if isinstance(error, Misread) and hasattr(module, "FAILURE") and "--json" not in arguments:
            print(f"{module.FAILURE}{error}")
        print(f"{error}\n{parser.prog} --help shows what there is{error.hint}", file=sys.stderr)
    except ClientError as error:
        print(explained(error), file=sys.stderr)
    except BrokenPipeError:  # `| head` has seen enough
        drop_output()
        return 0
    return FAILED


def _run(module: Any, tool: Tool) -> int:
    """Run the tool in a new event loop. Ctrl-C and SIGTERM cancel the tool: members leave groups."""

    async def run() -> int:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or a thread
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
        return int(await module.run(tool) or 0)

    _LOG.addHandler(_SILENT)  # the error that ends the tool tells about connections
    told = logging.StreamHandler()  # warnings of the client come at once, as with Kafka's scripts
    _LOG.getChild("client").addHandler(told)
    try:
        with asyncio.Runner(loop_factory=plain_event_loop) as runner:
            return runner.run(run())
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
    finally:
        _LOG.getChild("client").removeHandler(told)


# -- topics by a regular expression


def matcher(text: str) -> Callable[[str], bool]:
    """Return a function to tell whether a topic is meant by `--topic` or `--include`. Raises ClientError.

    A comma stands for `|`, spaces and quotes at both ends are ignored, and the whole name has to match.
    """
    pattern = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        compiled = compile_java(pattern)
    except JavaRegexError:
        raise ClientError(f"{pattern} is an invalid regex.") from None
    return lambda name: compiled.fullmatch(name) is not None


def subscribed(text: str) -> Callable[[str], bool]:
    """Return a function to tell whether a subscription by regular expression has a topic. Raises ClientError."""
    try:
        pattern = compile_java(text)
    except JavaRegexError as error:
        raise ClientError(f"{text} is an invalid regex: {error}") from None
    return lambda name: pattern.fullmatch(name) is not None
