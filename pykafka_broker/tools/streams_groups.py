"""`kafka-streams-groups`.

Rule: errors of single groups are printed on standard output, and the exit code is 0 all the same; an error of the whole
command ends with 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pykafka_broker.client.cluster import BrokerNode, Client
from pykafka_broker.client.errors import ClientError, KafkaError
from pykafka_broker.client.groups import (
    Committed,
    active_partitions,
    committed_offsets,
    coordinator_of,
    describe_streams_group,
    internal_topics,
    tasks_of,
)
from pykafka_broker.client.leaders import offsets_at
from pykafka_broker.client.topics import delete_topics
from pykafka_broker.protocol.enums import EARLIEST, LATEST, TopicPartition, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.streams_group_describe_response import (
    DescribedGroup,
    Member,
    TaskIds,
    TopologyDescription,
    TopologyDescriptionNode,
)
from pykafka_broker.tools import group_commands as common
from pykafka_broker.tools.frame import FAILED, Tool, ToolParser, ToolUsageError

# -- tables


_STATE = {"GROUP": 15, "COORDINATOR (ID)": 25, "ASSIGNOR": 20, "STATE": 25, "GROUP-EPOCH": 15}
_STATE |= {"TARGET-ASSIGNMENT-EPOCH": 25, "#MEMBERS": 10}
_MEMBERS = {"GROUP": 15, "TARGET-ASSIGNMENT-EPOCH": 25, "TOPOLOGY-EPOCH": 15, "MEMBER": 15, "MEMBER-PROTOCOL": 15}
_MEMBERS |= {"MEMBER-EPOCH": 15, "PROCESS": 15, "CLIENT-ID": 15, "ASSIGNMENTS": 15}
_OFFSETS = {"GROUP": 15, "TOPIC": 15, "PARTITION": 10, "CURRENT-OFFSET": 15, "LEADER-EPOCH": 15, "LOG-END-OFFSET": 15}
_OFFSETS |= {"OFFSET-LAG": 15}
_VERBOSE = {"GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "TOPOLOGY-EPOCH", "MEMBER-PROTOCOL", "MEMBER-EPOCH"}
_VERBOSE |= {"CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET"}


async def _describe(tool: Tool, client: Client) -> int:
    """Print the offsets, members, states or topologies of groups, and return the exit code. Raises ClientError."""
    tool.result = []
    status = 0
    for group_id in await common.group_ids(tool, client, "streams"):
        group = await describe_streams_group(client, group_id, with_topology=tool.options.topology)
        if tool.options.topology:
            status = max(status, _topology(tool, group))
        elif tool.options.state is not None:
            _state(tool, group, await coordinator_of(client, group_id))
        elif group.group_state == "Empty":
            continue  # silently, as in Kafka's script
        elif tool.options.members:
            _members(tool, group)
        else:
            await _offsets(tool, client, group)
    return status


# -- the description of a topology (KIP-1331)


_NOT_REQUESTED, _NOT_STORED, _NOT_FETCHED, _AVAILABLE = range(4)  # states of the description


def _topology(tool: Tool, group: DescribedGroup) -> int:
    """Print the description of a group's topology, and return the exit code.

    Raises:
        ClientError: the answer can't be understood.
    """
    status, name = group.topology_description_status, group.group_id
    if status != _AVAILABLE:
        said = {
            _NOT_REQUESTED: f"No topology description is available for streams group '{name}' (status: NOT_REQUESTED).",
            _NOT_STORED: f"No topology description is stored for streams group '{name}'.",
            _NOT_FETCHED: f"The broker failed to fetch the topology description for streams group '{name}'. "
            "See the broker logs for details.",
        }
        if status not in said:
            raise ClientError(f"java.lang.IllegalStateException: Unknown topology description status {status}")
        tool.print(f"\nError: {said[status]}")
        tool.result.append({"group_id": name, "error": said[status], "topology": None})
        return FAILED
    if group.topology_description is None:
        told = "Topology description is missing despite status AVAILABLE"
        raise ClientError(f"java.lang.IllegalStateException: {told}")
    found = _parts(group.topology_description)
    parts = [{"id": each, "nodes": [node._asdict() for node in nodes]} for each, _, nodes in found]
    tool.result.append({"group_id": name, "error": None, "topology": parts})
    tool.print("Topologies:")
    for subtopology_id, note, nodes in found:
        tool.print(f"   Sub-topology: {subtopology_id}{note}")
        for node in nodes:
            for line in node.lines():
                tool.print(line)
        tool.print()
    tool.print()
    return 0


class _Node(NamedTuple):
    """A source, processor or sink of a topology, with the names of the nodes before and behind it."""

    kind: str
    name: str
    source_topics: list[str]
    sink_topic: str | None
    stores: list[str]
    successors: list[str]
    predecessors: list[str]

    def lines(self) -> Iterator[str]:
        """Yield the lines that tell of the node."""
        of = {
            "Source": f"topics: [{', '.join(self.source_topics)}]",
            "Processor": f"stores: [{', '.join(self.stores)}]",
            "Sink": f"topic: {'null' if self.sink_topic is None else self.sink_topic}",
        }
        yield f"    {self.kind}: {self.name} ({of[self.kind]})"
        if self.kind != "Sink":
            yield f"      --> {', '.join(self.successors) or 'none'}"
        if self.kind != "Source":
            yield f"      <-- {', '.join(self.predecessors) or 'none'}"


def _parts(topology: TopologyDescription) -> list[tuple[str, str, list[_Node]]]:
    """Return subtopologies, and behind them global stores: id, a note, and nodes with their predecessors."""
    found = [(each.subtopology_id, "", _nodes(each.nodes)) for each in topology.subtopologies]
    for index, store in enumerate(topology.global_stores, len(found)):
        note = " for global store (will not generate tasks)"
        found.append((str(index), note, _nodes([store.source, store.processor])))
    return found


def _nodes(nodes: Sequence[TopologyDescriptionNode]) -> list[_Node]:
    found = []
    for each in nodes:
        if each.node_type not in _KINDS:
            raise ClientError(f"java.lang.IllegalStateException: Unknown topology node type: {each.node_type}")
        before = [other.name for other in nodes if each.name in other.successors]
        topics = each.source_topics, each.sink_topic
        found.append(_Node(_KINDS[each.node_type], each.name, *topics, each.stores, each.successors, before))
    return found


_KINDS = {1: "Source", 2: "Processor", 3: "Sink"}


# -- the other tables


def _state(tool: Tool, group: DescribedGroup, node: BrokerNode) -> None:
    if group.group_state == "Empty":
        tool.print(f"\nError: Streams group '{group.group_id}' has no active members.")
    row = [group.group_id, f"{node.host}:{node.port} ({node.node_id})", group.assignor_name or "-", group.group_state]
    cells = [*row, group.group_epoch, group.assignment_epoch, len(group.members)]
    common.print_table(tool, _STATE, [cells], apart=False, verbose=_VERBOSE)
    tool.result.append(
        common.described_state(group, node)
        | {"target_assignment_epoch": group.assignment_epoch, "assignor": group.assignor_name}
    )


def _members(tool: Tool, group: DescribedGroup) -> None:
    rows: list[list[object]] = []
    for each in group.members:
        protocol = "classic" if each.is_classic else "streams"
        row = [group.group_id, group.assignment_epoch, each.topology_epoch, each.member_id, protocol, each.member_epoch]
        rows.append([*row, each.process_id, each.client_id, _spelt(each, with_target=tool.options.verbose)])
        tool.result.append(_member(group, each, protocol))
    common.print_table(tool, _MEMBERS, rows, apart=False, verbose=_VERBOSE)


def _spelt(member: Member, *, with_target: bool) -> str:
    kinds = list(tasks_of(member.assignment).items())
    if with_target:
        kinds += [(f"TARGET-{kind}", tasks) for kind, tasks in tasks_of(member.target_assignment).items()]
    return "".join(f"{kind}: {_tasks(tasks)} " for kind, tasks in kinds)


def _tasks(tasks: list[TaskIds]) -> str:
    return " ".join(f"{each.subtopology_id}:[{','.join(map(str, each.partitions))}];" for each in tasks)


def _member(group: DescribedGroup, member: Member, protocol: str) -> common.Row:
    def told(tasks: dict[str, list[TaskIds]]) -> common.Row:
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
        "protocol": protocol,
        "member_epoch": member.member_epoch,
        "topology_epoch": member.topology_epoch,
        "target_assignment_epoch": group.assignment_epoch,
        "assignment": told(tasks_of(member.assignment)),
        "target_assignment": told(tasks_of(member.target_assignment)),
    }


async def _offsets(tool: Tool, client: Client, group: DescribedGroup) -> None:
    """Print the offsets of a group; without a commit the lag is the whole partition."""
    committed = await committed_offsets(client, group.group_id)
    partitions = active_partitions(group)
    firsts, ends = await offsets_at(client, partitions, EARLIEST), await offsets_at(client, partitions, LATEST)
    rows: list[common.Row] = []
    for partition in partitions:
        offset, end = committed.get(partition), ends[partition]
        rows.append(
            {"group_id": group.group_id, **partition._asdict(), "current_offset": offset and offset.offset}
            | {"leader_epoch": None if offset is None or offset.leader_epoch < 0 else offset.leader_epoch}
            | {"log_end_offset": end, "lag": end - (firsts[partition] if offset is None else offset.offset)}
        )
    tool.result += rows
    common.print_table(tool, _OFFSETS, [row.values() for row in rows], apart=False, verbose=_VERBOSE)


# -- the tool


_STATES = ("Empty", "NotReady", "Stable", "Assigning", "Reconciling", "Dead")


def options(parser: ToolParser) -> None:
    add = parser.option
    common.add_group_flags(parser, "streams groups", offsets="the lag", topics="input-topic")
    common.add_scenarios(parser)
    add("--topology", "describe the topology, where the broker has a description")
    add("--export", "print what was reset to as CSV")
    add("--delete-internal-topic TOPIC ...", "after a reset, delete this topic")
    add("--delete-all-internal-topics", "delete the application's own topics, too")


async def run(tool: Tool) -> int:
    action = tool.one_of(*_DONE_BY)
    tool.required("bootstrap_server")
    _check(tool, action)
    return await common.execute(tool, action, _DONE_BY, "streams")


def _check(tool: Tool, action: str) -> None:
    """Check which flags go together. Raises ToolUsageError."""
    try:
        for flag in filter(tool.given, ("timeout", "to_offset", "shift_by")):
            tool.number(flag)
    except ClientError as error:
        raise ToolUsageError(str(error)) from None
    tool.only_with("topology", "describe")
    if tool.options.topology and (tool.options.members or tool.options.offsets or tool.options.state is not None):
        raise ToolUsageError("--describe takes at most one of these options: --members, --offsets, --state, --topology")
    common.check_group_flags(tool, action, topics="input_topic")
    if action != "reset_offsets" and (tool.options.execute or tool.options.dry_run):
        raise ToolUsageError("Only --reset-offsets accepts --execute or --dry-run")
    groups = "--group" if action == "delete_offsets" else "--all-groups, --group"
    if action != "list" and not (tool.given("group") or (tool.options.all_groups and action != "delete_offsets")):
        raise ToolUsageError(f"--{action.replace('_', '-')} takes one of these options: {groups}")
    if action == "delete_offsets" and not (tool.given("input_topic") or tool.options.all_input_topics):
        raise ToolUsageError("--delete-offsets takes one of these options: --all-input-topics, --input-topic")
    if action == "delete_offsets" and len(tool.options.group) > 1:
        raise ToolUsageError("--delete-offsets supports only one --group at a time")
    tool.only_with("delete_all_internal_topics", "delete", "reset_offsets")
    tool.only_with("delete_internal_topic", "reset_offsets")
    if action == "reset_offsets":
        tool.only_with("delete_all_internal_topics", "execute")
        tool.only_with("delete_internal_topic", "execute")


async def _list(tool: Tool, client: Client) -> None:
    states = common.wanted(tool.options.state, _STATES, "state")
    common.print_groups(tool, list((await common.states_of(client, "streams", states)).items()))


async def _delete(tool: Tool, client: Client) -> None:
    listed = await common.states_of(client, "streams")
    groups = list(listed) if tool.options.all_groups else list(dict.fromkeys(tool.options.group))
    own: dict[str, list[str]] = {}
    if tool.options.delete_all_internal_topics:
        for group in (each for each in groups if listed.get(each) in common.INACTIVE):
            own[group] = internal_topics(await describe_streams_group(client, group))
    unknown = "java.lang.IllegalArgumentException: Group '{}' does not exist or is not a streams group."
    failed = await common.delete_listed_groups(client, groups, listed, kind="streams", unknown=unknown)
    wrong = await _delete_internal_topics(tool, client, {group: own[group] for group in own if group not in failed})
    common.print_deleted(tool, groups, failed, "streams", end=".")
    if wrong:
        tool.print("Deletion of some associated internal topics failed:")
        for group, error in wrong.items():
            tool.print(f"* Internal topics of the streams group '{group}' could not be deleted due to: {error.java}")
    elif done := [group for group in own if group not in failed and own[group]]:
        told = ", ".join(f"'{group}'" for group in done)
        tool.print(f"Deletion of associated internal topics of the streams groups ({told}) was successful.")


async def _delete_internal_topics(
    tool: Tool, client: Client, topics: Mapping[str, Sequence[str]]
) -> dict[str, ClientError]:
    """Delete internal topics; returns an error for each group with topics left."""
    wrong: dict[str, ClientError] = {}
    for group, names in topics.items():
        for name in names:
            try:
                await delete_topics(client, [name])
            except ClientError as error:
                tool.print(f"Failed to delete internal topic: {name}")
                wrong[group] = error
    return wrong


async def _delete_offsets(tool: Tool, client: Client) -> None:
    group = tool.options.group[0]
    topics: Mapping[str, list[int] | None]
    if tool.options.all_input_topics:
        topics = by_topic(sorted(await _input_partitions(client, group, await committed_offsets(client, group))))
    else:
        topics = common.parse_topics(tool.options.input_topic)
    await common.delete_offsets_of_group(tool, client, group, topics)


async def _input_partitions(
    client: Client, group: str, committed: Mapping[TopicPartition, Committed]
) -> list[TopicPartition]:
    """Return the partitions read by the group, without internal topics."""
    own = set(internal_topics(await describe_streams_group(client, group))) if committed else set()
    return [partition for partition in committed if partition[0] not in own]


async def _reset_offsets(tool: Tool, client: Client) -> None:
    scenario = common.scenario_of(tool)
    if not tool.options.execute and not tool.options.dry_run:
        raise ToolUsageError("--reset-offsets takes the option: --execute or --dry-run")
    if not tool.given("input_topic") and not tool.options.all_input_topics and scenario != "from_file":
        raise ToolUsageError("One of the reset scopes should be defined: --all-input-topics, --input-topic.")
    groups = await common.group_ids(tool, client, "streams")
    plans: dict[str, dict[TopicPartition, int]] = {}
    for group in groups:
        state, own = await _state_of(client, group)
        if state not in common.INACTIVE:
            common.print_not_inactive(tool, group, state)
            continue
        plans[group] = await _reset(tool, client, group, scenario, groups)
        if tool.options.execute:
            await _delete_topics_after_reset(tool, client, group, own)
    common.print_plans(tool, plans, with_group=tool.options.all_groups or len(groups) != 1)


async def _state_of(client: Client, group: str) -> tuple[str, list[str]]:
    """Return the state and the internal topics of a group."""
    try:
        found = await describe_streams_group(client, group)
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return "Dead", []
    return found.group_state, internal_topics(found)


async def _reset(
    tool: Tool, client: Client, group: str, scenario: str, groups: Sequence[str]
) -> dict[TopicPartition, int]:
    async def partitions_of(committed: Mapping[TopicPartition, Committed]) -> Sequence[TopicPartition]:
        known = await _input_partitions(client, group, committed)
        if tool.options.all_input_topics:
            return known
        partitions = await common.partitions_within(client, common.parse_topics(tool.options.input_topic))
        if not {topic for topic, _ in partitions} <= {topic for topic, _ in known}:
            tool.print(f"\nError: One or more topics are not part of the group '{group}'.")
            return []
        return partitions

    return await common.reset(tool, client, group, scenario, groups, partitions_of)


async def _delete_topics_after_reset(tool: Tool, client: Client, group: str, own: Sequence[str]) -> None:
    topics = own if tool.options.delete_all_internal_topics else tool.options.delete_internal_topic or ()
    try:
        if topics:
            await delete_topics(client, topics)
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        tool.print(f"\nError: Deleting internal topics for group '{group}' failed because the topics do not exist.")


_DONE_BY = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset_offsets": _reset_offsets,
    "delete_offsets": _delete_offsets,
}
