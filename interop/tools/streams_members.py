"""Members of streams groups that only say that they are there, with the topology of a word count."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pykafka_broker.client.cluster import Client, first_error
from pykafka_broker.protocol.enums import by_topic
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

_LEAVES = -1
_SETTLES_S = 20.0
_QUIET_ROUNDS = 2


def word_count(group: str, sources: Sequence[str]) -> Topology:
    """Return a topology from the sources over a repartition topic to a counter with a changelog."""
    between = f"{group}-words-repartition"
    first = Subtopology("0", list(sources), repartition_sink_topics=[between])
    kept = TopicInfo(f"{group}-counts-changelog", 0, 0, [KeyValue("cleanup.policy", "compact")])
    second = Subtopology("1", [], [], [kept], [], [TopicInfo(between)])
    return Topology(0, [first, second])


class StreamsMember:
    """A member of a group, which stays until its session times out. ready: whether its source topics exist."""

    def __init__(self, group: str, member_id: str, sources: Sequence[str], *, ready: bool = True) -> None:
        self.epoch = 0
        self._group, self._member_id = group, member_id
        self._sources, self._ready = sources, ready
        self._told: Any = None  # the last answer with tasks, which the next heartbeat confirms
        self._busy = not ready  # whether it has had tasks, or can get none

    async def beat(self, client: Client) -> bool:
        """Send a heartbeat; return whether the member has its tasks and nothing changes, or can get none."""
        request = StreamsGroupHeartbeatRequest(self._group, self._member_id, self.epoch)
        if self.epoch == 0:
            request.rebalance_timeout_ms = 60_000
            request.topology = word_count(self._group, self._sources)
            request.process_id = f"process-of-{self._member_id}"
            request.client_tags = [KeyValue("zone", "a")]
            if self._ready:  # Kafka 4.4.0 fails on the endpoint of a member without tasks
                request.user_endpoint = Endpoint("localhost", 7000)
            request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
        elif self._told is not None:
            held = [_ids(self._told.active_tasks), _ids(self._told.standby_tasks), _ids(self._told.warmup_tasks)]
            request.active_tasks, request.standby_tasks, request.warmup_tasks = held
        answer = await client.ask_group(self._group, request)
        quiet = self._told is None and self.epoch == answer.member_epoch and answer.active_tasks is None
        self._told = answer if answer.active_tasks is not None else None
        self._busy = self._busy or bool(answer.active_tasks)
        self.epoch = answer.member_epoch
        return (quiet and self._busy) or not self._ready

    async def leave(self, client: Client) -> None:
        request = StreamsGroupHeartbeatRequest(self._group, self._member_id, _LEAVES)
        await client.ask_group(self._group, request)

    async def commit(self, client: Client, offsets: Mapping[tuple[str, int], int]) -> None:
        topics = [
            OffsetCommitRequestTopic(
                topic, partitions=[OffsetCommitRequestPartition(index, offsets[topic, index]) for index in indexes]
            )
            for topic, indexes in by_topic(sorted(offsets)).items()
        ]
        request = OffsetCommitRequest(self._group, self.epoch, self._member_id, topics=topics)
        await client.ask_group(self._group, request, first_error, versions=(9, 9))


async def settle(client: Client, members: Sequence[StreamsMember]) -> None:
    """Send heartbeats until all members have their tasks."""
    quiet = 0
    async with asyncio.timeout(_SETTLES_S):
        while quiet < _QUIET_ROUNDS:
            found = [await member.beat(client) for member in members]
            quiet = quiet + 1 if all(found) else 0
            await asyncio.sleep(0.05)


def _ids(tasks: Any) -> list[TaskIds]:
    return [TaskIds(each.subtopology_id, each.partitions) for each in tasks or ()]
