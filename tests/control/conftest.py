"""One broker for the tests of the control API; they name their topics apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka_broker.testing import KafkaBroker


@pytest.fixture(scope="package")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker
