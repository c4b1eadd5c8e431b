"""Every Python snippet of the docs runs as it stands there.

Rule: a snippet is a program of its own; one that defines tests is run by pytest.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_TO_BE_RUN = {"architecture.md"}  # its blocks are declarations


def snippets() -> list[tuple[str, str]]:
    return [
        (f"{page.name}-{number}", block)
        for page in PAGES
        if page.name not in NOT_TO_BE_RUN
        for number, block in enumerate(BLOCK.findall(page.read_text()), 1)
    ]


@pytest.mark.parametrize(("name", "snippet"), snippets(), ids=[name for name, _ in snippets()])
def test_a_snippet_runs(name: str, snippet: str, tmp_path: Path) -> None:
    file = tmp_path / "test_snippet.py"
    file.write_text(snippet)
    command = (
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"] if "def test_" in snippet else [sys.executable]
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run([*command, file], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, f"{name}\n{ran.stdout}{ran.stderr}"
