"""Folders of built programs: made by one process at a time, and whole before a program runs from them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interop.toolchains import digest, made_once


def test_a_folder_is_made_once_and_the_others_wait_until_it_is_whole(tmp_path: Path) -> None:
    folder, makers = tmp_path / "program", []

    def make() -> None:
        makers.append(1)
        time.sleep(0.2)
        (folder / "package").write_text("whole")

    def use(_: int) -> str:
        return (made_once(folder, "key", make) / "package").read_text()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(use, range(4))) == ["whole"] * 4
    assert makers == [1]


def test_an_unfinished_folder_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "program"

    def fail() -> None:
        (folder / "half").touch()
        raise OSError("the network is gone")

    with pytest.raises(OSError, match="network"):
        made_once(folder, "key", fail)
    made_once(folder, "key", (folder / "whole").touch)
    assert not (folder / "half").exists()
    made_once(folder, "key", lambda: pytest.fail("made twice"))
    made_once(folder, "other key", (folder / "newer").touch)
    assert not (folder / "whole").exists()


def test_a_digest_follows_contents_and_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    first = digest(tmp_path)
    (tmp_path / "a").write_text("2")
    second = digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert len({first, second, digest(tmp_path)}) == 3
