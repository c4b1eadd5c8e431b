"""`kafka-consumer-groups`.

Rule: errors of groups are printed on standard output, and the exit code is 0 all the same; only a wrong use ends with
1. The groups are consumer groups, of the classic and of the consumer protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.groups import (
    CLASSIC,
    CONSUMER,
    Committed,
    GroupView,
    committed_offsets,
    delete_group,
    describe_consumer_groups,
    list_groups,
)
from pykafka_broker.client.leaders import list_offsets
from pykafka_broker.coordinators.groups.re2 import RegexError, compile_regex
from pykafka_broker.protocol.enums import LATEST, TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.list_groups_response import ListedGroup
from pykafka_broker.tools import group_commands as common
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError

# -- tables


_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_OFFSETS = {"GROUP": 15, "TOPIC": 15, "PARTITION": 10, "LEADER-EPOCH": 15, "CURRENT-OFFSET": 15, "LOG-END-OFFSET": 15}
_OFFSETS |= {"LAG": 15, "CONSUMER-ID": 15, "HOST": 15, "CLIENT-ID": 9}
_MEMBERS = {"GROUP": 15, "CONSUMER-ID": 15, "GROUP-INSTANCE-ID": 17, "HOST": 15, "CLIENT-ID": 15, "#PARTITIONS": 15}
_MEMBERS_VERBOSE = {"CURRENT-EPOCH": 15, "CURRENT-ASSIGNMENT": 20, "TARGET-EPOCH": 15, "TARGET-ASSIGNMENT": 20}
_MEMBERS_VERBOSE |= {"UPGRADED": 15}
_STATE = {"GROUP": 15, "COORDINATOR (ID)": 25, "ASSIGNMENT-STRATEGY": 20, "STATE": 20, "GROUP-EPOCH": 15}
_STATE |= {"TARGET-ASSIGNMENT-EPOCH": 25, "#MEMBERS": 8}


async def _describe(tool: Tool, client: Client) -> None:
    """Print the offsets, members or states of groups. Raises ClientError."""
    described = await describe_consumer_groups(client, await _group_ids(tool, client))
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


async def _offsets(tool: Tool, client: Client, group: GroupView) -> list[common.Row]:
    committed = await committed_offsets(client, group.group_id)
    members = {partition: member for member in group.members for partition in member.assignment}
    partitions = sorted(members.keys() | committed.keys())
    ends = await list_offsets(client, dict.fromkeys(partitions, LATEST)) if partitions else {}
    rows: list[common.Row] = []
    for partition in partitions:
        offset, member = committed.get(partition), members.get(partition)
        end = None if isinstance(ends[partition], ClientError) else ends[partition].offset
        rows.append(
            {
                "group_id": group.group_id,
                **partition._asdict(),
                "leader_epoch": None if offset is None or offset.leader_epoch < 0 else offset.leader_epoch,
                "current_offset": None if offset is None else offset.offset,
                "log_end_offset": end,
                "lag": None if offset is None or end is None else end - offset.offset,
                "consumer_id": member and member.member_id,
                "host": member and member.host,
                "client_id": member and member.client_id,
            }
        )
    if rows:
        common.print_table(tool, _OFFSETS, [row.values() for row in rows], verbose=["LEADER-EPOCH"])
    return rows


def _members(tool: Tool, group: GroupView) -> list[common.Row]:
    rows: list[common.Row] = [
        {
            "group_id": group.group_id,
            "consumer_id": member.member_id,
            "group_instance_id": member.instance_id,
            "host": member.host,
            "client_id": member.client_id,
            "partition_count": len(member.assignment),
            "current_epoch": member.epoch,
            "current_assignment": [each._asdict() for each in member.assignment],
            "target_epoch": group.target_epoch,
            "target_assignment": None if member.target is None else [each._asdict() for each in member.target],
            "upgraded": member.upgraded,
        }
        for member in group.members
    ]
    cells = [[*row.values()] for row in rows]
    for row, member in zip(cells, group.members, strict=True):
        row[7], row[9] = common.spelt(member.assignment), common.spelt(member.target or ())
    hidden = set() if any(member.instance_id for member in group.members) else {"GROUP-INSTANCE-ID"}
    if all(member.upgraded is not False for member in group.members):
        hidden.add("UPGRADED")
    common.print_table(tool, _MEMBERS | _MEMBERS_VERBOSE, cells, verbose=_MEMBERS_VERBOSE, hidden=hidden)
    return rows


def _state(tool: Tool, group: GroupView) -> common.Row:
    node = group.coordinator
    found: common.Row = {
        "group_id": group.group_id,
        "coordinator": common.address_of(node),
        "assignment_strategy": group.assignor or None,
        "state": group.state,
        "group_epoch": group.epoch,
        "target_assignment_epoch": group.target_epoch,
        "member_count": len(group.members),
    }
    cells = (found | {"coordinator": f"{node.host}:{node.port}  ({node.node_id})"}).values()
    common.print_table(tool, _STATE, [cells], verbose=["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"])
    return found


# -- the tool


_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
_KINDS = (CLASSIC, CONSUMER)
_RESET_BEFORE_5 = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)


def options(parser: ToolParser) -> None:
    add = parser.option
    common.add_group_flags(parser, "groups of consumers", offsets="offsets and lag")
    add("--validate-regex REGEX", "check a regular expression of RE2")
    add("--type TYPE,...", "list groups with their types, or only these types", nargs="?", const=common.EVERYTHING)
    common.add_scenarios(parser)
    add("--export", "print what was reset to as CSV")


async def run(tool: Tool) -> int:
    action = tool.one_of(*_DONE_BY, "validate_regex", last=", ")
    if action == "validate_regex":
        return _validate_regex(tool)
    tool.required("bootstrap_server")
    _check(tool, action)
    if action == "reset_offsets" and not tool.options.execute and not tool.options.dry_run:
        tool.warn(_RESET_BEFORE_5)
    await common.execute(tool, action, _DONE_BY, "consumer", ["list"])
    return 0


def _check(tool: Tool, action: str) -> None:
    """Check which flags go together. Raises ToolUsageError."""
    common.check_group_flags(tool, action)
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
        tool.print(f"The regular expression `{regex}` is invalid: {error.message}.")
        tool.result = {"regex": regex, "valid": False, "error": error.message}
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
    states = common.wanted(tool.options.state, _STATES, "state")
    kinds = common.wanted(tool.options.type, _KINDS, "type")
    found = [
        each
        for each in await _all_groups(client)
        if (not states or each.group_state in states) and (not kinds or _kind(each) in kinds)
    ]
    tool.result = [{"group_id": each.group_id, "type": _kind(each), "state": each.group_state} for each in found]
    hidden = {title for title in ("TYPE", "STATE") if getattr(tool.options, title.lower()) is None}
    if len(hidden) == 2:
        for each in found:
            tool.print(each.group_id)
        return
    rows = [(each.group_id, _kind(each), each.group_state) for each in found]
    common.print_table(tool, {"GROUP": 25, "TYPE": 20, "STATE": 20}, rows, apart=False, hidden=hidden)


async def _group_ids(tool: Tool, client: Client) -> list[str]:
    if tool.options.all_groups:
        return [each.group_id for each in await _all_groups(client)]
    return list(dict.fromkeys(tool.options.group))


async def _delete(tool: Tool, client: Client) -> None:
    groups = await _group_ids(tool, client)
    failed: dict[str, str] = {}

    async def delete(group: str) -> None:
        try:
            await delete_group(client, group)
        except ClientError as error:
            failed[group] = error.java

    await asyncio.gather(*map(delete, groups))
    common.print_deleted(tool, groups, failed, "consumer")


async def _delete_offsets(tool: Tool, client: Client) -> None:
    await common.delete_offsets_of_group(tool, client, common.only_group(tool), common.parse_topics(tool.options.topic))


async def _reset_offsets(tool: Tool, client: Client) -> None:
    scenario = common.scenario_of(tool)
    if not tool.given("topic") and not tool.options.all_topics and scenario != "from_file":
        raise ToolUsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    groups = await _group_ids(tool, client)
    described = await describe_consumer_groups(client, groups)
    plans: dict[str, dict[TopicPartition, int]] = {}

    async def partitions_of(committed: Mapping[TopicPartition, Committed]) -> Sequence[TopicPartition]:
        if tool.options.all_topics:
            return list(committed)
        return await common.partitions_within(client, common.parse_topics(tool.options.topic))

    for group in sorted(groups):
        found = described[group]
        state = "Dead" if isinstance(found, ClientError) else found.state
        if isinstance(found, ClientError) and getattr(found, "code", None) != ErrorCode.GROUP_ID_NOT_FOUND:
            raise found
        if state in common.INACTIVE:
            plans[group] = await common.reset(tool, client, group, scenario, groups, partitions_of)
        else:
            common.print_not_inactive(tool, group, state)
    common.print_plans(tool, plans, with_group=tool.options.all_groups or len(groups) != 1)


_DONE_BY = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset_offsets": _reset_offsets,
    "delete_offsets": _delete_offsets,
}
