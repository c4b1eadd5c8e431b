"""MirrorMaker 2 copies a topic, its settings and a group's offsets from one broker of ours to another, exactly once."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from interop.conftest import NewBroker
from interop.jars import APPLICATIONS_VERSION, mirror_jars
from interop.java import QUICK_JVM, java_command, kafka_classpath
from interop.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]
RECORDS = 1_000
SETTINGS = """
clusters = from, to
from.bootstrap.servers = {source}
to.bootstrap.servers = {target}
from->to.enabled = true
from->to.topics = mirrored
from->to.groups = readers
to->from.enabled = false
to.exactly.once.source.support = enabled
dedicated.mode.enable.internal.rest = true
listeners = http://127.0.0.1:0
plugin.discovery = service_load
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
sync.topic.configs.interval.seconds = 2
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
refresh.groups.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
"""


@contextmanager
def mirror_maker(directory: Path, source: str, target: str, more: str = "") -> Iterator[None]:
    properties = directory / "mirror.properties"
    properties.write_text(SETTINGS.format(source=source, target=target) + more)
    jvm = (*QUICK_JVM, "-Xmx384m", "-cp", f"{mirror_jars()}/*")
    command = java_command(*jvm, "org.apache.kafka.connect.mirror.MirrorMaker", str(properties))
    with (directory / "mirror.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.kill()


def write(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(60) == 0


def read(bootstrap: str, topic: str, group: str, count: int) -> list[int]:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "isolation.level": "read_committed"})
    consumer.subscribe([topic])
    try:
        values: list[int] = []
        while len(values) < count and (message := consumer.poll(60)) is not None:
            if message.error() is None:
                values.append(int(message.value() or b""))
        consumer.commit(asynchronous=False)
        return values
    finally:
        consumer.close()


def test_everything_arrives_once(new_broker: NewBroker, tmp_path: Path) -> None:
    source, target = new_broker().bootstrap_servers, new_broker().bootstrap_servers
    topic = NewTopic("mirrored", 1, 1, config={"retention.ms": "7654321"})
    origin = AdminClient({"bootstrap.servers": source})
    origin.create_topics([topic])["mirrored"].result(60)
    write(source, "mirrored", RECORDS)
    admin = AdminClient({"bootstrap.servers": target})

    def arrived() -> bool:
        return "from.mirrored" in admin.list_topics(timeout=60).topics

    def group_arrived() -> bool:
        asked = [ConsumerGroupTopicPartitions("readers")]
        found = admin.list_consumer_group_offsets(asked)["readers"].result(60).topic_partitions
        return [each.topic for each in found if each.offset > RECORDS] == [
            "from.mirrored"
        ]  # it lags by up to a hundred

    with mirror_maker(tmp_path, source, target):
        eventually(arrived, True, 150)
        assert read(target, "from.mirrored", "checking", RECORDS) == list(range(RECORDS))
        write(source, "mirrored", RECORDS)
        assert read(source, "mirrored", "readers", 2 * RECORDS) == 2 * list(range(RECORDS))
        assert read(target, "from.mirrored", "again", 2 * RECORDS) == 2 * list(range(RECORDS))
        eventually(group_arrived, True, 60)
    resource = ConfigResource(ResourceType.TOPIC, "from.mirrored")
    assert admin.describe_configs([resource])[resource].result(60)["retention.ms"].value == "7654321"


FORMATTERS = "org.apache.kafka.connect.mirror.formatters"


def wait_for_records(bootstrap: str, topic: str) -> None:
    """Wait until there are records in a topic of one partition, which may be created later."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "allow.auto.create.topics": False})

    def found() -> bool:
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1] > 0
        except KafkaException:
            return False

    eventually(found, True)
    consumer.close()


def formatted(bootstrap: str, topic: str, formatter: str, most: int = 1) -> str:
    """Wait for records in a topic; return the first ones, a line each, as MirrorMaker's own formatter prints them."""
    wait_for_records(bootstrap, topic)
    command = java_command(
        *(*QUICK_JVM, "-cp", f"{mirror_jars()}/*:{kafka_classpath(APPLICATIONS_VERSION)}"),
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", "--max-messages", str(most)),
        *("--timeout-ms", "60000" if most == 1 else "10000", "--formatter", f"{FORMATTERS}.{formatter}"),
    )
    return subprocess.run(command, capture_output=True, text=True, timeout=240).stdout.strip()


def test_our_mirror_leaves_behind_what_mirror_maker_reads(new_broker: NewBroker, tmp_path: Path) -> None:
    source, target = new_broker().bootstrap_servers, new_broker().bootstrap_servers
    origin = AdminClient({"bootstrap.servers": source})
    origin.create_topics([NewTopic("mirrored", 1, 1)])["mirrored"].result(60)
    write(source, "mirrored", 3)
    assert read(source, "mirrored", "readers", 3) == [0, 1, 2]
    properties = tmp_path / "mirror.properties"
    properties.write_text(SETTINGS.format(source=source, target=target))
    command = [sys.executable, "-m", "pykafka_broker", "mirror", str(properties)]
    with subprocess.Popen(command) as process:
        try:
            checkpoint = formatted(target, "from.checkpoints.internal", "CheckpointFormatter")
            heartbeat = formatted(target, "heartbeats", "HeartbeatFormatter")
            sync = formatted(source, "mm2-offset-syncs.to.internal", "OffsetSyncFormatter", most=10)
        finally:
            process.terminate()
    at = "topicPartition=from.mirrored-0, upstreamOffset=3, downstreamOffset=3"
    assert checkpoint == f"Checkpoint{{consumerGroupId=readers, {at}, metadata=}}"
    assert heartbeat.startswith("Heartbeat{sourceClusterAlias=from, targetClusterAlias=to, timestamp=")
    assert "OffsetSync{topicPartition=mirrored-0, upstreamOffset=2, downstreamOffset=2}" in sync.splitlines()
