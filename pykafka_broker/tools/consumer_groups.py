"""`kafka-consumer-groups`.

Rule: what goes wrong with groups is printed on standard output, and the exit code is 0 all the same; only a wrong use
ends with 1. Groups are those of consumers, of the classic and of the consumer protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.groups import CLASSIC, CONSUMER, Committed, describe_consumer_groups, list_groups
from pykafka_broker.client.leaders import Place
from pykafka_broker.coordinators.groups.re2 import RegexError, compile_regex
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.list_groups_response import ListedGroup
from pykafka_broker.tools.consumer_group_tables import describe
from pykafka_broker.tools.frame import Tool, ToolParser, UsageError
from pykafka_broker.tools.group_deletions import delete_groups, delete_offsets_of_group
from pykafka_broker.tools.group_failures import why
from pykafka_broker.tools.group_options import (
    EVERYTHING,
    INACTIVE,
    add_group_flags,
    check_group_flags,
    connect,
    only_group,
    print_not_inactive,
    wanted,
)
from pykafka_broker.tools.group_resets import print_plans, reset
from pykafka_broker.tools.group_table import print_table
from pykafka_broker.tools.reset_offsets import add_scenarios, scenario_of
from pykafka_broker.tools.topic_partitions import parse_topics, places_within
from pykafka_broker.tools.usage import given, one_of, required

SUMMARY = "list, describe and delete groups of consumers, and reset their offsets"

_ACTIONS = ("list", "describe", "delete", "reset_offsets", "delete_offsets", "validate_regex")
_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
_KINDS = (CLASSIC, CONSUMER)
_RESET_BEFORE_5 = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)


def options(parser: ToolParser) -> None:
    add = parser.add_argument
    add_group_flags(parser, "groups of consumers", offsets="offsets and lag")
    add("--validate-regex", metavar="REGEX", help="whether a regular expression is one of RE2's")
    add("--type", nargs="?", const=EVERYTHING, metavar="TYPE,...", help="list with their types, or those of a type")
    add_scenarios(parser)
    add("--export", action="store_true", help="print what was reset to as CSV")


async def run(tool: Tool) -> int:
    action = one_of(tool, *_ACTIONS, last=", ")
    if action == "validate_regex":
        return _validate_regex(tool)
    required(tool, "bootstrap_server")
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
    """Raises UsageError."""
    check_group_flags(tool, action)
    if tool.options.type is not None and action != "list":
        raise UsageError("--type can only be used with --list")
    if action != "list" and not given(tool, "group") and not tool.options.all_groups:
        raise UsageError(f"--{action.replace('_', '-')} takes one of these options: --all-groups, --group")
    if action == "delete_offsets":
        required(tool, "topic", "group")


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
        if state in INACTIVE:
            plans[group] = await reset(tool, client, group, scenario, groups, places_of)
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
