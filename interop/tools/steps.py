"""Invocations of tools, and the parts of their output that are compared.

Standard output is compared line by line, standard error by the messages in it: Java's log, stack traces and tables of
options are left out, and so is our hint at `--help`.

Rule: a command line is written as for a shell; `{file:TEXT}` in it is the path of a file with that text, which may
have braces in pairs. Without `{nowhere}` the broker's address is added.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from interop.java_tools import UNWOUND, JavaTools, Outcome, run_alone
from pykafka_broker.tools.frame import main as our_tool

_BRACED = r"\{[^{}]*\}"  # braces within a file's text, up to three deep as in JSON
for _ in range(2):
    _BRACED = rf"\{{(?:[^{{}}]|{_BRACED})*\}}"
_FILE = re.compile(rf"\{{file:((?:[^{{}}]|{_BRACED})*)\}}")
MOVES_TIMEOUT_S = 20
NO_MOVES = "No partition reassignments found.\n"
_CONNECTED_BY = {"--bootstrap-server", "--bootstrap-controller"}
_SAME = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])(?=\s|$|,|;|\")"), "ID"),
    (re.compile(r"\b(localhost|127\.0\.0\.1)(/127\.0\.0\.1)?:\d+\b"), "ADDRESS"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "TIME"),
    (re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.:,]\d{3})?(Z|[+-]\d{4})?"), "DATE"),
    (re.compile(r"[ \t]+"), " "),
)

_FROM_JAVA = re.compile(
    r"^(SLF4J: .*|\s+at .*|\s+\.\.\. \d+ (more|common .*)|\s*(Caused by|Suppressed): .*|.*KIP-848.*"
    r"|(Error processing message, terminating|Unknown error when running) .*: "
    r"|\[(AdminClient|(Share)?Consumer|Producer) .*|.*; trying again for \d+ s"
    r"|pykafka-broker [\w-]+ --help shows .*)$",
    re.MULTILINE,
)


def _unwrapped(match: re.Match[str]) -> str:
    return " ".join(match[1].split())


def _sorted_list(match: re.Match[str]) -> str:
    return f"[{', '.join(sorted(match[1].split(', ')))}]"


_TABLE_OF_OPTIONS = re.compile(r"Option +Description|usage: ")
_ARGPARSE4J = re.compile(r"^usage: .*?^[\w.-]+: +error: +(.*)", re.MULTILINE | re.DOTALL)
_SAME_ERRORS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (  # the classes of exceptions, as Throwable.toString and an uncaught one show them
        re.compile(
            r"^(Exception in thread \"[^\"]*\" )?((java|org|joptsimple|scala|kafka|com|net)(\.[\w$]+)*"
            r"\.\w*(Exception|Error|NoSuchElement)\w*(: |$))+"
        ),
        "",
    ),
    (re.compile(r".*(/no/such/\w+).*"), r"\1"),  # each tool says in its own words why the file can't be read
    (re.compile(r"\[([\w, -]+)\]"), _sorted_list),  # the list is a set, whose order varies
    *_SAME,
)
_OTHER_WORDS = "something, in other words"

QUICK = r"--command-config '{file:default.api.timeout.ms=300\nrequest.timeout.ms=300}'"
UNREACHABLE = "{nowhere} --bootstrap-server localhost:1 " + QUICK


@dataclass(frozen=True)
class Step:
    """A call of a tool.

    Args:
        stdin: what the tool reads.
        alike: a further change before standard output is compared.
        why_not: why it prints other things than Kafka's; only the exit code is compared.
        other_errors: why standard error has other words; compared is whether it has any.
        untold: Kafka's script prints the stack trace of a failure that it has got over; standard error is not compared.
        known: what stands for `{NAME}` in the command and is known only once the brokers are prepared.
        alone: Kafka's script prints more than it means to where its exit is held back: it gets a JVM of its own.
        after_moves: the call comes when the replicas that an earlier one moved are there.
    """

    tool: str
    command: str
    stdin: str = ""
    alike: Callable[[str], str] | None = None
    why_not: str = ""
    other_errors: str = ""
    untold: bool = False
    alone: bool = False
    after_moves: bool = False
    known: Mapping[str, str] = field(default_factory=dict)

    def arguments(self, bootstrap: str, directory: Path) -> list[str]:
        """Return the arguments, with the broker's address unless the command says how to connect; write the files."""
        text = _FILE.sub(lambda match: str(_written(directory, match[1])), self.command)
        for name, value in {"bootstrap": bootstrap, **self.known}.items():
            text = text.replace(f"{{{name}}}", value)
        found = shlex.split(text)
        if "{nowhere}" in found:
            found.remove("{nowhere}")
            return found
        given = {each.partition("=")[0] for each in found}
        return found if given & _CONNECTED_BY else ["--bootstrap-server", bootstrap, *found]

    def where(self, known: Mapping[str, str]) -> Step:
        """Return the step with more that is known."""
        return replace(self, known={**self.known, **known})

    def normal(self, out: str) -> list[str]:
        """Return the lines of the output that are compared."""
        for pattern, replacement in _SAME:
            out = pattern.sub(replacement, out)
        if self.alike is not None:
            out = self.alike(out)
        return [line.strip() for line in out.splitlines() if line.strip()]

    def messages(self, err: str) -> list[str]:
        """Return the messages on its standard error that are compared."""
        if self.why_not or self.untold:
            return []
        if self.other_errors:
            return [_OTHER_WORDS] if _FROM_JAVA.sub("", err).strip() else []
        found, in_table = [], False
        for line in _ARGPARSE4J.sub(_unwrapped, _FROM_JAVA.sub("", err)).splitlines():
            in_table = in_table or _TABLE_OF_OPTIONS.match(line) is not None
            if not in_table:
                found.append(reduce(lambda text, each: each[0].sub(each[1], text), _SAME_ERRORS, line).strip())
        return list(dict.fromkeys(filter(None, found)))


def steps(tool: str, *commands: str | Step) -> list[Step]:
    """Return the steps of one tool, in the order of its commands."""
    return [each if isinstance(each, Step) else Step(tool, each) for each in commands]


def sorted_lines(out: str) -> str:
    """Return the lines sorted: for tools that print them in no order."""
    return "\n".join(sorted(out.splitlines()))


def _written(directory: Path, text: str) -> Path:
    path = directory / f"{abs(hash(text)):x}.txt"
    path.write_text(text.encode().decode("unicode_escape"))
    return path


@dataclass(frozen=True)
class Table:
    """The steps of one module of `tables/`, and what they need."""

    name: str
    module: ModuleType

    @property
    def steps(self) -> list[Step]:
        ours = getattr(self.module, "IN_OUR_WORDS", ())
        why = "a fault of usage is told in our own words"
        return [replace(each, other_errors=why) if each.command in ours else each for each in self.module.STEPS]

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of the broker."""
        return dict(getattr(self.module, "SETTINGS", {}))

    @property
    def listeners(self) -> dict[str, str]:
        """Return the protocols of listeners beyond PLAINTEXT, by name; clients connect to the last one."""
        return dict(getattr(self.module, "LISTENERS", {}))

    @property
    def brokers(self) -> int:
        return int(getattr(self.module, "BROKERS", 1))

    @property
    def stopped(self) -> int:
        """Return the id of the broker that is stopped before the first step; 0 for none."""
        return int(getattr(self.module, "STOPPED", 0))

    @property
    def recorded(self) -> Path:
        return Path(__file__).parent / "recorded" / f"{self.name}.json"

    @contextlib.contextmanager
    def prepared(self, bootstrap: str) -> Iterator[None]:
        """Prepare the broker before the first step. A `prepare` that yields continues after the last step."""
        make: Any = getattr(self.module, "prepare", None)
        made = None if make is None else make(bootstrap)
        if not isinstance(made, Iterator):
            yield
            return
        next(made)
        try:
            yield
        finally:
            next(made, None)


def table(name: str) -> Table:
    return Table(name, import_module(f"interop.tools.tables.{name}"))


def names() -> list[str]:
    """Return the names of all tables."""
    return sorted(path.stem for path in (Path(__file__).parent / "tables").glob("[a-z]*.py"))


def run_java(jvm: JavaTools, step: Step, bootstrap: str, directory: Path) -> Outcome:
    """Run Kafka's script; again in a JVM of its own, if it catches everything and tells that its exit is held back."""
    if step.after_moves:
        await_moves(bootstrap)
    tool, arguments = f"kafka-{step.tool}", step.arguments(bootstrap, directory)
    if step.alone:
        return run_alone(tool, *arguments, stdin=step.stdin, release=jvm.release)
    found = jvm.run(tool, *arguments, stdin=step.stdin)
    if UNWOUND not in found.out:
        return found
    return run_alone(tool, *arguments, stdin=step.stdin, release=jvm.release)


def run_ours(step: Step, bootstrap: str, directory: Path) -> Outcome:
    """Run our tool in this process, as from the command line."""
    if step.after_moves:
        await_moves(bootstrap)
    return _called(step, step.arguments(bootstrap, directory))


def await_moves(bootstrap: str) -> None:
    """Wait until no replica is moved any more, and brokers have heard so; moves held by a throttle stay."""
    end = time.monotonic() + MOVES_TIMEOUT_S
    while time.monotonic() < end:
        time.sleep(2)
        if _called(Step("reassign-partitions", ""), ["--bootstrap-server", bootstrap, "--list"]).out == NO_MOVES:
            return


def _called(step: Step, arguments: list[str]) -> Outcome:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _reading(step.stdin):
        try:
            status = our_tool(step.tool, arguments)
        except SystemExit as leaving:  # --help and --version
            status = int(leaving.code or 0)
    return Outcome(status, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _reading(text: str) -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = before
