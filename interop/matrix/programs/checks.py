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

PARTITIONS_OF_OLD = {"read": "300 300 1", "committed": "OffsetMetadataAndError[17,m,0]"}


class Program(NamedTuple):
    build: Callable[[], list[str]]
    lines: dict[str, str]
    checks: dict[str, list[str]]  # by scenario


PROGRAMS = {
    "java-0.8": Program(
        lambda: toolchains.java("Old", "0.8.2.2"),
        PARTITIONS_OF_OLD,
        {"produce": ["read"], "codecs": ["read"], "commit": ["committed"]},
    ),
}


def main(words: Sequence[str]) -> int:
    name, scenario, bootstrap, topic = words
    program = PROGRAMS[name]
    wanted = {check: program.lines[check] for check in program.checks.get(scenario, [])}
    if not wanted:
        print("the program has no such check")
        return NOT_SUPPORTED
    try:
        command = program.build()
    except pytest.skip.Exception as reason:
        print(f"not run here: {reason}")
        return NOT_SUPPORTED
    ran = subprocess.run([*command, bootstrap, topic], stdout=subprocess.PIPE, text=True, check=False)
    said = dict(line.partition(": ")[::2] for line in ran.stdout.splitlines())
    found = {check: said.get(check, "nothing") for check in wanted}
    if found != wanted:
        print(f"Error: found {found}, not {wanted}, by a broker of {RELEASE}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
