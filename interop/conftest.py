"""Fixtures of the interop suite. Rule: `pytest interop --target=kafka` runs it against a real Apache Kafka, and a test
has to pass there first, since what Kafka does is the measure.
"""

from __future__ import annotations

import locale
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from interop.java_exceptions import plain_exceptions
from interop.java_transactions import JavaClients
from interop.targets import BROKERS, Target, start

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from interop.browsing import Tab
    from pykafka_broker.testing import KafkaBroker

NewBroker = Callable[..., Target]
MakeTopic = Callable[..., str]
NUMBER = count()

# librdkafka makes names small by the locale: with a Turkish one it refuses SASL_PLAINTEXT (docs/troubleshooting.md).
if locale.setlocale(locale.LC_CTYPE).partition(".")[0] not in ("C", "POSIX"):
    os.environ["LC_ALL"] = locale.setlocale(locale.LC_CTYPE, "C.UTF-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target", default="pykafka", help="pykafka (default), cluster (three of ours), kafka, or HOST:PORT"
    )
    parser.addoption("--soak-minutes", default=60.0, type=float, help="how long the soak takes that --slow runs (60)")
    parser.addoption("--chaos-minutes", default=20.0, type=float, help="how long the chaos of --slow takes (20)")
    parser.addoption("--chaos-seed", default=1, type=int, help="what befalls a cluster is drawn from it (1)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ours_only: what a Kafka of today refuses or what looks into our own files")
    config.addinivalue_line("markers", "one_broker(reason): it counts on one broker, for that reason")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    target = config.getoption("--target")
    if target == "cluster":
        others = [item for item in items if not _takes_a_cluster(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if _takes_a_cluster(item)]
    for item in items:
        if target not in ("pykafka", "cluster") and item.get_closest_marker("ours_only"):
            item.add_marker(pytest.mark.skip(reason="only for our own broker"))
        alone = item.get_closest_marker("one_broker")
        if target == "cluster" and alone is not None:
            item.add_marker(pytest.mark.skip(reason=f"counts on one broker: {alone.args[0]}"))


def _takes_a_cluster(item: pytest.Item) -> bool:
    """Return whether the test's broker is that of the target; tests of security make their own."""
    return "target_name" in getattr(item, "fixturenames", ()) and not item.path.name.startswith("test_security")


@pytest.fixture(autouse=True)
def java_exceptions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep Java's own exceptions, although a session of Spark was open in this process before."""
    if request.node.get_closest_marker("spark"):
        yield
        return
    with plain_exceptions():
        yield


@pytest.fixture(scope="session")
def java() -> Iterator[JavaClients]:
    """Kafka's tools and Java clients, in one JVM for all tests of a worker: its start and its classes take a second."""
    with JavaClients() as clients:
        yield clients


@pytest.fixture(scope="session")
def target_name(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--target"))


@pytest.fixture
def soak_minutes(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--soak-minutes"))


@pytest.fixture
def chaos_minutes(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--chaos-minutes"))


@pytest.fixture
def chaos_seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--chaos-seed"))


@pytest.fixture(scope="session")
def broker(target_name: str) -> Iterator[Target]:
    """One broker with default settings for all tests that only need topics of their own."""
    with start(target_name) as running:
        yield running


@pytest.fixture(scope="session")
def broker_count(target_name: str) -> int:
    """The number of brokers, and of the replicas of a topic that is created without a replication factor."""
    return BROKERS if target_name == "cluster" else 1


@pytest.fixture
def new_broker(target_name: str) -> Iterator[NewBroker]:
    """A function that starts brokers with the given settings; they end with the test."""
    with ExitStack() as stack:
        yield lambda **config: stack.enter_context(
            start(target_name, {key.replace("_", "."): str(value) for key, value in config.items()})
        )


@pytest.fixture(scope="session")
def bootstrap(broker: Target) -> str:
    return broker.bootstrap_servers


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture
def make_topic(request: pytest.FixtureRequest, admin: KafkaAdminClient, broker_count: int) -> MakeTopic:
    """A function that creates a topic named after the test, with a number that makes the name unique."""

    def make(partitions: int = 1, **configs: object) -> str:
        test = f"{request.path.stem}-{request.node.name}".replace("test_", "")
        name = f"{re.sub(r'[^A-Za-z0-9]+', '-', test)}-{next(NUMBER)}"
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        admin.create_topics([NewTopic(name, partitions, broker_count, topic_configs=settings)], wait_for_metadata=True)
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """A topic of one partition."""
    return make_topic()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from interop.browsing import started_browser  # skips the test where there is no playwright

    with started_browser() as browser:
        yield browser


@pytest.fixture
def tab(browser: Browser, broker: KafkaBroker) -> Iterator[Tab]:
    """A tab on the page of the broker of the test's module."""
    from interop.browsing import Tab

    tab = Tab(browser, broker)
    yield tab
    tab.close()
    assert tab.wrongs == []
