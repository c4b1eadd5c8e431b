"""An object that is empty is not absent: a default that stands for a missing argument is chosen by `is None`.

`slices or Slices(None)` took the node's own slices, empty as they are at a start, for missing ones: deletions and
openings of thousands of partitions were done in one turn, which no test of either noticed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.house.sources import Source, sources

ROOT = Path(__file__).parents[2]

_TRUTH = {"__len__", "__bool__"}


def classes_that_may_be_false(found: Iterable[Source]) -> set[str]:
    return {
        each.name
        for source in found
        for each in source.nodes(ast.ClassDef)
        if any(isinstance(part, ast.FunctionDef) and part.name in _TRUTH for part in each.body)
    }


def defaults_by_truth(source: Source, classes: set[str]) -> Iterator[int]:
    """Yield the lines of `x or Class(...)` where a `Class` may be false."""
    for each in source.nodes(ast.BoolOp):
        if isinstance(each.op, ast.Or):
            last = each.values[-1]
            if isinstance(last, ast.Call) and isinstance(last.func, ast.Name) and last.func.id in classes:
                yield each.lineno


def test_no_default_stands_for_an_empty_object() -> None:
    found = sources(ROOT, "pykafka_broker")
    classes = classes_that_may_be_false(found.values())
    assert "Slices" in classes
    assert not [f"{name}:{line}" for name, source in found.items() for line in defaults_by_truth(source, classes)]


def test_such_a_default_is_found() -> None:
    source = Source("class A:\n    def __len__(self): ...\ndef f(a=None): return a or A()\n")
    assert [*defaults_by_truth(source, classes_that_may_be_false([source]))] == [3]
