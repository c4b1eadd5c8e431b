"""`kafka-consumer-groups --describe`: offsets, members or state of groups.

Rule: what is wrong with one group ends all of it, as in Kafka's script.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.groups import GroupView, MemberView, committed_offsets, describe_consumer_groups
from pykafka_broker.client.leaders import Place, by_topic, list_offsets
from pykafka_broker.protocol.enums import LATEST
from pykafka_broker.tools.frame import Tool
from pykafka_broker.tools.group_table import Column, print_table

Row = dict[str, object]
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


async def describe(tool: Tool, client: Client, group_ids: Sequence[str]) -> None:
    """Raises ClientError."""
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
    """Tells what is to be known of the group's state."""
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
    members: dict[Place, MemberView] = {place: member for member in group.members for place in member.assignment}
    places = sorted(members.keys() | committed.keys())
    ends = await list_offsets(client, dict.fromkeys(places, LATEST)) if places else {}
    rows = []
    for place in places:
        offset = committed.get(place)
        end = None if isinstance(ends[place], ClientError) else ends[place].offset
        rows.append(
            {
                "group_id": group.group_id,
                "topic": place[0],
                "partition": place[1],
                "leader_epoch": None if offset is None or offset.leader_epoch < 0 else offset.leader_epoch,
                "current_offset": None if offset is None else offset.offset,
                "log_end_offset": end,
                "lag": None if offset is None or end is None else end - offset.offset,
                **_of_member(members.get(place)),
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
    """verbose: columns that are shown only with --verbose."""
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


def _listed(places: list[Place]) -> list[Row]:
    return [{"topic": topic, "partition": partition} for topic, partition in places]


def _spelt(places: list[Place]) -> str | None:
    return ";".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in by_topic(places)) or None


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
