"""The text of an error is for people: the code decides by the error's type, code or fields.

The client took any error with "certificate" in its text for a login that is refused for good.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import Source, sources

ROOT = Path(__file__).parents[2]
_READING = {"endswith", "find", "index", "partition", "removeprefix", "removesuffix", "replace", "rpartition", "rsplit"}
_READING |= {"split", "splitlines", "startswith"}
_ERRORS = ("Error", "Exception", "Timeout")  # in the name of a type


def texts_read(source: Source) -> Iterator[int]:
    """Yield the lines that look into the text of a caught error, or of an error that a function takes."""
    taken = (each for each in source.nodes(ast.arg) if each.annotation and _is_error(ast.unparse(each.annotation)))
    errors = {each.name for each in source.nodes(ast.ExceptHandler)} | {each.arg for each in taken}

    def is_text(node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and ast.unparse(node.func) == "str" and ast.unparse(node.args[0]) in errors

    for each in source.nodes(ast.Compare):
        sides = (each.left, *each.comparators)
        searched = isinstance(each.ops[0], ast.In | ast.NotIn) and is_text(sides[1])
        if searched or (any(map(is_text, sides)) and any(isinstance(side, ast.Constant) for side in sides)):
            yield each.lineno
    for each in source.nodes(ast.Call):
        if isinstance(each.func, ast.Attribute) and each.func.attr in _READING and is_text(each.func.value):
            yield each.lineno


def _is_error(annotation: str) -> bool:
    return any(each in annotation for each in _ERRORS)


def test_nothing_is_decided_by_the_text_of_an_error() -> None:
    found = sources(ROOT, "pykafka_broker")
    assert not [f"{name}:{line}" for name, source in found.items() for line in texts_read(source)]


def test_such_a_decision_is_found() -> None:
    lines = [
        "def f(error: LinkError):",
        "    if 'certificate' in str(error): ...",
        "    told = str(error).partition(': ')",
        "    if str(error) == 'gone' or error.code == 3: ...",
        "    if str(error) not in reported: log(f'{error}')",
    ]
    assert sorted(texts_read(Source("\n".join(lines)))) == [2, 3, 4]
