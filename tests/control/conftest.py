"""A broker for the tests of the control API, which each file finds empty; within it topics are named apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka_broker.testing import KafkaBroker


@pytest.fixture(scope="package")
def _running() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def broker(_running: KafkaBroker) -> KafkaBroker:
    """A broker that each file finds empty."""
    _running.reset()
    return _running
