"""kafka-groups."""

import asyncio

from confluent_kafka import Consumer

from interop.tools.preparing import commit
from interop.tools.steps import Step, sorted_lines, steps
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.topics import create_topic
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from pykafka_broker.protocol.runtime import Message, uuid_text

_TIMEOUT = "{file:default.api.timeout.ms=400\\nrequest.timeout.ms=200}"
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
_MEMBER = uuid_text(bytes(range(16)))


def prepare(bootstrap: str) -> None:
    """A group of each kind."""
    asyncio.run(_groups(bootstrap))
    commit(bootstrap, "simple", {("t", 0): 0})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "classic", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.close()


async def _groups(bootstrap: str) -> None:
    topology = Topology(1, [Subtopology("0", ["t"])])
    first: dict[str, Message] = {
        "consumer": ConsumerGroupHeartbeatRequest(
            "consumer", _MEMBER, 0, rebalance_timeout_ms=60000, subscribed_topic_names=["t"], topic_partitions=[]
        ),
        "share": ShareGroupHeartbeatRequest("share", _MEMBER, 0, subscribed_topic_names=["t"]),
        "streams": StreamsGroupHeartbeatRequest(
            "streams",
            _MEMBER,
            0,
            rebalance_timeout_ms=60000,
            topology=topology,
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="p",
        ),
    }
    async with Client(bootstrap) as client:
        await create_topic(client, "t", partitions=1)
        for group_id, request in first.items():
            await client.ask_group(group_id, request)


def _listed(*flags: str) -> list[Step]:
    return [Step("groups", f"--list {each}".strip(), alike=sorted_lines) for each in flags]


STEPS: list[Step] = steps(
    "groups",
    *_listed("", "--consumer", "--share", "--streams"),
    *_listed("--group-type classic", "--group-type consumer", "--group-type Share", "--group-type streams"),
    *_listed("--protocol consumer", "--protocol share", "--protocol nonsense", "--protocol ''"),
    *_listed("--group-type consumer --protocol consumer", "--group-type classic --protocol consumer", "extra"),
    "--list --group-type nonsense",
    "--list --consumer --share",
    "--list --consumer --group-type consumer",
    "--list --consumer --protocol consumer",
    "--list --share --protocol share",
    "--list --group-type share --group-type consumer",
    "",
    "--consumer",
    "--no-such-flag",
    "{nowhere} --list",
    f"{{nowhere}} --list --bootstrap-server localhost:1 --command-config {_TIMEOUT}",
    "{nowhere} --list --bootstrap-server nonsense",
)
STEPS += [
    Step("groups", each)
    for each in (
        "extra",
        "--command-config",
        "{nowhere}",
    )
]
IN_OUR_WORDS = {
    "",
    "--command-config",
    "--consumer",
    "--list --consumer --group-type consumer",
    "--list --consumer --protocol consumer",
    "--list --consumer --share",
    "--list --share --protocol share",
    "--no-such-flag",
    "extra",
    "{nowhere}",
    "{nowhere} --list",
}
