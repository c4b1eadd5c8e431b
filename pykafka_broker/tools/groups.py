"""`kafka-groups`."""

from __future__ import annotations

from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.groups import list_groups
from pykafka_broker.protocol.messages.list_groups_response import ListedGroup
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError

_LEAST_WIDTH = 20  # of a column
_FAILURE = "Error while executing groups command : "

_TYPES = ("classic", "consumer", "share", "streams")
_TYPE_FLAGS = ("consumer", "share", "streams")


def options(parser: ToolParser) -> None:
    add = parser.option
    parser.add_connection()
    add("--list", "list the groups")
    add("--consumer", "consumer groups of all kinds, classic and simple ones too")
    add("--share", "share groups")
    add("--streams", "streams groups")
    add("--group-type TYPE", f"groups of this type: {', '.join(_TYPES)}")
    add("--protocol PROTOCOL", "groups with this protocol type")


async def run(tool: Tool) -> int:
    tool.required("list")
    for index, kind in enumerate(_TYPE_FLAGS):
        tool.never_with(kind, "group_type", "protocol", *_TYPE_FLAGS[index + 1 :])
    wanted = tool.options.group_type
    if wanted is not None and wanted.lower() not in _TYPES:
        raise ToolUsageError("--group-type must be a valid group type.")
    try:
        async with tool.connect() as client:
            found = [each for each in await list_groups(client) if _is_wanted(tool, each)]
    except ClientError as error:
        return tool.fail(f"{_FAILURE}{error}", error)
    width = max(_LEAST_WIDTH, *(len(each.group_id) for each in found), 0)  # of all columns
    tool.print(_row(width, "GROUP", "TYPE", "PROTOCOL"))
    for each in found:
        tool.print(_row(width, each.group_id, each.group_type.capitalize(), each.protocol_type))
    tool.result = [
        {"group": each.group_id, "type": each.group_type or None, "protocol": each.protocol_type} for each in found
    ]
    return 0


def _is_wanted(tool: Tool, group: ListedGroup) -> bool:
    options, kind = tool.options, group.group_type.lower()
    if options.consumer:
        return kind == "consumer" or (kind in ("classic", "") and group.protocol_type in ("consumer", ""))
    if options.share or options.streams:
        return kind == ("share" if options.share else "streams")
    if options.group_type is not None and kind != options.group_type.lower():
        return False
    return options.protocol is None or options.protocol == group.protocol_type


def _row(width: int, *cells: str) -> str:
    return " ".join(f"{each:<{width}}" for each in cells)
