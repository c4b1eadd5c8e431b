"""A `PartitionLog` is changed by its own methods alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from pykafka_broker.log.partition_log import PartitionLog
from tests.house.sources import Source, sources

ROOT = Path(__file__).resolve().parents[2]


def assigned(source: Source) -> Iterator[ast.Attribute]:
    """Yield every attribute that a statement assigns."""
    return (node for node in source.nodes(ast.Attribute) if isinstance(node.ctx, ast.Store))


def is_of_a_log(target: ast.Attribute) -> bool:
    owner = target.value
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return target.attr in PartitionLog.__slots__ and name.strip("_") in {"log", "partition_log"}


def test_no_statement_outside_of_a_log_writes_its_fields() -> None:
    written = [
        f"{name}:{target.lineno} {ast.unparse(target)}"
        for name, source in sources(ROOT, "pykafka_broker").items()
        for target in assigned(source)
        if is_of_a_log(target)
    ]
    assert written == []


def test_a_field_that_is_written_from_outside_is_found() -> None:
    found = [*filter(is_of_a_log, assigned(Source("self.log.high_watermark, x = 1, 2\nself.high_watermark += 1")))]
    assert [ast.unparse(target) for target in found] == ["self.log.high_watermark"]
