"""Requests about partitions, each of which only the partition's leader answers; offsets by time (ListOffsets).

Rule: a partition without a known leader, or whose leader has changed, is asked for again until `default.api.timeout.ms`
have passed, as Kafka's admin client does. The error of one partition does not hide the answers for the others. A time
is a timestamp in milliseconds or one of the constants of ListOffsets; a node of an older version refuses a constant
that it does not know with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from pykafka_broker.client.cluster import LEADER_ERRORS, Backoff, Client, Unreached
from pykafka_broker.client.errors import ClientError, KafkaError, TimedOut
from pykafka_broker.peers import Versions
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.enums import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    IsolationLevel,
    TopicPartition,
    by_topic,
)
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.runtime import Message

# -- any request


Answered = Mapping[TopicPartition, tuple[int, Any]]  # error code and answer


async def ask_leaders(
    client: Client,
    partitions: Collection[TopicPartition],
    make: Callable[[list[TopicPartition]], Message],
    read: Callable[[Any], Answered],
    *,
    call: str,
    versions: Versions | None = None,
) -> dict[TopicPartition, Any]:
    """Ask the leader of each partition; returns the answer or the ClientError of each partition.

    Args:
        make: makes the request for the partitions of one leader.
        read: reads error codes and answers from a response.
        call: the name that Kafka's client has for the call, for time-outs.
    """
    until, backoff, tries = client.deadline(), Backoff(client), 0
    found: dict[TopicPartition, Any] = {}
    while len(found) < len(set(partitions)):
        tries += 1
        left = max(1, until - client.deadline(0))
        by_leader = await _leaders(client, set(partitions) - found.keys(), found, call, left)
        left = max(1, until - client.deadline(0))
        asked = (
            _ask(client, leader, sorted(of), make, read, versions, found, left) for leader, of in by_leader.items()
        )
        await asyncio.gather(*asked)
        now = client.deadline(0)
        if now >= until:
            late = TimedOut(
                f"Call(callName={call}(api=METADATA), deadlineMs={until}, tries={tries}, nextAllowedTryMs={now}) "
                f"timed out at {now} after {tries} attempt(s)"
            )
            found = dict.fromkeys(partitions, late) | found
        elif len(found) < len(set(partitions)):
            await backoff.pause(until)
    return found


async def _leaders(
    client: Client, partitions: set[TopicPartition], found: dict[TopicPartition, Any], call: str, timeout_ms: int
) -> dict[int, list[TopicPartition]]:
    """Group the partitions by leader; partitions of refused topics go to `found` with the error."""
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    try:
        topics_of = sorted({topic for topic, _ in partitions})
        metadata = await client.metadata(topics_of, timeout_ms=timeout_ms, call=f"{call}(api=METADATA)")
    except ClientError as error:
        found.update(dict.fromkeys(partitions, error))
        return by_leader
    topics = {each.name: each for each in metadata.topics}
    for topic, partition in partitions:
        told = topics.get(topic)
        if told is None or told.error_code in LEADER_ERRORS:
            continue
        if told.error_code != ErrorCode.NONE:
            found[TopicPartition(topic, partition)] = KafkaError(told.error_code)
            continue
        for each in told.partitions:
            if each.partition_index == partition and each.leader_id in client.nodes:
                by_leader[each.leader_id].append(TopicPartition(topic, partition))
    return by_leader


async def _ask(
    client: Client,
    leader: int,
    partitions: list[TopicPartition],
    make: Callable[[list[TopicPartition]], Message],
    read: Callable[[Any], Answered],
    versions: Versions | None,
    found: dict[TopicPartition, Any],
    timeout_ms: int,
) -> None:
    try:
        answer = await client.ask(make(partitions), leader, versions=versions, timeout_ms=timeout_ms, replaceable=True)
    except Unreached:
        return  # the next look at the metadata may find another leader
    except ClientError as error:
        found.update(dict.fromkeys(partitions, error))
        return
    for partition, (code, answered) in read(answer).items():
        if code not in LEADER_ERRORS:
            found[partition] = answered if code == ErrorCode.NONE else KafkaError(code)


# -- ListOffsets


_FROM_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_NO_REPLICA = -1
_T = TypeVar("_T")


class ListedOffset(NamedTuple):
    """An offset, -1 for none, with the timestamp and leader epoch of the record, -1 where the broker tells none."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


def values_by_topic(values: Mapping[TopicPartition, _T]) -> Iterable[tuple[str, list[tuple[int, _T]]]]:
    """Return each topic with partition indexes and their values, sorted."""
    return by_topic((topic, (index, value)) for (topic, index), value in sorted(values.items())).items()


def partitions_in(topics: Iterable[Any]) -> Iterator[tuple[TopicPartition, Any]]:
    """Yield the partitions of an answer, each with the partition's part of the answer."""
    for topic in topics:
        for each in topic.partitions:
            yield TopicPartition(topic.name, each.partition_index), each


async def list_offsets(
    client: Client, times: Mapping[TopicPartition, int], *, isolation_level: int = IsolationLevel.READ_UNCOMMITTED
) -> dict[TopicPartition, Any]:
    """Look up the offset of a time in each partition; returns a ListedOffset or the ClientError.

    Args:
        times: a timestamp or a constant for each partition.
        isolation_level: with READ_COMMITTED, LATEST is the last stable offset.
    """

    def make(partitions: list[TopicPartition]) -> Message:
        return offsets_request(client, {each: times[each] for each in partitions}, isolation_level, {})

    versions = versions_of(times.values(), isolation_level)
    return await ask_leaders(client, times, make, listed_offsets, call="listOffsets", versions=versions)


def versions_of(times: Iterable[int], isolation_level: int) -> Versions:
    """Return the versions of ListOffsets that know all of the times."""
    lowest = max((_FROM_VERSION.get(time, 1) for time in times), default=0)
    if isolation_level == IsolationLevel.READ_COMMITTED:
        lowest = max(lowest, 2)
    return lowest, SPECS[ApiKey.LIST_OFFSETS].stable_max_version


def offsets_request(
    client: Client, times: Mapping[TopicPartition, int], isolation_level: int, epochs: Mapping[TopicPartition, int]
) -> ListOffsetsRequest:
    """Return the request for offsets of times; epochs: the known leader epochs, by which an earlier leader refuses."""
    asked = {each: (epochs.get(each, -1), time) for each, time in times.items()}
    topics = [
        ListOffsetsTopic(topic, [ListOffsetsPartition(index, *each) for index, each in of])
        for topic, of in values_by_topic(asked)
    ]
    return ListOffsetsRequest(_NO_REPLICA, isolation_level, topics, client.request_timeout_ms)


async def offsets_at(client: Client, partitions: Collection[TopicPartition], time: int) -> dict[TopicPartition, int]:
    """Return the offset of a time in each partition, -1 for none. Raises the first ClientError."""
    found = await list_offsets(client, dict.fromkeys(partitions, time)) if partitions else {}
    for each in found.values():
        if isinstance(each, ClientError):
            raise each
    return {partition: each.offset for partition, each in found.items()}


def listed_offsets(answer: Any) -> Answered:
    """Return the error code and the ListedOffset of each partition in an answer."""
    found = {}
    for partition, each in partitions_in(answer.topics):
        [offset] = each.old_style_offsets or [each.offset]  # Kafka before 0.10.1
        found[partition] = each.error_code, ListedOffset(offset, each.timestamp, each.leader_epoch)
    return found
