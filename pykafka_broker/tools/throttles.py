"""Throttles of reassignments: which configs they are, set and cleared.

Rule: a rate is set on each broker that has a part in a move, and the replicas it counts for are named at their topics;
clearing takes them from all brokers, whoever set them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.configs import ConfigChange, Resource, alter_configs
from pykafka_broker.client.leaders import Place
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType
from pykafka_broker.tools.frame import Tool
from pykafka_broker.tools.reassignment_plan import Plan

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_LEADERS, _FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
_WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


async def set_throttles(
    tool: Tool, client: Client, plan: Plan, current: Mapping[Place, list[int]], under_way: Mapping[Place, Any]
) -> None:
    """Set the throttles that were asked for; a rate below zero is none. Raises ClientError."""
    rate, directory_rate = (
        None if each is None or each < 0 else each
        for each in (tool.options.throttle, tool.options.replica_alter_log_dirs_throttle)
    )
    if rate is None and directory_rate is None:
        return
    tool.print(_WARNING)
    if rate is not None:
        moves = _moves(plan, current, under_way)
        for topic, (leaders, followers) in _of_topics(moves).items():
            await _set(client, Resource(ConfigResourceType.TOPIC, topic), {_LEADERS: leaders, _FOLLOWERS: followers})
        brokers = {each for sources, targets in moves.values() for each in (*sources, *targets)}
        for broker in sorted(brokers):
            await _set(client, Resource(ConfigResourceType.BROKER, str(broker)), dict.fromkeys(_RATES, str(rate)))
        tool.print(f"The inter-broker throttle limit was set to {rate} B/s")
    if directory_rate is not None:
        for broker in sorted({broker for _, broker in plan.directories}):
            await _set(client, Resource(ConfigResourceType.BROKER, str(broker)), {_DIRECTORY_RATE: str(directory_rate)})
        tool.print(f"The replica-alter-dir throttle limit was set to {directory_rate} B/s")


def _moves(
    plan: Plan, current: Mapping[Place, list[int]], under_way: Mapping[Place, Any]
) -> dict[Place, tuple[set[int], set[int]]]:
    """From which brokers a partition goes to which; those it is on at the same time are sources."""
    found = {}
    for place, each in under_way.items():
        there = set(each.replicas) - set(each.adding_replicas)
        found[place] = there, set(each.adding_replicas)
    for place, wanted in plan.replicas.items():
        there = found[place][0] if place in under_way else set(current[place])
        found[place] = there, set(wanted) - there
    return found


def _of_topics(moves: Mapping[Place, tuple[set[int], set[int]]]) -> dict[str, tuple[str, str]]:
    """`partition:broker,...` of sources and of targets, by topic."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for (topic, partition), (sources, targets) in sorted(moves.items()):
        leaders, followers = found.setdefault(topic, ([], []))
        leaders += [f"{partition}:{broker}" for broker in sorted(sources)]
        followers += [f"{partition}:{broker}" for broker in sorted(targets)]
    return {topic: (",".join(leaders), ",".join(followers)) for topic, (leaders, followers) in found.items()}


async def clear_throttles(tool: Tool, client: Client, plan: Plan, *, before: str = "") -> None:
    """Of all brokers, and of the topics of the plan. before: what stands in front of the first line."""
    await client.refresh()
    brokers = sorted(client.nodes.keys() | {each for on in plan.replicas.values() for each in on})
    topics = sorted({topic for topic, _ in plan.replicas})
    tool.print(f"{before}Clearing broker-level throttles on broker{_s(brokers)} {','.join(map(str, brokers))}")
    for broker in brokers:
        await _delete(client, Resource(ConfigResourceType.BROKER, str(broker)), (*_RATES, _DIRECTORY_RATE))
    tool.print(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
    for topic in topics:
        await _delete(client, Resource(ConfigResourceType.TOPIC, topic), (_LEADERS, _FOLLOWERS))


async def _set(client: Client, resource: Resource, values: Mapping[str, str]) -> None:
    await alter_configs(client, resource, [ConfigChange(key, AlterConfigOp.SET, text) for key, text in values.items()])


async def _delete(client: Client, resource: Resource, keys: Iterable[str]) -> None:
    await alter_configs(client, resource, [ConfigChange(key, AlterConfigOp.DELETE) for key in keys])


def _s(several: list[Any]) -> str:
    return "" if len(several) == 1 else "s"
