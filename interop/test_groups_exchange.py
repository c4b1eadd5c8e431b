"""Groups whose data directory changes hands between Apache Kafka and this broker. The topics have not changed, so the
members' epochs stay and no group rebalances: both sides compute the same hash of the topics (KIP-1101).
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interop.raw import RawClient
from interop.real_kafka import RealKafka
from interop.targets import Target
from interop.waiting import eventually
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from pykafka_broker.protocol.runtime import Message, uuid_text
from pykafka_broker.testing import KafkaBroker

pytestmark = [pytest.mark.java, pytest.mark.ours_only]
CONFIG = {
    "broker.rack": "rack-1",
    "offsets.topic.num.partitions": "3",  # fifty would be opened at every hand-over
    "share.coordinator.state.topic.num.partitions": "3",
    "group.coordinator.rebalance.protocols": "classic,consumer,streams,share",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
TOPICS = {"narrow": 1, "wide": 12}
JOIN = 0
KINDS = ["consumer", "share", "streams"]  # also the names of the groups
QUIET_LOOKS = 20  # with nothing new: a broker that stalls answers one of them late
SHARE_EPOCH = 3  # partitions of a share group come with an epoch of their own
GROUP, SHARE = 0, 2  # kinds of coordinators
Broker = Callable[[Path], AbstractContextManager[Target]]


def ours(directory: Path) -> KafkaBroker:
    return KafkaBroker(CONFIG, data_dir=directory / "logs")


def kafka(directory: Path) -> RealKafka:
    return RealKafka(CONFIG, directory=directory)


def joining() -> dict[str, Message]:
    topics, topology = list(TOPICS), Topology(0, [Subtopology("0", list(TOPICS))])
    return {
        "consumer": ConsumerGroupHeartbeatRequest(
            "consumer", "m", JOIN, rebalance_timeout_ms=60_000, subscribed_topic_names=topics, topic_partitions=[]
        ),
        "share": ShareGroupHeartbeatRequest("share", "m", JOIN, subscribed_topic_names=topics),
        "streams": StreamsGroupHeartbeatRequest(
            "streams",
            "m",
            JOIN,
            topology=topology,
            rebalance_timeout_ms=60_000,
            process_id="p",
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        ),
    }


def beating(epochs: dict[str, int]) -> dict[str, Message]:
    return {
        "consumer": ConsumerGroupHeartbeatRequest("consumer", "m", epochs["consumer"]),
        "share": ShareGroupHeartbeatRequest("share", "m", epochs["share"]),
        "streams": StreamsGroupHeartbeatRequest("streams", "m", epochs["streams"]),
    }


def told(client: RawClient, requests: dict[str, Message]) -> dict[str, int]:
    """Send each member's heartbeat; return its epoch by group, or its error code as a negative number."""
    answers: dict[str, Any] = {kind: client.call(request) for kind, request in requests.items()}
    return {kind: -answer.error_code or answer.member_epoch for kind, answer in answers.items()}


def await_coordinators(client: RawClient) -> None:
    states = f"share:{uuid_text(bytes(16))}:0"  # any partition of any topic: the log of the share states must be there

    def errors() -> set[int]:
        asked = (
            client.call(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=KINDS)),
            client.call(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[states])),
        )
        return {one.error_code for answer in asked for one in answer.coordinators}

    eventually(errors, {0})


def join(broker: Target) -> dict[str, int]:
    """Let a member join each of three groups; return their epochs once they have not changed for a while."""
    with RawClient(broker.bootstrap_servers) as client:
        client.call(CreateTopicsRequest([CreatableTopic(name, count, 1) for name, count in TOPICS.items()], 20_000))
        await_coordinators(client)
        epochs: dict[str, int] = {}

        def have_joined() -> bool:
            epochs.update(told(client, joining()))
            return min(epochs.values()) >= 0

        eventually(have_joined, True)
        give_up = time.monotonic() + 60
        looks = 0
        while looks < QUIET_LOOKS or epochs["share"] < SHARE_EPOCH:
            assert time.monotonic() < give_up, epochs
            seen = told(client, beating(epochs))
            assert min(seen.values()) >= 0, seen
            looks = looks + 1 if seen == epochs else 0
            epochs = seen
            time.sleep(0.1)
        return epochs


@pytest.mark.parametrize("hands", [(kafka, ours, kafka), (ours, kafka, ours)], ids=["kafka-first", "ours-first"])
def test_epochs_stay(tmp_path: Path, hands: tuple[Broker, ...]) -> None:
    with hands[0](tmp_path) as broker:
        epochs = join(broker)
    for hand in hands[1:]:
        with hand(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
            await_coordinators(client)
            eventually(partial(told, client, beating(epochs)), epochs)
            assert told(client, beating(epochs)) == epochs
