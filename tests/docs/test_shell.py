"""Every snippet for a shell runs beside a broker, prints what the page shows, and names options that there are.

Rule: a snippet runs as it stands, but for three things. The broker that it speaks to is on a free port, and not on
localhost:9092, its control API not on 9644. What it would install is installed: `pip`, `make` and a virtual environment
do nothing. And a broker that it starts in the foreground is told to stop when it is ready.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka_broker.cli.commands import COMMANDS, flags, subcommands, without_script
from pykafka_broker.cli.configs import parser as keys_parser
from pykafka_broker.cli.help import parser_of
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools import TOOLS
from tests.docs.blocks import ALL, PAGES, ROOT, Block, blocks, name_of

pytestmark = pytest.mark.posix("snippets for a POSIX shell")

BASH = ["bash", "-euo", "pipefail"]
SHIM = """#!/bin/bash
export PYTHONPATH={root}
[[ "${{1:-}}" != --* || " $* " == *" --help "* ]] && exec {python} -m pykafka_broker "$@"
[[ " $* " == *" --listen "* ]] || set -- "$@" --listen 0
[[ -n "${{IN_BACKGROUND:-}}" ]] && exec {python} -m pykafka_broker "$@"
{python} -m pykafka_broker "$@" > said & broker=$!
until grep -q '^listening on' said || ! kill -0 $broker 2> /dev/null; do sleep 0.05; done
cat said
kill $broker 2> /dev/null
wait $broker
"""
PYTHON = """#!/bin/sh
[ "$1 $2" = "-m venv" ] || exec {python} "$@"
mkdir -p "$3/bin" && touch "$3/bin/activate"
"""
COMMAND = re.compile(r"(?:^|[|$(] *|\bexec )pykafka-broker((?: (?:[^|\n>&']|'[^']*')*)?)", re.MULTILINE)
SHOWN_TO_FAIL = ("pykafka-broker --no-such-flag", "pykafka-broker tpics --list", "pykafka-broker topics --lst")
SHOWN = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of a reader who has installed everything."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("pip", "make"):
        (programs / name).write_text("#!/bin/sh\n")
    (programs / "python3").write_text(PYTHON.format(python=shlex.quote(sys.executable)))
    (programs / "pykafka-broker").write_text(
        SHIM.format(root=shlex.quote(str(ROOT)), python=shlex.quote(sys.executable))
    )
    for program in programs.iterdir():
        program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "PYKAFKA_"))}
    return kept | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def serving() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def broker(serving: KafkaBroker) -> KafkaBroker:
    serving.reset()
    return serving


def to(broker: KafkaBroker, text: str) -> str:
    assert broker.control_url is not None
    return text.replace("localhost:9092", broker.bootstrap_servers).replace("http://127.0.0.1:9644", broker.control_url)


def run(script: str, shell: dict[str, str], directory: Path) -> str:
    """Run the script, which must succeed, and return its output."""
    environment = shell | ({"IN_BACKGROUND": "1"} if re.search(r"(?<!&)&$", script, re.MULTILINE) else {})
    done = subprocess.run(
        [*BASH, "-c", script], cwd=directory, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("block", blocks("sh"), ids=name_of)
def test_a_snippet_runs(block: Block, broker: KafkaBroker, shell: dict[str, str], tmp_path: Path) -> None:
    if "--topic" in block.text and "--create" not in block.text:  # made further up on its page
        for topic in re.findall(r"--topic (\S+)", block.text):
            if topic not in [each["name"] for each in broker.topics()]:
                broker.create_topic(topic)
    run(to(broker, block.text), shell, tmp_path)


@pytest.mark.parametrize("block", blocks("console"), ids=name_of)
def test_a_snippet_prints_what_is_shown(
    block: Block, broker: KafkaBroker, shell: dict[str, str], tmp_path: Path
) -> None:
    steps = SHOWN.findall(block.text)
    assert steps
    for command, shown in steps:
        printed = run(to(broker, command), shell, tmp_path)
        quiet = [line for line in printed.splitlines() if "Processed a total" not in line or "Processed" in shown]
        assert quiet == to(broker, shown).splitlines(), command


@pytest.mark.parametrize("block", [each for each in ALL if each.language == "sh"], ids=name_of)
def test_a_snippet_is_of_the_shell(block: Block) -> None:
    done = subprocess.run([*BASH, "-n"], input=block.text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def unknown_flags(text: str) -> list[str]:
    """Return the options in a text that the command of their line does not have."""
    wrong = []
    for command in COMMAND.findall(text.replace("\\\n", " ")):
        words = re.sub(r"'[^']*'|\$\([^)]*\)?", "x", command).split()
        named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", command))
        wrong += sorted(flag for flag in named if flag not in _flags_of(words))
    return wrong


def _flags_of(words: list[str]) -> set[str]:
    name = without_script(words[0]) if words else ""
    name = name if name in {*COMMANDS, *TOOLS} else ""
    parsers = [keys_parser(), parser_of("configs")] if name == "configs" else [parser_of(name)]
    parsers += [within for parser in parsers for within in subcommands(parser).values()]
    return {spelt for parser in parsers for action in flags(parser) for spelt in action.option_strings}


@pytest.mark.parametrize("block", [each for each in ALL if "pykafka-broker " in each.text], ids=name_of)
def test_the_options_of_a_snippet_are_there(block: Block) -> None:
    assert unknown_flags(block.text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_options_in_its_sentences_are_there(page: Path) -> None:
    wrong = [
        said
        for said in re.findall(r"`(pykafka-broker [^`]+)`", page.read_text(encoding="utf-8"))
        if unknown_flags(said) and said not in SHOWN_TO_FAIL
    ]
    assert wrong == []


def test_an_option_that_is_gone_is_noticed() -> None:
    script = "pykafka-broker --ephemeral --gone\necho a | pykafka-broker topics --list --lost x \\\n  --bad\n"
    assert unknown_flags(script) == ["--gone", "--bad", "--lost"]
    assert unknown_flags("pykafka-broker features upgrade --release-version 4.0\n") == []
