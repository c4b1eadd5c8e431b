"""Groups and offsets of groups that are deleted, and what is printed of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, Refused, TimedOut
from pykafka_broker.client.group_offsets import delete_group, delete_offsets
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.tools.frame import Tool
from pykafka_broker.tools.group_table import print_table
from pykafka_broker.tools.topic_partitions import parse_topics, places_of_topics

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
COLUMNS = [("TOPIC", 30), ("PARTITION", 15), ("STATUS", 15)]


async def delete_groups(tool: Tool, client: Client, groups: Sequence[str], kind: str) -> None:
    """kind: of group, for what is printed."""
    failed: dict[str, ClientError] = {}

    async def delete(group: str) -> None:
        try:
            await delete_group(client, group, call=f"delete{kind.capitalize()}Groups")
        except ClientError as error:
            failed[group] = error

    await asyncio.gather(*map(delete, groups))
    done = ", ".join(f"'{group}'" for group in groups if group not in failed)
    if failed:
        tool.print(f"\nError: Deletion of some {kind} groups failed:")
        for group in groups:
            if group in failed:
                tool.print(f"* Group '{group}' could not be deleted due to: {failed[group].java}")
        if done:
            tool.print(f"\nThese {kind} groups were deleted successfully: {done}")
    else:
        tool.print(f"Deletion of requested {kind} groups ({done}) was successful.")
    tool.result = [
        {"group_id": group, "deleted": group not in failed} | ({"error": str(failed[group])} if group in failed else {})
        for group in groups
    ]


async def delete_offsets_of_group(tool: Tool, client: Client, group: str, topics: Sequence[str]) -> None:
    """Of these topics, or partitions of topics."""
    rows: list[tuple[str, int | None, ClientError | None]] = []
    whole: ClientError | None = None
    places = [(topic, each) for topic, indexes in parse_topics(topics).items() for each in indexes or ()]
    try:
        places, missing = await places_of_topics(client, parse_topics(topics))
        unknown = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        rows = [(topic, None, unknown) for topic in missing]
        found = await delete_offsets(client, group, places)
        rows += [(topic, partition, error) for (topic, partition), error in found.items()]
        whole = next((error for error in found.values() if error is not None), None)
    except ClientError as error:
        whole = error
        rows += [(topic, partition, error) for topic, partition in places]
    tool.print(_told(group, whole))
    told = [(*row[:2], "Successful" if row[2] is None else f"Error: {row[2].java}") for row in rows]
    print_table(tool, COLUMNS, told)
    tool.result = [
        {"topic": topic, "partition": partition, "error": None if error is None else str(error)}
        for topic, partition, error in rows
    ]


def _told(group: str, error: ClientError | None) -> str:
    if error is None:
        return f"Request succeeded for deleting offsets from group {group}."
    if isinstance(error, TimedOut):
        return "\nError: Encountered some unknown error: REQUEST_TIMED_OUT"
    if not isinstance(error, Refused):
        return f"\nError: {error}"
    if error.code in _OF_PARTITIONS:
        return "\nError: Encountered some partition-level error, see the follow-up details."
    if error.code in _OF_GROUPS:
        return f"\nError: {error}"
    return f"\nError: Encountered some unknown error: {ErrorCode(error.code).name}"
