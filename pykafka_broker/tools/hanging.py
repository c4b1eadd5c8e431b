"""Hanging transactions: where to look for them, and which of those that are open they are.

Rule: one hangs if its producer has no transactional id that any coordinator knows, or if that id's transaction does not
have the partition.
"""

from __future__ import annotations

from collections.abc import Collection

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, Refused, check
from pykafka_broker.client.leaders import Place
from pykafka_broker.client.transactions import Producer, describe_producers, describe_transaction, list_transactions
from pykafka_broker.protocol.errors import ErrorCode

Open = tuple[Place, Producer]


async def places_to_search(
    client: Client, topic: str | None, partition: int | None, broker_id: int | None
) -> list[Place]:
    """Partitions of that topic or of all, that partition, and only what that broker has. Raises ClientError."""
    if topic is not None and partition is not None:
        return [(topic, partition)]
    metadata = await client.metadata(None if topic is None else [topic], call="listTopics")
    found = []
    for each in metadata.topics:
        check(each.error_code)
        for one in each.partitions:
            if each.name is not None and (broker_id is None or broker_id in one.replica_nodes):
                found.append((each.name, one.partition_index))
    return sorted(found)


async def find_hanging(client: Client, places: Collection[Place], oldest_ms: int, broker_id: int | None) -> list[Open]:
    """Those with nothing new since `oldest_ms`. Raises ClientError."""
    if not places:
        return []
    opened = await _long_open(client, places, oldest_ms, broker_id)
    if not opened:
        return []
    ids = {each.producer_id for _, each in opened}
    names = {each.producer_id: each.transactional_id for each in await list_transactions(client, producer_ids=ids)}
    hanging = []
    for place, producer in opened:
        name = names.get(producer.producer_id)
        if name is None or not await _has(client, name, producer, place):
            hanging.append((place, producer))
    return hanging


async def _long_open(client: Client, places: Collection[Place], oldest_ms: int, broker_id: int | None) -> list[Open]:
    found = await describe_producers(client, places, broker_id)
    opened = []
    for place, producers in sorted(found.items(), key=lambda each: each[0]):
        if isinstance(producers, ClientError):
            raise producers
        opened += [
            (place, each) for each in producers if each.start_offset is not None and each.last_timestamp < oldest_ms
        ]
    return opened


async def _has(client: Client, name: str, producer: Producer, place: Place) -> bool:
    """Whether the transaction of that id is this one."""
    try:
        _, state = await describe_transaction(client, name)
    except Refused as error:
        if error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return False
        raise
    there = {(each.topic, partition) for each in state.topics for partition in each.partitions}
    return bool(state.producer_id == producer.producer_id and place in there)
