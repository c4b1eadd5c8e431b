"""Replicas on their way between the log directories of one broker, for `reassign-partitions`.

Rule: a replica that is not on its broker yet can't be moved; it is tried again until the time that was given is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sized

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.leaders import Place
from pykafka_broker.client.topics import Directories, directories_of, move_to_directories
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.tools.frame import Tool
from pykafka_broker.tools.reassignment_plan import Plan

Replica = tuple[Place, int]
_TIMEOUT_MS = 10_000
_NOT_YET = (ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def start_moves(tool: Tool, client: Client, plan: Plan) -> None:
    """Raises ClientError where a broker refuses, or some have not begun in time."""
    timeout_ms = _TIMEOUT_MS if tool.options.timeout is None else tool.options.timeout
    until, left = client.deadline(timeout_ms), dict(plan.directories)
    while left:
        begun = await _try(client, left)
        if begun:
            tool.print(f"Successfully started log directory move{_s(begun)} for: {_listed(begun)}")
        for replica in begun:
            del left[replica]
        if left and client.deadline(0) >= until:
            raise ClientError(f"Timed out before log directory move{_s(left)} could be started for: {_listed(left)}")
        if left:
            await asyncio.sleep(client.backoff_ms / 1000)


async def _try(client: Client, wanted: Mapping[Replica, str]) -> list[Replica]:
    begun = []
    for node in sorted({node for _, node in wanted}):
        mine = {place: path for (place, broker), path in wanted.items() if broker == node}
        for place, code in (await move_to_directories(client, node, mine)).items():
            if code == ErrorCode.NONE:
                begun.append((place, node))
            elif code not in _NOT_YET:
                raise ClientError(f"Failed to alter dir for {_spelt((place, node))}")
    return begun


async def tell_moves(tool: Tool, client: Client, plan: Plan) -> bool:
    """Print how far each has come; whether some are on their way."""
    found = await _found(client, plan)
    for replica, wanted in sorted(plan.directories.items()):
        tool.print(_told(replica, wanted, found[replica]))
    return any(each.future is not None for each in found.values())


def _told(replica: Replica, wanted: str, there: Directories) -> str:
    (topic, partition), node = replica
    of = f"Partition {topic}-{partition}"
    if there.future is not None:
        if there.future == wanted:
            return f"Reassignment of replica {_spelt(replica)} is still in progress."
        return f"{of} on broker {node} is being moved to log dir {there.future} instead of {wanted}."
    if there.current == wanted:
        return f"Reassignment of replica {_spelt(replica)} completed successfully."
    if there.current is None:
        nowhere = f"{of} is not found in any live log dir on broker {node}."
        return f"{nowhere} There is likely an offline log directory on the broker."
    return f"{of} on broker {node} is not being moved from log dir {there.current} to {wanted}."


async def cancel_moves(client: Client, plan: Plan) -> str:
    """What is to be said of it."""
    found = await _found(client, plan)
    moving = {replica: each for replica, each in found.items() if each.future is not None and each.current is not None}
    for node in sorted({node for _, node in moving}):
        back = {place: str(each.current) for (place, broker), each in moving.items() if broker == node}
        await move_to_directories(client, node, back)
    if moving:
        return f"Successfully cancelled log directory move{_s(moving)} for: {_listed(moving)}"
    return "None of the specified partition moves are active."


async def _found(client: Client, plan: Plan) -> dict[Replica, Directories]:
    found: dict[Replica, Directories] = {}
    if plan.directories:
        await client.refresh()
    for node in sorted({node for _, node in plan.directories}):
        there = await directories_of(client, node) if node in client.nodes else {}
        for place in (place for place, broker in plan.directories if broker == node):
            found[place, node] = there.get(place, Directories())
    return found


def _spelt(replica: Replica) -> str:
    (topic, partition), node = replica
    return f"{topic}-{partition}-{node}"


def _listed(replicas: Iterable[Replica]) -> str:
    return ",".join(map(_spelt, sorted(replicas)))


def _s(several: Sized) -> str:
    return "" if len(several) == 1 else "s"
