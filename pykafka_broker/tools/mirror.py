"""`pykafka-broker mirror FILE`: copies topics, configs, records, group offsets and ACLs, as MirrorMaker 2 does.

Rule: the file of properties, the topics and their formats are MirrorMaker's. A property for MirrorMaker's Connect
workers (`tasks.max`) is ignored. Properties of a client come from its cluster (`B.name`, then `B.producer.name`); a
flow has the last word (`A->B.producer.name`, then `A->B.target.producer.name`). A mirror writes records in their order
with their partition, timestamp, key and headers. Offsets committed in the target only grow, and not at all while the
group has members there: they follow once the members have left, however old its checkpoints are. ACLs change on their
way: the target's users may not write to a copy, so WRITE is left out and ALL becomes READ; only ACLs of single topics
are copied, and none is removed.
"""

from __future__ import annotations

import asyncio
import json
import struct
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, NamedTuple

from pykafka_broker.client.acls import AclBinding, ResourcePattern, create_acls, describe_acls
from pykafka_broker.client.batches import Delivery
from pykafka_broker.client.cluster import Backoff, Client
from pykafka_broker.client.configs import (
    ConfigChange,
    Resource,
    alter_configs,
    describe_configs,
    source_of,
)
from pykafka_broker.client.consumer import Chunk, Consumer
from pykafka_broker.client.errors import ClientError, KafkaError, TimedOut
from pykafka_broker.client.groups import Committed, commit_offsets, committed_offsets, list_groups
from pykafka_broker.client.leaders import offsets_at
from pykafka_broker.client.producer import Producer
from pykafka_broker.client.properties import read_properties
from pykafka_broker.client.topics import create_partitions, create_topic
from pykafka_broker.protocol.enums import (
    EARLIEST,
    LATEST,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    AlterConfigOp,
    ConfigResourceType,
    ConfigSource,
    PatternType,
    TopicPartition,
)
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.record import BatchRecord
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError
from pykafka_broker.tools.mirror_flow import Flow, beating, flows
from pykafka_broker.tools.progress import Bar

# -- records of MirrorMaker


Pair = tuple[bytes, bytes]


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def heartbeat(source: str, target: str, now: int) -> Pair:
    return _text(source) + _text(target), struct.pack(">hq", 0, now)


def offset_sync(topic: str, partition: int, upstream: int, downstream: int) -> Pair:
    """Return the record for a pair of equal records: `upstream` in the source, `downstream` in the target."""
    return _text(topic) + struct.pack(">i", partition), struct.pack(">qq", upstream, downstream)


def read_offset_sync(key: bytes | None, value: bytes | None) -> tuple[tuple[str, int], tuple[int, int]] | None:
    """Return partition and both offsets of an offset sync; None for another record."""
    try:
        (length,) = struct.unpack_from(">h", key or b"")
        topic = (key or b"")[2 : 2 + length].decode()
        (partition,) = struct.unpack_from(">i", key or b"", 2 + length)
        upstream, downstream = struct.unpack(">qq", value or b"")
    except (struct.error, UnicodeDecodeError):
        return None
    return TopicPartition(topic, partition), (upstream, downstream)


class Checkpoint(NamedTuple):
    """A group's offset in the source, and the corresponding offset in the target."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""


def checkpoint(of: Checkpoint) -> Pair:
    value = struct.pack(">hqq", 0, of.upstream, of.downstream) + _text(of.metadata)
    return _text(of.group) + _text(of.topic) + struct.pack(">i", of.partition), value


def position(source: str, topic: str, partition: int, offset: int) -> Pair:
    """Return a record of Connect's source offsets: the last mirrored record."""
    where = {"cluster": source, "partition": partition, "topic": topic}
    key = json.dumps(["MirrorSourceConnector", where], separators=(",", ":"))
    return key.encode(), json.dumps({"offset": offset}, separators=(",", ":")).encode()


def read_position(key: bytes | None, value: bytes | None, source: str) -> tuple[TopicPartition, int] | None:
    """Return partition and offset of a position; None for another connector's record."""
    try:
        connector, where = json.loads(key or b"")
        if connector != "MirrorSourceConnector" or where["cluster"] != source:
            return None
        return TopicPartition(str(where["topic"]), int(where["partition"])), int(json.loads(value or b"")["offset"])
    except (ValueError, TypeError, KeyError):
        return None


# -- topics and records


_FROM_START = {"auto.offset.reset": "earliest"}  # and again where retention has been quicker than the mirror
_POLL_MS = 500
_LOOKS = 20  # until the asked broker knows a new topic
_KEPT = 1_000  # records of a partition, at least, by which offsets of groups are translated


class Sync(NamedTuple):
    """An offset in the source and the offset of the same record in the target."""

    upstream: int
    downstream: int


class Mirror:
    """The copying of a flow's records, by `run` until cancelled.

    `syncs` are the last mirrored records, by partition of the source and in the order of their offsets.
    """

    def __init__(self, flow: Flow, source: Client, target: Client, shown: Bar, warn: Callable[[str], None]) -> None:
        self.flow = flow
        self.source = source
        self.target = target
        self._shown = shown
        self._warn = warn
        self.topics: dict[str, int] = {}
        self.syncs: dict[TopicPartition, list[Sync]] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._groups: list[str] | None = None
        self._offsets_topic = f"mm2-offsets.{flow.source}.internal"
        self._syncs_topic = flow.syncs_topic
        self._syncs_at, self._syncs_cluster = (target, flow.target) if flow.syncs_at_target else (source, flow.source)

    async def begin(self) -> None:
        """Create topics and read positions. Raises ClientError."""
        factor = self.flow.number("offset.storage.replication.factor", 3)
        count = await ensure_topic(self.target, self._offsets_topic, 25, factor, {"cleanup.policy": "compact"})
        factor = self.flow.number("offset-syncs.topic.replication.factor", 3)
        await ensure_topic(self._syncs_at, self._syncs_topic, 1, factor, {"cleanup.policy": "compact"})
        await self._load_positions([TopicPartition(self._offsets_topic, each) for each in range(count)])
        await self._load_syncs()
        await self.refresh()

    async def _load_positions(self, partitions: list[TopicPartition]) -> None:
        for record in await everything(self.target, self.flow.properties(self.flow.target, "consumer"), partitions):
            found = read_position(record.key, record.value, self.flow.source)
            if found is not None:
                self._positions[found[0]] = found[1]

    async def _load_syncs(self) -> None:
        """Read the syncs of an earlier run, for the translation of idle groups."""
        properties = self.flow.properties(self._syncs_cluster, "consumer")
        for record in await everything(self._syncs_at, properties, [TopicPartition(self._syncs_topic, 0)]):
            found = read_offset_sync(record.key, record.value)
            if found is not None:
                self._add_sync(TopicPartition(*found[0]), Sync(*found[1]))

    def _add_sync(self, source: TopicPartition, sync: Sync) -> None:
        """Add the last sync of a partition; later ones, of records that are copied again or are gone, are dropped."""
        syncs = self.syncs.setdefault(source, [])
        while syncs and syncs[-1].upstream >= sync.upstream:
            syncs.pop()
        syncs.append(sync)
        if len(syncs) >= 2 * _KEPT:
            del syncs[:-_KEPT]

    async def refresh(self) -> bool:
        """Look for new topics and partitions; returns whether any were found. Raises ClientError."""
        metadata = await self.source.metadata(None, call="listTopics")
        before = dict(self.topics)
        for topic in metadata.topics:
            name = topic.name or ""
            if topic.error_code or topic.is_internal or not self.flow.mirrors(name):
                continue
            count = len(topic.partitions)
            if self.topics.get(name) != count and await self._is_done(name, self._ensure(name, count)):
                self.topics[name] = count
        return self.topics != before

    async def groups(self) -> list[str]:
        """Return the groups of the flow: those of the start where new ones are not looked for. Raises ClientError."""
        if self._groups is None or self.flow.is_on("refresh.groups.enabled", True):
            there = [each.group_id for each in await list_groups(self.source)]
            self._groups = [each for each in there if self.flow.wants_group(each)]
        return self._groups

    async def _is_done(self, name: str, change: Coroutine[Any, Any, None]) -> bool:
        """Make a change for one topic; a change that a cluster refuses is warned about, and other topics go on."""
        try:
            await change
        except KafkaError as error:
            self._warn(f"{self.flow.source}->{self.flow.target}: {name}: {error}")
            return False
        return True

    async def _ensure(self, name: str, count: int) -> None:
        remote, factor = self.flow.remote(name), self.flow.number("replication.factor", 2)
        there = {each.name: each for each in (await self.target.metadata([remote])).topics}[remote]
        if there.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            configs = {each.name: each.value for each in await self._configs(name) if each.value is not None}
            await ensure_topic(self.target, remote, count, factor, configs)
        elif len(there.partitions) < count:
            await create_partitions(self.target, {remote: count})

    async def _configs(self, name: str) -> list[ConfigChange]:
        """Return the changes by which a topic of the target gets the configs of a topic of the source.

        A default of the source removes the target's own value. A value from the source broker's file changes nothing.
        """
        resource = Resource(ConfigResourceType.TOPIC, name)
        changes = []
        for each in (await describe_configs(self.source, [resource]))[resource]:
            origin = source_of(resource, each)
            if origin is ConfigSource.STATIC_BROKER_CONFIG or not self.flow.wants_config(each.name):
                continue
            if origin is ConfigSource.DEFAULT_CONFIG and not self.flow.copies_defaults:
                changes.append(ConfigChange(each.name, AlterConfigOp.DELETE))
            else:
                changes.append(ConfigChange(each.name, AlterConfigOp.SET, each.value))
        return changes

    async def sync_configs(self) -> None:
        """Copy the configs of topics from source to target. Raises ClientError."""
        for name in [*self.topics]:  # a refresh may find topics meanwhile
            await self._is_done(name, self._sync_configs_of(name))

    async def _sync_configs_of(self, name: str) -> None:
        resource = Resource(ConfigResourceType.TOPIC, self.flow.remote(name))
        (there,) = (await describe_configs(self.target, [resource])).values()
        own = {each.name for each in there if source_of(resource, each) is ConfigSource.DYNAMIC_TOPIC_CONFIG}
        changes = [each for each in await self._configs(name) if each.value is not None or each.name in own]
        if changes:
            await alter_configs(self.target, resource, changes)

    async def run(self) -> None:
        """Copy records until cancelled. Raises ClientError."""
        flow = self.flow
        async with (
            Consumer(self.source, _FROM_START | flow.properties(flow.source, "consumer")) as consumer,
            Producer(self.target, flow.properties(flow.target, "producer")) as producer,
            Producer(self._syncs_at, flow.properties(self._syncs_cluster, "producer")) as back,
        ):
            while True:
                known = set(consumer.assignment)
                counts = sorted(self.topics.items())
                partitions = [TopicPartition(name, each) for name, count in counts for each in range(count)]
                if known != set(partitions):
                    consumer.assign(partitions)
                    for partition in {*partitions}.difference(known).intersection(self._positions):
                        consumer.seek(partition, self._positions[partition] + 1)
                chunks = await consumer.poll(_POLL_MS)
                if chunks:
                    await self._write(producer, back, chunks)

    async def _write(self, producer: Producer, back: Producer, chunks: list[Chunk]) -> None:
        """Write records and then the positions."""
        failed: list[Exception] = []
        for chunk in chunks:
            for record in chunk.records:

                def delivered(
                    delivery: Delivery, source: TopicPartition = chunk.partition, upstream: int = record.offset
                ) -> None:
                    if delivery.error is not None:
                        failed.append(delivery.error)
                    elif delivery.offset >= 0:
                        self._add_sync(source, Sync(upstream, delivery.offset))

                await producer.send(
                    self.flow.remote(chunk.partition.topic),
                    record.value,
                    record.key,
                    headers=record.headers,
                    partition=chunk.partition.partition,
                    timestamp=record.timestamp,
                    on_delivery=delivered,
                )
        await producer.flush()
        if failed:
            raise failed[0]
        for chunk in chunks:
            await self._note(producer, back, chunk.partition, chunk.records[-1].offset)
            self._shown.update(len(chunk.records))
        await producer.flush()
        await back.flush()

    async def _note(self, producer: Producer, back: Producer, source: TopicPartition, upstream: int) -> None:
        """Write the position and, from time to time, an offset sync."""
        self._positions[source] = upstream
        key, value = position(self.flow.source, *source, upstream)
        await producer.send(self._offsets_topic, value, key)
        syncs = self.syncs.get(source)
        if syncs and self.flow.is_on("emit.offset-syncs.enabled", True):
            key, value = offset_sync(*source, *syncs[-1])
            await back.send(self._syncs_topic, value, key, partition=0)


async def everything(client: Client, properties: dict[str, str], partitions: list[TopicPartition]) -> list[BatchRecord]:
    """Read all current records of partitions, each partition in order. Raises ClientError."""
    ends = await offsets_at(client, partitions, LATEST)
    left = {partition for partition in partitions if ends[partition] > 0}
    found: list[BatchRecord] = []
    async with Consumer(client, properties) as consumer:
        consumer.assign(sorted(left))
        for partition in left:
            consumer.seek_to_time(partition, EARLIEST)
        while left:
            for chunk in await consumer.poll(_POLL_MS):
                found += chunk.records
            left -= {partition for partition in left if (consumer.position(partition) or 0) >= ends[partition]}
    return found


async def ensure_topic(client: Client, name: str, partitions: int, factor: int, configs: dict[str, str]) -> int:
    """Create a topic, unless the topic exists; returns the number of its partitions. Raises ClientError."""
    await client.refresh()
    factor = min(factor, len(client.nodes))
    try:
        await create_topic(client, name, partitions=partitions, replication_factor=factor, configs=configs)
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    backoff = Backoff(client)
    for _ in range(_LOOKS):
        for told in (await client.metadata([name])).topics:
            if not told.error_code and told.partitions:
                return len(told.partitions)
        await backoff.pause()
    raise TimedOut(f"Topic {name} is not known to the brokers.")


# -- groups


_BUSY = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)


def translated(offset: int, syncs: list[Sync]) -> int | None:
    """Return the target's offset for a source's offset; None without a known earlier record. syncs: in order."""
    after = bisect_right(syncs, offset, key=lambda each: each.upstream)
    if after == 0:
        return None
    last = syncs[after - 1]
    return last.downstream if last.upstream == offset else last.downstream + 1


async def checkpoints(mirror: Mirror) -> list[Checkpoint]:
    """Return the checkpoints of all groups of the flow. Raises ClientError."""
    found = []
    for group in await mirror.groups():
        there = await committed_offsets(mirror.source, group, lenient=True)
        for (topic, partition), (offset, _, metadata) in there.items():
            downstream = translated(offset, mirror.syncs.get(TopicPartition(topic, partition), []))
            if downstream is not None:
                remote = mirror.flow.remote(topic)
                found.append(Checkpoint(group, remote, partition, offset, downstream, metadata))
    return found


Told = dict[tuple[str, str, int], Checkpoint]  # the last checkpoint of each group, topic and partition


async def write_checkpoints(mirror: Mirror, producer: Producer, told: Told) -> Told:
    """Write and return new checkpoints, and add each checkpoint to `told`. Raises ClientError."""
    fresh = [each for each in await checkpoints(mirror) if told.get(each[:3]) != each]
    for each in fresh:
        key, value = checkpoint(each)
        await producer.send(mirror.flow.checkpoints_topic, value, key, partition=0)
    await producer.flush()
    new = {each[:3]: each for each in fresh}
    told |= new
    return new


async def sync_groups(mirror: Mirror, told: Told) -> None:
    """Commit the offsets of checkpoints in the target. Raises ClientError."""
    by_group: dict[str, list[Checkpoint]] = {}
    for each in told.values():
        by_group.setdefault(each.group, []).append(each)
    for group in sorted(by_group):
        await _commit(mirror.target, group, by_group[group])


async def _commit(client: Client, group: str, points: list[Checkpoint]) -> None:
    there = await committed_offsets(client, group, lenient=True)
    ahead = {
        TopicPartition(each.topic, each.partition): Committed(each.downstream, metadata=each.metadata)
        for each in points
    }
    ahead = {each: point for each, point in ahead.items() if each not in there or there[each].offset < point.offset}
    try:
        if ahead:
            await commit_offsets(client, group, ahead, lowest=2)
    except KafkaError as error:
        if error.code not in _BUSY:
            raise


# -- ACLs


_OF_TOPICS = AclBinding(ResourcePattern(AclResourceType.TOPIC))


async def sync_acls(mirror: Mirror) -> None:
    """Copy ACLs, if both clusters have an authorizer. Raises ClientError."""
    try:
        wanted = mirrored(mirror.flow, await describe_acls(mirror.source, _OF_TOPICS))
        if wanted:
            await create_acls(mirror.target, wanted)
    except KafkaError as error:
        if error.code != ErrorCode.SECURITY_DISABLED:
            raise


def mirrored(flow: Flow, acls: Iterable[AclBinding]) -> list[AclBinding]:
    """Return the target's ACLs for ACLs of the source."""
    found = []
    for pattern, entry in acls:
        allows = entry.permission_type == AclPermissionType.ALLOW
        if pattern.type != AclResourceType.TOPIC or pattern.pattern_type != PatternType.LITERAL:
            continue
        if allows and entry.operation == AclOperation.WRITE:
            continue
        name = pattern.name or ""
        if not flow.mirrors(name):
            continue
        if allows and entry.operation == AclOperation.ALL:
            entry = entry._replace(operation=AclOperation.READ)
        found.append(AclBinding(pattern._replace(name=flow.remote(name)), entry))
    return found


# -- the tool


_AGAIN_S = 5
Duty = Callable[[], Coroutine[Any, Any, None]]


def options(parser: ToolParser) -> None:
    parser.add_argument("file", metavar="FILE", help="properties file of MirrorMaker 2")
    parser.option("--clusters ALIAS", "mirror only to these clusters", nargs="+", default=[])


async def run(tool: Tool) -> int:
    values = read_properties(tool.options.file)
    wanted = flows(values, tool.options.clusters)
    if not wanted:
        raise ToolUsageError("no flow is enabled: A->B.enabled = true")
    others = beating(values, tool.options.clusters)
    for each in (*wanted, *others):
        each.check()
        for cluster in (each.source, each.target):
            each.client(cluster)
    with tool.progress("mirrored", None, "record") as shown:
        async with asyncio.TaskGroup() as group:
            for each in wanted:
                group.create_task(_keep(tool, each, partial(_mirror, tool, each, shown)))
            for each in others:
                group.create_task(_keep(tool, each, partial(_beat, each)))
    return 0


async def _keep(tool: Tool, flow: Flow, do: Callable[[], Awaitable[None]]) -> None:
    """Repeat a duty after each error of a cluster, however long the cluster is away."""
    while True:
        try:
            await do()
        except* ClientError as errors:
            tool.warn(f"{flow.source}->{flow.target}: {errors.exceptions[0]}")
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # a cancelled task group reports its first error instead
            raise asyncio.CancelledError
        await asyncio.sleep(_AGAIN_S)


async def _mirror(tool: Tool, flow: Flow, shown: Bar) -> None:
    async with (
        Client(*flow.client(flow.source)) as source,
        Client(*flow.client(flow.target)) as target,
        Producer(target, flow.properties(flow.target, "producer")) as producer,
    ):
        mirror = Mirror(flow, source, target, shown, tool.warn)
        await mirror.begin()
        tool.warn(f"{flow.source}->{flow.target}: {len(mirror.topics)} topics")
        async with asyncio.TaskGroup() as group:
            group.create_task(mirror.run())
            for each in await _duties(mirror, producer):
                group.create_task(each())


async def _beat(flow: Flow) -> None:
    """Write heartbeats and nothing else."""
    properties = flow.properties(flow.target, "producer")
    async with Client(*flow.client(flow.target)) as target, Producer(target, properties) as producer:
        beats = await _heartbeats(flow, target, producer)
        await beats()


async def _duties(mirror: Mirror, producer: Producer) -> list[Duty]:
    flow = mirror.flow

    found = []
    if flow.is_on("refresh.topics.enabled", True):
        found.append(_every(flow.number("refresh.topics.interval.seconds", 600), mirror.refresh))
    if flow.is_on("sync.topic.configs.enabled", True):
        found.append(_every(flow.number("sync.topic.configs.interval.seconds", 600), mirror.sync_configs))
    if flow.is_on("sync.topic.acls.enabled", True):
        found.append(_every(flow.number("sync.topic.acls.interval.seconds", 600), partial(sync_acls, mirror)))
    if flow.is_on("emit.heartbeats.enabled", True):
        found.append(await _heartbeats(flow, mirror.target, producer))
    if flow.is_on("emit.checkpoints.enabled", True):
        factor = flow.number("checkpoints.topic.replication.factor", 3)
        await ensure_topic(mirror.target, flow.checkpoints_topic, 1, factor, {"cleanup.policy": "compact"})
        told: Told = {}
        syncs = flow.is_on("sync.group.offsets.enabled", False)

        async def tell() -> None:
            fresh = await write_checkpoints(mirror, producer, told)
            if syncs:
                await sync_groups(mirror, fresh)

        found.append(_every(flow.number("emit.checkpoints.interval.seconds", 60), tell))
        if syncs:
            found.append(
                _every(flow.number("sync.group.offsets.interval.seconds", 60), partial(sync_groups, mirror, told))
            )
    return found


async def _heartbeats(flow: Flow, target: Client, producer: Producer) -> Duty:
    factor = flow.number("heartbeats.topic.replication.factor", 3)
    await ensure_topic(target, "heartbeats", 1, factor, {"cleanup.policy": "compact"})

    async def beat() -> None:
        target.clock.tick()
        key, value = heartbeat(flow.source, flow.target, target.clock.wall)
        await producer.deliver("heartbeats", value, key, partition=0)

    return _every(flow.number("emit.heartbeats.interval.seconds", 1), beat)


def _every(seconds: int, do: Callable[[], Awaitable[object]]) -> Duty:
    """Return a duty repeated every so many seconds; below a second never, as MirrorMaker's interval of -1."""

    async def run() -> None:
        while seconds > 0:
            await do()
            await asyncio.sleep(seconds)

    return run
