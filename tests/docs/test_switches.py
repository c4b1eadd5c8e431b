"""A key of this broker's own that a page names is there, and each of them is explained where the differences are.

So is each flag, command and extra on the page about running the broker.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

import pytest

from pykafka_broker.cli.commands import SUMMARIES, flags
from pykafka_broker.cli.help import parser_of
from pykafka_broker.config.extensions import EMULATE, OWN_NAMES, STRICT
from pykafka_broker.tools import TOOLS
from tests.docs.blocks import PAGES, ROOT

KEY = re.compile(r"`(pykafka\.[a-z.]+[a-z])(?=[`=])")

FOR_DEVELOPERS = {"test", "interop", "readers", "docs", "dev"}  # extras of those who work on the broker


def keys_in(page: Path) -> set[str]:
    return set(KEY.findall(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_key_that_a_page_names_is_there(page: Path) -> None:
    assert keys_in(page) <= OWN_NAMES


def test_what_can_be_switched_stands_among_the_differences() -> None:
    assert keys_in(ROOT / "docs" / "differences.md") == OWN_NAMES - {EMULATE, STRICT}


def test_running_names_every_flag_command_and_extra() -> None:
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    told = {word for each in flags(parser_of("")) if each.help != argparse.SUPPRESS for word in each.option_strings}
    assert {word for word in told if word.startswith("--")} - {"--help"} <= set(re.findall(r"--[a-z-]+", page))
    synopsis = page[page.index("```text") : page.index("```\n\n| | |")]
    own = {command for group in SUMMARIES.values() if group is not TOOLS for command in group}
    assert own <= set(re.findall(r"[a-z-]+", synopsis))
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    rows = page[page.index("## Extras") : page.index("## Options")]
    assert set(re.findall(r"^\| `([a-z-]+)`", rows, re.MULTILINE)) == extras - FOR_DEVELOPERS
