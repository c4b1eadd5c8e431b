"""A mirror between two brokers."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from pykafka_broker.client.acls import AclBinding, AclEntry, ResourcePattern
from pykafka_broker.protocol.enums import AclOperation, AclPermissionType, AclResourceType, PatternType
from pykafka_broker.protocol.enums import TopicPartition as PartitionName
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools.frame import main
from pykafka_broker.tools.mirror import Mirror, Sync, _every, mirrored, translated
from pykafka_broker.tools.mirror_flow import Flow
from tests.tools.asking import Asked

PATIENCE_S = 90  # a mirror is a process that has to start
SETTINGS = """
clusters = from, to
from.bootstrap.servers = {source}
to.bootstrap.servers = {target}
from->to.enabled = true
from->to.topics = mirrored.*
from->to.groups = readers
sync.group.offsets.enabled = true
refresh.topics.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
tasks.max = 3
"""


@contextmanager
def mirroring(folder: Path, source: KafkaBroker, target: KafkaBroker, more: str = "") -> Iterator[None]:
    file = folder / "mirror.properties"
    file.write_text(SETTINGS.format(source=source.bootstrap_servers, target=target.bootstrap_servers) + more)
    process = subprocess.Popen([sys.executable, "-m", "pykafka_broker", "mirror", str(file)])
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 143


def write(broker: KafkaBroker, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, value in enumerate(values):
        producer.produce(topic, value, key=b"k", partition=1, timestamp=1000 + number, headers=[("h", b"1")])
    assert producer.flush(PATIENCE_S) == 0


def read(broker: KafkaBroker, topic: str, count: int) -> list[tuple[bytes | None, int, object]]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "looks"})
    consumer.assign([TopicPartition(topic, 1, 0)])
    found: list[tuple[bytes | None, int, object]] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            found.append((message.value(), message.timestamp()[1], message.headers()))
    consumer.close()
    return found


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def noted(target: KafkaBroker, syncs_at: KafkaBroker) -> bool:
    """Return whether the mirror has stored its progress. A run that ends earlier copies again, as MirrorMaker does."""
    other = "from" if syncs_at is target else "to"
    kept = (target, "mm2-offsets.from.internal"), (syncs_at, f"mm2-offset-syncs.{other}.internal")
    return all(any("mirrored" in str(each.key) for each in broker.records(topic)) for broker, topic in kept)


def committed(broker: KafkaBroker, topic: str) -> tuple[int, str | None]:
    """Return the committed offset of a partition, and the metadata that was committed with the offset."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    (found,) = consumer.committed([TopicPartition(topic, 1)], PATIENCE_S)
    consumer.close()
    return int(found.offset), found.metadata


def offset(broker: KafkaBroker, topic: str) -> int:
    return committed(broker, topic)[0]


def test_records_configs_and_group_offsets_go_over_and_a_restart_goes_on(tmp_path: Path) -> None:
    with KafkaBroker(in_process=True) as source, KafkaBroker(in_process=True) as target:
        admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
        topic = NewTopic("mirrored", 2, 1, config={"retention.ms": "7654321"})
        admin.create_topics([topic])["mirrored"].result(PATIENCE_S)
        write(source, "mirrored", b"one", b"two", b"three")
        there = AdminClient({"bootstrap.servers": target.bootstrap_servers})
        with mirroring(tmp_path, source, target):
            until(lambda: "from.mirrored" in there.list_topics(timeout=PATIENCE_S).topics)
            assert read(target, "from.mirrored", 3) == [
                (b"one", 1000, [("h", b"1")]),
                (b"two", 1001, [("h", b"1")]),
                (b"three", 1002, [("h", b"1")]),
            ]
            reader = Consumer({"bootstrap.servers": source.bootstrap_servers, "group.id": "readers"})
            reader.commit(offsets=[TopicPartition("mirrored", 1, 2, "read by hand")], asynchronous=False)
            reader.close()
            until(lambda: committed(target, "from.mirrored") == (2, "read by hand"))
            until(lambda: noted(target, source))
        resource = ConfigResource(ResourceType.TOPIC, "from.mirrored")
        assert there.describe_configs([resource])[resource].result(PATIENCE_S)["retention.ms"].value == "7654321"
        write(source, "mirrored", b"four")
        with mirroring(tmp_path, source, target):
            found = read(target, "from.mirrored", 4)
            assert [value for value, _, _ in found] == [b"one", b"two", b"three", b"four"]
        assert {"heartbeats", "from.checkpoints.internal"} <= set(there.list_topics(timeout=PATIENCE_S).topics)


def test_what_retention_has_taken_meanwhile_is_skipped_and_the_rest_goes_over(tmp_path: Path) -> None:
    with KafkaBroker(in_process=True) as source, KafkaBroker(in_process=True) as target:
        source.create_topic("mirrored", 2)
        write(source, "mirrored", b"one")
        with mirroring(tmp_path, source, target):
            assert len(read(target, "from.mirrored", 1)) == 1
            until(lambda: noted(target, source))
        write(source, "mirrored", b"two", b"three", b"four")
        source.delete_records("mirrored", 2, 1)
        with mirroring(tmp_path, source, target):
            assert [value for value, _, _ in read(target, "from.mirrored", 3)] == [b"one", b"three", b"four"]


def test_records_before_the_start_are_left_out_where_the_consumer_says_so(tmp_path: Path) -> None:
    with KafkaBroker(in_process=True) as source, KafkaBroker(in_process=True) as target:
        source.create_topic("mirrored", 2)
        write(source, "mirrored", b"before")
        with mirroring(tmp_path, source, target, "from->to.consumer.auto.offset.reset = latest\n"):
            until(lambda: "from.mirrored" in names(target))
            deadline = time.monotonic() + PATIENCE_S
            while not (found := target.records("from.mirrored")) and time.monotonic() < deadline:
                write(source, "mirrored", b"after")
        assert found[0].value == "after"


def names(broker: KafkaBroker) -> set[str]:
    return {each["name"] for each in broker.topics()}


def own_configs(broker: KafkaBroker, topic: str) -> dict[str, str]:
    """Return the configs that were set on a topic."""
    (found,) = (each["config"] for each in broker.topics() if each["name"] == topic)
    return dict(found)


def set_configs(broker: KafkaBroker, topic: str, capsys: pytest.CaptureFixture[str], *changes: str) -> None:
    Asked(broker, capsys)("configs", "--alter", "--entity-type", "topics", "--entity-name", topic, *changes)


def test_configs_at_their_default_in_the_source_are_removed_in_the_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = {"log.retention.bytes": "1000000"}
    with KafkaBroker(here, in_process=True) as source, KafkaBroker(in_process=True) as target:
        source.create_topic("mirrored", config={"retention.ms": "1000000", "segment.ms": "2000000"})
        source.create_topic("mirrored_late", config={"flush.ms": "1000"})
        target.create_topic("from.mirrored", config={"flush.ms": "77", "retention.bytes": "88", "segment.ms": "99"})
        set_configs(target, "from.mirrored", capsys, "--add-config", "min.insync.replicas=1")
        with mirroring(tmp_path, source, target, "sync.topic.configs.interval.seconds = 1\n"):
            kept = {"retention.bytes": "88", "min.insync.replicas": "1"}  # from the source's file; excluded
            wanted = {"retention.ms": "1000000", "segment.ms": "2000000"} | kept
            until(lambda: own_configs(target, "from.mirrored") == wanted)
            set_configs(source, "mirrored", capsys, "--delete-config", "segment.ms")
            until(lambda: own_configs(target, "from.mirrored") == {"retention.ms": "1000000"} | kept)


def test_a_new_topic_has_the_configs_of_the_source_although_they_are_not_kept_the_same(tmp_path: Path) -> None:
    with KafkaBroker(in_process=True) as source, KafkaBroker(in_process=True) as target:
        source.create_topic("mirrored", config={"retention.ms": "1000000"})
        with mirroring(tmp_path, source, target, "sync.topic.configs.enabled = false\n"):
            until(lambda: "from.mirrored" in names(target))
        assert own_configs(target, "from.mirrored") == {"retention.ms": "1000000"}


def test_a_topic_that_the_target_refuses_holds_no_other_up(tmp_path: Path) -> None:
    with KafkaBroker(in_process=True) as source, KafkaBroker(in_process=True) as target:
        for name in ("mirrored.a", "mirrored"):
            source.create_topic(name, 2)
            write(source, name, b"one")
        target.create_topic("from.mirrored_a")  # collides with from.mirrored.a
        with mirroring(tmp_path, source, target):
            assert len(read(target, "from.mirrored", 1)) == 1
        assert "from.mirrored.a" not in names(target)


def test_topics_and_groups_of_the_start_alone(tmp_path: Path) -> None:
    more = "refresh.topics.enabled = false\nrefresh.groups.enabled = false\nfrom->to.groups = .*\n"
    with KafkaBroker(in_process=True) as source, KafkaBroker(in_process=True) as target:
        source.create_topic("mirrored", 2)
        write(source, "mirrored", b"one")
        source.commit("early", "mirrored", 1, 1)
        with mirroring(tmp_path, source, target, more):
            until(lambda: any(each["group_id"] == "early" for each in target.groups()))
            source.create_topic("mirrored.late")
            source.commit("late", "mirrored", 1, 1)
            beats = len(target.records("heartbeats"))
            until(lambda: len(target.records("heartbeats")) >= beats + 3)  # one a second, as the refreshes would come
        assert "from.mirrored.late" not in names(target)
        assert "late" not in {each["group_id"] for each in target.groups()}


def test_a_topic_of_positions_may_have_any_number_of_partitions(tmp_path: Path) -> None:
    with KafkaBroker(in_process=True) as source, KafkaBroker(in_process=True) as target:
        source.create_topic("mirrored", 2)
        target.create_topic("mm2-offsets.from.internal", 1)
        with mirroring(tmp_path, source, target):
            until(lambda: any(each["name"] == "from.mirrored" for each in target.topics()))


def test_the_offsets_of_a_group_follow_once_its_members_have_left(tmp_path: Path) -> None:
    more = "to.bootstrap.servers = {0}\nfrom.bootstrap.servers = {0}\nsync.group.offsets.interval.seconds = 1\n"
    with KafkaBroker(in_process=True) as broker:  # one cluster under two names: the group is the same on both sides
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("mirrored", 2, 1)])["mirrored"].result(PATIENCE_S)
        write(broker, "mirrored", b"one", b"two")
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"}
        member = Consumer(settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
        member.subscribe(["mirrored"])
        seen = 0
        while seen < 2:
            seen += sum(1 for each in member.consume(2, 1) if not each.error())
        member.commit(asynchronous=False)
        at_home = "emit.heartbeats.enabled = false\nsync.topic.acls.enabled = false\nfrom->to.topics = mirrored\n"
        with mirroring(tmp_path, broker, broker, more.format(broker.bootstrap_servers) + at_home):
            until(lambda: "from.checkpoints.internal" in admin.list_topics(timeout=PATIENCE_S).topics)
            looks = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "looks"})
            checkpoints = TopicPartition("from.checkpoints.internal", 0)
            until(lambda: looks.get_watermark_offsets(checkpoints, PATIENCE_S)[1] > 0)
            looks.close()
            assert offset(broker, "from.mirrored") < 0
            member.close()
            until(lambda: offset(broker, "from.mirrored") == 2)


WITH_ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def test_acls_go_over_and_a_restart_knows_which_record_was_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with KafkaBroker(WITH_ACLS, in_process=True) as source, KafkaBroker(WITH_ACLS, in_process=True) as target:
        admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
        admin.create_topics([NewTopic("mirrored", 2, 1), NewTopic("heartbeats", 2, 1)])["mirrored"].result(PATIENCE_S)
        write(source, "mirrored", b"one", b"two", b"three")
        write(source, "heartbeats", b"beat")
        asked = Asked(source, capsys)
        alice = ("--add", "--allow-principal", "User:alice", "--topic", "mirrored", "--operation")
        for operation in ("All", "Write"):
            asked("acls", *alice, operation)
        at_target = "offset-syncs.topic.location = target\n"
        there = AdminClient({"bootstrap.servers": target.bootstrap_servers})
        with mirroring(tmp_path, source, target, at_target):
            until(lambda: "from.heartbeats" in there.list_topics(timeout=PATIENCE_S).topics)
            assert [value for value, _, _ in read(target, "from.mirrored", 3)] == [b"one", b"two", b"three"]
            assert [value for value, _, _ in read(target, "from.heartbeats", 1)] == [b"beat"]
            until(lambda: Asked(target, capsys)("acls", "--list") != [])
            until(lambda: noted(target, target))
        assert not any(each.startswith("mm2-offset-syncs") for each in admin.list_topics(timeout=PATIENCE_S).topics)
        assert "mm2-offset-syncs.from.internal" in there.list_topics(timeout=PATIENCE_S).topics
        (given,) = Asked(target, capsys)("acls", "--list")
        assert (given["resource_name"], given["operation"]) == ("from.mirrored", "READ")
        reader = Consumer({"bootstrap.servers": source.bootstrap_servers, "group.id": "readers"})
        reader.commit(offsets=[TopicPartition("mirrored", 1, 3)], asynchronous=False)
        reader.close()
        with mirroring(tmp_path, source, target, at_target):
            until(lambda: offset(target, "from.mirrored") == 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", 'Missing required configuration "clusters"'),
        ("clusters = a, b\n", "no flow is enabled"),
        ("clusters = a, b\na->b.enabled = true\ntopics = [\n", "no list of regular expressions"),
        ("clusters = a, b\na->b.enabled = true\n", "a.bootstrap.servers is missing"),
    ],
)
def test_a_file_that_makes_no_sense(text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(text)
    assert main("mirror", [str(file)]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("seconds", [-1, 0])
def test_an_interval_may_say_never(seconds: int) -> None:
    async def do() -> None:
        raise AssertionError("it is not to be done")

    asyncio.run(asyncio.wait_for(_every(seconds, do)(), 5))


def test_a_refresh_may_find_topics_while_configs_are_copied() -> None:
    seen = []

    class Finding(Mirror):
        async def _sync_configs_of(self, name: str) -> None:
            seen.append(name)
            self.topics["new"] = 1

    mirror = Finding.__new__(Finding)
    mirror.topics = {"a": 1, "b": 1}
    asyncio.run(mirror.sync_configs())
    assert seen == ["a", "b"]


FLOW = Flow("A", "B", {"topics": "orders"})
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


def acl(
    operation: AclOperation, permission: AclPermissionType, name: str = "orders", **pattern: PatternType
) -> AclBinding:
    kind = pattern.get("kind", PatternType.LITERAL)
    return AclBinding(
        ResourcePattern(AclResourceType.TOPIC, name, kind), AclEntry("User:alice", "*", operation, permission)
    )


def test_offsets_are_translated_by_the_last_records_that_were_copied() -> None:
    mirror, source = Mirror.__new__(Mirror), PartitionName("t", 0)
    mirror.syncs = {}
    for upstream in range(5_000):
        mirror._add_sync(source, Sync(upstream * 2, upstream))
    syncs = mirror.syncs[source]
    assert 1_000 <= len(syncs) < 2_000
    assert [translated(offset, syncs) for offset in (9_998, 9_997, 9_996, 20_000)] == [4_999, 4_999, 4_998, 5_000]
    assert translated(syncs[0].upstream - 1, syncs) is None
    mirror._add_sync(source, Sync(9_996, 5_000))  # copied again
    assert [translated(offset, syncs) for offset in (9_995, 9_996, 9_998)] == [4_998, 5_000, 5_001]
    mirror._add_sync(source, Sync(0, 5_001))  # the topic was created again
    assert [translated(offset, syncs) for offset in (0, 9_998)] == [5_001, 5_002]


def test_nobody_may_write_to_a_copy_and_all_is_to_read() -> None:
    given = [
        acl(AclOperation.READ, ALLOW),
        acl(AclOperation.WRITE, ALLOW),
        acl(AclOperation.ALL, ALLOW),
        acl(AclOperation.WRITE, DENY),
        acl(AclOperation.ALL, DENY),
        acl(AclOperation.READ, ALLOW, "others"),
        acl(AclOperation.READ, ALLOW, "ord", kind=PatternType.PREFIXED),
        AclBinding(
            ResourcePattern(AclResourceType.GROUP, "orders", PatternType.LITERAL),
            AclEntry("User:bob", "*", AclOperation.READ, ALLOW),
        ),
    ]
    assert mirrored(FLOW, given) == [
        acl(AclOperation.READ, ALLOW, "A.orders"),
        acl(AclOperation.READ, ALLOW, "A.orders"),
        acl(AclOperation.WRITE, DENY, "A.orders"),
        acl(AclOperation.ALL, DENY, "A.orders"),
    ]
