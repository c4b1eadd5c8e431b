"""Groups of a mirror: where they are in the source, told as checkpoints, and committed in the target.

Rule: an offset is translated by a record at or before it: a group may read again what it has read, and misses nothing.
What is committed in the target is only ever moved on, and not at all while the group has members there: the offsets of
such a group follow once its members have left, however long ago its checkpoints were written.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import check
from pykafka_broker.client.groups import list_groups
from pykafka_broker.client.leaders import Place, by_topic
from pykafka_broker.client.producer import Producer
from pykafka_broker.protocol.enums import CoordinatorType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest
from pykafka_broker.tools.mirror_flow import Mirror, Sync
from pykafka_broker.tools.mirror_records import Checkpoint, checkpoint

_BUSY = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)


async def committed(client: Client, group: str) -> dict[Place, int]:
    """Offsets of a group. Raises ClientError."""
    request = OffsetFetchRequest(group, None)
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP, group, request, lambda each: int(each.error_code), versions=(2, 7)
    )
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


def translated(offset: int, syncs: list[Sync]) -> int | None:
    """None where no record at or before it is known."""
    before = [each for each in syncs if each.upstream <= offset]
    if not before:
        return None
    last = before[-1]
    return last.downstream if last.upstream == offset else last.downstream + 1


async def checkpoints(mirror: Mirror) -> list[Checkpoint]:
    """Of all groups that the flow wants. Raises ClientError."""
    found = []
    for group in await list_groups(mirror.source):
        if not mirror.flow.wants_group(group.group_id):
            continue
        for (topic, partition), offset in sorted((await committed(mirror.source, group.group_id)).items()):
            downstream = translated(offset, mirror.syncs.get((topic, partition), []))
            if downstream is not None:
                remote = mirror.flow.remote(topic)
                found.append(Checkpoint(group.group_id, remote, partition, offset, downstream))
    return found


Told = dict[tuple[str, str, int], Checkpoint]  # the last checkpoint of each group, topic and partition


async def tell_checkpoints(mirror: Mirror, producer: Producer, told: Told) -> Told:
    """Write the checkpoints that are new, note them in `told`, and return them. Raises ClientError."""
    topic = f"{mirror.flow.source}{mirror.flow.separator}checkpoints.internal"
    fresh = [each for each in await checkpoints(mirror) if told.get(each[:3]) != each]
    for each in fresh:
        key, value = checkpoint(each)
        await producer.send(topic, value, key, partition=0)
    await producer.flush()
    new = {each[:3]: each for each in fresh}
    told |= new
    return new


async def sync_groups(mirror: Mirror, told: Told) -> None:
    """Commit in the target what these checkpoints say. Raises ClientError."""
    for group in sorted({each.group for each in told.values()}):
        await _commit(mirror.target, group, [each for each in told.values() if each.group == group])


async def _commit(client: Client, group: str, points: list[Checkpoint]) -> None:
    there = await committed(client, group)
    ahead = {(each.topic, each.partition): each.downstream for each in points}
    ahead = {place: offset for place, offset in ahead.items() if there.get(place, -1) < offset}
    if not ahead:
        return
    topics = [
        OffsetCommitRequestTopic(
            topic, partitions=[OffsetCommitRequestPartition(index, ahead[topic, index]) for index in indexes]
        )
        for topic, indexes in by_topic(ahead)
    ]
    request = OffsetCommitRequest(group, topics=topics)

    def code_of(answer: Any) -> int:
        codes = [each.error_code for topic in answer.topics for each in topic.partitions]
        return next((int(code) for code in codes if code and code not in _BUSY), 0)

    check(code_of(await client.ask_coordinator(CoordinatorType.GROUP, group, request, code_of, versions=(2, 9))))
