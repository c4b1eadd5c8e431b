"""`pykafka-broker mirror FILE`: topics, configs, records and group offsets go to another cluster, as by MirrorMaker 2.

Rule: its file, its topics and the formats of what is in them are MirrorMaker's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.producer import Producer
from pykafka_broker.client.properties import read_properties
from pykafka_broker.tools.frame import Tool, ToolParser, UsageError
from pykafka_broker.tools.mirror_acls import sync_acls
from pykafka_broker.tools.mirror_flow import Mirror, ensure_topic
from pykafka_broker.tools.mirror_groups import Told, sync_groups, tell_checkpoints
from pykafka_broker.tools.mirror_records import heartbeat
from pykafka_broker.tools.mirror_settings import Flow, beating, flows
from pykafka_broker.tools.progress import Bar

SUMMARY = "mirror topics and groups from one cluster to another, by a file of MirrorMaker 2"
_AGAIN_S = 5
Duty = Callable[[], Coroutine[Any, Any, None]]


def options(parser: ToolParser) -> None:
    parser.add_argument("file", metavar="FILE", help="properties as MirrorMaker 2 has them")
    parser.add_argument("--clusters", nargs="+", default=[], metavar="ALIAS", help="mirror only to these clusters")


async def run(tool: Tool) -> int:
    values = read_properties(tool.options.file)
    wanted = flows(values, tool.options.clusters)
    if not wanted:
        raise UsageError("no flow is enabled: A->B.enabled = true")
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
    """Begin again, where it was, whatever a cluster refuses or however long it is away."""
    while True:
        try:
            await do()
        except* ClientError as errors:
            tool.warn(f"{flow.source}->{flow.target}: {errors.exceptions[0]}")
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # a task group that has an error to tell does not tell this
            raise asyncio.CancelledError
        await asyncio.sleep(_AGAIN_S)


async def _mirror(tool: Tool, flow: Flow, shown: Bar) -> None:
    async with (
        Client(*flow.client(flow.source)) as source,
        Client(*flow.client(flow.target)) as target,
        Producer(target, flow.properties(flow.target, "producer")) as producer,
    ):
        mirror = Mirror(flow, source, target, shown)
        await mirror.begin()
        tool.warn(f"{flow.source}->{flow.target}: {len(mirror.topics)} topics")
        async with asyncio.TaskGroup() as group:
            group.create_task(mirror.run())
            for each in await _duties(mirror, producer):
                group.create_task(each())


async def _beat(flow: Flow) -> None:
    """Heartbeats, and nothing else."""
    properties = flow.properties(flow.target, "producer")
    async with Client(*flow.client(flow.target)) as target, Producer(target, properties) as producer:
        beats = await _heartbeats(flow, target, producer)
        await beats()


async def _duties(mirror: Mirror, producer: Producer) -> list[Duty]:
    flow = mirror.flow

    async def look() -> None:
        await mirror.refresh()

    found = [_every(flow.number("refresh.topics.interval.seconds", 600), look)]
    if flow.is_on("sync.topic.configs.enabled", True):
        found.append(_every(flow.number("sync.topic.configs.interval.seconds", 600), mirror.sync_configs))
    if flow.is_on("sync.topic.acls.enabled", True):

        async def follow() -> None:
            await sync_acls(mirror)

        found.append(_every(flow.number("sync.topic.acls.interval.seconds", 600), follow))
    if flow.is_on("emit.heartbeats.enabled", True):
        found.append(await _heartbeats(flow, mirror.target, producer))
    if flow.is_on("emit.checkpoints.enabled", True):
        topic = f"{flow.source}{flow.separator}checkpoints.internal"
        factor = flow.number("checkpoints.topic.replication.factor", 3)
        await ensure_topic(mirror.target, topic, 1, factor, {"cleanup.policy": "compact"})
        told: Told = {}
        syncs = flow.is_on("sync.group.offsets.enabled", False)

        async def tell() -> None:
            fresh = await tell_checkpoints(mirror, producer, told)
            if syncs:
                await sync_groups(mirror, fresh)

        async def sync() -> None:
            await sync_groups(mirror, told)

        found.append(_every(flow.number("emit.checkpoints.interval.seconds", 60), tell))
        if syncs:
            found.append(_every(flow.number("sync.group.offsets.interval.seconds", 60), sync))
    return found


async def _heartbeats(flow: Flow, target: Client, producer: Producer) -> Duty:
    factor = flow.number("heartbeats.topic.replication.factor", 3)
    await ensure_topic(target, "heartbeats", 1, factor, {"cleanup.policy": "compact"})

    async def beat() -> None:
        target.clock.tick()
        key, value = heartbeat(flow.source, flow.target, target.clock.wall)
        await producer.deliver("heartbeats", value, key, partition=0)

    return _every(flow.number("emit.heartbeats.interval.seconds", 1), beat)


def _every(seconds: int, do: Callable[[], Awaitable[None]]) -> Duty:
    """Less than a second is never, as an interval of -1 is for MirrorMaker."""

    async def run() -> None:
        while seconds > 0:
            await do()
            await asyncio.sleep(seconds)

    return run
