"""ListOffsets and OffsetForLeaderEpoch."""

from interop.answers.requests import (
    BY_NAME,
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    create,
    list_offsets,
    new_topic,
    produce,
)
from interop.answers.script import Ask, Name, Script, scenario
from interop.batches import Rec, batch
from pykafka_broker.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


@scenario
def by_time(name: Name) -> Script:
    topic = name("a")
    yield "create", create(new_topic(topic, 2))
    for i, timestamp in enumerate((1000, 3000, 2000, 5000, 4000)):
        yield Ask("write", produce(topic, batch(Rec(b"%d" % i, None, timestamp))), BY_NAME)
    yield Ask("write three", produce(topic, batch(*[Rec(b"x", None, t) for t in (6000, 6500, 6200)])), BY_NAME)
    for timestamp in (0, 1000, 1001, 2500, 3001, 5000, 5001, 6100, 6500, 6501):
        yield f"time {timestamp}", list_offsets(topic, timestamp)
    special = {
        "earliest": EARLIEST,
        "latest": LATEST,
        "max timestamp": MAX_TIMESTAMP,
        "earliest local": EARLIEST_LOCAL,
        "latest tiered": LATEST_TIERED,
        "minus six": -6,
        "minus ninety": -90,
    }
    for label, timestamp in special.items():
        yield label, list_offsets(topic, timestamp)
        yield f"{label}, empty partition", list_offsets(topic, timestamp, partition=1)
    yield "latest, committed", list_offsets(topic, LATEST, isolation=1)


@scenario
def versions(name: Name) -> Script:
    topic = name("a")
    yield "create", create(new_topic(topic))
    yield Ask("write", produce(topic, batch(b"x")), BY_NAME)
    for version in range(1, 11):
        yield Ask(f"latest, version {version}", list_offsets(topic, LATEST), version)
    yield Ask("max timestamp too early", list_offsets(topic, MAX_TIMESTAMP), 6)


@scenario
def refusals(name: Name) -> Script:
    topic = name("a")
    yield "create", create(new_topic(topic))
    yield "unknown topic", list_offsets(name("none"), LATEST)
    yield "unknown partition", list_offsets(topic, LATEST, partition=9)
    yield "the same partition twice", list_offsets(topic, LATEST, EARLIEST)
    yield "unknown isolation level", list_offsets(topic, LATEST, isolation=7)
    yield "future epoch", list_offsets(topic, LATEST, epoch=5)
    yield "current epoch", list_offsets(topic, LATEST, epoch=0)


@scenario
def epochs_of_leaders(name: Name) -> Script:
    topic = name("a")
    yield "create", create(new_topic(topic))
    yield Ask("write", produce(topic, batch(b"x", b"y")), BY_NAME)

    def ask(epoch: int, current: int = -1, partition: int = 0, of: str = topic) -> OffsetForLeaderEpochRequest:
        return OffsetForLeaderEpochRequest(
            -1, [OffsetForLeaderTopic(of, [OffsetForLeaderPartition(partition, current, epoch)])]
        )

    for epoch in (0, 1, -1, -2):
        yield f"epoch {epoch}", ask(epoch)
    yield "current", ask(0, 0)
    yield "future", ask(0, 7)
    yield "unknown partition", ask(0, partition=9)
    yield "unknown topic", ask(0, of=name("none"))
