"""`kafka-consumer-groups`.

Rule: what goes wrong with groups is printed on standard output, and the exit code is 0 all the same; only a wrong use
ends with 1. Groups are those of consumers, of the classic and of the consumer protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.group_description import CLASSIC, CONSUMER, describe_consumer_groups
from pykafka_broker.client.group_offsets import Committed
from pykafka_broker.client.groups import list_groups
from pykafka_broker.client.leaders import Place
from pykafka_broker.coordinators.groups.re2 import RegexError, compile_regex
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.list_groups_response import ListedGroup
from pykafka_broker.tools.consumer_group_tables import describe
from pykafka_broker.tools.frame import Tool, ToolParser, UsageError
from pykafka_broker.tools.group_deletions import delete_groups, delete_offsets_of_group
from pykafka_broker.tools.group_failures import why
from pykafka_broker.tools.group_resets import print_plans, reset
from pykafka_broker.tools.group_table import print_table
from pykafka_broker.tools.reset_offsets import add_scenarios, scenario_of, whole_number
from pykafka_broker.tools.topic_partitions import parse_topics, places_within
from pykafka_broker.tools.usage import given, never_with, one_of, only_with, required

SUMMARY = "list, describe and delete groups of consumers, and reset their offsets"

_ACTIONS = ("list", "describe", "delete", "reset_offsets", "delete_offsets", "validate_regex")
_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
_KINDS = (CLASSIC, CONSUMER)
_EVERYTHING = ""  # the value of --state and --type without one
_INACTIVE = ("Empty", "Dead")
_RESET_BEFORE_5 = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompt"
)


def options(parser: ToolParser) -> None:
    parser.add_connection()
    add = parser.add_argument
    add("--list", action="store_true", help="list all groups of consumers")
    add("--describe", action="store_true", help="describe groups: --offsets, --members or --state")
    add("--delete", action="store_true", help="delete groups with their offsets")
    add("--delete-offsets", action="store_true", help="delete the offsets of one group for topics")
    add("--validate-regex", metavar="REGEX", help="whether a regular expression is one of RE2's")
    add("--group", action="append", metavar="GROUP", help="the group; may be given several times")
    add("--all-groups", action="store_true", help="all groups of consumers")
    add("--topic", action="append", metavar="TOPIC[:0,1]", help="the topic, or partitions of it; several times")
    add("--all-topics", action="store_true", help="all topics that the group has offsets of")
    add("--offsets", action="store_true", help="describe offsets and lag; the default")
    add("--members", action="store_true", help="describe the members")
    add("--state", nargs="?", const=_EVERYTHING, metavar="STATE,...", help="describe the state; list those in a state")
    add("--type", nargs="?", const=_EVERYTHING, metavar="TYPE,...", help="list with their types, or those of a type")
    add("--verbose", action="store_true", help="describe more of it")
    add("--timeout", metavar="MS", help="how long to wait for an answer")
    add_scenarios(parser)
    add("--export", action="store_true", help="print what was reset to as CSV")


async def run(tool: Tool) -> int:
    action = one_of(tool, *_ACTIONS)
    if action == "validate_regex":
        return _validate_regex(tool)
    required(tool, "bootstrap_server")
    _check(tool, action)
    if action == "reset_offsets" and not tool.options.execute and not tool.options.dry_run:
        tool.warn(_RESET_BEFORE_5)
    try:
        extra = {}
        if given(tool, "timeout"):
            extra["default.api.timeout.ms"] = str(whole_number(tool, "timeout"))
        async with tool.connect(extra) as client:
            await _DONE_BY[action](tool, client)
    except ClientError as error:
        tool.fail(f"\nError: Executing consumer group command failed due to {why(error, action)}")
    return 0


def _check(tool: Tool, action: str) -> None:
    """Raises UsageError."""
    for flag in ("members", "offsets", "verbose"):
        only_with(tool, flag, "describe")
    if tool.options.state is not None and action not in ("describe", "list"):
        raise UsageError("--state can only be used with --describe or --list")
    if tool.options.type is not None and action != "list":
        raise UsageError("--type can only be used with --list")
    never_with(tool, "group", "list", "all_groups")
    never_with(tool, "topic", "list", "describe", "delete")
    if action != "list" and not given(tool, "group") and not tool.options.all_groups:
        raise UsageError(f"--{action.replace('_', '-')} takes one of these options: --all-groups, --group")
    if action == "delete_offsets":
        required(tool, "topic", "group")
    if action == "describe":
        asked = [name for name in ("members", "offsets") if given(tool, name)]
        if len(asked) + (tool.options.state is not None) > 1:
            raise UsageError("--describe takes at most one of these options: --members, --offsets, --state")
        if tool.options.state:
            raise UsageError("--describe does not take a value for --state")


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


def _wanted(text: str | None, known: tuple[str, ...], what: str) -> set[str]:
    """Those that are named, by how they are written. Raises UsageError."""
    names = {each.lower(): each for each in known}
    asked = [each.strip().lower() for each in (text or "").split(",") if each.strip()]
    if not set(asked) <= names.keys():
        raise UsageError(f"Invalid {what} list '{text}'. Valid {what} are: {', '.join(known)}")
    return {names[each] for each in asked}


async def _all_groups(client: Client) -> list[ListedGroup]:
    found = await list_groups(client)
    return [each for each in found if each.protocol_type in ("", "consumer") and _kind(each) in _KINDS]


def _kind(group: ListedGroup) -> str:
    return group.group_type.capitalize() or CLASSIC


async def _list(tool: Tool, client: Client) -> None:
    states = _wanted(tool.options.state, _STATES, "states")
    kinds = _wanted(tool.options.type, _KINDS, "types")
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
    groups = tool.options.group
    if len(groups) > 1:
        raise ClientError("Found multiple arguments for option group, but you asked for only one")
    await delete_offsets_of_group(tool, client, groups[0], parse_topics(tool.options.topic))


async def _reset_offsets(tool: Tool, client: Client) -> None:
    scenario = scenario_of(tool)
    if not given(tool, "topic") and not tool.options.all_topics and scenario != "from_file":
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    groups = await _group_ids(tool, client)
    described = await describe_consumer_groups(client, groups)
    plans: dict[str, dict[Place, int]] = {}

    async def places_of(committed: Mapping[Place, Committed]) -> Sequence[Place]:
        if tool.options.all_topics:
            return list(committed)
        return await places_within(client, parse_topics(tool.options.topic))

    for group in sorted(groups):
        found = described[group]
        state = "Dead" if isinstance(found, ClientError) else found.state
        if isinstance(found, ClientError) and getattr(found, "code", None) != ErrorCode.GROUP_ID_NOT_FOUND:
            raise found
        if state in _INACTIVE:
            plans[group] = await reset(tool, client, group, scenario, groups, places_of)
        else:
            tool.print(
                f"\nError: Assignments can only be reset if the group '{group}' is inactive, "
                f"but the current state is {state}."
            )
    print_plans(tool, plans, with_group=tool.options.all_groups or len(groups) != 1)


_DONE_BY = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset_offsets": _reset_offsets,
    "delete_offsets": _delete_offsets,
}
