"""Programs of `interop/languages` as rows: those say a line for each of their checks, and `test_languages.py` knows
what the lines should say.

Rule: a scenario is some of these checks; the program runs whole, and is right if those lines are.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from interop import toolchains
from interop.matrix.programs.scenario import NOT_SUPPORTED, RELEASE
from interop.test_languages import PLATFORMATIC, RSKAFKA

PARTITIONS_OF_OLD = {"read": "300 300 1", "committed": "OffsetMetadataAndError[17,m,0]"}


class Program(NamedTuple):
    build: Callable[[], list[str]]
    lines: dict[str, str]
    checks: dict[str, list[str]]  # by scenario
    restarts: str = ""  # what the check `restart` says
    takes_topic: bool = False


PROGRAMS = {
    "platformatic": Program(
        lambda: toolchains.node("platformatic.mjs"),
        PLATFORMATIC,
        {
            "produce": ["none"],
            "codecs": ["none", "gzip", "snappy", "lz4"],
            "transactions": ["transactions"],
            "group": ["classic"],
            "next_group": ["consumer"],
            "admin": ["admin"],
        },
        restarts="200",
    ),
    "rskafka": Program(
        lambda: toolchains.rust("languages"),
        RSKAFKA,
        {
            "produce": ["none"],
            "seek": ["none"],
            "codecs": ["none", "gzip", "snappy", "lz4", "zstd"],
            "admin": ["admin"],
        },
    ),
    "java-0.8": Program(
        lambda: toolchains.java("Old", "0.8.2.2"),
        PARTITIONS_OF_OLD,
        {"produce": ["read"], "codecs": ["read"], "commit": ["committed"]},
        takes_topic=True,
    ),
}


def told(program: subprocess.Popen[str]) -> dict[str, str]:
    """Its lines; when it asks for a restart, the runner of the matrix is asked."""
    assert program.stdout is not None
    assert program.stdin is not None
    found = {}
    for line in program.stdout:
        name, _, said = line.rstrip("\n").partition(": ")
        if name == "restart" and not said:
            print("restart", flush=True)
            program.stdin.write(sys.stdin.readline())
            program.stdin.flush()
        else:
            found[name] = said
    return found


def main(words: Sequence[str]) -> int:
    name, scenario, bootstrap, topic = words
    program = PROGRAMS[name]
    wanted = {check: program.lines[check] for check in program.checks.get(scenario, [])}
    if scenario == "restart" and program.restarts:
        wanted = {"restart": program.restarts}
    if not wanted:
        print("the program has no such check")
        return NOT_SUPPORTED
    try:
        command = program.build()
    except pytest.skip.Exception as reason:
        print(f"not run here: {reason}")
        return NOT_SUPPORTED
    more = [topic] if program.takes_topic else ["restart"] if scenario == "restart" else []
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, bootstrap, *more], stdin=pipe, stdout=pipe, text=True) as running:
        said = told(running)
    found = {check: said.get(check, "nothing") for check in wanted}
    if found != wanted:
        print(f"Error: found {found}, not {wanted}, by a broker of {RELEASE}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
