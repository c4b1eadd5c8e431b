"""One flow of a mirror: topics, their configs and their records.

Rule: a record is written before its position is, so one may come twice after a crash, and none is lost. Records keep
their partition, timestamp, key and headers.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pykafka_broker.client.batches import Delivery
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.configs import ConfigChange, Resource, Source, alter_configs, describe_configs, source_of
from pykafka_broker.client.consumer import Chunk, Consumer
from pykafka_broker.client.errors import Refused
from pykafka_broker.client.leaders import Place, list_offsets
from pykafka_broker.client.producer import Producer
from pykafka_broker.client.topics import create_partitions, create_topic
from pykafka_broker.protocol.enums import EARLIEST, LATEST, AlterConfigOp, ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.record import Record
from pykafka_broker.tools.mirror_records import offset_sync, position, read_offset_sync, read_position
from pykafka_broker.tools.mirror_settings import Flow
from pykafka_broker.tools.progress import Bar

_POLL_MS = 500
_LOOKS = 100  # until a new topic is seen by the broker that is asked
_KEPT = 1_000  # records of a partition by which offsets of groups are translated


class Sync(NamedTuple):
    """A record of the source, and which one it is in the target."""

    upstream: int
    downstream: int


class Mirror:
    """`run` until it is cancelled. `syncs` are the last records that were mirrored, by partition of the source."""

    def __init__(self, flow: Flow, source: Client, target: Client, shown: Bar) -> None:
        self.flow = flow
        self.source = source
        self.target = target
        self._shown = shown
        self.topics: dict[str, int] = {}
        self.syncs: dict[Place, list[Sync]] = {}
        self._positions: dict[Place, int] = {}
        self._offsets_topic = f"mm2-offsets.{flow.source}.internal"
        self._syncs_topic = flow.syncs_topic
        self._syncs_at, self._syncs_cluster = (target, flow.target) if flow.syncs_at_target else (source, flow.source)

    async def begin(self) -> None:
        """Raises ClientError."""
        factor = self.flow.number("offset.storage.replication.factor", 3)
        await ensure_topic(self.target, self._offsets_topic, 25, factor, {"cleanup.policy": "compact"})
        factor = self.flow.number("offset-syncs.topic.replication.factor", 3)
        await ensure_topic(self._syncs_at, self._syncs_topic, 1, factor, {"cleanup.policy": "compact"})
        await self._load_positions()
        await self._load_syncs()
        await self.refresh()

    async def _load_positions(self) -> None:
        places = [(self._offsets_topic, each) for each in range(25)]
        for record in await everything(self.target, self.flow.properties(self.flow.target, "consumer"), places):
            found = read_position(record.key, record.value, self.flow.source)
            if found is not None:
                self._positions[found[0]] = found[1]

    async def _load_syncs(self) -> None:
        """Of an earlier run, so that groups are translated which have not moved since."""
        properties = self.flow.properties(self._syncs_cluster, "consumer")
        for record in await everything(self._syncs_at, properties, [(self._syncs_topic, 0)]):
            found = read_offset_sync(record.key, record.value)
            if found is not None:
                self.syncs.setdefault(found[0], []).append(Sync(*found[1]))

    async def refresh(self) -> bool:
        """Look for new topics and partitions; whether there were some. Raises ClientError."""
        metadata = await self.source.metadata(None, call="listTopics")
        before = dict(self.topics)
        for topic in metadata.topics:
            name = topic.name or ""
            if topic.error_code or topic.is_internal or not self.flow.mirrors(name):
                continue
            if self.topics.get(name) != len(topic.partitions):
                await self._ensure(name, len(topic.partitions))
                self.topics[name] = len(topic.partitions)
        return self.topics != before

    async def _ensure(self, name: str, count: int) -> None:
        remote, factor = self.flow.remote(name), self.flow.number("replication.factor", 2)
        there = {each.name: each for each in (await self.target.metadata([remote])).topics}[remote]
        if there.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            await ensure_topic(self.target, remote, count, factor, await self._configs(name))
        elif len(there.partitions) < count:
            await create_partitions(self.target, {remote: count})

    async def _configs(self, name: str) -> dict[str, str]:
        if not self.flow.is_on("sync.topic.configs.enabled", True):
            return {}
        resource = Resource(ConfigResourceType.TOPIC, name)
        found = (await describe_configs(self.source, [resource]))[resource]
        return {
            each.name: each.value or ""
            for each in found
            if source_of(resource, each) is Source.DYNAMIC_TOPIC_CONFIG and self.flow.wants_config(each.name)
        }

    async def sync_configs(self) -> None:
        """Give the target's topics what the source's have. Raises ClientError."""
        for name in self.topics:
            wanted = await self._configs(name)
            changes = [ConfigChange(key, AlterConfigOp.SET, text) for key, text in wanted.items()]
            if changes:
                await alter_configs(self.target, Resource(ConfigResourceType.TOPIC, self.flow.remote(name)), changes)

    async def run(self) -> None:
        """Raises ClientError."""
        flow = self.flow
        async with (
            Consumer(self.source, flow.properties(flow.source, "consumer")) as consumer,
            Producer(self.target, flow.properties(flow.target, "producer")) as producer,
            Producer(self._syncs_at, flow.properties(self._syncs_cluster, "producer")) as back,
        ):
            while True:
                known = set(consumer.assignment)
                places = [(name, each) for name, count in sorted(self.topics.items()) for each in range(count)]
                if known != set(places):
                    consumer.assign(places)
                    for place in set(places) - known:
                        self._seek(consumer, place)
                chunks = await consumer.poll(_POLL_MS)
                if chunks:
                    await self._write(producer, back, chunks)

    def _seek(self, consumer: Consumer, place: Place) -> None:
        if place in self._positions:
            consumer.seek(place, self._positions[place] + 1)
        else:
            consumer.seek_to_time(place, EARLIEST)

    async def _write(self, producer: Producer, back: Producer, chunks: list[Chunk]) -> None:
        """Records, then their positions."""
        failed: list[Exception] = []
        for chunk in chunks:
            place = (chunk.partition.topic, chunk.partition.partition)
            for record in chunk.records:

                def delivered(delivery: Delivery, place: Place = place, upstream: int = record.offset) -> None:
                    if delivery.error is not None:
                        failed.append(delivery.error)
                    elif delivery.offset >= 0:
                        self.syncs.setdefault(place, []).append(Sync(upstream, delivery.offset))

                await producer.send(
                    self.flow.remote(place[0]),
                    record.value,
                    record.key,
                    headers=record.headers,
                    partition=place[1],
                    timestamp=record.timestamp,
                    on_delivery=delivered,
                )
        await producer.flush()
        if failed:
            raise failed[0]
        for chunk in chunks:
            place = (chunk.partition.topic, chunk.partition.partition)
            await self._note(producer, back, place, chunk.records[-1].offset)
            self._shown.update(len(chunk.records))
        await producer.flush()
        await back.flush()

    async def _note(self, producer: Producer, back: Producer, place: Place, upstream: int) -> None:
        """That all is mirrored up to this record of the source."""
        self._positions[place] = upstream
        key, value = position(self.flow.source, *place, upstream)
        await producer.send(self._offsets_topic, value, key)
        syncs = self.syncs.get(place)
        if syncs:
            del syncs[:-_KEPT]
            if self.flow.is_on("emit.offset-syncs.enabled", True):
                key, value = offset_sync(*place, *syncs[-1])
                await back.send(self._syncs_topic, value, key, partition=0)


async def everything(client: Client, properties: dict[str, str], places: list[Place]) -> list[Record]:
    """What stands in these partitions now, those of a partition in their order. Raises ClientError."""
    ends = await list_offsets(client, dict.fromkeys(places, LATEST))
    left = {place for place in places if ends[place].offset > 0}
    found: list[Record] = []
    async with Consumer(client, properties) as consumer:
        consumer.assign(sorted(left))
        for place in left:
            consumer.seek_to_time(place, EARLIEST)
        while left:
            for chunk in await consumer.poll(_POLL_MS):
                found += chunk.records
            left -= {place for place in left if (consumer.position(place) or 0) >= ends[place].offset}
    return found


async def ensure_topic(client: Client, name: str, partitions: int, factor: int, configs: dict[str, str]) -> None:
    """One that is there stays as it is. Raises ClientError."""
    await client.refresh()
    factor = min(factor, len(client.nodes))
    try:
        await create_topic(client, name, partitions=partitions, replication_factor=factor, configs=configs)
    except Refused as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    for _ in range(_LOOKS):
        told = (await client.metadata([name])).topics
        if not any(each.error_code or not each.partitions for each in told):
            return
        await asyncio.sleep(client.backoff_ms / 1000)
