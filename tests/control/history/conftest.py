"""A broker with a history, emptied for each test. It outlives the folder, so it has a process and a log of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka_broker.testing import KafkaBroker


@pytest.fixture(scope="package")
def whole_run() -> Iterator[KafkaBroker]:
    with KafkaBroker(history=True) as broker:
        yield broker


@pytest.fixture
def broker(whole_run: KafkaBroker) -> KafkaBroker:
    whole_run.reset()
    return whole_run
