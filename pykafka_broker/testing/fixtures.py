"""pytest fixtures on top of `kafka_broker`: a topic, and clients of the installed library.

The module stands apart from its reader `pytest_plugin`, whose subject is the broker.

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
from contextlib import ExitStack, contextmanager
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


_CLASSES = {
    "confluent": {
        "producer": ("confluent_kafka", "Producer"),
        "consumer": ("confluent_kafka", "Consumer"),
        "admin": ("confluent_kafka.admin", "AdminClient"),
    },
    "kafka-python": {
        "producer": ("kafka", "KafkaProducer"),
        "consumer": ("kafka", "KafkaConsumer"),
        "admin": ("kafka", "KafkaAdminClient"),
    },
}


def new_client(
    name: str, kind: str, settings: dict[str, Any], topics: Sequence[str] = ()
) -> tuple[Any, Callable[[], object]]:
    """Return a client of a library, and a function to end the client."""
    module, client_class = _CLASSES[name][kind]
    make = getattr(importlib.import_module(module), client_class)
    if name == "kafka-python":
        client = make(*topics, **settings)
        return client, client.close
    client = make(settings)
    if topics:
        client.subscribe(list(topics))
    ends = {"producer": lambda: client.flush(10), "consumer": lambda: client.close()}
    return client, ends.get(kind, lambda: None)


def _from_the_beginning(name: str, group: str) -> dict[str, Any]:
    """Return the settings of a consumer of a group."""
    if name == "confluent":
        return {"group.id": group, "auto.offset.reset": "earliest"}
    return {"group_id": group, "auto_offset_reset": "earliest"}


def _own_id(name: str, kind: str) -> dict[str, Any]:
    """Return a client id that is the same in each run of a test: the chaos of a seed depends on it.

    Those of kafka-python, and of aiokafka's producers, count the clients of the process. librdkafka's is "rdkafka".
    """
    return {} if name == "confluent" else {"client_id": f"{name}-{kind}"}


# -- fixtures


Make = Callable[..., Any]
_STARTS = 20  # of a client, until no chaos disturbs the first request
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
    try:
        return library(pytestconfig.getini("kafka_client") or None)
    except NoClient as error:
        pytest.skip(str(error))


@contextmanager
def _factory(broker: Any, name: str, kind: str) -> Iterator[Make]:
    """Make clients of a broker, and end them all with the block."""
    with ExitStack() as stack:

        def make(*topics: str, **settings: Any) -> Any:
            for wrong in (each for each in topics if kind != "consumer" or not isinstance(each, str)):
                topic = ", and a topic is a name" if kind == "consumer" else ""
                raise TypeError(f"settings have names, such as **{{'client.id': 'shop'}}{topic}; not {wrong!r}")
            given = broker.client_config(name) | _own_id(name, kind) | settings
            client, end = new_client(name, kind, given, topics)
            stack.callback(end)
            return client

        yield make


@pytest.fixture
def kafka_producer_factory(kafka_broker: Any, kafka_client: str) -> Iterator[Make]:
    """Makes producers: `kafka_producer_factory(**settings)`, in the words of the library (`{"linger.ms": 5}`)."""
    with _factory(kafka_broker, kafka_client, "producer") as make:
        yield make


@pytest.fixture
def kafka_consumer_factory(request: pytest.FixtureRequest, kafka_broker: Any, kafka_client: str) -> Iterator[Make]:
    """Makes consumers from the beginning: `kafka_consumer_factory("topic", group="billing", **settings)`.

    Without a group each has its own.
    """
    with _factory(kafka_broker, kafka_client, "consumer") as make:

        def consumer(*topics: str, group: str | None = None, **settings: Any) -> Any:
            return make(*topics, **(_from_the_beginning(kafka_client, group or own_name(request)) | settings))

        yield consumer


@pytest.fixture
def kafka_admin_factory(kafka_broker: Any, kafka_client: str) -> Iterator[Make]:
    """Makes admin clients: `kafka_admin_factory(**settings)`."""
    with _factory(kafka_broker, kafka_client, "admin") as make:
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
        own = _own_id("aiokafka", "producer")
        return _aiokafka().AIOKafkaProducer(**(kafka_broker.client_config("aiokafka") | own | settings))

    return make


@pytest.fixture
def aiokafka_consumer_factory(request: pytest.FixtureRequest, kafka_broker: Any) -> Make:
    """Makes consumers of aiokafka, from the beginning.

    `async with aiokafka_consumer_factory("topic", group="billing", **settings) as consumer`; without a group each has
    its own.
    """

    def make(*topics: str, group: str | None = None, **settings: Any) -> Any:
        own = _own_id("aiokafka", "consumer") | _from_the_beginning("aiokafka", group or own_name(request))
        return _aiokafka().AIOKafkaConsumer(*topics, **(kafka_broker.client_config("aiokafka") | own | settings))

    return make


@_async_fixture
async def aiokafka_producer(aiokafka_producer_factory: Make) -> AsyncIterator[Any]:
    """A started producer of aiokafka."""
    producer = await _started(aiokafka_producer_factory)
    try:
        yield producer
    finally:
        await producer.stop()


@_async_fixture
async def aiokafka_consumer(aiokafka_consumer_factory: Make, kafka_topic: str) -> AsyncIterator[Any]:
    """A started consumer of aiokafka, of `kafka_topic` from the beginning, in a new group."""
    consumer = await _started(lambda: aiokafka_consumer_factory(kafka_topic))
    try:
        yield consumer
    finally:
        await consumer.stop()


async def _started(make: Make) -> Any:
    """Return a started client of aiokafka, which asks each address only once: under chaos that question may be lost."""
    for left in reversed(range(_STARTS)):
        client = make()
        try:
            await client.start()
        except BaseException as error:
            await client.stop()
            if not (left and isinstance(error, _aiokafka().errors.KafkaConnectionError)):
                raise
        else:
            return client
    raise AssertionError("the last start returns or raises")


def _aiokafka() -> Any:
    return pytest.importorskip("aiokafka", reason="aiokafka is not installed: pip install aiokafka")
