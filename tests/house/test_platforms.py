"""Tests say which systems they are for, where Windows or macOS lacks what they use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
USES = re.compile(
    r"/proc/self|f\"/proc/|/dev/full|\[\"bash\"|symlink_to\(|st_mode|send_signal\(signal\.|os\.kill\("
    r"|signal\.SIG(KILL|STOP|CONT|HUP|USR1|USR2|VTALRM)\b|os\.(fork|getpgid|getsid|makedev|mkfifo|pread|pwrite|set_blocking)\("
)
MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "termios"}
SAYS = re.compile(r"pytest\.mark\.(posix|linux|skipif)|importorskip")
IMITATIONS = {"elsewhere.py"}  # runs on Linux alone, for tests that say so


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.name in IMITATIONS or path == Path(__file__):
            continue
        if USES.search(text) or any(f"import {name}" in text for name in MODULES):
            yield str(path.relative_to(TESTS)), ast.parse(text)


def unsaid(name: str, tree: ast.Module) -> Iterator[str]:
    if any(isinstance(each, ast.Assign) and "pytestmark" in ast.unparse(each) for each in tree.body):
        return
    for node in tree.body:
        if isinstance(node, ast.Import) and MODULES & {each.name for each in node.names}:
            yield f"{name}: {ast.unparse(node)}"
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            source = "\n".join(ast.unparse(each) for each in (*node.decorator_list, *node.body))
            if USES.search(source.replace("'", '"')) and not SAYS.search(source):
                yield f"{name}::{node.name}"


def test_tests_that_need_a_system_say_so() -> None:
    assert [each for tree in trees() for each in unsaid(*tree)] == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def test_it():\n    os.kill(pid, 0)", ["x.py::test_it"]),
        ("@pytest.mark.posix('signals')\ndef test_it():\n    os.kill(pid, 0)", []),
        ("pytestmark = pytest.mark.linux('all')\ndef test_it():\n    os.kill(pid, 0)", []),
        ("import resource", ["x.py: import resource"]),
    ],
)
def test_what_is_not_said_is_found(code: str, found: list[str]) -> None:
    assert [*unsaid("x.py", ast.parse(code))] == found
