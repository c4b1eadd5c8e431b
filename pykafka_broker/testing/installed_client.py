"""Producers, consumers and admin clients of whichever client library is installed, for fixtures.

Rule: a library is imported when it is asked for; what is handed back is the library's own object, with what a test
wants of it and the settings that were given on top.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

LIBRARIES = {"confluent": "confluent_kafka", "kafka-python": "kafka"}  # by preference


class NoClient(LookupError):
    """No client library is installed."""


def library(wanted: str | None) -> str:
    """The name of the library that is wanted, or of the first that is installed. Raises NoClient."""
    for name, module in LIBRARIES.items():
        if wanted in (None, name) and importlib.util.find_spec(module) is not None:
            return name
    names = " or ".join(LIBRARIES) if wanted is None else wanted
    raise NoClient(f"no client is installed: pip install {names}")


def producer(name: str, settings: dict[str, Any]) -> tuple[Any, Callable[[], object]]:
    """A producer, and what ends it."""
    if name == "confluent":
        from confluent_kafka import Producer

        made = Producer(settings)
        return made, lambda: made.flush(10)
    from kafka import KafkaProducer

    client = KafkaProducer(**settings)
    return client, client.close


def consumer(
    name: str, topics: Sequence[str], group: str, settings: dict[str, Any]
) -> tuple[Any, Callable[[], object]]:
    """A consumer from the beginning of its topics, and what ends it."""
    if name == "confluent":
        from confluent_kafka import Consumer

        made = Consumer({"group.id": group, "auto.offset.reset": "earliest"} | settings)
        if topics:
            made.subscribe(list(topics))
        return made, made.close
    from kafka import KafkaConsumer

    client = KafkaConsumer(*topics, **({"group_id": group, "auto_offset_reset": "earliest"} | settings))
    return client, client.close


def admin(name: str, settings: dict[str, Any]) -> tuple[Any, Callable[[], object]]:
    """An admin client, and what ends it."""
    if name == "confluent":
        from confluent_kafka.admin import AdminClient

        return AdminClient(settings), lambda: None
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(**settings)
    return client, client.close
