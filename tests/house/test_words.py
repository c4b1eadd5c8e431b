"""Names and first lines of docstrings: a public class name stands for one class, and a first line says its subject."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import Source, sources

ROOT = Path(__file__).resolve().parents[2]
# What a first line may not begin with: the reader does not know yet what the word stands for.
PRONOUNS = re.compile(r"(It|Its|Of|Those|These|Who|Whose|Whoever|Whatever|That|This|They|Their|What|One)\b")


def _by_hand() -> Iterator[tuple[str, Source]]:
    """Yield name and source of each module that is written by hand."""
    return ((name, source) for name, source in sources(ROOT, "pykafka_broker").items() if not source.is_made)


def _public_classes() -> Counter[str]:
    return Counter(
        node.name for _, source in _by_hand() for node in source.nodes(ast.ClassDef) if not node.name.startswith("_")
    )


def _pronoun_lines() -> list[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (
        (name, ast.get_docstring(node, clean=False) or "")
        for name, source in _by_hand()
        for node in source.nodes(*documented)
    )
    return [f"{name}: {text.splitlines()[0]}" for name, text in found if PRONOUNS.match(text.lstrip())]


def test_a_public_class_name_stands_for_one_class() -> None:
    assert [name for name, count in _public_classes().items() if count > 1] == []


def test_first_lines_of_docstrings_say_their_subject() -> None:
    assert _pronoun_lines() == []
