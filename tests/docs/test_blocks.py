"""No block of README and docs goes without a test, or without a reason."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.blocks import ALL, BY_LANGUAGE, LEFT_OUT, ROOT, blocks, blocks_of


def test_every_block_is_of_a_language_that_a_test_takes() -> None:
    assert {block.name for block in ALL if block.language not in BY_LANGUAGE} == set()
    said = [*BY_LANGUAGE.values(), *LEFT_OUT.values()]
    takers = {word for says in said for word in re.findall(r"[\w/]+\.py", says)}
    assert {name for name in takers if not (ROOT / name).exists()} == set()


def test_names_are_clear_and_those_left_out_are_there() -> None:
    names = [block.name for block in ALL]
    assert len(names) == len({*names})
    assert LEFT_OUT.keys() - {*names} == set()


def test_most_blocks_are_run() -> None:
    taken = [block for language in BY_LANGUAGE if BY_LANGUAGE[language] for block in blocks(language)]
    assert len(taken) > 60
    assert len(LEFT_OUT) < len(taken) / 4


def test_a_block_is_found_with_its_language_and_number(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n```sh\ntrue\n```\n\n```\nlook\n```\n\n```sh\nfalse\n```\n")
    assert [(each.name, each.text) for each in blocks_of(page)] == [
        ("page.md-sh-1", "true\n"),
        ("page.md--1", "look\n"),
        ("page.md-sh-2", "false\n"),
    ]
