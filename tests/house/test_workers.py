"""The groups of tests that share a worker name files that are there."""

from __future__ import annotations

from pathlib import Path

from conftest import LONG, TOGETHER, group_of

ROOT = Path(__file__).resolve().parents[2]


def test_a_file_is_a_group_unless_it_shares_a_session() -> None:
    assert group_of("tests/log/test_flush.py::test_a[b::c]") == "tests/log/test_flush.py"
    assert group_of("interop/spark/test_batch.py::test_a") == group_of("spark/tests/test_million.py::test_b")
    assert group_of("spark/tests/test_store.py::test_a") != group_of("spark/tests/test_crash.py::test_b")


def test_groups_name_files_that_are_there() -> None:
    sessions = {group for start, group in TOGETHER.items() if group != start}
    assert {start for start in TOGETHER if not (ROOT / start).exists()} == set()
    assert {group for group in LONG if group not in sessions and not (ROOT / group).exists()} == set()
