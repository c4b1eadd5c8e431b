"""Every Python snippet of the docs runs as it stands there.

Rule: a snippet is a program of its own; one that defines tests is run by pytest. The first of each page stands for all
in `make test`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import ALL, ROOT, Block, blocks

# Without two plugins of this project's own tests, which take two thirds of its start.
PYTEST = ["-m", "pytest", "-q", *(f"-pno:{plugin}" for plugin in ("cacheprovider", "schemathesis", "hypothesispytest"))]


def of_all_pages() -> Iterator[Any]:
    pages: set[str] = set()
    for block in blocks("python"):
        page = block.name.partition("-python-")[0]
        yield pytest.param(block, id=block.name, marks=[pytest.mark.whole] if page in pages else [])
        pages.add(page)


@pytest.mark.parametrize("block", list(of_all_pages()))
def test_a_snippet_runs(block: Block, tmp_path: Path) -> None:
    run(block.name, block.text, tmp_path)


@pytest.mark.parametrize("name", ["ci.md-python-1", "spark.md-python-1"])
def test_a_snippet_that_is_left_out_compiles(name: str) -> None:
    (block,) = (each for each in ALL if each.name == name)
    compile(block.text, name, "exec")


def run(name: str, snippet: str, directory: Path) -> None:
    file = directory / "test_snippet.py"
    file.write_text(snippet)
    tests = "def test_" in snippet and "__main__" not in snippet
    command = [sys.executable, *(PYTEST if tests else ())]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run([*command, file], cwd=directory, env=environment, capture_output=True, text=True, timeout=180)
    assert ran.returncode == 0, f"{name}\n{ran.stdout}{ran.stderr}"
