"""`kafka-reassign-partitions`.

Rule: nothing is changed before every topic, partition and broker of the plan is known to exist. Throttles are removed
as soon as no move is left; clearing removes them from all brokers, also throttles that were set by other means.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sized
from itertools import groupby
from typing import Any, NamedTuple

from pykafka_broker.client.cluster import Backoff, Client
from pykafka_broker.client.configs import ConfigChange, Resource, alter_configs
from pykafka_broker.client.errors import ClientError, KafkaError
from pykafka_broker.client.properties import integer, java_split
from pykafka_broker.client.topics import (
    ReplicaDirectories,
    directories_of,
    list_reassignments,
    move_to_directories,
    reassign,
)
from pykafka_broker.cluster.placement import Racks
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType, TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError
from pykafka_broker.tools.json_file import json_array, json_number, json_object, json_text, read_json, repeated

# -- plans


ANY = "any"


class Plan(NamedTuple):
    """The replicas of partitions in order, and the log directories of replicas."""

    replicas: dict[TopicPartition, list[int]]
    directories: dict[tuple[TopicPartition, int], str]


class CandidateBroker(NamedTuple):
    """A broker for new replicas."""

    id: int
    rack: str | None
    fenced: bool = False


def read_plan(path: str) -> Plan:
    """Read a plan from a file. Raises ClientError."""
    whole = json_object(read_json(path))
    _check_version(whole)
    plan, listed_partitions = Plan({}, {}), []
    for each in map(json_object, json_array(whole.get("partitions", []))):
        partition = TopicPartition(json_text(each.get("topic")), json_number(each.get("partition")))
        replicas = [json_number(one) for one in json_array(each.get("replicas"))]
        directories = json_array(each.get("log_dirs", [ANY] * len(replicas)))
        if len(directories) != len(replicas):
            raise ClientError(
                f"Size of replicas list {replicas} is different from size of log dirs list {directories} for "
                f"partition {partition}"
            )
        listed_partitions.append(partition)
        plan.replicas[partition] = replicas
        for broker, directory in zip(replicas, map(json_text, directories), strict=True):
            if directory != ANY:
                plan.directories[partition, broker] = directory
    if twice := repeated(listed_partitions):
        raise ClientError(f"Partition reassignment contains duplicate topic partitions: {listed(twice)}")
    return plan


def check_plan(plan: Plan) -> None:
    """Check a plan before the execution. Raises ClientError."""
    if not plan.replicas:
        raise ClientError("Partition reassignment list cannot be empty")
    if not all(plan.replicas.values()):
        raise ClientError("Partition replica list cannot be empty")
    for partition, replicas in plan.replicas.items():
        twice = repeated(replicas)
        if twice:
            several = ",".join(map(str, twice))
            raise ClientError(
                "Partition replica lists may not contain duplicate entries: "
                f"{partition} contains multiple entries for {several}"
            )


def read_topics(path: str) -> list[str]:
    """Read topics from a file. Raises ClientError."""
    whole = json_object(read_json(path))
    _check_version(whole)
    names = [json_text(json_object(each).get("topic")) for each in json_array(whole.get("topics", []))]
    twice = repeated(names)
    if twice:
        raise ClientError(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return names


def _check_version(whole: dict[str, Any]) -> None:
    version = whole.get("version", 1)
    if version != 1:
        raise ClientError(f"Not supported version field value {version}")


def written(replicas: Mapping[TopicPartition, list[int]], directories: Mapping[tuple[TopicPartition, int], str]) -> str:
    """Return a plan as JSON for a file."""
    partitions = [
        {
            **partition._asdict(),
            "replicas": on,
            "log_dirs": [directories.get((partition, broker), ANY) for broker in on],
        }
        for partition, on in sorted(replicas.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False)


def propose(
    current: Mapping[TopicPartition, list[int]], brokers: Iterable[CandidateBroker]
) -> dict[TopicPartition, list[int]]:
    """Return new replicas for each topic, as many as before, over racks and brokers. Raises KafkaError."""
    candidates = list(brokers)
    found: dict[TopicPartition, list[int]] = {}
    for _, group in groupby(sorted(current), lambda partition: partition.topic):
        partitions = list(group)
        factor = len(current[partitions[0]])
        if factor > len(candidates):
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The target replication factor of {factor} cannot be reached because only {len(candidates)} "
                "broker(s) are registered or some brokers have all their log directories cordoned.",
            )
        racks = Racks(candidates, random.randrange)
        found |= {partition: racks.next(factor) for partition in partitions}
    return found


def listed(partitions: Iterable[TopicPartition]) -> str:
    """Return `topic-0,topic-1`."""
    return ",".join(map(str, sorted(partitions)))


# -- moves


Replica = tuple[TopicPartition, int]
_TIMEOUT_MS = 10_000
_NOT_YET = (ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def start_moves(tool: Tool, client: Client, plan: Plan) -> None:
    """Begin moves between log directories. Raises ClientError for a refused or late move."""
    timeout_ms = _TIMEOUT_MS if tool.options.timeout is None else tool.options.timeout
    until, backoff, left = client.deadline(timeout_ms), Backoff(client), dict(plan.directories)
    while left:
        begun = await _start_possible(client, left)
        if begun:
            tool.print(f"Successfully started log directory move{_s(begun)} for: {_listed_replicas(begun)}")
        for replica in begun:
            del left[replica]
        if left and client.deadline(0) >= until:
            raise ClientError(
                f"Timed out before log directory move{_s(left)} could be started for: {_listed_replicas(left)}"
            )
        if left:
            await backoff.pause(until)


async def _start_possible(client: Client, wanted: Mapping[Replica, str]) -> list[Replica]:
    """Ask for the moves, and return the replicas whose move has begun. Raises ClientError for a refused move."""
    begun = []
    for node in sorted({node for _, node in wanted}):
        mine = {partition: path for (partition, broker), path in wanted.items() if broker == node}
        for partition, code in (await move_to_directories(client, node, mine)).items():
            if code == ErrorCode.NONE:
                begun.append((partition, node))
            elif code not in _NOT_YET:
                raise ClientError(f"Failed to alter dir for {_replica_text((partition, node))}")
    return begun


async def print_moves(tool: Tool, client: Client, plan: Plan) -> bool:
    """Print the progress of each move between directories; returns whether moves are left."""
    found = await _planned_replicas(client, plan)
    for replica, wanted in sorted(plan.directories.items()):
        tool.print(_progress(replica, wanted, found[replica]))
    return any(each.future is not None for each in found.values())


def _progress(replica: Replica, wanted: str, present: ReplicaDirectories) -> str:
    """Return a sentence on the move of a replica to the directory `wanted`."""
    (topic, partition), node = replica
    of = f"Partition {topic}-{partition}"
    if present.future is not None:
        if present.future == wanted:
            return f"Reassignment of replica {_replica_text(replica)} is still in progress."
        return f"{of} on broker {node} is being moved to log dir {present.future} instead of {wanted}."
    if present.current == wanted:
        return f"Reassignment of replica {_replica_text(replica)} completed successfully."
    if present.current is None:
        nowhere = f"{of} is not found in any live log dir on broker {node}."
        return f"{nowhere} There is likely an offline log directory on the broker."
    return f"{of} on broker {node} is not being moved from log dir {present.current} to {wanted}."


async def cancel_moves(client: Client, plan: Plan) -> str:
    """Cancel moves between log directories; returns the text for the user."""
    found = await _planned_replicas(client, plan)
    moving = {replica: each for replica, each in found.items() if each.future is not None and each.current is not None}
    for node in sorted({node for _, node in moving}):
        back = {partition: str(each.current) for (partition, broker), each in moving.items() if broker == node}
        await move_to_directories(client, node, back)
    if moving:
        return f"Successfully cancelled log directory move{_s(moving)} for: {_listed_replicas(moving)}"
    return "None of the specified partition moves are active."


async def _planned_replicas(client: Client, plan: Plan) -> dict[Replica, ReplicaDirectories]:
    """Return the present directories of each replica that the plan moves between directories."""
    found: dict[Replica, ReplicaDirectories] = {}
    if plan.directories:
        await client.refresh()
    for node in sorted({node for _, node in plan.directories}):
        present = await directories_of(client, node) if node in client.nodes else {}
        for partition in (partition for partition, broker in plan.directories if broker == node):
            found[partition, node] = present.get(partition, ReplicaDirectories())
    return found


def _replica_text(replica: Replica) -> str:
    (topic, partition), node = replica
    return f"{topic}-{partition}-{node}"


def _listed_replicas(replicas: Iterable[Replica]) -> str:
    return ",".join(map(_replica_text, sorted(replicas)))


# -- throttles


_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_LEADERS, _FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
_WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


async def set_throttles(
    tool: Tool,
    client: Client,
    plan: Plan,
    current: Mapping[TopicPartition, list[int]],
    under_way: Mapping[TopicPartition, Any],
) -> None:
    """Set the given throttles; a rate below zero sets none. Raises ClientError."""
    rate, directory_rate = (
        None if each is None or each < 0 else each
        for each in (tool.options.throttle, tool.options.replica_alter_log_dirs_throttle)
    )
    if rate is None and directory_rate is None:
        return
    tool.print(_WARNING)
    if rate is not None:
        moves = _moves(plan, current, under_way)
        for topic, (leaders, followers) in _throttled_replicas(moves).items():
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
    plan: Plan, current: Mapping[TopicPartition, list[int]], under_way: Mapping[TopicPartition, Any]
) -> dict[TopicPartition, tuple[set[int], set[int]]]:
    """Return the source and target brokers of each partition; a broker that is both counts as a source only."""
    found = {}
    for partition, each in under_way.items():
        sources = set(each.replicas) - set(each.adding_replicas)
        found[partition] = sources, set(each.adding_replicas)
    for partition, wanted in plan.replicas.items():
        sources = found[partition][0] if partition in under_way else set(current[partition])
        found[partition] = sources, set(wanted) - sources
    return found


def _throttled_replicas(moves: Mapping[TopicPartition, tuple[set[int], set[int]]]) -> dict[str, tuple[str, str]]:
    """Return by topic the throttled replicas of leaders and of followers, in the form `partition:broker,...`."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for (topic, partition), (sources, targets) in sorted(moves.items()):
        leaders, followers = found.setdefault(topic, ([], []))
        leaders += [f"{partition}:{broker}" for broker in sorted(sources)]
        followers += [f"{partition}:{broker}" for broker in sorted(targets)]
    return {topic: (",".join(leaders), ",".join(followers)) for topic, (leaders, followers) in found.items()}


async def clear_throttles(tool: Tool, client: Client, plan: Plan, *, before: str = "") -> None:
    """Remove the throttles of all brokers and of the plan's topics. before: precedes the first line."""
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


# -- the tool


# The flags that an action needs, and the flags that it takes besides.
_NEEDS = {
    "generate": ("broker_list", "topics_to_move_json_file"),
    "execute": ("reassignment_json_file",),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file",),
    "list": (),
}
_TAKES = {
    "generate": ("disable_rack_aware",),
    "execute": (
        "additional",
        "throttle",
        "replica_alter_log_dirs_throttle",
        "timeout",
        "disallow_replication_factor_change",
    ),
    "verify": ("preserve_throttles",),
    "cancel": ("preserve_throttles", "timeout"),
    "list": (),
}
_EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)


def options(parser: ToolParser) -> None:
    parser.add_connection(controllers=True)
    parser.option("--generate", "propose other replicas; nothing is changed")
    parser.option("--execute", "begin the reassignment of the file")
    parser.option("--verify", "check whether it is done, and then remove its throttles")
    parser.option("--cancel", "cancel the reassignment of the file")
    parser.option("--list", "list reassignments in progress")
    parser.option("--reassignment-json-file FILE", "partitions with their new replicas")
    parser.option("--topics-to-move-json-file FILE", "topics, for --generate")
    parser.option("--broker-list ID,...", "brokers to use, for --generate")
    parser.option("--disable-rack-aware", "ignore racks")
    parser.option("--throttle BYTES", "most bytes a second between brokers")
    parser.option("--replica-alter-log-dirs-throttle BYTES", "most bytes a second between directories of a broker")
    parser.option("--timeout MS", "most time for moves to directories to begin (10000)")
    parser.option("--additional", "add to reassignments in progress, or change their throttle")
    parser.option("--preserve-throttles", "leave throttles alone")
    parser.option("--disallow-replication-factor-change", "refuse a change of the number of replicas")


async def run(tool: Tool) -> int | None:
    action = _check(tool)
    try:
        # Kafka's tool finds an unreadable number late, and reports the number on standard output.
        for flag in filter(tool.given, ("throttle", "replica_alter_log_dirs_throttle", "timeout")):
            setattr(tool.options, flag, tool.number(flag))
        async with tool.connect() as client:
            if tool.options.bootstrap_controller is not None:
                await client.refresh(call="listPartitionReassignments")
            return await _ACTIONS[action](tool, client)
    except KafkaError as error:
        # Kafka's tool shows the class of the exception with an error of the cluster, but not with an error of its own
        return tool.fail(f"Error: {error if error.code == ErrorCode.INVALID_REPLICATION_FACTOR else error.java}")
    except ClientError as error:
        own = type(error) is ClientError
        return tool.fail(f"Error: {error if own else error.java}")


def _check(tool: Tool) -> str:
    """Return the action of the flags. Raises ToolUsageError."""
    actions = [each for each in _NEEDS if tool.given(each)]
    if len(actions) != 1:
        raise ToolUsageError(
            "Command must include exactly one action: --generate, --execute, --verify, --cancel, --list"
        )
    action = actions[0]
    tool.required(*_NEEDS[action])
    allowed = {*_NEEDS[action], *_TAKES[action]}
    every = {flag for flags in (*_NEEDS.values(), *_TAKES.values()) for flag in flags}
    tool.never_with(action, *sorted(every - allowed))
    if tool.options.bootstrap_controller is not None and action not in ("cancel", "list"):
        raise ToolUsageError(f"--bootstrap-controller is not valid with --{action}")
    return action


async def _generate(tool: Tool, client: Client) -> None:
    brokers = _broker_list(tool.options.broker_list)
    topics = read_topics(tool.options.topics_to_move_json_file)
    await client.refresh(call="listNodes")
    current = await _replicas(client, topics)
    racks = not tool.options.disable_rack_aware
    nodes = [client.nodes[each] for each in brokers if each in client.nodes]
    if racks and len({each.rack is None for each in nodes}) > 1:
        raise ClientError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    proposed = propose(current, [CandidateBroker(each.node_id, each.rack if racks else None) for each in nodes])
    tool.print(f"Current partition replica assignment\n{written(current, await _directories(client, current))}\n")
    tool.print(f"Proposed partition reassignment configuration\n{written(proposed, {})}")
    tool.result = [_row(partition, replicas) for partition, replicas in sorted(proposed.items())]


def _broker_list(text: str) -> list[int]:
    """Read a list of brokers. Raises ClientError."""
    try:
        brokers = [integer(each) for each in java_split(",", text)]
    except ValueError as error:
        raise ClientError(str(error)) from None
    twice = repeated(brokers)
    if twice:
        raise ClientError(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    return brokers


async def _execute(tool: Tool, client: Client) -> int:
    chosen = tool.options
    plan = read_plan(chosen.reassignment_json_file)
    check_plan(plan)
    under_way = await list_reassignments(client)
    if under_way and not chosen.additional:
        return tool.fail(_EXISTING)
    await client.refresh()
    unknown = sorted({each for on in plan.replicas.values() for each in on} - client.nodes.keys())
    if unknown:
        raise ClientError(f"Unknown broker id {unknown[0]}")
    current = await _replicas(client, sorted({topic for topic, _ in plan.replicas}), set(plan.replicas))
    before = written(current, await _directories(client, current))
    tool.print(f"Current partition replica assignment\n\n{before}\n")
    tool.print("Save this to use as the --reassignment-json-file option during rollback")
    await set_throttles(tool, client, plan, current, under_way)
    refused = await reassign(
        client, dict(plan.replicas), change_of_factor=not chosen.disallow_replication_factor_change
    )
    if refused:
        lines = (f"{partition}: {error}" for partition, error in sorted(refused.items(), key=lambda each: each[0]))
        return tool.fail("Error reassigning partition(s):\n" + "\n".join(lines))
    tool.print(f"Successfully started partition reassignment{_s(plan.replicas)} for {listed(plan.replicas)}")
    if plan.directories:
        await start_moves(tool, client, plan)
    tool.result = [_row(partition, replicas) for partition, replicas in sorted(plan.replicas.items())]
    return 0


async def _verify(tool: Tool, client: Client) -> None:
    plan = read_plan(tool.options.reassignment_json_file)
    under_way = await list_reassignments(client)
    current = await _replicas(client, sorted({topic for topic, _ in plan.replicas}), lenient=True)
    tool.print("Status of partition reassignment:")
    tool.result = []
    for partition, wanted in sorted(plan.replicas.items()):
        there = current.get(partition, [])
        done, moving = there == wanted, partition in under_way
        if moving:
            tool.print(f"Reassignment of partition {partition} is still in progress.")
        elif done:
            tool.print(f"Reassignment of partition {partition} is completed.")
        else:
            tool.print(
                f"There is no active reassignment of partition {partition}, but replica set is "
                f"{','.join(map(str, there))} rather than {','.join(map(str, wanted))}."
            )
        tool.result.append(_row(partition, there) | {"completed": done and not moving, "in_progress": moving})
    moving = await print_moves(tool, client, plan)
    if not under_way and not moving and not tool.options.preserve_throttles:
        tool.print()
        await clear_throttles(tool, client, plan)


async def _cancel(tool: Tool, client: Client) -> int:
    plan = read_plan(tool.options.reassignment_json_file)
    active = [each for each in await list_reassignments(client) if each in plan.replicas]
    refused = await reassign(client, dict.fromkeys(active)) if active else {}
    if refused:
        lines = (f"{each}: {refused[each]}" for each in sorted(refused))
        return tool.fail(f"Error cancelling partition reassignment{_s(refused)} for:\n" + "\n".join(lines))
    if active:
        tool.print(f"Successfully cancelled partition reassignment{_s(active)} for: {listed(active)}")
    else:
        tool.print("None of the specified partition reassignments are active.")
    said = await cancel_moves(client, plan)
    tool.result = [each._asdict() | {"cancelled": True} for each in sorted(active)]
    if tool.options.preserve_throttles:
        tool.print(said)
    else:
        await clear_throttles(tool, client, plan, before=said)  # on the same line, as in Kafka's tool
    return 0


async def _list(tool: Tool, client: Client) -> None:
    under_way = await list_reassignments(client)
    tool.result = []
    if not under_way:
        tool.print("No partition reassignments found.")
        return
    tool.print("Current partition reassignments:")
    for partition, each in sorted(under_way.items()):
        line = f"{partition}: replicas: {','.join(map(str, each.replicas))}."
        if each.adding_replicas:
            line += f" adding: {','.join(map(str, each.adding_replicas))}."
        if each.removing_replicas:
            line += f" removing: {','.join(map(str, each.removing_replicas))}."
        tool.print(line)
        changes = {"adding": list(each.adding_replicas), "removing": list(each.removing_replicas)}
        tool.result.append(_row(partition, list(each.replicas)) | changes)


async def _replicas(
    client: Client, topics: list[str], partitions: set[TopicPartition] | None = None, *, lenient: bool = False
) -> dict[TopicPartition, list[int]]:
    """Return the replicas of the given partitions, or of all partitions of the topics.

    Args:
        lenient: missing partitions are left out.

    Raises:
        KafkaError: a topic can't be described, or a partition is missing.
    """
    metadata = await client.metadata(topics, call="describeTopics")
    found: dict[TopicPartition, list[int]] = {}
    order = {name: place for place, name in enumerate(topics)}
    for topic in sorted(metadata.topics, key=lambda each: order[each.name or ""]):
        if topic.error_code != ErrorCode.NONE:
            if lenient:
                continue
            unknown = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise KafkaError(topic.error_code, f"Topic {topic.name} not found." if unknown else None)
        for each in topic.partitions:
            found[TopicPartition(topic.name or "", each.partition_index)] = list(each.replica_nodes)
    missing = (partitions or set()) - found.keys()
    if missing:
        text = f"Unable to find partition: {listed(missing)}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return found if partitions is None else {partition: found[partition] for partition in partitions}


async def _directories(
    client: Client, current: dict[TopicPartition, list[int]]
) -> dict[tuple[TopicPartition, int], str]:
    """Return the present log directory of each replica on a known broker."""
    return {
        (partition, node): each.current
        for node in sorted({each for on in current.values() for each in on} & client.nodes.keys())
        for partition, each in (await directories_of(client, node)).items()
        if each.current is not None
    }


def _row(partition: TopicPartition, replicas: list[int]) -> dict[str, object]:
    return {**partition._asdict(), "replicas": replicas}


def _s(several: Sized) -> str:
    """Return the "s" of a plural."""
    return "" if len(several) == 1 else "s"


_ACTIONS = {"generate": _generate, "execute": _execute, "verify": _verify, "cancel": _cancel, "list": _list}
