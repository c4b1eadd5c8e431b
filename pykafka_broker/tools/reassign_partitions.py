"""`kafka-reassign-partitions`.

Rule: nothing is changed before all that the plan names is known to be there; throttles go as soon as nothing moves.
"""

from __future__ import annotations

from collections.abc import Sized

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, Refused
from pykafka_broker.client.leaders import Place
from pykafka_broker.client.properties import long
from pykafka_broker.client.topics import directories_of, list_reassignments, reassign
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.tools.frame import Tool, ToolParser, UsageError
from pykafka_broker.tools.moves import cancel_moves, start_moves, tell_moves
from pykafka_broker.tools.reassignment_plan import (
    Candidate,
    check_plan,
    listed,
    propose,
    read_plan,
    read_topics,
    spelt,
    written,
)
from pykafka_broker.tools.throttles import clear_throttles, set_throttles
from pykafka_broker.tools.usage import given, never_with, required

SUMMARY = "move replicas of partitions between brokers and between their log directories"
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
    parser.add_argument("--generate", action="store_true", help="propose other replicas; nothing is changed")
    parser.add_argument("--execute", action="store_true", help="begin what the file says")
    parser.add_argument("--verify", action="store_true", help="is it done? if so, its throttles are removed")
    parser.add_argument("--cancel", action="store_true", help="end what is under way")
    parser.add_argument("--list", action="store_true", help="list what is under way")
    parser.add_argument("--reassignment-json-file", metavar="FILE", help="partitions with their new replicas")
    parser.add_argument("--topics-to-move-json-file", metavar="FILE", help="topics, for --generate")
    parser.add_argument("--broker-list", metavar="ID,...", help="brokers to use, for --generate")
    parser.add_argument("--disable-rack-aware", action="store_true", help="place as if there were no racks")
    parser.add_argument("--throttle", metavar="BYTES", help="between brokers, per second")
    parser.add_argument("--replica-alter-log-dirs-throttle", metavar="BYTES", help="within a broker")
    parser.add_argument("--timeout", metavar="MS", help="until moves to directories have begun; 10000")
    parser.add_argument("--additional", action="store_true", help="beside what is under way, or to change its throttle")
    parser.add_argument("--preserve-throttles", action="store_true", help="leave throttles alone")
    parser.add_argument("--disallow-replication-factor-change", action="store_true", help="only as many replicas")


async def run(tool: Tool) -> int:
    action = _check(tool)
    try:
        _read_numbers(tool)
        async with tool.connect() as client:
            if tool.options.bootstrap_controller is not None:
                await client.refresh(call="listPartitionReassignments")
            return await _ACTIONS[action](tool, client)
    except Refused as error:
        # Kafka's tool shows what the cluster has refused with its class, and what it finds itself without
        return tool.fail(f"Error: {error if error.code == ErrorCode.INVALID_REPLICATION_FACTOR else error.java}")
    except ClientError as error:
        own = type(error) is ClientError
        return tool.fail(f"Error: {error if own else error.java}")


def _check(tool: Tool) -> str:
    """Which action. Raises UsageError."""
    actions = [each for each in _NEEDS if given(tool, each)]
    if len(actions) != 1:
        raise UsageError("Command must include exactly one action: --generate, --execute, --verify, --cancel, --list")
    action = actions[0]
    required(tool, *_NEEDS[action])
    allowed = {*_NEEDS[action], *_TAKES[action]}
    every = {flag for flags in (*_NEEDS.values(), *_TAKES.values()) for flag in flags}
    never_with(tool, action, *sorted(every - allowed))
    if tool.options.bootstrap_controller is not None and action not in ("cancel", "list"):
        raise UsageError(f"--bootstrap-controller is not valid with --{action}")
    return action


def _read_numbers(tool: Tool) -> None:
    """Raises ClientError: Kafka's tool finds such a fault late, and says it on standard output."""
    for flag in ("throttle", "replica_alter_log_dirs_throttle", "timeout"):
        text = getattr(tool.options, flag)
        if text is None:
            continue
        try:
            setattr(tool.options, flag, long(text))
        except ValueError:
            raise ClientError(f"Cannot parse argument '{text}' of option {flag.replace('_', '-')}") from None


async def _generate(tool: Tool, client: Client) -> int:
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
    proposed = propose(current, [Candidate(each.node_id, each.rack if racks else None) for each in nodes])
    tool.print(f"Current partition replica assignment\n{written(current, await _directories(client, current))}\n")
    tool.print(f"Proposed partition reassignment configuration\n{written(proposed, {})}")
    tool.result = [_row(place, replicas) for place, replicas in sorted(proposed.items())]
    return 0


def _broker_list(text: str) -> list[int]:
    """Raises ClientError."""
    brokers = []
    for each in text.split(","):
        if not each.isdigit():
            raise ClientError(f'For input string: "{each}"')
        brokers.append(int(each))
    twice = sorted({each for each in brokers if brokers.count(each) > 1})
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
        lines = (f"{spelt(place)}: {error}" for place, error in sorted(refused.items(), key=lambda each: each[0]))
        return tool.fail("Error reassigning partition(s):\n" + "\n".join(lines))
    tool.print(f"Successfully started partition reassignment{_s(plan.replicas)} for {listed(plan.replicas)}")
    if plan.directories:
        await start_moves(tool, client, plan)
    tool.result = [_row(place, replicas) for place, replicas in sorted(plan.replicas.items())]
    return 0


async def _verify(tool: Tool, client: Client) -> int:
    plan = read_plan(tool.options.reassignment_json_file)
    under_way = await list_reassignments(client)
    current = await _replicas(client, sorted({topic for topic, _ in plan.replicas}), lenient=True)
    tool.print("Status of partition reassignment:")
    tool.result = []
    for place, wanted in sorted(plan.replicas.items()):
        there = current.get(place, [])
        done, moving = there == wanted, place in under_way
        if moving:
            tool.print(f"Reassignment of partition {spelt(place)} is still in progress.")
        elif done:
            tool.print(f"Reassignment of partition {spelt(place)} is completed.")
        else:
            tool.print(
                f"There is no active reassignment of partition {spelt(place)}, but replica set is "
                f"{','.join(map(str, there))} rather than {','.join(map(str, wanted))}."
            )
        tool.result.append(_row(place, there) | {"completed": done and not moving, "in_progress": moving})
    moving = await tell_moves(tool, client, plan)
    if not under_way and not moving and not tool.options.preserve_throttles:
        tool.print()
        await clear_throttles(tool, client, plan)
    return 0


async def _cancel(tool: Tool, client: Client) -> int:
    plan = read_plan(tool.options.reassignment_json_file)
    active = [place for place in await list_reassignments(client) if place in plan.replicas]
    refused = await reassign(client, dict.fromkeys(active)) if active else {}
    if refused:
        lines = (f"{spelt(place)}: {error}" for place, error in sorted(refused.items(), key=lambda each: each[0]))
        return tool.fail(f"Error cancelling partition reassignment{_s(refused)} for:\n" + "\n".join(lines))
    if active:
        tool.print(f"Successfully cancelled partition reassignment{_s(active)} for: {listed(active)}")
    else:
        tool.print("None of the specified partition reassignments are active.")
    said = await cancel_moves(client, plan)
    tool.result = [{"topic": topic, "partition": partition, "cancelled": True} for topic, partition in sorted(active)]
    if tool.options.preserve_throttles:
        tool.print(said)
    else:
        await clear_throttles(tool, client, plan, before=said)  # in the same line, as Kafka's tool has it
    return 0


async def _list(tool: Tool, client: Client) -> int:
    under_way = await list_reassignments(client)
    tool.result = []
    if not under_way:
        tool.print("No partition reassignments found.")
        return 0
    tool.print("Current partition reassignments:")
    for place, each in sorted(under_way.items()):
        line = f"{spelt(place)}: replicas: {','.join(map(str, each.replicas))}."
        if each.adding_replicas:
            line += f" adding: {','.join(map(str, each.adding_replicas))}."
        if each.removing_replicas:
            line += f" removing: {','.join(map(str, each.removing_replicas))}."
        tool.print(line)
        changes = {"adding": list(each.adding_replicas), "removing": list(each.removing_replicas)}
        tool.result.append(_row(place, list(each.replicas)) | changes)
    return 0


async def _replicas(
    client: Client, topics: list[str], places: set[Place] | None = None, *, lenient: bool = False
) -> dict[Place, list[int]]:
    """Of these partitions or all of the topics. lenient: what there is not is left out. Raises Refused, ClientError."""
    metadata = await client.metadata(topics, call="describeTopics")
    found: dict[Place, list[int]] = {}
    for topic in sorted(metadata.topics, key=lambda each: topics.index(each.name or "")):
        if topic.error_code != ErrorCode.NONE:
            if lenient:
                continue
            missing = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise Refused(topic.error_code, f"Topic {topic.name} not found." if missing else None)
        for each in topic.partitions:
            found[topic.name or "", each.partition_index] = list(each.replica_nodes)
    missing_places = (places or set()) - found.keys()
    if missing_places:
        text = f"Unable to find partition: {listed(missing_places)}"
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return found if places is None else {place: found[place] for place in places}


async def _directories(client: Client, current: dict[Place, list[int]]) -> dict[tuple[Place, int], str]:
    found = {}
    for node in sorted({each for on in current.values() for each in on} & client.nodes.keys()):
        for place, each in (await directories_of(client, node)).items():
            if each.current is not None:
                found[place, node] = each.current
    return found


def _row(place: Place, replicas: list[int]) -> dict[str, object]:
    return {"topic": place[0], "partition": place[1], "replicas": replicas}


def _s(several: Sized) -> str:
    return "" if len(several) == 1 else "s"


_ACTIONS = {"generate": _generate, "execute": _execute, "verify": _verify, "cancel": _cancel, "list": _list}
