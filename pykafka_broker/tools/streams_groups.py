"""`kafka-streams-groups`.

Rule: what goes wrong with single groups is printed on standard output, and the exit code is 0 all the same; what ends
the whole command ends with 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, Refused
from pykafka_broker.client.groups import (
    Committed,
    committed_offsets,
    describe_streams_group,
    internal_topics,
    list_groups,
)
from pykafka_broker.client.leaders import Place, by_topic
from pykafka_broker.client.topics import delete_topics
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.tools.frame import Tool, ToolParser, UsageError
from pykafka_broker.tools.group_deletions import delete_listed_groups, delete_offsets_of_group, print_deleted
from pykafka_broker.tools.group_failures import why
from pykafka_broker.tools.group_options import (
    INACTIVE,
    add_group_flags,
    check_group_flags,
    connect,
    print_groups,
    print_not_inactive,
    wanted,
)
from pykafka_broker.tools.group_resets import print_plans, reset
from pykafka_broker.tools.reset_offsets import add_scenarios, scenario_of, whole_number
from pykafka_broker.tools.streams_group_tables import describe
from pykafka_broker.tools.topic_partitions import parse_topics, places_within
from pykafka_broker.tools.usage import given, one_of, only_with, required

SUMMARY = "list, describe and delete groups of Kafka Streams, and reset their offsets"

_ACTIONS = ("list", "describe", "delete", "reset_offsets", "delete_offsets")
_STATES = ("Empty", "NotReady", "Stable", "Assigning", "Reconciling", "Dead")
_LISTING = ("list", "delete")


def options(parser: ToolParser) -> None:
    add = parser.add_argument
    add_group_flags(parser, "streams groups", offsets="the lag", topics="input-topic")
    add_scenarios(parser)
    add("--export", action="store_true", help="print what was reset to as CSV")
    add("--delete-internal-topic", action="append", metavar="TOPIC", help="after a reset, delete this topic")
    add("--delete-all-internal-topics", action="store_true", help="delete the application's own topics, too")


async def run(tool: Tool) -> int:
    action = one_of(tool, *_ACTIONS)
    required(tool, "bootstrap_server")
    _check(tool, action)
    try:
        async with connect(tool) as client:
            await _DONE_BY[action](tool, client)
    except ClientError as error:
        reason = why(error, action, _LISTING)
        return tool.fail(f"\nError: Executing streams group command failed due to {reason}", error)
    return 0


def _check(tool: Tool, action: str) -> None:
    """Raises UsageError."""
    try:
        for flag in filter(lambda name: given(tool, name), ("timeout", "to_offset", "shift_by")):
            whole_number(tool, flag)
    except ClientError as error:
        raise UsageError(str(error)) from None
    check_group_flags(tool, action, topics="input_topic")
    if action != "reset_offsets" and (tool.options.execute or tool.options.dry_run):
        raise UsageError("Only --reset-offsets accepts --execute or --dry-run")
    groups = "--group" if action == "delete_offsets" else "--all-groups, --group"
    if action != "list" and not (given(tool, "group") or (tool.options.all_groups and action != "delete_offsets")):
        raise UsageError(f"--{action.replace('_', '-')} takes one of these options: {groups}")
    if action == "delete_offsets" and not (given(tool, "input_topic") or tool.options.all_input_topics):
        raise UsageError("--delete-offsets takes one of these options: --all-input-topics, --input-topic")
    if action == "delete_offsets" and len(tool.options.group) > 1:
        raise UsageError("--delete-offsets supports only one --group at a time")
    _check_internal_topics(tool, action)


def _check_internal_topics(tool: Tool, action: str) -> None:
    only_with(tool, "delete_all_internal_topics", "delete", "reset_offsets")
    only_with(tool, "delete_internal_topic", "reset_offsets")
    for flag in ("delete_all_internal_topics", "delete_internal_topic"):
        if action == "reset_offsets":
            only_with(tool, flag, "execute")


async def _listed(client: Client, states: Sequence[str] = ()) -> dict[str, str]:
    """The state of each streams group, or of those in one of these states."""
    return {each.group_id: each.group_state for each in await list_groups(client, states, ["streams"])}


async def _group_ids(tool: Tool, client: Client) -> list[str]:
    return list(await _listed(client)) if tool.options.all_groups else sorted(set(tool.options.group))


async def _list(tool: Tool, client: Client) -> None:
    states = wanted(tool.options.state, _STATES, "state")
    print_groups(tool, list((await _listed(client, states)).items()))


async def _describe(tool: Tool, client: Client) -> None:
    await describe(tool, client, await _group_ids(tool, client))


async def _delete(tool: Tool, client: Client) -> None:
    listed = await _listed(client)
    groups = list(listed) if tool.options.all_groups else list(dict.fromkeys(tool.options.group))
    own: dict[str, list[str]] = {}
    if tool.options.delete_all_internal_topics:
        for group in (each for each in groups if listed.get(each) in INACTIVE):
            own[group] = internal_topics(await describe_streams_group(client, group))
    unknown = "Group '{}' does not exist or is not a streams group."
    failed = await delete_listed_groups(client, groups, listed, kind="streams", unknown=unknown)
    wrong = await _delete_internal_topics(tool, client, {group: own[group] for group in own if group not in failed})
    print_deleted(tool, groups, failed, "streams", end=".")
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
    """The groups of which some were not deleted."""
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
        topics = dict(by_topic(await _input_places(client, group, await committed_offsets(client, group))))
    else:
        topics = parse_topics(tool.options.input_topic)
    await delete_offsets_of_group(tool, client, group, topics)


async def _input_places(client: Client, group: str, committed: Mapping[Place, Committed]) -> list[Place]:
    """What the group has read of topics that are not its own."""
    own = set(internal_topics(await describe_streams_group(client, group))) if committed else set()
    return [place for place in committed if place[0] not in own]


async def _reset_offsets(tool: Tool, client: Client) -> None:
    scenario = scenario_of(tool)
    if not tool.options.execute and not tool.options.dry_run:
        raise UsageError("--reset-offsets takes the option: --execute or --dry-run")
    if not given(tool, "input_topic") and not tool.options.all_input_topics and scenario != "from_file":
        raise UsageError("One of the reset scopes should be defined: --all-input-topics, --input-topic.")
    groups = await _group_ids(tool, client)
    plans: dict[str, dict[Place, int]] = {}
    for group in groups:
        state, own = await _state_of(client, group)
        if state not in INACTIVE:
            print_not_inactive(tool, group, state)
            continue
        plans[group] = await _reset(tool, client, group, scenario, groups)
        if tool.options.execute:
            await _delete_topics_after_reset(tool, client, group, own)
    print_plans(tool, plans, with_group=tool.options.all_groups or len(groups) != 1)


async def _state_of(client: Client, group: str) -> tuple[str, list[str]]:
    """And its own topics."""
    try:
        found = await describe_streams_group(client, group)
    except Refused as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return "Dead", []
    return found.group_state, internal_topics(found)


async def _reset(tool: Tool, client: Client, group: str, scenario: str, groups: Sequence[str]) -> dict[Place, int]:
    async def places_of(committed: Mapping[Place, Committed]) -> Sequence[Place]:
        known = await _input_places(client, group, committed)
        if tool.options.all_input_topics:
            return known
        places = await places_within(client, parse_topics(tool.options.input_topic))
        if not {topic for topic, _ in places} <= {topic for topic, _ in known}:
            tool.print(f"\nError: One or more topics are not part of the group '{group}'.")
            return []
        return places

    return await reset(tool, client, group, scenario, groups, places_of)


async def _delete_topics_after_reset(tool: Tool, client: Client, group: str, own: Sequence[str]) -> None:
    topics = own if tool.options.delete_all_internal_topics else tool.options.delete_internal_topic or ()
    try:
        if topics:
            await delete_topics(client, topics)
    except Refused as error:
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
