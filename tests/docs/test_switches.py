"""A key of this broker's own that a page names is there, and each of them is explained where the differences are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pykafka_broker.config.extensions import EMULATE, OWN_NAMES, STRICT
from tests.docs.blocks import PAGES, ROOT

KEY = re.compile(r"`(pykafka\.[a-z.]+[a-z])(?=[`=])")


def keys_in(page: Path) -> set[str]:
    return set(KEY.findall(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_key_that_a_page_names_is_there(page: Path) -> None:
    assert keys_in(page) <= OWN_NAMES


def test_what_can_be_switched_stands_among_the_differences() -> None:
    assert keys_in(ROOT / "docs" / "differences.md") == OWN_NAMES - {EMULATE, STRICT}
