"""Twenty thousand partitions in a broker that may have 4096 files open: made, written, read, and found again. Where
there is room they are in memory, since no power is cut here, and a disk takes a minute to remove that many files.
"""

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop.answers.requests import BY_NAME, create, fetch, new_topic
from interop.batches import batch, records
from interop.raw import RawClient
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchTopic
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.testing import KafkaBroker

pytestmark = pytest.mark.ours_only

OPEN_FILES = 4096
TOPICS = [f"many-{number}" for number in range(20)]
PARTITIONS = 1000
WRITTEN = range(0, PARTITIONS, 5)  # the partitions of every topic that are written to: 4,000 in all
AT_ONCE = 100
PATIENCE_S = 120
IN_MEMORY = Path("/dev/shm")
ROOM_BYTES = 1 << 30


@contextmanager
def few_files() -> Iterator[None]:
    """Limit the open files of processes that are started within the block, as `ulimit -n` does."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def roomy() -> Path | None:
    """Return a folder in memory for the broker's files; None, the usual place, where memory has too little room."""
    return IN_MEMORY if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > ROOM_BYTES else None


def start(broker: KafkaBroker) -> None:
    with few_files():
        broker.start()
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))


def open_files(broker: KafkaBroker) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def make_topics(client: RawClient) -> None:
    for topic in TOPICS:
        answer = client.call(create(new_topic(topic, PARTITIONS)), 7)
        assert answer.topics[0].error_code == 0


def count_partitions(client: RawClient) -> int:
    asked = MetadataRequest([MetadataRequestTopic(name=topic) for topic in TOPICS], False)
    return sum(
        partition.leader_id == 1 for topic in client.call(asked, BY_NAME).topics for partition in topic.partitions
    )


def portions() -> Iterator[range]:
    """Yield the partitions that one request asks for, of all that are written to."""
    return (WRITTEN[start : start + AT_ONCE] for start in range(0, len(WRITTEN), AT_ONCE))


def value_of(topic: str, partition: int, turn: int) -> bytes:
    return f"{topic} {partition} {turn}".encode()


def write(client: RawClient, turn: int) -> None:
    for topic in TOPICS:
        for some in portions():
            data = [PartitionProduceData(number, batch(value_of(topic, number, turn))) for number in some]
            answer = client.call(ProduceRequest(None, -1, 30_000, [TopicProduceData(topic, partition_data=data)]), 9)
            assert {each.error_code for each in answer.responses[0].partition_responses} == {0}


def check(client: RawClient, turns: int) -> None:
    """Check that every partition that is written to has one record of each turn."""
    for topic in TOPICS:
        for some in portions():
            asked = [FetchPartition(number, fetch_offset=0, partition_max_bytes=10_000) for number in some]
            answer = client.call(fetch([FetchTopic(topic, partitions=asked)], max_bytes=1 << 30), BY_NAME)
            for found in answer.responses[0].partitions:
                expected = [value_of(topic, found.partition_index, turn) for turn in range(turns)]
                assert [record.value for record in records(found.records)] == expected


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    with tempfile.TemporaryDirectory(dir=roomy()) as directory:
        broker = KafkaBroker(start_timeout_s=PATIENCE_S, data_dir=directory)
        try:
            yield broker
        finally:
            broker.close()


def test_twenty_thousand_partitions(broker: KafkaBroker) -> None:
    for turns, end in enumerate(("stop", "kill", "stop"), start=1):
        start(broker)
        with RawClient(broker.bootstrap_servers, PATIENCE_S) as client:
            if turns == 1:
                make_topics(client)
            assert count_partitions(client) == len(TOPICS) * PARTITIONS
            check(client, turns - 1)
            write(client, turns - 1)
            check(client, turns)
        assert open_files(broker) < OPEN_FILES
        broker.kill() if end == "kill" else broker.stop(PATIENCE_S)
    assert "Too many open files" not in broker.log
