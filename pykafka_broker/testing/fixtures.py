"""pytest fixtures on top of `kafka_broker`: a topic, and clients of the installed library. `pytest_plugin` offers them.

Rule: a fixture's topic or client has a name of its own and ends with the test. A library is imported when a fixture
asks for it; the fixture returns the library's own object, with the given settings on top of those for the broker.
Fixtures for aiokafka work with pytest-asyncio, in both of its modes, and with anyio; their factories work with anything
that runs a coroutine.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

# -- installed clients


LIBRARIES = {"confluent": "confluent_kafka", "kafka-python": "kafka"}  # by preference


class NoClient(LookupError):
    """No client library is installed."""


def library(wanted: str | None) -> str:
    """Return the name of the wanted library, or of the first installed library. Raises NoClient."""
    for name, module in LIBRARIES.items():
        if wanted in (None, name) and importlib.util.find_spec(module) is not None:
            return name
    names = " or ".join(LIBRARIES) if wanted is None else wanted
    raise NoClient(f"no client is installed: pip install {names}")


def made_producer(name: str, settings: dict[str, Any]) -> tuple[Any, Callable[[], object]]:
    """Return a producer, and a function to end the producer."""
    if name == "confluent":
        from confluent_kafka import Producer

        made = Producer(settings)
        return made, lambda: made.flush(10)
    from kafka import KafkaProducer

    client = KafkaProducer(**settings)
    return client, client.close


def made_consumer(
    name: str, topics: Sequence[str], group: str, settings: dict[str, Any]
) -> tuple[Any, Callable[[], object]]:
    """Return a consumer from the beginning of the topics, and a function to end the consumer."""
    if name == "confluent":
        from confluent_kafka import Consumer

        made = Consumer({"group.id": group, "auto.offset.reset": "earliest"} | settings)
        if topics:
            made.subscribe(list(topics))
        return made, made.close
    from kafka import KafkaConsumer

    client = KafkaConsumer(*topics, **({"group_id": group, "auto_offset_reset": "earliest"} | settings))
    return client, client.close


def made_admin(name: str, settings: dict[str, Any]) -> tuple[Any, Callable[[], object]]:
    """Return an admin client, and a function to end the client."""
    if name == "confluent":
        from confluent_kafka.admin import AdminClient

        return AdminClient(settings), lambda: None
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(**settings)
    return client, client.close


# -- fixtures


Make = Callable[..., Any]
_LONGEST = 200  # of a topic's name, which Kafka lets have 249


def own_name(request: pytest.FixtureRequest) -> str:
    """Return a unique name with the name of the test."""
    told = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name).strip("-.")
    return f"{told[:_LONGEST]}-{os.urandom(4).hex()}"


def _async_fixture(function: Any) -> Any:
    """Return an awaited fixture: pytest-asyncio takes pytest's own fixtures only in a single mode."""
    if importlib.util.find_spec("pytest_asyncio") is None:
        return pytest.fixture(function)
    return importlib.import_module("pytest_asyncio").fixture(function)


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_broker: Any) -> str:
    """The name of a new topic with a single partition."""
    name = own_name(request)
    kafka_broker.create_topic(name)
    return name


@pytest.fixture
def kafka_client(pytestconfig: pytest.Config) -> str:
    """The library of the client fixtures.

    The ini option `kafka_client`, or the first that is installed of "confluent" and "kafka-python".
    """
    wanted = pytestconfig.getini("kafka_client") or None
    if wanted is not None and wanted not in LIBRARIES:
        known = ", ".join(LIBRARIES)
        raise pytest.UsageError(f"kafka_client = {wanted}: it must be one of {known}")
    try:
        return library(wanted)
    except NoClient as error:
        pytest.skip(str(error))


@pytest.fixture
def kafka_producer_factory(kafka_broker: Any, kafka_client: str) -> Iterator[Make]:
    """Makes producers: `kafka_producer_factory(**settings)`, in the words of the library (`{"linger.ms": 5}`)."""
    with ExitStack() as stack:

        def make(**settings: Any) -> Any:
            made, end = made_producer(kafka_client, kafka_broker.client_config(kafka_client) | settings)
            stack.callback(end)
            return made

        yield make


@pytest.fixture
def kafka_consumer_factory(request: pytest.FixtureRequest, kafka_broker: Any, kafka_client: str) -> Iterator[Make]:
    """Makes consumers from the beginning: `kafka_consumer_factory("topic", group="billing", **settings)`.

    Without a group each has its own.
    """
    with ExitStack() as stack:

        def make(*topics: str, group: str | None = None, **settings: Any) -> Any:
            config = kafka_broker.client_config(kafka_client) | settings
            made, end = made_consumer(kafka_client, topics, group or own_name(request), config)
            stack.callback(end)
            return made

        yield make


@pytest.fixture
def kafka_admin_factory(kafka_broker: Any, kafka_client: str) -> Iterator[Make]:
    """Makes admin clients: `kafka_admin_factory(**settings)`."""
    with ExitStack() as stack:

        def make(**settings: Any) -> Any:
            made, end = made_admin(kafka_client, kafka_broker.client_config(kafka_client) | settings)
            stack.callback(end)
            return made

        yield make


@pytest.fixture
def kafka_producer(kafka_producer_factory: Make) -> Any:
    """A producer."""
    return kafka_producer_factory()


@pytest.fixture
def kafka_consumer(kafka_consumer_factory: Make, kafka_topic: str) -> Any:
    """A consumer of `kafka_topic`, from the beginning, in a new group."""
    return kafka_consumer_factory(kafka_topic)


@pytest.fixture
def kafka_admin(kafka_admin_factory: Make) -> Any:
    """An admin client."""
    return kafka_admin_factory()


# -- aiokafka


@pytest.fixture
def aiokafka_producer_factory(kafka_broker: Any) -> Make:
    """Makes producers of aiokafka: `async with aiokafka_producer_factory(**settings) as producer`."""

    def make(**settings: Any) -> Any:
        return _aiokafka().AIOKafkaProducer(**(kafka_broker.client_config("aiokafka") | settings))

    return make


@pytest.fixture
def aiokafka_consumer_factory(request: pytest.FixtureRequest, kafka_broker: Any) -> Make:
    """Makes consumers of aiokafka, from the beginning.

    `async with aiokafka_consumer_factory("topic", group="billing", **settings) as consumer`; without a group each has
    its own.
    """

    def make(*topics: str, group: str | None = None, **settings: Any) -> Any:
        own = {"group_id": group or own_name(request), "auto_offset_reset": "earliest"}
        return _aiokafka().AIOKafkaConsumer(*topics, **(kafka_broker.client_config("aiokafka") | own | settings))

    return make


@_async_fixture
async def aiokafka_producer(aiokafka_producer_factory: Make) -> AsyncIterator[Any]:
    """A started producer of aiokafka."""
    async with aiokafka_producer_factory() as producer:
        yield producer


@_async_fixture
async def aiokafka_consumer(aiokafka_consumer_factory: Make, kafka_topic: str) -> AsyncIterator[Any]:
    """A started consumer of aiokafka, of `kafka_topic` from the beginning, in a new group."""
    async with aiokafka_consumer_factory(kafka_topic) as consumer:
        yield consumer


def _aiokafka() -> Any:
    return pytest.importorskip("aiokafka", reason="aiokafka is not installed: pip install aiokafka")
