"""What the tools of groups have in common: flags, which of them go together, and the list of groups with their states.

Rule: here stands only what all of them do alike; what one of Kafka's scripts does in its own way is in its module.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.tools.frame import Tool, ToolParser, UsageError
from pykafka_broker.tools.group_table import print_table
from pykafka_broker.tools.reset_offsets import whole_number
from pykafka_broker.tools.usage import given, never_with, only_with

EVERYTHING = ""  # the value of a flag such as --state without one
INACTIVE = ("Empty", "Dead")


def add_group_flags(parser: ToolParser, kind: str, *, offsets: str, topics: str = "topic") -> None:
    """kind: of the groups; offsets: what --describe --offsets shows; topics: how the flag for topics is called."""
    parser.add_connection()
    add = parser.add_argument
    add("--list", action="store_true", help=f"list all {kind}")
    add("--describe", action="store_true", help="describe groups: --offsets, --members or --state")
    add("--delete", action="store_true", help="delete groups with their offsets")
    add("--delete-offsets", action="store_true", help="delete the offsets of one group for topics")
    add("--group", action="append", metavar="GROUP", help="the group; may be given several times")
    add("--all-groups", action="store_true", help=f"all {kind}")
    add(f"--{topics}", action="append", metavar="TOPIC[:0,1]", help="the topic, or partitions of it; several times")
    add(f"--all-{topics}s", action="store_true", help="all topics that the group has offsets of")
    add("--offsets", action="store_true", help=f"describe {offsets}; the default")
    add("--members", action="store_true", help="describe the members")
    add("--state", nargs="?", const=EVERYTHING, metavar="STATE,...", help="describe the state; list those in a state")
    add("--verbose", action="store_true", help="describe more of it")
    add("--timeout", metavar="MS", help="how long to wait for an answer")


def check_group_flags(tool: Tool, action: str, *, topics: str = "topic") -> None:
    """Raises UsageError."""
    for flag in ("members", "offsets", "verbose"):
        only_with(tool, flag, "describe")
    if tool.options.state is not None and action not in ("describe", "list"):
        raise UsageError("--state can only be used with --describe or --list")
    never_with(tool, "group", "list", "all_groups")
    never_with(tool, topics, "list", "describe", "delete")
    if action == "describe":
        asked = [name for name in ("members", "offsets") if given(tool, name)]
        if len(asked) + (tool.options.state is not None) > 1:
            raise UsageError("--describe takes at most one of these options: --members, --offsets, --state")
        if tool.options.state:
            raise UsageError("--describe does not take a value for --state")


def connect(tool: Tool) -> Client:
    """A client that waits as long as --timeout says. Raises ClientError."""
    extra = {}
    if given(tool, "timeout"):
        extra["default.api.timeout.ms"] = str(whole_number(tool, "timeout"))
    return tool.connect(extra)


def only_group(tool: Tool) -> str:
    """For what is done to one group. Raises ClientError."""
    if len(tool.options.group) > 1:
        raise ClientError("Found multiple arguments for option group, but you asked for only one")
    return str(tool.options.group[0])


def wanted(text: str | None, known: Sequence[str], what: str) -> list[str]:
    """Those that are named, as they are written. Raises UsageError."""
    names = {each.lower(): each for each in known}
    asked = [each.strip().lower() for each in (text or "").split(",") if each.strip()]
    if not set(asked) <= names.keys():
        raise UsageError(f"Invalid {what} list '{text}'. Valid {what}s are: {', '.join(known)}")
    return [names[each] for each in asked]


def print_groups(tool: Tool, found: Sequence[tuple[str, str]]) -> None:
    """The ids, and with --state the states."""
    tool.result = [{"group_id": group, "state": state} for group, state in found]
    if tool.options.state is not None:
        print_table(tool, [("GROUP", 15), ("STATE", 15)], found, apart=False)
        return
    for group, _ in found:
        tool.print(group)


def print_not_inactive(tool: Tool, group: str, state: str) -> None:
    """Why offsets are not reset."""
    tool.print(
        f"\nError: Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}."
    )
