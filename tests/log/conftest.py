"""What tests of the log share beside `support`."""

from __future__ import annotations

import pytest

from pykafka_broker.log.filesystem import OsFile


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each read of a file asks for."""
    lengths: list[int] = []
    read_at = OsFile.read_at

    def counted(handle: OsFile, length: int, position: int) -> bytes:
        lengths.append(length)
        return read_at(handle, length, position)

    monkeypatch.setattr(OsFile, "read_at", counted)
    return lengths
