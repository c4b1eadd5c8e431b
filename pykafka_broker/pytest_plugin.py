"""Fixtures for tests against a broker: `kafka_broker` and `kafka_broker_factory`.

Rule: `kafka_broker` is one broker for the whole run unless `--kafka-broker-scope` or the ini option of that name says
otherwise, so tests that share it must not use the same names for topics and groups; a factory's brokers belong to one
test. When a test fails, what its brokers logged meanwhile stands in the report.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pykafka_broker.testing import KafkaBroker

SCOPES = ("session", "package", "module", "class", "function")
_OWN = pytest.StashKey[list["KafkaBroker"]]()  # brokers of one test
_SHARED = pytest.StashKey[dict["KafkaBroker", int]]()  # brokers of many, and how much they had logged before this one


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka broker")
    group.addoption("--kafka-broker-scope", choices=SCOPES, help="how long the broker of `kafka_broker` lives")
    parser.addini("kafka_broker_scope", "how long the broker of `kafka_broker` lives", default="session")
    parser.addini("kafka_broker_config", "its broker configs, one key=value a line", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """What is wrong in the ini file is one line, before any test is looked for."""
    config.stash[_SHARED] = {}
    if (scope := config.getini("kafka_broker_scope")) not in SCOPES:
        raise pytest.UsageError(f"kafka_broker_scope = {scope}: it must be one of {', '.join(SCOPES)}")
    if configs := _configs(config):
        from pykafka_broker.config.broker import unknown_configs

        for name in unknown_configs(configs):
            told = f"{config.inipath}: kafka_broker_config: unknown config {name} is ignored by the broker"
            config.issue_config_time_warning(pytest.PytestConfigWarning(told), stacklevel=2)


def _configs(config: pytest.Config) -> dict[str, str]:
    configs = {}
    for line in config.getini("kafka_broker_config"):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise pytest.UsageError(f"kafka_broker_config: {line}: it must be key=value")
        configs[name.strip()] = value.strip()
    return configs


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    return config.getoption("--kafka-broker-scope") or config.getini("kafka_broker_scope")


@pytest.fixture(scope=_scope)
def kafka_broker(pytestconfig: pytest.Config) -> Iterator[KafkaBroker]:
    """A running broker; `kafka_broker.bootstrap_servers` is what clients want."""
    __tracebackhide__ = True
    from pykafka_broker.testing import KafkaBroker

    shared = pytestconfig.stash[_SHARED]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is unknown has been told with the name of the ini file
        broker = KafkaBroker(_configs(pytestconfig))
    with broker:
        shared[broker] = broker.log_size
        yield broker
        del shared[broker]


@pytest.fixture
def kafka_broker_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., KafkaBroker]]:
    """Starts brokers that end with the test: `kafka_broker_factory({"num.partitions": 3})`, arguments as
    `KafkaBroker`."""
    from pykafka_broker.testing import KafkaBroker

    own = request.node.stash.setdefault(_OWN, [])
    with ExitStack() as stack:

        def start(*args: Any, **kwargs: Any) -> KafkaBroker:
            __tracebackhide__ = True
            broker = stack.enter_context(KafkaBroker(*args, **kwargs))
            own.append(broker)
            return broker

        yield start


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    shared = item.config.stash[_SHARED]
    shared.update({broker: broker.log_size for broker in shared})


@pytest.hookimpl(hookwrapper=True)  # the older form: whoever has pytest 7 with an early pluggy has this plugin as well
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.failed:
        own: list[KafkaBroker] = item.stash.get(_OWN, [])
        for broker, logged_before in (item.config.stash[_SHARED] | dict.fromkeys(own, 0)).items():
            if logged := broker.log_since(logged_before):
                report.sections.append((f"log of the broker at {broker.bootstrap_servers}", logged))
