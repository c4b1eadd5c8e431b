"""Heartbeats and states of groups that say as much as one record of a group can hold.

Rule: as in `fairness.py`: legal requests, as frames made before.
"""

import time
from collections.abc import Callable

from interop.answers.requests import create, new_topic
from interop.raw import RawClient, framed, request_bytes
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from pykafka_broker.protocol.messages.initialize_share_group_state_request import PartitionData as State
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from pykafka_broker.protocol.messages.write_share_group_state_request import (
    PartitionData,
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from pykafka_broker.protocol.runtime import Message, uuid_text

# What is sent, by the names of its figures.
TITLES = {
    "consumer_join": "a consumer joins with 65,000 names",
    "consumer_more": "it goes on, and names 65,000 others",
    "share_join": "a share consumer joins with 65,000 names",
    "streams_names": "a topology of 32,000 names",
    "subtopologies": "a topology of 16,000 parts",
    "share_states": "WriteShareGroupState of 32,000 partitions",
    "share_batches": "WriteShareGroupState of 32,000 runs",
}
_MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
_REBALANCE_MS = 60_000
_SHARED, _STATES, _SHARE = "fair-shared", "fair-states", 2
_PREPARED_WITHIN_S = 30


def prepare(client: RawClient) -> bytes:
    """Make the coordinators' topics and the state of a share partition; return the id of its topic."""
    topic = client.call(create(new_topic(_SHARED, 1)), 7).topics[0]
    assert not topic.error_code, topic
    client.call(FindCoordinatorRequest("g"), 2)
    key = f"{_STATES}:{uuid_text(topic.topic_id)}:0"
    begun = InitializeShareGroupStateRequest(_STATES, [InitializeStateData(topic.topic_id, [State(0, 0, 0)])])
    client.call(consumer("fair-first", 0, [_SHARED]), 1)  # a broker may load code when it is first needed
    client.call(share("fair-second", [_SHARED]), 1)
    client.call(streams("fair-third", [Subtopology("0", [_SHARED])]), 0)
    deadline = time.perf_counter() + _PREPARED_WITHIN_S
    while client.call(begun, 0).results[0].partitions[0].error_code and time.perf_counter() < deadline:
        client.call(FindCoordinatorRequest(key_type=_SHARE, coordinator_keys=[key]), 6)
        time.sleep(0.2)
    return bytes(topic.topic_id)


def group_giants(size: float, topic_id: bytes) -> dict[str, Callable[[], bytes]]:
    """Return frames by name.

    size: multiplies the number of their elements. topic_id: of a share partition with a state.
    """

    def frame(request: Message, version: int) -> bytes:
        return framed(request_bytes(request, version))

    def names(kind: str, count: int) -> list[str]:
        return [f"{kind}{number}" for number in range(int(count * size))]

    def states(partitions: list[PartitionData]) -> WriteShareGroupStateRequest:
        return WriteShareGroupStateRequest(_STATES, [WriteStateData(topic_id, partitions)])

    def runs(count: int) -> list[StateBatch]:
        return [StateBatch(number, number, number % 2 * 2, 1) for number in range(int(count * size))]

    return {
        "consumer_join": lambda: frame(consumer("fair-consumers", 0, names("n", 65_000)), 1),
        "consumer_more": lambda: frame(consumer("fair-consumers", 1, names("m", 65_000)), 1),
        "share_join": lambda: frame(share("fair-shares", names("n", 65_000)), 1),
        "streams_names": lambda: frame(streams("fair-names", [Subtopology("0", names("n", 32_000))]), 0),
        "subtopologies": lambda: frame(
            streams("fair-parts", [Subtopology(one, [f"n{one}"]) for one in names("", 16_000)]), 0
        ),
        "share_states": lambda: frame(states([PartitionData(p) for p in range(int(32_000 * size))]), 0),
        "share_batches": lambda: frame(states([PartitionData(0, state_batches=runs(32_000))]), 0),
    }


def consumer(group: str, epoch: int, names: list[str]) -> ConsumerGroupHeartbeatRequest:
    """Return the heartbeat of a consumer group's only member."""
    return ConsumerGroupHeartbeatRequest(
        group, _MEMBER, epoch, rebalance_timeout_ms=_REBALANCE_MS, subscribed_topic_names=names, topic_partitions=[]
    )


def share(group: str, names: list[str] | None, epoch: int = 0) -> ShareGroupHeartbeatRequest:
    """Return the heartbeat of a share group's only member."""
    return ShareGroupHeartbeatRequest(group, _MEMBER, epoch, subscribed_topic_names=names)


def streams(group: str, parts: list[Subtopology], epoch: int = 0) -> StreamsGroupHeartbeatRequest:
    """Return the heartbeat of a streams group's only member, a short one after the first."""
    request = StreamsGroupHeartbeatRequest(group, _MEMBER, epoch)
    if not epoch:
        request.rebalance_timeout_ms, request.topology, request.process_id = _REBALANCE_MS, Topology(0, parts), "p"
        request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
    return request
