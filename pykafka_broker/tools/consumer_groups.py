"""`kafka-consumer-groups`.

Rule: errors of groups are printed on standard output, and the exit code is 0 all the same; only a wrong use ends with
1. The groups are consumer groups, of the classic and of the consumer protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.groups import (
    CLASSIC,
    CONSUMER,
    Committed,
    GroupView,
    MemberView,
    committed_offsets,
    describe_consumer_groups,
    list_groups,
)
from pykafka_broker.client.leaders import by_topic, list_offsets
from pykafka_broker.coordinators.groups.re2 import RegexError, compile_regex
from pykafka_broker.protocol.enums import LATEST, TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.list_groups_response import ListedGroup
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError
from pykafka_broker.tools.group_commands import (
    EVERYTHING,
    INACTIVE,
    Column,
    add_group_flags,
    add_scenarios,
    check_group_flags,
    connect,
    delete_groups,
    delete_offsets_of_group,
    only_group,
    parse_topics,
    partitions_within,
    print_not_inactive,
    print_plans,
    print_table,
    reset,
    scenario_of,
    wanted,
    why,
)

# -- tables


Row = dict[str, object]
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


async def describe(tool: Tool, client: Client, group_ids: Sequence[str]) -> None:
    """Print the offsets, members or states of groups. Raises ClientError."""
    described = await describe_consumer_groups(client, group_ids)
    groups = []
    for group_id in sorted(described):
        found = described[group_id]
        if isinstance(found, ClientError):
            raise found
        groups.append(found)
    tool.result = []
    for group in groups:
        if not _worth_telling(tool, group):
            continue
        if tool.options.members:
            tool.result += _members(tool, group)
        elif tool.options.state is not None:
            tool.result.append(_state(tool, group))
        else:
            tool.result += await _offsets(tool, client, group)


def _worth_telling(tool: Tool, group: GroupView) -> bool:
    """Print the warning for the group's state; returns whether offsets and members are to be printed."""
    if group.state == "Dead":
        tool.print(f"\nError: Consumer group '{group.group_id}' does not exist.")
        return False
    if group.state == "Empty":
        tool.warn(f"\nConsumer group '{group.group_id}' has no active members.")
    elif group.state in _REBALANCING:
        tool.warn(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.")
    return True


async def _offsets(tool: Tool, client: Client, group: GroupView) -> list[Row]:
    committed = await committed_offsets(client, group.group_id)
    members: dict[TopicPartition, MemberView] = {
        partition: member for member in group.members for partition in member.assignment
    }
    partitions = sorted(members.keys() | committed.keys())
    ends = await list_offsets(client, dict.fromkeys(partitions, LATEST)) if partitions else {}
    rows = []
    for partition in partitions:
        offset = committed.get(partition)
        end = None if isinstance(ends[partition], ClientError) else ends[partition].offset
        rows.append(
            {
                "group_id": group.group_id,
                "topic": partition[0],
                "partition": partition[1],
                "leader_epoch": None if offset is None or offset.leader_epoch < 0 else offset.leader_epoch,
                "current_offset": None if offset is None else offset.offset,
                "log_end_offset": end,
                "lag": None if offset is None or end is None else end - offset.offset,
                **_of_member(members.get(partition)),
            }
        )
    if rows:
        _print_offsets(tool, rows)
    return rows


def _of_member(member: MemberView | None) -> Row:
    return {
        "consumer_id": member and member.member_id,
        "host": member and member.host,
        "client_id": member and member.client_id,
    }


def _print_offsets(tool: Tool, rows: list[Row]) -> None:
    columns = [("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10), ("LEADER-EPOCH", 15), ("CURRENT-OFFSET", 15)]
    columns += [("LOG-END-OFFSET", 15), ("LAG", 15), ("CONSUMER-ID", 15), ("HOST", 15), ("CLIENT-ID", 9)]
    _print(tool, columns, [list(row.values()) for row in rows], verbose={"LEADER-EPOCH"})


def _print(tool: Tool, columns: list[Column], rows: list[list[object]], verbose: set[str]) -> None:
    """Print a table. verbose: the columns for --verbose only."""
    shown = [at for at, (title, _) in enumerate(columns) if tool.options.verbose or title not in verbose]
    print_table(tool, [columns[at] for at in shown], [[row[at] for at in shown] for row in rows])


def _members(tool: Tool, group: GroupView) -> list[Row]:
    rows: list[Row] = [
        {
            "group_id": group.group_id,
            "consumer_id": member.member_id,
            "group_instance_id": member.instance_id,
            "host": member.host,
            "client_id": member.client_id,
            "partition_count": len(member.assignment),
            "current_epoch": member.epoch,
            "current_assignment": _listed(member.assignment),
            "target_epoch": group.target_epoch,
            "target_assignment": None if member.target is None else _listed(member.target),
            "upgraded": member.upgraded,
        }
        for member in group.members
    ]
    columns = [("GROUP", 15), ("CONSUMER-ID", 15), ("GROUP-INSTANCE-ID", 17), ("HOST", 15), ("CLIENT-ID", 15)]
    columns += [("#PARTITIONS", 15), ("CURRENT-EPOCH", 15), ("CURRENT-ASSIGNMENT", 20), ("TARGET-EPOCH", 15)]
    columns += [("TARGET-ASSIGNMENT", 20), ("UPGRADED", 15)]
    cells = [list(row.values()) for row in rows]
    for row, member in zip(cells, group.members, strict=True):
        row[7], row[9] = _spelt(member.assignment), None if member.target is None else _spelt(member.target)
    hidden = {"CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED"}
    if not any(member.instance_id for member in group.members):
        del columns[2]
        for row in cells:
            del row[2]
    if all(member.upgraded is not False for member in group.members):
        columns.pop()
        for row in cells:
            row.pop()
    _print(tool, columns, cells, hidden)
    return rows


def _listed(partitions: list[TopicPartition]) -> list[Row]:
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]


def _spelt(partitions: list[TopicPartition]) -> str | None:
    return ";".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in by_topic(partitions)) or None


def _state(tool: Tool, group: GroupView) -> Row:
    node = group.coordinator
    columns = [("GROUP", 15), ("COORDINATOR (ID)", 25), ("ASSIGNMENT-STRATEGY", 20), ("STATE", 20)]
    columns += [("GROUP-EPOCH", 15), ("TARGET-ASSIGNMENT-EPOCH", 25), ("#MEMBERS", 8)]
    cells: list[object] = [group.group_id, f"{node.host}:{node.port}  ({node.node_id})", group.assignor or None]
    cells += [group.state, group.epoch, group.target_epoch, len(group.members)]
    _print(tool, columns, [cells], {"GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"})
    return {
        "group_id": group.group_id,
        "coordinator": {"node_id": node.node_id, "host": node.host, "port": node.port},
        "assignment_strategy": group.assignor or None,
        "state": group.state,
        "group_epoch": group.epoch,
        "target_assignment_epoch": group.target_epoch,
        "member_count": len(group.members),
    }


# -- the tool


_ACTIONS = ("list", "describe", "delete", "reset_offsets", "delete_offsets", "validate_regex")
_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
_KINDS = (CLASSIC, CONSUMER)
_RESET_BEFORE_5 = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)


def options(parser: ToolParser) -> None:
    add = parser.option
    add_group_flags(parser, "groups of consumers", offsets="offsets and lag")
    add("--validate-regex REGEX", "whether a regular expression is one of RE2's")
    add("--type TYPE,...", "list with their types, or those of a type", nargs="?", const=EVERYTHING)
    add_scenarios(parser)
    add("--export", "print what was reset to as CSV")


async def run(tool: Tool) -> int:
    action = tool.one_of(*_ACTIONS, last=", ")
    if action == "validate_regex":
        return _validate_regex(tool)
    tool.required("bootstrap_server")
    _check(tool, action)
    if action == "reset_offsets" and not tool.options.execute and not tool.options.dry_run:
        tool.warn(_RESET_BEFORE_5)
    try:
        async with connect(tool) as client:
            await _DONE_BY[action](tool, client)
    except ClientError as error:
        tool.fail(f"\nError: Executing consumer group command failed due to {why(error, action)}", error)
    return 0


def _check(tool: Tool, action: str) -> None:
    """Check which flags go together. Raises ToolUsageError."""
    check_group_flags(tool, action)
    if tool.options.type is not None and action != "list":
        raise ToolUsageError("--type can only be used with --list")
    if action != "list" and not tool.given("group") and not tool.options.all_groups:
        raise ToolUsageError(f"--{action.replace('_', '-')} takes one of these options: --all-groups, --group")
    if action == "delete_offsets":
        tool.required("topic", "group")


def _validate_regex(tool: Tool) -> int:
    regex = tool.options.validate_regex
    try:
        compile_regex(regex)
    except RegexError as error:
        tool.print(f"The regular expression `{regex}` is invalid: {str(error).partition(': `')[0]}.")
        tool.result = {"regex": regex, "valid": False, "error": str(error)}
    else:
        tool.print(f"The regular expression `{regex}` is valid.")
        tool.result = {"regex": regex, "valid": True}
    return 0


async def _all_groups(client: Client) -> list[ListedGroup]:
    found = await list_groups(client)
    return [each for each in found if each.protocol_type in ("", "consumer") and _kind(each) in _KINDS]


def _kind(group: ListedGroup) -> str:
    return group.group_type.capitalize() or CLASSIC


async def _list(tool: Tool, client: Client) -> None:
    states = wanted(tool.options.state, _STATES, "state")
    kinds = wanted(tool.options.type, _KINDS, "type")
    found = [
        each
        for each in await _all_groups(client)
        if (not states or each.group_state in states) and (not kinds or _kind(each) in kinds)
    ]
    tool.result = [{"group_id": each.group_id, "type": _kind(each), "state": each.group_state} for each in found]
    with_type, with_state = tool.options.type is not None, tool.options.state is not None
    if not with_type and not with_state:
        for each in found:
            tool.print(each.group_id)
        return
    columns = [("GROUP", 25), *([("TYPE", 20)] if with_type else []), *([("STATE", 20)] if with_state else [])]
    rows = [
        [each.group_id, *([_kind(each)] if with_type else []), *([each.group_state] if with_state else [])]
        for each in found
    ]
    print_table(tool, columns, rows, apart=False)


async def _group_ids(tool: Tool, client: Client) -> list[str]:
    if tool.options.all_groups:
        return [each.group_id for each in await _all_groups(client)]
    return list(dict.fromkeys(tool.options.group))


async def _describe(tool: Tool, client: Client) -> None:
    await describe(tool, client, await _group_ids(tool, client))


async def _delete(tool: Tool, client: Client) -> None:
    await delete_groups(tool, client, await _group_ids(tool, client), "consumer")


async def _delete_offsets(tool: Tool, client: Client) -> None:
    await delete_offsets_of_group(tool, client, only_group(tool), parse_topics(tool.options.topic))


async def _reset_offsets(tool: Tool, client: Client) -> None:
    scenario = scenario_of(tool)
    if not tool.given("topic") and not tool.options.all_topics and scenario != "from_file":
        raise ToolUsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    groups = await _group_ids(tool, client)
    described = await describe_consumer_groups(client, groups)
    plans: dict[str, dict[TopicPartition, int]] = {}

    async def partitions_of(committed: Mapping[TopicPartition, Committed]) -> Sequence[TopicPartition]:
        if tool.options.all_topics:
            return list(committed)
        return await partitions_within(client, parse_topics(tool.options.topic))

    for group in sorted(groups):
        found = described[group]
        state = "Dead" if isinstance(found, ClientError) else found.state
        if isinstance(found, ClientError) and getattr(found, "code", None) != ErrorCode.GROUP_ID_NOT_FOUND:
            raise found
        if state in INACTIVE:
            plans[group] = await reset(tool, client, group, scenario, groups, partitions_of)
        else:
            print_not_inactive(tool, group, state)
    print_plans(tool, plans, with_group=tool.options.all_groups or len(groups) != 1)


_DONE_BY = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset_offsets": _reset_offsets,
    "delete_offsets": _delete_offsets,
}
