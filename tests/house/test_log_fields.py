"""A `PartitionLog` is changed by its own methods alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pykafka_broker
from pykafka_broker.log.partition_log import PartitionLog

PACKAGE = Path(pykafka_broker.__file__).parent


def assigned(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Every attribute that a statement assigns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node


def is_of_a_log(target: ast.Attribute) -> bool:
    owner = target.value
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return target.attr in PartitionLog.__slots__ and name.strip("_") in {"log", "partition_log"}


def test_no_statement_outside_of_a_log_writes_its_fields() -> None:
    written = [
        f"{path.relative_to(PACKAGE)}:{target.lineno} {ast.unparse(target)}"
        for path in PACKAGE.rglob("*.py")
        if "log" in (text := path.read_text())
        for target in assigned(ast.parse(text))
        if is_of_a_log(target)
    ]
    assert written == []


def test_a_field_that_is_written_from_outside_is_found() -> None:
    found = [*filter(is_of_a_log, assigned(ast.parse("self.log.high_watermark, x = 1, 2\nself.high_watermark += 1")))]
    assert [ast.unparse(target) for target in found] == ["self.log.high_watermark"]
