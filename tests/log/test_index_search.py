"""Searches in large indexes: what pages begin with is remembered, and forgotten when it is no longer so."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pykafka_broker.log.filesystem import CachedFile, FileCache, OsFileSystem
from pykafka_broker.log.index import OffsetIndex

BASE = 1000


def file(path: Path) -> CachedFile:
    return CachedFile(FileCache(OsFileSystem()), str(path / "index"))


@pytest.mark.parametrize("seed", range(4))
def test_searches_between_appends_and_truncations_find_what_is_there_then(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    index = OffsetIndex(file(tmp_path), BASE, fresh=True)
    entries: list[tuple[int, int]] = []
    for _ in range(10):
        offset, position = entries[-1] if entries else (BASE, 0)
        for _ in range(draw.randrange(900)):
            offset, position = offset + draw.randrange(1, 5), position + draw.randrange(1, 9000)
            entries.append((offset, position))
            index.append(offset, position)
        step = draw.random()
        if step < 0.3:
            cut = draw.randrange(BASE, offset + 2)
            index.truncate_to(cut)
            entries = [entry for entry in entries if entry[0] < cut]
        elif step < 0.4:
            index.clear()
            entries.clear()
        elif step < 0.5:
            index.write_out()
        asked = [(draw.randrange(BASE, offset + 3), draw.randrange(position + 3)) for _ in range(20)]
        asked += [entries[at] for page in range(512, len(entries), 512) for at in (page - 1, page)]
        for offset, position in asked:
            assert index.floor(offset) == max(((o, p) for o, p in entries if o <= offset), default=None)
            assert index.floor_position(position) == max(((o, p) for o, p in entries if p <= position), default=None)


def test_a_search_in_a_large_index_reads_one_page(tmp_path: Path, reads: list[int]) -> None:
    index = OffsetIndex(file(tmp_path), BASE, fresh=True)
    for number in range(20_000):
        index.append(BASE + number, number * 100)
    index.write_out()
    assert index.floor(BASE + 10) == (BASE + 10, 1000)
    reads.clear()
    assert index.floor(BASE + 15_000) == (BASE + 15_000, 1_500_000)
    assert sum(reads) <= 4096
