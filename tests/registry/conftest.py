"""One broker with a registry for the tests of this folder; they name their subjects apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka_broker.testing import KafkaBroker
from tests.registry.rest import Rest


@pytest.fixture(scope="package")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(schema_registry=True) as broker:
        yield broker


@pytest.fixture
def rest(broker: KafkaBroker) -> Iterator[Rest]:
    rest = Rest(broker.schema_registry_url)
    yield rest
    rest.close()
