"""Commands of the group tools: flags, lists, tables, deletions and resets of offsets.

Rule: only things that all of Kafka's scripts do alike are in this module; a script's own ways are in its tool. A column
of a table is as wide as its widest cell, and at least as wide as in Kafka's table; a missing value is `-`. Times
without a zone are in UTC. A CSV file has lines of one group (topic, partition, offset) or of several (group first); a
missing value at the end of a line is empty or 0.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

from pykafka_broker.client.cluster import BrokerNode, Client
from pykafka_broker.client.errors import ClientError, KafkaError, TimedOut, of_code
from pykafka_broker.client.groups import (
    Committed,
    commit_offsets,
    committed_offsets,
    delete_group,
    delete_offsets,
    list_groups,
)
from pykafka_broker.client.leaders import offsets_at
from pykafka_broker.client.properties import integer, java_split, long
from pykafka_broker.client.topics import describe_topics
from pykafka_broker.protocol.enums import EARLIEST, LATEST, TopicPartition, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError
from pykafka_broker.tools.java_time import Unparseable, moment_before, timestamp_ms

# -- tables


Row = dict[str, object]
Columns = Mapping[str, int]  # least widths by title


def print_table(
    tool: Tool,
    columns: Columns,
    rows: Iterable[Iterable[object]],
    *,
    apart: bool = True,
    verbose: Collection[str] = (),
    hidden: Collection[str] = (),
) -> None:
    """Print rows below the titles.

    Args:
        apart: a blank line comes first.
        verbose: the columns that only --verbose shows.
        hidden: the columns that are not shown.
    """
    left_out = {*hidden} if tool.options.verbose else {*hidden, *verbose}
    shown = [title not in left_out for title in columns]
    lines = [[*compress(columns, shown)], *([*compress(map(_cell, row), shown)] for row in rows)]
    widths = [max(len(each) for each in column) for column in zip(*lines, strict=True)]
    widths = [max(sizes) for sizes in zip(widths, compress(columns.values(), shown), strict=True)]
    if apart:
        tool.print()
    for line in lines:
        tool.print(" ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def spelt(partitions: Iterable[TopicPartition]) -> str | None:
    """Return partitions as `topic:0,1;...`, None for none."""
    topics = by_topic(sorted(partitions))
    return ";".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in topics.items()) or None


def address_of(node: BrokerNode) -> Row:
    """Return a coordinator for --json."""
    return {"node_id": node.node_id, "host": node.host, "port": node.port}


def described_state(group: Any, coordinator: BrokerNode) -> Row:
    """Return the state of a described share or streams group for --json."""
    return {
        "group_id": group.group_id,
        "state": group.group_state,
        "member_count": len(group.members),
        "coordinator": address_of(coordinator),
        "group_epoch": group.group_epoch,
    }


# -- options


EVERYTHING = ""  # the value of a flag such as --state without a value
INACTIVE = ("Empty", "Dead")


def add_group_flags(parser: ToolParser, kind: str, *, offsets: str, topics: str = "topic") -> None:
    """Add the flags of a group tool.

    Args:
        kind: the kind of groups.
        offsets: the text for --describe --offsets.
        topics: the name of the flag for topics.
    """
    parser.add_connection()
    add = parser.option
    add("--list", f"list all {kind}")
    add("--describe", "describe groups: --offsets, --members or --state")
    add("--delete", "delete groups with their offsets")
    add("--delete-offsets", "delete the offsets of one group for topics")
    add("--group GROUP ...", "the group; may be repeated")
    add("--all-groups", f"all {kind}")
    add(f"--{topics} TOPIC[:0,1] ...", "the topic, or partitions of it; may be repeated")
    add(f"--all-{topics}s", "all topics with offsets of the group")
    add("--offsets", f"describe {offsets}; the default")
    add("--members", "describe the members")
    add(
        "--state STATE,...", "describe the state; with --list, only groups in these states", nargs="?", const=EVERYTHING
    )
    add("--verbose", "describe more")
    add("--timeout MS", "how long to wait for an answer")


def check_group_flags(tool: Tool, action: str, *, topics: str = "topic") -> None:
    """Check which flags go together. Raises ToolUsageError."""
    for flag in ("members", "offsets", "verbose"):
        tool.only_with(flag, "describe")
    if tool.options.state is not None and action not in ("describe", "list"):
        raise ToolUsageError("--state can only be used with --describe or --list")
    tool.never_with("group", "list", "all_groups")
    tool.never_with(topics, "list", "describe", "delete")
    if action == "describe":
        asked = [name for name in ("members", "offsets") if tool.given(name)]
        if len(asked) + (tool.options.state is not None) > 1:
            raise ToolUsageError("--describe takes at most one of these options: --members, --offsets, --state")
        if tool.options.state:
            raise ToolUsageError("--describe does not take a value for --state")


Action = Callable[[Tool, Client], Awaitable[int | None]]  # the exit code, None for 0


async def execute(
    tool: Tool, action: str, actions: Mapping[str, Action], kind: str, listing: Collection[str] = ("list", "delete")
) -> int:
    """Run an action of a group tool, and return the exit code; a failure is printed on standard output.

    Args:
        kind: the kind of groups.
        listing: the actions that begin with a list of all groups.
    """
    try:
        extra = {"default.api.timeout.ms": str(tool.number("timeout"))} if tool.given("timeout") else {}
        async with tool.connect(extra) as client:
            return await actions[action](tool, client) or 0
    except ClientError as error:
        reason = _why(error, action, kind, listing)
        return tool.fail(f"\nError: Executing {kind} group command failed due to {reason}", error)


async def states_of(client: Client, kind: str, states: Sequence[str] = ()) -> dict[str, str]:
    """Return the state of each share or streams group, or of the groups in any of the states."""
    return {each.group_id: each.group_state for each in await list_groups(client, states, [kind])}


async def group_ids(tool: Tool, client: Client, kind: str) -> list[str]:
    """Return the named groups, or with --all-groups all groups of the kind."""
    return list(await states_of(client, kind)) if tool.options.all_groups else sorted(set(tool.options.group))


def only_group(tool: Tool) -> str:
    """Return the single group of a command for a single group. Raises ClientError."""
    if len(tool.options.group) > 1:
        raise ClientError("Found multiple arguments for option group, but you asked for only one")
    return str(tool.options.group[0])


def wanted(text: str | None, known: Sequence[str], what: str) -> list[str]:
    """Return the known values named in a list, in the usual spelling. Raises ToolUsageError."""
    names = {each.lower(): each for each in known}
    asked = [each.strip().lower() for each in (text or "").split(",") if each.strip()]
    if not set(asked) <= names.keys():
        raise ToolUsageError(f"Invalid {what} list '{text}'. Valid {what}s are: {', '.join(known)}")
    return [names[each] for each in asked]


def print_groups(tool: Tool, found: Sequence[tuple[str, str]]) -> None:
    """Print the ids of groups, with --state the states."""
    tool.result = [{"group_id": group, "state": state} for group, state in found]
    if tool.options.state is not None:
        print_table(tool, {"GROUP": 15, "STATE": 15}, found, apart=False)
        return
    for group, _ in found:
        tool.print(group)


def print_not_inactive(tool: Tool, group: str, state: str) -> None:
    """Print why the group's offsets are not reset."""
    tool.print(
        f"\nError: Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}."
    )


# -- partitions


def parse_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """Return the partitions of each topic, None for all. Raises ToolUsageError."""
    found: dict[str, list[int] | None] = {}
    for text in texts:
        topic, colon, partitions = text.partition(":")
        try:
            indexes = [integer(each) for each in java_split(",", partitions)] if colon else None
        except ValueError:
            raise ToolUsageError(f"Invalid partition '{partitions}' specified in topic arg '{text}'") from None
        before = found.get(topic, [])
        found[topic] = None if indexes is None or before is None else before + indexes
    return found


async def partitions_of_topics(
    client: Client, topics: Mapping[str, list[int] | None]
) -> tuple[list[TopicPartition], list[str]]:
    """Return the partitions in order, and the missing topics among topics with all partitions."""
    described = await describe_topics(client, [topic for topic, indexes in topics.items() if indexes is None])
    partitions: list[TopicPartition] = []
    missing: list[str] = []
    for topic, indexes in topics.items():
        if indexes is not None:
            partitions += [TopicPartition(topic, each) for each in indexes]
        elif topic in described:
            partitions += [TopicPartition(topic, each.partition) for each in described[topic].partitions]
        else:
            missing.append(topic)
    return sorted(set(partitions)), missing


async def partitions_within(client: Client, topics: dict[str, list[int] | None]) -> list[TopicPartition]:
    """Return the partitions in order. Raises ClientError for a missing topic or partition."""
    partitions, _ = await partitions_of_topics(client, topics)
    there, missing = await partitions_of_topics(client, dict.fromkeys(topics))
    if missing:
        raise ClientError(of_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)[1])
    lacking = ", ".join(f"{topic}-{partition}" for topic, partition in sorted({*partitions} - {*there}))
    if lacking:
        raise ClientError(f'The partitions "{lacking}" do not exist')
    return partitions


# -- deletions


_OF_PARTITIONS = {
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
_OF_GROUPS = {
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
}


async def delete_listed_groups(
    client: Client, groups: Sequence[str], listed: Mapping[str, str], *, kind: str, unknown: str
) -> dict[str, str]:
    """Delete groups; returns the reason for each group without a deletion.

    Args:
        listed: the states of all groups of the kind.
        unknown: the reason for groups that are not listed, with the Java exception.
    """
    failed: dict[str, str] = {}
    for group in groups:
        if group not in listed:
            failed[group] = unknown.format(group)
        elif listed[group] not in INACTIVE:
            not_empty = f"{kind.capitalize()} group '{group}' is not EMPTY."
            failed[group] = KafkaError(ErrorCode.NON_EMPTY_GROUP, not_empty).java
        else:
            try:
                await delete_group(client, group, call=f"delete{kind.capitalize()}Groups")
            except ClientError as error:
                failed[group] = error.java
    return failed


def print_deleted(tool: Tool, groups: Sequence[str], failed: Mapping[str, str], kind: str, *, end: str = "") -> None:
    """Print the deleted groups. end: the end of the sentence if other groups were not deleted."""
    done = ", ".join(f"'{group}'" for group in groups if group not in failed)
    if failed:
        tool.print(f"\nError: Deletion of some {kind} groups failed:")
        for group in groups:
            if group in failed:
                tool.print(f"* Group '{group}' could not be deleted due to: {failed[group]}")
        if done:
            tool.print(f"\nThese {kind} groups were deleted successfully: {done}{end}")
    else:
        tool.print(f"Deletion of requested {kind} groups ({done}) was successful.")
    tool.result = [
        {"group_id": group, "deleted": group not in failed} | ({"error": failed[group]} if group in failed else {})
        for group in groups
    ]


async def delete_offsets_of_group(
    tool: Tool, client: Client, group: str, topics: Mapping[str, list[int] | None]
) -> None:
    """Delete committed offsets of topics or partitions, and print the outcome."""
    rows: list[tuple[str, int | None, ClientError | None]] = []
    whole: ClientError | None = None
    given: list[tuple[str, int | None]] = [(topic, each) for topic, of in topics.items() for each in of or (None,)]
    try:
        partitions, missing = await partitions_of_topics(client, topics)
        given = list(partitions)
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        rows = [(topic, None, unknown) for topic in missing]
        found = await delete_offsets(client, group, partitions)
        rows += [(topic, partition, error) for (topic, partition), error in found.items()]
        whole = next((error for error in found.values() if error is not None), None)
    except ClientError as error:
        whole = error
        rows += [(topic, partition, error) for topic, partition in given]
    tool.print(_outcome(group, whole))
    told = [(*row[:2], "Successful" if row[2] is None else f"Error: {row[2].java}") for row in rows]
    print_table(tool, {"TOPIC": 15, "PARTITION": 10, "STATUS": 15}, told)
    tool.result = [
        {"topic": topic, "partition": partition, "error": None if error is None else str(error)}
        for topic, partition, error in rows
    ]


def _outcome(group: str, error: ClientError | None) -> str:
    if error is None:
        return f"Request succeeded for deleting offsets from group {group}."
    if isinstance(error, TimedOut):
        return "\nError: Encountered some unknown error: REQUEST_TIMED_OUT"
    if not isinstance(error, KafkaError):
        return f"\nError: {error}"
    if error.code in _OF_PARTITIONS:
        return "\nError: Encountered some partition-level error, see the follow-up details."
    if error.code in _OF_GROUPS:
        return f"\nError: {error}"
    return f"\nError: Encountered some unknown error: {ErrorCode(error.code).name}"


# -- where to


_HELP = {
    "to_earliest": "reset to the first offset",
    "to_latest": "reset to the end",
    "to_current": "reset to the committed offset, or to the end",
    "to_offset": "reset to this offset",
    "shift_by": "shift by this number, back if negative",
    "to_datetime": "reset to the first record at this time, YYYY-MM-DDThh:mm:ss.sss",
    "by_duration": "reset to the first record of this long ago, PnDTnHnMnS",
    "from_file": "reset to the offsets in this CSV file, as --export prints it",
}
_VALUES = {"to_offset": "N", "shift_by": "N", "to_datetime": "TIME", "by_duration": "DURATION", "from_file": "FILE"}
ALL_SCENARIOS = tuple(_HELP)


def add_scenarios(parser: ToolParser, scenarios: Collection[str] = ALL_SCENARIOS) -> None:
    """Add `--reset-offsets` and the flags of the scenarios."""
    parser.option("--reset-offsets", "reset the offsets of groups without members")
    for name in scenarios:
        flag = "--" + name.replace("_", "-")
        if name in _VALUES:
            parser.add_argument(flag, metavar=_VALUES[name], help=_HELP[name])
        else:
            parser.add_argument(flag, action="store_true", help=_HELP[name])
    parser.option("--dry-run", "only show what would be done")
    parser.option("--execute", "carry it out")


def scenario_of(tool: Tool, scenarios: Collection[str] = ALL_SCENARIOS) -> str:
    """Return the only given scenario. Raises ToolUsageError."""
    found = [name for name in scenarios if tool.given(name)]
    if len(found) != 1:
        listed = ", ".join("--" + name.replace("_", "-") for name in scenarios)
        raise ToolUsageError(f"--reset-offsets takes exactly one of {listed}")
    if tool.options.execute and tool.options.dry_run:
        raise ToolUsageError("--reset-offsets only accepts one of --execute and --dry-run")
    return found[0]


async def targets(
    tool: Tool,
    client: Client,
    scenario: str,
    partitions: Collection[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the new offset of each partition.

    Raises:
        ClientError: an offset can't be looked up, or is unreadable.
        ToolUsageError: a partition without a committed offset can't be shifted.
    """
    if scenario == "to_earliest":
        return await offsets_at(client, partitions, EARLIEST)
    if scenario == "to_latest":
        return await offsets_at(client, partitions, LATEST)
    if scenario == "to_offset":
        offset = tool.number(scenario)
        return await within(client, dict.fromkeys(partitions, offset))
    if scenario == "shift_by":
        by = tool.number(scenario)
        for each in partitions:
            if each not in committed:
                raise ToolUsageError(
                    f"Cannot shift offset for partition {each} since there is no current committed offset"
                )
        return await within(client, {each: committed[each] + by for each in partitions})
    if scenario == "to_current":
        ends = await offsets_at(client, [each for each in partitions if each not in committed], LATEST)
        return await within(client, {each: committed.get(each, ends.get(each, 0)) for each in partitions})
    return await _since(tool, client, partitions, _moment(tool, client, scenario))


def _moment(tool: Tool, client: Client, scenario: str) -> int:
    if scenario == "to_datetime":
        return timestamp_ms(tool.options.to_datetime)
    client.clock.tick()
    return moment_before(client.clock.wall, tool.options.by_duration)


async def _since(
    tool: Tool, client: Client, partitions: Collection[TopicPartition], moment: int
) -> dict[TopicPartition, int]:
    """Return the first offset with the timestamp or a later timestamp; without any, the end."""
    found = await offsets_at(client, partitions, moment)
    empty = [each for each in partitions if found[each] < 0]
    ends = await offsets_at(client, empty, LATEST)
    for topic, partition in empty:
        tool.print(f"\nWarn: Partition {partition} from topic {topic} is empty. Falling back to latest known offset.")
    return {each: ends.get(each, found[each]) for each in partitions}


async def within(client: Client, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the nearest existing offset of each partition."""
    first, end = await offsets_at(client, offsets, EARLIEST), await offsets_at(client, offsets, LATEST)
    return {partition: min(max(offset, first[partition]), end[partition]) for partition, offset in offsets.items()}


# -- plans


_QUOTED_FROM = 25  # characters: Kafka's writer quotes long values without a look
_SPECIAL = set(',"\\')

Plans = dict[str, dict[TopicPartition, int]]


def export_lines(plans: Mapping[str, Mapping[TopicPartition, int]], with_group: bool) -> list[str]:
    """Return the CSV lines for all groups."""
    return [
        ",".join([*([_quoted(group)] if with_group else []), _quoted(topic), str(partition), str(offset)])
        for group, offsets in plans.items()
        for (topic, partition), offset in offsets.items()
    ]


def _quoted(text: str) -> str:
    if len(text) < _QUOTED_FROM and not _SPECIAL & set(text) and all(each >= "-" for each in text):
        return text
    return '"' + text.replace('"', '""') + '"'


def read_plans(path: str, groups: Sequence[str]) -> Plans:
    """Read new offsets by group from a CSV file. Raises ClientError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ClientError(f"Unable to read file {path}") from None
    try:
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
    except csv.Error as error:
        raise ClientError(f"Unable to read file {path}: {error}") from None
    if not rows:
        raise ClientError(f"No content in file {path}")
    if len(groups) == 1 and _is_of_one_group(rows[0]):
        return {groups[0]: dict(_of_one_group(rows))}
    plans: Plans = {}
    for row in rows:
        if len(row) > 4:
            raise ClientError(f"Too many entries in line {','.join(row)}")
        plans.setdefault(row[0], {}).update(_of_one_group([row[1:]]))
    return plans


def _is_of_one_group(row: list[str]) -> bool:
    try:
        list(_of_one_group([row]))
    except ClientError:
        return False
    return True


def _of_one_group(rows: Iterable[list[str]]) -> Iterable[tuple[TopicPartition, int]]:
    for row in rows:
        topic, partition, offset, *more = [*row, *[""] * (3 - len(row))]
        try:
            if more:
                raise ValueError("too many")
            yield TopicPartition(topic, integer(partition or "0")), long(offset or "0")
        except ValueError:
            raise ClientError(f"No topic, partition and offset: {','.join(row)}") from None


def planned(tool: Tool, group: str, groups: Sequence[str]) -> dict[TopicPartition, int] | None:
    """Return a group's new offsets from --from-file, sorted; None, after a message, without any.

    Raises:
        ClientError: the file is unreadable.
        ToolUsageError: an offset is negative.
    """
    plan = read_plans(tool.options.from_file, groups).get(group)
    if plan is None:
        tool.print(f"\nError: No reset plan for group {group} found.")
        return None
    if any(offset < 0 for offset in plan.values()):
        raise ToolUsageError("Invalid negative offset")
    return dict(sorted(plan.items()))


# -- the reset


PartitionsOf = Callable[[Mapping[TopicPartition, Committed]], Awaitable[Sequence[TopicPartition]]]


async def reset(
    tool: Tool, client: Client, group: str, scenario: str, groups: Sequence[str], partitions_of: PartitionsOf
) -> dict[TopicPartition, int]:
    """Return the new offsets of a group, after a commit for --execute.

    Args:
        partitions_of: returns the partitions to reset, given the committed offsets.
    """
    if scenario == "from_file":
        plan = planned(tool, group, groups)
        if plan is None:
            return {}
        found, committed = await within(client, plan), {}
    else:
        committed = await committed_offsets(client, group)
        known = {partition: each.offset for partition, each in committed.items()}
        found = await targets(tool, client, scenario, await partitions_of(committed), known)
    if tool.options.execute and found:
        await commit_offsets(client, group, _to_commit(found, committed, keep=scenario == "to_current"))
    return found


def _to_commit(
    found: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, Committed], *, keep: bool
) -> dict[TopicPartition, Committed]:
    """Return the offsets to commit. keep: an unchanged offset keeps metadata and leader epoch."""
    new = {partition: Committed(offset) for partition, offset in found.items()}
    if keep:
        new |= {partition: each for partition, each in committed.items() if found.get(partition) == each.offset}
    return new


def print_plans(tool: Tool, plans: Mapping[str, Mapping[TopicPartition, int]], *, with_group: bool) -> None:
    """Print new offsets as a table or for --export. with_group: the exported lines name the group."""
    rows = [
        (group, topic, partition, offset)
        for group, plan in plans.items()
        for (topic, partition), offset in plan.items()
    ]
    tool.result = [dict(zip(("group_id", "topic", "partition", "new_offset"), row, strict=True)) for row in rows]
    if tool.options.export:
        for line in export_lines(plans, with_group):
            tool.print(line)
        tool.print()
    else:
        print_table(tool, {"GROUP": 15, "TOPIC": 15, "PARTITION": 10, "NEW-OFFSET": 10}, rows)


# -- failures


_NESTED = "java.util.concurrent.ExecutionException"


def _why(error: ClientError, action: str, kind: str, listing: Collection[str]) -> str:
    """Return a failure in the words of Kafka's script."""
    if isinstance(error, TimedOut) and action in listing:
        no_list = "Failed to find brokers to send ListGroups"
        return no_list if kind == "share" else f"{_NESTED}: {ClientError.exception}: {no_list}"
    if isinstance(error, KafkaError | TimedOut):
        return error.java if action == "describe" else f"{_NESTED}: {error.java}"
    return error.java if isinstance(error, Unparseable) else str(error)
