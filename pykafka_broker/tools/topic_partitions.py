"""Topics with or without partitions: `topic` or `topic:0,1,2`.

Rule: a topic without partitions stands for all that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, of_code
from pykafka_broker.client.leaders import Place
from pykafka_broker.client.properties import integer, java_split
from pykafka_broker.client.topics import describe_topics
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.tools.frame import UsageError


def parse_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """The partitions of each topic, None for all. Raises UsageError."""
    found: dict[str, list[int] | None] = {}
    for text in texts:
        topic, colon, partitions = text.partition(":")
        try:
            indexes = [integer(each) for each in java_split(",", partitions)] if colon else None
        except ValueError:
            raise UsageError(f"Invalid partition '{partitions}' specified in topic arg '{text}'") from None
        before = found.get(topic)
        found[topic] = indexes if indexes is None or before is None else before + indexes
    return found


async def places_of_topics(client: Client, topics: Mapping[str, list[int] | None]) -> tuple[list[Place], list[str]]:
    """In their order, and the topics that are not there where all of their partitions are meant."""
    described = await describe_topics(client, [topic for topic, indexes in topics.items() if indexes is None])
    places: list[Place] = []
    missing: list[str] = []
    for topic, indexes in topics.items():
        if indexes is not None:
            places += [(topic, each) for each in indexes]
        elif topic in described:
            places += [(topic, each.partition) for each in described[topic].partitions]
        else:
            missing.append(topic)
    return sorted(set(places)), missing


async def places_within(client: Client, topics: dict[str, list[int] | None]) -> list[Place]:
    """In their order. Raises ClientError where a topic or a partition is not there."""
    places, _ = await places_of_topics(client, topics)
    there, missing = await places_of_topics(client, dict.fromkeys(topics))
    if missing:
        raise ClientError(of_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)[1])
    lacking = ", ".join(f"{topic}-{partition}" for topic, partition in sorted({*places} - {*there}))
    if lacking:
        raise ClientError(f'The partitions "{lacking}" do not exist')
    return places
