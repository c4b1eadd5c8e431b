"""Fixtures that the tests of the log share, beside the helpers in `support`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.log.filesystem import OsFile
from tests.log.support import FailingFileSystem


@pytest.fixture(autouse=True)
def _failures_are_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FailingFileSystem, "root", str(tmp_path))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of bytes that each read of a file asks for, in order."""
    lengths: list[int] = []
    read_at = OsFile.read_at

    def counted(handle: OsFile, length: int, position: int) -> bytes:
        lengths.append(length)
        return read_at(handle, length, position)

    monkeypatch.setattr(OsFile, "read_at", counted)
    return lengths
