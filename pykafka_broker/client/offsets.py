"""Offsets of partitions: where they begin and end, and which record is the first of a time.

Rule: a time is a timestamp in milliseconds or one of the constants; whether a node knows a constant depends on the
version that it serves, and one that does not refuses that partition with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.leaders import Answered, Place, ask_leaders
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.enums import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    IsolationLevel,
)
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.runtime import Message

_FROM_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_NO_REPLICA = -1


class Found(NamedTuple):
    """An offset, -1 where there is none, and the record's timestamp and leader epoch, -1 where they are not told."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


def by_topic(places: Iterable[Place]) -> list[tuple[str, list[int]]]:
    """Partitions of each topic, both in order."""
    return [(topic, [each for _, each in of]) for topic, of in groupby(sorted(places), lambda place: place[0])]


async def list_offsets(
    client: Client, times: Mapping[Place, int], *, isolation_level: int = IsolationLevel.READ_UNCOMMITTED
) -> dict[Place, Any]:
    """What is `Found` for each place, or its ClientError. READ_COMMITTED: the end is that of decided transactions."""
    lowest = max((_FROM_VERSION.get(time, 1) for time in times.values()), default=0)
    if isolation_level == IsolationLevel.READ_COMMITTED:
        lowest = max(lowest, 2)

    def make(places: list[Place]) -> Message:
        topics = [
            ListOffsetsTopic(topic, [ListOffsetsPartition(index, timestamp=times[topic, index]) for index in indexes])
            for topic, indexes in by_topic(places)
        ]
        return ListOffsetsRequest(_NO_REPLICA, isolation_level, topics, client.request_timeout_ms)

    highest = SPECS[ApiKey.LIST_OFFSETS].stable_max_version
    return await ask_leaders(client, times, make, _read, call="listOffsets", versions=(lowest, highest))


def _read(answer: Any) -> Answered:
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            [offset] = each.old_style_offsets or [each.offset]  # Kafka before 0.10.1
            found[topic.name, each.partition_index] = each.error_code, Found(offset, each.timestamp, each.leader_epoch)
    return found
