"""`kafka-share-groups`.

Rule: errors of groups are printed on standard output, and the exit code is 0 all the same; a wrong use, and the reset
of a group that can't be reset, end with 1.
"""

from __future__ import annotations

from pykafka_broker.client.cluster import BrokerNode, Client
from pykafka_broker.client.errors import ClientError, KafkaError, TimedOut
from pykafka_broker.client.groups import (
    alter_share_group_starts,
    coordinator_of,
    delete_share_group_starts,
    describe_share_group,
    partitions_of,
    share_group_starts,
)
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_group_describe_response import DescribedGroup
from pykafka_broker.tools import group_commands as common
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError

_STATES = ("Empty", "Stable", "Dead")
_SCENARIOS = ("to_earliest", "to_latest", "to_datetime", "to_current", "to_offset", "from_file")
_OFFSETS = {"GROUP": 15, "TOPIC": 15, "PARTITION": 10, "LEADER-EPOCH": 15, "START-OFFSET": 15, "LAG": 15}
_MEMBERS = {"GROUP": 15, "CONSUMER-ID": 15, "HOST": 15, "CLIENT-ID": 15, "#PARTITIONS": 15, "MEMBER-EPOCH": 15}
_MEMBERS |= {"ASSIGNMENT": 15}
_STATE = {"GROUP": 15, "COORDINATOR (ID)": 25, "STATE": 15, "GROUP-EPOCH": 15, "ASSIGNMENT-EPOCH": 17, "#MEMBERS": 8}


def options(parser: ToolParser) -> None:
    common.add_group_flags(parser, "share groups", offsets="where the group begins, and its lag")
    common.add_scenarios(parser, _SCENARIOS)
    parser.option("--export", "print the new offsets as CSV")


async def run(tool: Tool) -> None:
    action = tool.one_of(*_DONE_BY)
    tool.required("bootstrap_server")
    _check(tool, action)
    await common.execute(tool, action, _DONE_BY, "share")


def _check(tool: Tool, action: str) -> None:
    """Check which flags go together. Raises ToolUsageError."""
    common.check_group_flags(tool, action)
    if action in ("describe", "delete") and not tool.given("group") and not tool.options.all_groups:
        raise ToolUsageError(f"--{action} takes one of these options: --all-groups, --group")
    if action == "delete_offsets":
        tool.required("topic", "group")
    if action == "reset_offsets":
        tool.required("group")
        scenario = common.scenario_of(tool, _SCENARIOS)
        if not tool.options.execute and not tool.options.dry_run:
            raise ToolUsageError("--reset-offsets takes one of these options: --execute, --dry-run")
        tool.never_with("topic", "all_topics", "from_file")
        tool.never_with("all_topics", "from_file")
        if not tool.given("topic") and not tool.options.all_topics and scenario != "from_file":
            raise ToolUsageError("--reset-offsets takes one of these options: --all-topics, --topic")


async def _list(tool: Tool, client: Client) -> None:
    states = common.wanted(tool.options.state, _STATES, "state")
    found = await common.states_of(client, "share")
    common.print_groups(tool, [each for each in found.items() if not states or each[1] in states])


async def _describe(tool: Tool, client: Client) -> None:
    tool.result = []
    group_ids = await common.group_ids(tool, client, "share")
    for group in [await describe_share_group(client, group_id) for group_id in group_ids]:
        if group.group_state == "Empty" and (tool.options.members or tool.options.state is not None):
            tool.warn(f"\nShare group '{group.group_id}' has no active members.")
        if tool.options.members:
            _members(tool, group)
        elif tool.options.state is not None:
            _state(tool, group, await coordinator_of(client, group.group_id))
        else:
            await _offsets(tool, client, group.group_id)


async def _offsets(tool: Tool, client: Client, group: str) -> None:
    starts = await share_group_starts(client, group)
    if not starts:
        tool.print(f"\nShare group '{group}' has no offset information.")
        return
    rows = [
        {"group_id": group, **partition._asdict()}
        | {"leader_epoch": each.leader_epoch, "start_offset": each.offset, "lag": each.lag}
        for partition, each in starts.items()
    ]
    common.print_table(tool, _OFFSETS, [row.values() for row in rows], verbose=["LEADER-EPOCH"])
    tool.result += rows


def _members(tool: Tool, group: DescribedGroup) -> None:
    cells = []
    for each in group.members:
        assignment = partitions_of(each.assignment)
        row: common.Row = {
            "group_id": group.group_id,
            "consumer_id": each.member_id,
            "host": each.client_host,
            "client_id": each.client_id,
            "partition_count": len(assignment),
            "member_epoch": each.member_epoch,
        }
        cells.append([*row.values(), common.spelt(assignment)])
        tool.result.append(row | {"assignment": [partition._asdict() for partition in assignment]})
    if cells:
        common.print_table(tool, _MEMBERS, cells, verbose=["MEMBER-EPOCH"])


def _state(tool: Tool, group: DescribedGroup, node: BrokerNode) -> None:
    row = [group.group_id, f"{node.host}:{node.port} ({node.node_id})", group.group_state, group.group_epoch]
    cells = [*row, group.assignment_epoch, len(group.members)]
    common.print_table(tool, _STATE, [cells], verbose=["GROUP-EPOCH", "ASSIGNMENT-EPOCH"])
    tool.result.append(common.described_state(group, node) | {"assignment_epoch": group.assignment_epoch})


async def _delete(tool: Tool, client: Client) -> None:
    listed = await common.states_of(client, "share")
    groups = list(listed) if tool.options.all_groups else list(dict.fromkeys(tool.options.group))
    unknown = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "Group '{}' is not a share group.").java
    failed = await common.delete_listed_groups(client, groups, listed, kind="share", unknown=unknown)
    common.print_deleted(tool, groups, failed, "share")


async def _delete_offsets(tool: Tool, client: Client) -> None:
    group, topics = common.only_group(tool), list(dict.fromkeys(tool.options.topic))
    found: dict[str, ClientError | None] = {}
    try:
        found |= await delete_share_group_starts(client, group, topics)
    except ClientError as error:
        found = dict.fromkeys(topics, error)
        unknown = "Encounter some unknown error: " if isinstance(error, TimedOut) else ""
        tool.print(f"\nError: {unknown}{error.java if unknown else error}")
    rows = [(topic, "Successful" if found[topic] is None else f"Error: {found[topic]}") for topic in found]
    common.print_table(tool, {"TOPIC": 15, "STATUS": 15}, rows)
    tool.result = [{"topic": topic, "error": None if error is None else str(error)} for topic, error in found.items()]


async def _reset_offsets(tool: Tool, client: Client) -> None:
    group = common.only_group(tool)
    try:
        state = (await describe_share_group(client, group)).group_state
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise ToolUsageError(str(error)) from None
        state = "Dead"
    except ClientError as error:
        raise ToolUsageError(str(error)) from None
    if state not in common.INACTIVE:
        raise ToolUsageError(f"Share group '{group}' is not empty.")
    scenario = common.scenario_of(tool, _SCENARIOS)
    if scenario == "from_file":
        plan = common.planned(tool, group, [group])
        found = {} if plan is None else await common.within(client, plan)
    else:
        starts = await share_group_starts(client, group) if tool.options.all_topics or scenario == "to_current" else {}
        partitions = list(starts)
        if tool.given("topic"):
            partitions = await common.partitions_within(client, common.parse_topics(tool.options.topic))
        known = {partition: each.offset for partition, each in starts.items() if each.offset is not None}
        found = await common.targets(tool, client, scenario, partitions, known)
    if tool.options.execute:
        await alter_share_group_starts(client, group, found)
    if found:
        common.print_plans(tool, {group: found}, with_group=False)


_DONE_BY = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset_offsets": _reset_offsets,
    "delete_offsets": _delete_offsets,
}
