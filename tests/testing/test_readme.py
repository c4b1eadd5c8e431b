"""README's first screen: the test that it shows passes, and pytest says what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"```python\n(.*?)```\n\n```console\n(.*?)```\n", re.DOTALL)
LINES_AT_MOST = 10
VARIES = re.compile(r"=+|[\d.]+s|\[100%\]|^(platform|rootdir:|plugins:) .*| +$")  # with the machine and its terminal


def first_example() -> tuple[str, list[str]]:
    """Return README's first test, and the lines below it that show the command and its output."""
    found = BLOCK.search(README.read_text())
    assert found is not None
    return found[1], found[2].splitlines()


def gist(lines: list[str]) -> list[str]:
    return [shown for line in lines if (shown := VARIES.sub("", line).strip())]


def test_the_first_example_is_short() -> None:
    example, _ = first_example()
    assert len(example.splitlines()) <= LINES_AT_MOST


@pytest.mark.usefixtures("only_our_plugin")
def test_the_first_example_passes_as_shown(pytester: pytest.Pytester) -> None:
    example, shown = first_example()
    pytester.makepyfile(test_orders=example)
    result = pytester.runpytest_subprocess("test_orders.py")
    result.assert_outcomes(passed=1)
    assert "$ pytest test_orders.py" in shown
    printed = shown[shown.index("$ pytest test_orders.py") + 1 :]
    assert gist(result.outlines) == gist(printed)
    assert len(gist(printed)) > 3
