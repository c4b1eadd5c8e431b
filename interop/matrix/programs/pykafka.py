"""pykafka, of which 2.8.0 is the last. Rule: what a release lacks is found by asking it, never by its number."""

import datetime
import inspect
import time
from typing import Any

import pykafka
from pykafka.common import CompressionType, OffsetType

from interop.matrix.programs.scenario import (
    COUNT,
    FIRST_MS,
    LARGE,
    RECORDS,
    RELEASE,
    VALUES,
    NotSupported,
    ask_for_restart,
    every_codec,
    main,
    same,
    two_members,
    until,
)

KEPT = []  # type: Any
# A topic holds its client by a weak reference only.


def topic_of(bootstrap: str, name: str) -> Any:
    release = ".".join(map(str, (*RELEASE, 0, 0)[:3])) if RELEASE < (0, 11) else "1.0.0"
    told = {"broker_version": release} if "broker_version" in inspect.signature(pykafka.KafkaClient).parameters else {}
    KEPT.append(pykafka.KafkaClient(hosts=bootstrap, **told))
    return KEPT[-1].topics[name.encode()]


def producer(topic: Any, **more: Any) -> Any:
    """Each record is answered before the next is sent, as nothing else tells whether it was written."""
    return topic.get_sync_producer(required_acks=-1, partitioner=lambda partitions, key: first_of(partitions), **more)


def first_of(partitions: Any) -> Any:
    return min(partitions, key=lambda partition: getattr(partition, "id", partition))


def send(topic: Any, values: Any, **more: Any) -> None:
    with producer(topic, **more) as made:
        for value in values:
            made.produce(value, partition_key=b"k")


def read(topic: Any, count: int, **more: Any) -> Any:
    reader = topic.get_simple_consumer(
        consumer_group=None,
        auto_offset_reset=OffsetType.EARLIEST,
        reset_offset_on_start=True,
        consumer_timeout_ms=10_000,
        fetch_message_max_bytes=8_000_000,
        **more,
    )
    found = taken(reader, count)
    reader.stop()
    return found


def taken(reader: Any, count: int) -> Any:
    found = []  # type: Any
    while len(found) < count:
        message = reader.consume()
        if message is None:
            break
        found.append(message)
    same(len(found), count)
    return found


def values_of(found: Any) -> Any:
    return [message.value for message in found]


def connect(bootstrap: str, topic: str) -> None:
    same(set(topic_of(bootstrap, topic).partitions), {0, 1, 2, 3})


def produce(bootstrap: str, topic: str) -> None:
    here = topic_of(bootstrap, topic)
    send(here, VALUES)
    same(values_of(read(here, COUNT)), VALUES)


def records(bootstrap: str, topic: str) -> None:
    here = topic_of(bootstrap, topic)
    with producer(here) as made:
        for key, value in RECORDS:
            made.produce(value, partition_key=key)
    same([(each.partition_key, each.value) for each in read(here, len(RECORDS))], RECORDS)


def timestamps(bootstrap: str, topic: str) -> None:
    here = topic_of(bootstrap, topic)
    with producer(here) as made:
        if "timestamp" not in inspect.signature(made.produce).parameters:
            raise NotSupported("the client has no timestamps")
        for number in range(5):
            made.produce(b"v", timestamp=_time(FIRST_MS + number))
    same([message.timestamp for message in read(here, 5)], [FIRST_MS + number for number in range(5)])


def _time(ms: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=ms)


def codecs(bootstrap: str, topic: str) -> str:
    here = topic_of(bootstrap, topic)
    sent = []  # type: Any

    def one(name: str) -> None:
        codec = getattr(CompressionType, name.upper(), None)
        if codec is None:
            raise NotSupported("not in this release")
        send(here, VALUES[:20], compression=codec)
        sent.extend(VALUES[:20])
        same(values_of(read(here, len(sent))), sent)

    return every_codec(["gzip", "snappy", "lz4", "zstd"], one)


def group(bootstrap: str, topic: str) -> None:
    if RELEASE < (0, 9):
        raise NotSupported("before 0.9 a group needs ZooKeeper")
    here = topic_of(bootstrap, topic)

    def make() -> Any:
        made = here.get_balanced_consumer(
            consumer_group=topic.encode(), managed=True, auto_start=False, heartbeat_interval_ms=300,
            consumer_timeout_ms=100, auto_offset_reset=OffsetType.EARLIEST, reset_offset_on_start=True,
        )  # fmt: skip
        made.start()
        made.close = made.stop
        return made

    def poll(member: Any) -> int:
        member.consume()
        return len(member.partitions)

    two_members(make, poll)


def commit(bootstrap: str, topic: str) -> None:
    here = topic_of(bootstrap, topic)
    send(here, VALUES)
    how = {"consumer_group": topic.encode(), "auto_offset_reset": OffsetType.EARLIEST, "consumer_timeout_ms": 10_000}
    first = here.get_simple_consumer(**how)
    same(values_of(taken(first, 30)), VALUES[:30])
    first.commit_offsets()
    first.stop()
    later = here.get_simple_consumer(**how)
    same(values_of(taken(later, COUNT - 30)), VALUES[30:])
    later.stop()


def seek(bootstrap: str, topic: str) -> None:
    here = topic_of(bootstrap, topic)
    with producer(here) as made:
        if "timestamp" not in inspect.signature(made.produce).parameters:
            raise NotSupported("the client has no timestamps")
        for number in range(10):
            made.produce(b"%d" % number, timestamp=_time(FIRST_MS + 1000 * number))
    found = [limits[0].offset for limits in (here.earliest_available_offsets(), here.latest_available_offsets())]
    same(found, [[0], [10]])
    reader = here.get_simple_consumer(consumer_timeout_ms=10_000)
    reader.reset_offsets([(here.partitions[0], 4)])
    same(values_of(taken(reader, 5)), [b"5", b"6", b"7", b"8", b"9"])
    reader.stop()
    raise NotSupported("the client finds segments by the time of their files, and no records")


def large(bootstrap: str, topic: str) -> None:
    here = topic_of(bootstrap, topic)
    send(here, LARGE, max_request_size=2_000_000)
    same(values_of(read(here, len(LARGE))), LARGE)


def restart(bootstrap: str, topic: str) -> None:
    """A producer and a consumer with a group's name go on when the broker is back."""
    here = topic_of(bootstrap, topic)
    reader = here.get_simple_consumer(
        consumer_group=topic.encode(), auto_offset_reset=OffsetType.EARLIEST, consumer_timeout_ms=200
    )
    found = set()  # type: Any

    def read_on(count: int) -> bool:
        message = reader.consume()
        if message is not None:
            found.add(message.value)
        return len(found) == count

    with producer(here) as made:
        for value in VALUES[:50]:
            made.produce(value)
        until(lambda: read_on(50), "half of the records")
        ask_for_restart()
        for value in VALUES[50:]:
            _patiently(made, value)
        until(lambda: read_on(COUNT), "all records")


def _patiently(made: Any, value: bytes) -> None:
    """Its application is told of what failed, and sends it again."""
    deadline = time.time() + 30
    while True:
        try:
            made.produce(value)
            return
        except Exception:
            if time.time() > deadline:
                raise
            time.sleep(0.2)


main(
    {
        each.__name__: each
        for each in (connect, produce, records, timestamps, codecs, group, commit, seek, large, restart)
    }
)
