"""`kafka-streams-groups --describe`: offsets, members or state of groups."""

from __future__ import annotations

from collections.abc import Sequence

from pykafka_broker.client.cluster import Client, Node
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.groups import (
    active_places,
    committed_offsets,
    coordinator_of,
    describe_streams_group,
    tasks_of,
)
from pykafka_broker.client.leaders import list_offsets
from pykafka_broker.protocol.enums import EARLIEST, LATEST
from pykafka_broker.protocol.messages.streams_group_describe_response import DescribedGroup, Member, TaskIds
from pykafka_broker.tools.frame import Tool
from pykafka_broker.tools.group_table import print_table

Row = dict[str, object]


async def describe(tool: Tool, client: Client, group_ids: Sequence[str]) -> None:
    """Raises ClientError."""
    tool.result = []
    for group_id in group_ids:
        group = await describe_streams_group(client, group_id)
        if tool.options.state is not None:
            _state(tool, group, await coordinator_of(client, group_id))
        elif group.group_state == "Empty":
            continue  # without a word, as Kafka's script has it
        elif tool.options.members:
            _members(tool, group)
        else:
            await _offsets(tool, client, group)


def _state(tool: Tool, group: DescribedGroup, node: Node) -> None:
    if group.group_state == "Empty":
        tool.print(f"\nError: Streams group '{group.group_id}' has no active members.")
    epochs = [("GROUP-EPOCH", 15), ("TARGET-ASSIGNMENT-EPOCH", 25)] if tool.options.verbose else []
    columns = [("GROUP", 15), ("COORDINATOR (ID)", 25), ("STATE", 25), *epochs, ("#MEMBERS", 10)]
    row: list[object] = [group.group_id, f"{node.host}:{node.port} ({node.node_id})", group.group_state]
    row += [group.group_epoch, group.assignment_epoch] if epochs else []
    print_table(tool, columns, [[*row, len(group.members)]], apart=False)
    tool.result.append(
        {"group_id": group.group_id, "state": group.group_state, "member_count": len(group.members)}
        | {"coordinator": {"node_id": node.node_id, "host": node.host, "port": node.port}}
        | {"group_epoch": group.group_epoch, "target_assignment_epoch": group.assignment_epoch}
    )


def _members(tool: Tool, group: DescribedGroup) -> None:
    rows: list[list[object]] = []
    for each in group.members:
        protocol = "classic" if each.is_classic else "streams"
        epochs = [group.assignment_epoch, each.topology_epoch], [protocol, each.member_epoch]
        before, after = epochs if tool.options.verbose else ([], [])
        last = [each.process_id, each.client_id, _spelt(each, with_target=tool.options.verbose)]
        rows.append([group.group_id, *before, each.member_id, *after, *last])
        tool.result.append(_member(group, each))
    before_columns = [("TARGET-ASSIGNMENT-EPOCH", 25), ("TOPOLOGY-EPOCH", 15)] if tool.options.verbose else []
    after_columns = [("MEMBER-PROTOCOL", 15), ("MEMBER-EPOCH", 15)] if tool.options.verbose else []
    columns = [("GROUP", 15), *before_columns, ("MEMBER", 15), *after_columns, ("PROCESS", 15), ("CLIENT-ID", 15)]
    print_table(tool, [*columns, ("ASSIGNMENTS", 15)], rows, apart=False)


def _spelt(member: Member, *, with_target: bool) -> str:
    kinds = list(tasks_of(member.assignment).items())
    if with_target:
        kinds += [(f"TARGET-{kind}", tasks) for kind, tasks in tasks_of(member.target_assignment).items()]
    return "".join(f"{kind}: {_tasks(tasks)} " for kind, tasks in kinds)


def _tasks(tasks: list[TaskIds]) -> str:
    return " ".join(f"{each.subtopology_id}:[{','.join(map(str, each.partitions))}];" for each in tasks)


def _member(group: DescribedGroup, member: Member) -> Row:
    def told(tasks: dict[str, list[TaskIds]]) -> Row:
        return {
            kind.lower(): [{"subtopology": each.subtopology_id, "partitions": each.partitions} for each in of]
            for kind, of in tasks.items()
        }

    return {
        "group_id": group.group_id,
        "member_id": member.member_id,
        "process_id": member.process_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "protocol": "classic" if member.is_classic else "streams",
        "member_epoch": member.member_epoch,
        "topology_epoch": member.topology_epoch,
        "target_assignment_epoch": group.assignment_epoch,
        "assignment": told(tasks_of(member.assignment)),
        "target_assignment": told(tasks_of(member.target_assignment)),
    }


async def _offsets(tool: Tool, client: Client, group: DescribedGroup) -> None:
    """Where nothing is committed, all that there is lies before the group."""
    committed = await committed_offsets(client, group.group_id)
    places = active_places(group)
    firsts = await list_offsets(client, dict.fromkeys(places, EARLIEST)) if places else {}
    ends = await list_offsets(client, dict.fromkeys(places, LATEST)) if places else {}
    rows: list[Row] = []
    for place in places:
        for found in (firsts[place], ends[place]):
            if isinstance(found, ClientError):
                raise found
        offset, end = committed.get(place), ends[place].offset
        rows.append(
            {"group_id": group.group_id, "topic": place[0], "partition": place[1]}
            | {"current_offset": offset and offset.offset}
            | {"leader_epoch": None if offset is None or offset.leader_epoch < 0 else offset.leader_epoch}
            | {"log_end_offset": end, "lag": end - (firsts[place].offset if offset is None else offset.offset)}
        )
    tool.result += rows
    columns = [("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10)]
    if tool.options.verbose:
        columns += [("CURRENT-OFFSET", 15), ("LEADER-EPOCH", 15), ("LOG-END-OFFSET", 15)]
    shown = [list(row.values()) if tool.options.verbose else [*list(row.values())[:3], row["lag"]] for row in rows]
    print_table(tool, [*columns, ("OFFSET-LAG", 15)], shown, apart=False)
