"""Groups and offsets of groups that are deleted, and what is printed of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, Refused, TimedOut
from pykafka_broker.client.groups import delete_group, delete_offsets
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.tools.frame import Tool
from pykafka_broker.tools.group_options import INACTIVE
from pykafka_broker.tools.group_table import print_table
from pykafka_broker.tools.topic_partitions import places_of_topics

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
    print_deleted(tool, groups, {group: error.java for group, error in failed.items()}, kind)


async def delete_listed_groups(
    client: Client, groups: Sequence[str], listed: Mapping[str, str], *, kind: str, unknown: str
) -> dict[str, str]:
    """Those that could not be deleted, with the reason. listed: the states of all groups of that kind; unknown: what is
    said of others."""
    failed: dict[str, str] = {}
    for group in groups:
        if group not in listed:
            failed[group] = f"java.lang.IllegalArgumentException: {unknown.format(group)}"
        elif listed[group] not in INACTIVE:
            not_empty = f"{kind.capitalize()} group '{group}' is not EMPTY."
            failed[group] = Refused(ErrorCode.NON_EMPTY_GROUP, not_empty).java
        else:
            try:
                await delete_group(client, group, call=f"delete{kind.capitalize()}Groups")
            except ClientError as error:
                failed[group] = error.java
    return failed


def print_deleted(tool: Tool, groups: Sequence[str], failed: Mapping[str, str], kind: str, *, end: str = "") -> None:
    """end: of the sentence about those that were deleted while others were not."""
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
    """Of these topics, or partitions of topics."""
    rows: list[tuple[str, int | None, ClientError | None]] = []
    whole: ClientError | None = None
    given: list[tuple[str, int | None]] = [(topic, each) for topic, of in topics.items() for each in of or (None,)]
    try:
        places, missing = await places_of_topics(client, topics)
        given = list(places)
        unknown = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        rows = [(topic, None, unknown) for topic in missing]
        found = await delete_offsets(client, group, places)
        rows += [(topic, partition, error) for (topic, partition), error in found.items()]
        whole = next((error for error in found.values() if error is not None), None)
    except ClientError as error:
        whole = error
        rows += [(topic, partition, error) for topic, partition in given]
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
