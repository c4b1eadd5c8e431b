"""The contents of a data directory that Kafka and this broker hand to each other, written and checked.

Rule: everything is written and read through a client, so that the same lines test both ways. What a delivery report
says must be found later, whichever broker serves the directory.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from interop.waiting import eventually

PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 300  # records of each codec in a round
COMPACTED_KEYS = 20
GROUP, TRANSACTIONAL_ID = "exchange-group", "exchange-transactions"
CONFIGS = {"codec-gzip": ("retention.ms", "123456789"), "codec-lz4": ("max.message.bytes", "765432")}
TOPICS: dict[str, dict[str, str]] = {
    **{f"codec-{codec}": {} for codec in CODECS},
    "codec-gzip": dict([CONFIGS["codec-gzip"]]),
    "transactions": {},
    "compacted": {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"},
}
# Topics whose records are deleted up to an offset within a batch; in "transactions" within an aborted transaction.
TRIMMED = ("codec-none", "codec-zstd", "transactions")
QUICK = {  # fifty partitions of each coordinator would be opened, and dumped, at every hand-over
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.cleaner.backoff.ms": "100",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "log.initial.task.delay.ms": "0",
}

Place = tuple[int, int]  # partition and offset
Content = tuple[bytes | None, bytes | None, object, object]  # key, value, timestamp, headers


@dataclass
class Written:
    """The records, offsets and ids that the topics should hold by now."""

    records: dict[str, dict[Place, Content]] = field(default_factory=lambda: {topic: {} for topic in TOPICS})
    aborted: set[Place] = field(default_factory=set)  # of "transactions"
    starts: dict[tuple[str, int], int] = field(default_factory=dict)  # topic and partition; of those that are trimmed
    committed: dict[int, int] = field(default_factory=dict)  # offsets of the group in "codec-none"
    topic_ids: dict[str, str] = field(default_factory=dict)
    rounds: int = 0

    def note(self, error: object, message: Message) -> None:
        assert error is None, error
        self.records[str(message.topic())][place(message)] = content(message)

    def readable(self, topic: str) -> dict[Place, Content]:
        """Return the records of a topic from the start of each of its partitions on."""
        return {at: record for at, record in self.records[topic].items() if at[1] >= self.starts.get((topic, at[0]), 0)}


def place(message: Message) -> Place:
    return message.partition() or 0, message.offset() or 0


def content(message: Message) -> Content:
    return message.key(), message.value(), message.timestamp(), message.headers()


def create(bootstrap: str, written: Written) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(t, PARTITIONS, 1, config=c) for t, c in TOPICS.items()]).values():
        future.result(60)
    name, value = CONFIGS["codec-lz4"]
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, "codec-lz4", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([changed]).values():
        future.result(60)
    eventually(lambda: len(topic_ids(admin)), len(TOPICS))
    written.topic_ids = topic_ids(admin)


def topic_ids(admin: AdminClient) -> dict[str, str]:
    found = admin.describe_topics(TopicCollection(list(TOPICS)))
    return {topic: str(future.result(60).topic_id) for topic, future in found.items()}


def write(bootstrap: str, written: Written) -> None:
    """Write a round of everything, behind the records that the other broker has written."""
    written.rounds += 1
    producers = [write_codec(bootstrap, written, codec) for codec in CODECS]
    for producer in producers:
        assert producer.flush(60) == 0
    write_compacted(bootstrap, written)
    write_transactions(bootstrap, written)
    trim(bootstrap, written)


def write_codec(bootstrap: str, written: Written, codec: str) -> Producer:
    """Begin to write with a codec; return the producer, which may still have records to send."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 5}
    )
    now = time.time_ns() // 1_000_000  # records with an old time would be deleted at once, by the retention of a week
    for number in range(RECORDS):
        value = b"round %d record %d " % (written.rounds, number) + b"text that can be compressed " * (number % 9)
        headers: list[tuple[str, str | bytes | None]] = [("codec", codec.encode()), ("none", None)]
        producer.produce(
            f"codec-{codec}",
            value if number % 7 else None,
            b"%d" % number if number % 5 else None,
            number % PARTITIONS,
            headers=headers,
            timestamp=now + number,
            on_delivery=partial(note_with_headers, written, headers),
        )
        producer.poll(0)
    return producer


def note_with_headers(
    written: Written, headers: list[tuple[str, str | bytes | None]], error: object, message: Message
) -> None:
    """Note a delivery report, which has the headers in some releases of the client only."""
    written.note(error, message)
    key, value, timestamp, _ = content(message)
    written.records[str(message.topic())][place(message)] = key, value, timestamp, headers


def write_compacted(bootstrap: str, written: Written) -> None:
    """Write in several bursts, so that segments roll between them and there is something to clean."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for burst in range(5):
        for number in range(200):
            key = number % COMPACTED_KEYS
            value = b"%d %d %d" % (written.rounds, burst, number)
            producer.produce("compacted", value, b"%d" % key, key % PARTITIONS, on_delivery=written.note)
        assert producer.flush(60) == 0
        time.sleep(0.15)


def write_transactions(bootstrap: str, written: Written) -> None:
    """Write a committed transaction with an offset of the group, an aborted one, and a committed one again."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": TRANSACTIONAL_ID, "linger.ms": 5})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False})
    producer.init_transactions(30)
    for commit in (True, False, True):
        producer.begin_transaction()
        before = set(written.records["transactions"])
        for number in range(100):
            value = b"%d %d" % (written.rounds, number)
            producer.produce("transactions", value, None, number % PARTITIONS, on_delivery=written.note)
        assert producer.flush(60) == 0
        if commit:
            offset = TopicPartition("codec-none", 0, 10 * written.rounds)
            producer.send_offsets_to_transaction([offset], consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
            written.aborted |= set(written.records["transactions"]) - before
    consumer.commit(offsets=[TopicPartition("codec-none", 1, 7 * written.rounds)], asynchronous=False)
    written.committed = {0: 10 * written.rounds, 1: 7 * written.rounds}
    consumer.close()


def trim(bootstrap: str, written: Written) -> None:
    """Delete records up to the middle of what this round wrote, or aborted: partition 0 within a batch, 1 up to the
    marker behind it, where nothing of the transaction is left to be read.
    """
    for topic in TRIMMED:
        places = written.aborted if topic == "transactions" else written.records[topic]
        for partition in (0, 1):
            offsets = sorted(offset for where, offset in places if where == partition)
            of_round = offsets[-(len(offsets) // written.rounds) :]
            within = of_round[len(of_round) // 2]
            written.starts[topic, partition] = of_round[-1] + 1 if partition and topic == "transactions" else within
    admin = AdminClient({"bootstrap.servers": bootstrap})
    places_to = [TopicPartition(*where, offset) for where, offset in written.starts.items()]
    for where, deleted in admin.delete_records(places_to).items():
        assert deleted.result(60).low_watermark == written.starts[where.topic, where.partition]


def is_checkpointed(directories: Sequence[Path], written: Written) -> bool:
    """Return whether the starts of the trimmed partitions are on the disk, so that they outlive a kill."""
    files = [directory / "log-start-offset-checkpoint" for directory in directories]
    lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
    return {f"{topic} {partition} {start}" for (topic, partition), start in written.starts.items()} <= set(lines)


def check(bootstrap: str, written: Written) -> None:
    by_codec = [f"codec-{codec}" for codec in CODECS]
    found = read(bootstrap, [*by_codec, "transactions"])
    for topic in by_codec:
        check_same(found[topic], written.readable(topic))
        assert len(written.records[topic]) == RECORDS * written.rounds, "a place was given to two records"
    everything = written.readable("transactions")
    check_same(found["transactions"], everything)
    decided = {place: content for place, content in everything.items() if place not in written.aborted}
    check_same(read(bootstrap, ["transactions"], "read_committed")["transactions"], decided)
    eventually(lambda: is_compacted(bootstrap, written), True, timeout_s=20)
    check_settings(bootstrap, written)


def check_same(found: dict[Place, Content], expected: dict[Place, Content]) -> None:
    missing, surplus = expected.keys() - found.keys(), found.keys() - expected.keys()
    assert not missing, f"{len(missing)} of {len(expected)} are missing: {sorted(missing)[:5]}"
    assert not surplus, f"{len(surplus)} are too many: {sorted(surplus)[:5]}"
    changed = [(place, record, found[place]) for place, record in expected.items() if found[place] != record]
    assert not changed, f"{len(changed)} have changed: {changed[:2]}"


def is_compacted(bootstrap: str, written: Written) -> bool:
    """Check the compacted topic; return whether more than half of its records are gone.

    The records that are left are at their old offsets, and the last record of each key is among them.
    """
    everything, found = written.records["compacted"], read(bootstrap, ["compacted"])["compacted"]
    last = {record[0]: place for place, record in sorted(everything.items())}
    assert all(everything[place] == record for place, record in found.items())
    assert set(last.values()) <= found.keys()
    return len(found) < len(everything) // 2


def check_settings(bootstrap: str, written: Written) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    assert topic_ids(admin) == written.topic_ids
    for topic, (name, value) in CONFIGS.items():
        resource = ConfigResource(ResourceType.TOPIC, topic)
        assert admin.describe_configs([resource])[resource].result(60)[name].value == value
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    asked = [TopicPartition("codec-none", partition) for partition in written.committed]
    assert {found.partition: found.offset for found in consumer.committed(asked, 20)} == written.committed
    consumer.close()


def read(
    bootstrap: str, topics: Sequence[str], isolation_level: str = "read_uncommitted"
) -> dict[str, dict[Place, Content]]:
    """Return all records of these topics, read with one consumer, since a consumer takes a second to begin."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation_level,
        }
    )
    wanted = [(topic, partition) for topic in topics for partition in range(PARTITIONS)]
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in wanted])
    found: dict[str, dict[Place, Content]] = {topic: {} for topic in topics}
    ended: set[tuple[str | None, int | None]] = set()
    errors: list[str] = []  # errors of a broker that has only just started; the client asks again
    deadline = time.monotonic() + 30
    while len(ended) < len(wanted):
        assert time.monotonic() < deadline, f"{topics} were not read to their end: {errors}"
        for message in consumer.consume(5_000, timeout=0.1):
            error = message.error()
            if error is None:
                found[str(message.topic())][place(message)] = content(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add((message.topic(), message.partition()))
            else:
                errors.append(f"{message.topic()}-{message.partition()}: {error}")
    consumer.close()
    return found
