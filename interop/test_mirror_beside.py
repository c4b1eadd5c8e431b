"""Our mirror beside MirrorMaker 2: both mirror the same clusters, with the same results.

Compared: the topics of the target with their partitions and the configs that were set on them, all records with
timestamps, keys and headers, the names of MirrorMaker's own topics on both sides, the last offset sync of each
partition, the checkpoint and the committed offset of a group that has read everything, heartbeats, and the ACLs.
Left out: how often each of them wrote, and what Connect keeps for itself (its configs and status).
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.conftest import NewBroker
from interop.test_mirror import SETTINGS, mirror_maker, read
from interop.tools.preparing import T0
from interop.waiting import eventually
from pykafka_broker.tools.mirror import read_offset_sync
from tests.tools.mirrored_names import GROUPS, POLICIES, TOPICS, Policy, copies

pytestmark = [pytest.mark.java, pytest.mark.slow]
MORE = """
sync.topic.acls.interval.seconds = 1
refresh.topics.interval.seconds = 1
"""
CONFIGS = {"retention.ms": "7654321", "max.message.bytes": "100000", "min.insync.replicas": "1"}
ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
COUNT = 7


@contextmanager
def our_mirror(directory: Path, source: str, target: str, more: str) -> Iterator[None]:
    file = directory / "ours.properties"
    file.write_text(SETTINGS.format(source=source, target=target) + more)
    with subprocess.Popen([sys.executable, "-m", "pykafka_broker", "mirror", str(file)]) as process:
        try:
            yield
        finally:
            process.terminate()


def fill(source: str) -> None:
    admin = AdminClient({"bootstrap.servers": source})
    for made in admin.create_topics([NewTopic("mirrored", 2, 1, config=CONFIGS), NewTopic("other", 1, 1)]).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": source})
    for number in range(COUNT):
        headers: list[tuple[str, str | bytes | None]] = [("h", b"v"), ("n", None)]
        producer.produce("mirrored", b"%d" % number, b"key", 0, timestamp=T0 + number, headers=headers)
        assert producer.flush(60) == 0
    tool(source, "acls", "--add", "--allow-principal", "User:alice", "--topic", "mirrored", "--operation", "All")
    assert read(source, "mirrored", "readers", COUNT) == list(range(COUNT))


def tool(bootstrap: str, name: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "pykafka_broker", name, "--bootstrap-server", bootstrap, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=240).stdout


def records(bootstrap: str, topic: str, partition: int = 0) -> list[Any]:
    """Return all records that the partition has now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks", "isolation.level": "read_committed"})
    place = TopicPartition(topic, partition, 0)
    consumer.assign([place])
    _, end = consumer.get_watermark_offsets(place, 20)
    found, deadline = [], time.monotonic() + 20
    while time.monotonic() < deadline and consumer.position([place])[0].offset < end:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
    consumer.close()
    return found


def left_behind(source: str, target: str) -> dict[str, Any]:
    topics = AdminClient({"bootstrap.servers": target}).list_topics(timeout=60).topics
    kept = AdminClient({"bootstrap.servers": source}).list_topics(timeout=60).topics
    syncs = (read_offset_sync(each.key(), each.value()) for each in records(source, "mm2-offset-syncs.to.internal"))
    points = records(target, "from.checkpoints.internal")
    beats = records(target, "heartbeats")
    return {
        "topics": {each: len(topics[each].partitions) for each in topics if not each.startswith(("_", "mm2-"))},
        "own": sorted(each for each in kept if each.startswith("mm2-offset-syncs")),
        "configs": tool(target, "configs", "--describe", "--entity-type", "topics", "--entity-name", "from.mirrored"),
        "records": [(m.value(), m.key(), m.timestamp(), m.headers()) for m in records(target, "from.mirrored")],
        "syncs": {found[0] for found in syncs if found is not None},
        "checkpoint": (points[-1].key(), points[-1].value()),
        "heartbeat": beats[-1].key(),
        "acls": tool(target, "acls", "--list"),
    }


def committed(target: str) -> int:
    consumer = Consumer({"bootstrap.servers": target, "group.id": "readers"})
    (found,) = consumer.committed([TopicPartition("from.mirrored", 0)], 20)
    consumer.close()
    return int(found.offset)


def acl_and_heartbeat(source: str, target: str) -> tuple[bool, bool]:
    """Return whether the mirrored ACL is at the target, and the sync of the heartbeats' offsets at the source."""
    syncs = (read_offset_sync(each.key(), each.value()) for each in records(source, "mm2-offset-syncs.to.internal"))
    beats = [found for found in syncs if found is not None and found[0][0] == "heartbeats"]
    return "from.mirrored" in tool(target, "acls", "--list"), beats != []


def test_both_leave_behind_the_same(new_broker: NewBroker, tmp_path: Path) -> None:
    found = []
    config = {name.replace(".", "_"): text for name, text in ACLS.items()}
    for mirror in (our_mirror, mirror_maker):
        source, target = new_broker(**config).bootstrap_servers, new_broker(**config).bootstrap_servers
        fill(source)
        with mirror(tmp_path, source, target, MORE):
            eventually(partial(committed, target), COUNT, 150)
            eventually(partial(acl_and_heartbeat, source, target), (True, True), 60)
            found.append(left_behind(source, target))
    ours, theirs = found
    assert ours == theirs


def make_topics_and_groups(source: str) -> None:
    admin = AdminClient({"bootstrap.servers": source})
    for made in admin.create_topics([NewTopic(each, 1, 1) for each in TOPICS]).values():
        made.result(60)
    for group in GROUPS:
        consumer = Consumer({"bootstrap.servers": source, "group.id": group})
        consumer.commit(offsets=[TopicPartition("plain", 0, 0)], asynchronous=False)
        consumer.close()
    producer = Producer({"bootstrap.servers": source})
    producer.produce("plain", b"0", partition=0)
    assert producer.flush(60) == 0


def copied_topics(target: str, prefix: str) -> set[str]:
    """Return the topics of the target, without those of Kafka, of Connect and of the mirror itself."""
    topics = AdminClient({"bootstrap.servers": target}).list_topics(timeout=60).topics
    own = ("__", "mm2-offsets.from.", "mm2-configs.from.", "mm2-status.from.", "from.checkpoints.", "from-checkpoints-")
    of_the_other_flow = ("mm2-offsets.to.internal", "mm2-status.to.internal")
    others = {prefix + each for each in of_the_other_flow} if prefix == "from-" else set()
    return {each for each in topics if not each.startswith(own) and each != "heartbeats"} - others


def copied_groups(target: str) -> set[str]:
    return {*tool(target, "consumer-groups", "--list").split()} & {*GROUPS}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("mirror", [our_mirror, mirror_maker])
def test_the_same_topics_and_groups_go_over(mirror: Any, policy: Policy, new_broker: NewBroker, tmp_path: Path) -> None:
    source, target = new_broker().bootstrap_servers, new_broker().bootstrap_servers
    make_topics_and_groups(source)
    more = MORE + "from->to.topics = .*\nfrom->to.groups = .*\n" + policy.settings
    with mirror(tmp_path, source, target, more):
        eventually(partial(copied_topics, target, policy.prefix), copies(policy), 150)
        eventually(partial(copied_groups, target), {*GROUPS} - {*policy.groups.split()}, 60)
        assert copied_topics(target, policy.prefix) == copies(policy)
