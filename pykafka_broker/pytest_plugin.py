"""Fixtures for tests against a broker: `kafka_broker` and `kafka_broker_factory`.

Rule: `kafka_broker` is one broker for the whole run unless `--kafka-broker-scope` or the ini option of that name says
otherwise, so tests that share it name their topics and groups apart; a factory's brokers belong to one test. When a
test fails, what its brokers logged meanwhile stands in the report.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pykafka_broker.testing import KafkaBroker

SCOPES = ("session", "package", "module", "class", "function")
_BROKERS = pytest.StashKey[list[tuple["KafkaBroker", int]]]()  # a test's brokers, and how much they had logged before


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka broker")
    group.addoption("--kafka-broker-scope", choices=SCOPES, help="how long the broker of `kafka_broker` lives")
    parser.addini("kafka_broker_scope", "how long the broker of `kafka_broker` lives", default="session")
    parser.addini("kafka_broker_config", "its broker configs, one key=value a line", type="linelist")


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    return config.getoption("--kafka-broker-scope") or config.getini("kafka_broker_scope")


@pytest.fixture(scope=_scope)
def kafka_broker(pytestconfig: pytest.Config) -> Iterator[KafkaBroker]:
    """A running broker; `kafka_broker.bootstrap_servers` is what clients want."""
    from pykafka_broker.testing import KafkaBroker

    pairs = (line.partition("=") for line in pytestconfig.getini("kafka_broker_config"))
    with KafkaBroker({name.strip(): value.strip() for name, _, value in pairs}) as broker:
        yield broker


@pytest.fixture
def kafka_broker_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., KafkaBroker]]:
    """Starts brokers that end with the test: `kafka_broker_factory({"num.partitions": 3})`, arguments as
    `KafkaBroker`."""
    from pykafka_broker.testing import KafkaBroker

    used = request.node.stash.setdefault(_BROKERS, [])
    with ExitStack() as stack:

        def start(*args: Any, **kwargs: Any) -> KafkaBroker:
            broker = stack.enter_context(KafkaBroker(*args, **kwargs))
            used.append((broker, 0))
            return broker

        yield start


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    shared = getattr(item, "funcargs", {}).get("kafka_broker")
    if shared is not None:
        item.stash.setdefault(_BROKERS, []).append((shared, shared.log_size))


@pytest.hookimpl(hookwrapper=True)  # the older form: whoever has pytest 7 with an early pluggy has this plugin as well
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.when == "call" and report.failed:
        for broker, logged_before in item.stash.get(_BROKERS, []):
            if logged := broker.log_since(logged_before):
                report.sections.append((f"log of the broker at {broker.bootstrap_servers}", logged))
