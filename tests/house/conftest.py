"""The parsed package, for the tests of this folder alone: one worker runs them all (`group_of`), and forgets it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.house.sources import sources


@pytest.fixture(scope="package", autouse=True)
def parsed_once() -> Iterator[None]:
    """Drop 760,000 nodes of syntax trees after the last test: every later round of the collector would visit them."""
    yield
    sources.cache_clear()
