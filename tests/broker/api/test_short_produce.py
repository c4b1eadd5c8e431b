"""The short way of Produce beside the general way, on two brokers that are asked the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import ProduceResponse
from pykafka_broker.protocol.stored.client_quota_record import ClientQuotaRecord, EntityData
from pykafka_broker.records.builder import BatchBuilder
from tests.broker.frames import framed, joined
from tests.broker.produced.kinds import TOPICS, kinds
from tests.broker.support import ANOTHER_NODE, NOW, LightBroker
from tests.broker.twins import CONNECTION, Twins

VERSIONS = range(3, 14)
ALL, ONE, NONE = -1, 1, 0


def batch(count: int = 1, *, timestamp: int = NOW, key: bytes | None = b"k", **options: Any) -> bytearray:
    builder = BatchBuilder(**options)
    for number in range(count):
        builder.append(key, b"value %d" % number, timestamp)
    return bytearray(builder.build())


class World(Twins):
    """Twins with a topic for each rule that a produce may meet."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        made: dict[str, dict[str, Any]] = {
            "plain": {"partitions": 2},
            "compacted": {"cleanup_policy": "compact"},
            "stamped": {"message_timestamp_type": "LogAppendTime"},
            "zipped": {"compression_type": "gzip"},
            "narrow": {"max_message_bytes": "100", "segment_bytes": "1048576"},
            "rolling": {"segment_bytes": "1048576", "segment_index_bytes": "16", "index_interval_bytes": "0"},
            "synced": {"flush_messages": "1"},
            "twice": {"min_insync_replicas": "2"},
            "elsewhere": {"leader": ANOTHER_NODE, "replicas": (1, 2), "isr": (1, 2)},
            "followed": {"replicas": (1, 2), "isr": (1, 2)},
            "__consumer_offsets": {},
        }
        self.ids = {name: self.add(name, **made[name]) for name in made}

    def request(self, *asked: tuple[str, int, Any], version: int, acks: int = ALL, **fields: Any) -> ProduceRequest:
        topics = [
            TopicProduceData(
                "" if version >= 13 else topic,
                self.ids.get(topic, b"\7" * 16) if version >= 13 else bytes(16),
                [PartitionProduceData(index, data)],
            )
            for topic, index, data in asked
        ]
        return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics, **fields)

    def produce(self, *asked: tuple[str, int, Any], version: int = 13, acks: int = ALL, **fields: Any) -> bytes | None:
        return self.ask(framed(self.request(*asked, version=version, acks=acks, **fields), version))

    def took(self) -> tuple[int, int]:
        return self.ways(ApiKey.PRODUCE)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    for topic in world.ids:  # an open partition is a condition of the short way
        world.produce((topic, 0, batch()))
    yield world
    world.stop()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [ALL, ONE, NONE])
def test_a_plain_batch_goes_the_short_way(world: World, version: int, acks: int) -> None:
    before = world.took()
    for count in (1, 2, 50):
        answer = world.produce(("plain", 0, batch(count)), version=version, acks=acks)
        assert (answer is None) == (acks == NONE)
    assert world.took() == (before[0] + 3, before[1])
    if acks and answer:
        body = answer[8 + (version >= 9) :]
        assert ProduceResponse.decode(body, version).responses[0].partition_responses[0].base_offset == 4


def test_an_idempotent_producer_goes_the_short_way_until_the_end(world: World) -> None:
    _, general = world.took()
    sequences = [(0, 0), (0, 1), (0, 2), (0, 2), (0, 0), (0, 7), (1, 3), (1, 0), (0, 3), (1, 1), (32767, 0)]
    for epoch, sequence in sequences:  # duplicates, gaps, new and old epochs
        for acks in (ALL, NONE):
            world.produce(("plain", 1, batch(producer_id=5, producer_epoch=epoch, base_sequence=sequence)), acks=acks)
    assert world.took()[1] == general + 1  # the one that opened the partition


@pytest.mark.parametrize(
    ("topic", "changes"),
    [
        ("compacted", {"key": None}),
        ("stamped", {}),
        ("narrow", {"count": 9}),
        ("rolling", {}),
        ("plain", {"timestamp": NOW + (1 << 40)}),
        ("plain", {"timestamp": -1}),
        ("plain", {"timestamp": 5}),
        ("plain", {"count": 3000}),
    ],
)
def test_records_are_judged_by_the_topic(world: World, topic: str, changes: dict[str, Any]) -> None:
    for _ in range(30):
        world.produce((topic, 0, batch(**changes)))


@pytest.mark.parametrize(
    ("topic", "changes"),
    [
        ("plain", {"codec": 1}),
        ("plain", {"transactional": True, "producer_id": 5, "producer_epoch": 0, "base_sequence": 0}),
        ("plain", {"control": True}),
        ("zipped", {}),
        ("synced", {}),
        ("elsewhere", {}),
        ("followed", {}),
        ("__consumer_offsets", {}),
        ("missing", {}),
    ],
)
def test_what_is_unusual_goes_the_general_way(world: World, topic: str, changes: dict[str, Any]) -> None:
    before = world.took()
    for version in (9, 13):
        world.produce((topic, 0, batch(**changes)), version=version)
    world.wait(2000)
    assert world.took() == (before[0], before[1] + 2)


@pytest.mark.parametrize("acks", [-2, 2])
def test_unknown_acks_go_the_general_way(world: World, acks: int) -> None:
    before = world.took()
    world.produce(("plain", 0, batch()), acks=acks)
    assert world.took() == (before[0], before[1] + 1)


def test_a_leader_with_followers_answers_acks_1_in_the_short_way(world: World) -> None:
    before = world.took()
    world.produce(("followed", 0, batch()), acks=ONE)
    assert world.took()[0] == before[0] + 1


def test_two_partitions_or_topics_go_the_general_way(world: World) -> None:
    before = world.took()
    for version in VERSIONS:
        world.produce(("plain", 0, batch()), ("compacted", 0, batch()), version=version)
        request = world.request(("plain", 0, batch()), version=version)
        request.topic_data[0].partition_data.append(PartitionProduceData(1, batch()))
        world.ask(framed(request, version))
    assert world.took() == (before[0], before[1] + 2 * len(VERSIONS))


@pytest.mark.parametrize("version", [3, 9, 13])
def test_every_beginning_of_a_request_and_every_changed_byte_is_taken_alike(world: World, version: int) -> None:
    data = batch(2, producer_id=5, producer_epoch=0, base_sequence=0)
    frame = bytes(framed(world.request(("plain", 0, data), version=version), version, "client"))
    for end in range(8, len(frame)):
        world.ask(frame[:end])
    for at in range(8, len(frame)):
        for change in (0x01, 0x80):
            world.ask(frame[:at] + bytes((frame[at] ^ change,)) + frame[at + 1 :])
    world.ask(frame + b"\0")
    world.wait(2000)


def test_a_disk_that_fails_is_told_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    world.produce(("plain", 0, batch()))
    world.produce(("plain", 1, batch()))

    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    for broker in world.both:
        handle = broker.partition("plain", 0).log.segments.active.log.handle()
        monkeypatch.setattr(type(handle), "write_at", fail)
    _, general = world.took()
    for version in (3, 9, 13):
        for acks in (ALL, ONE, NONE):
            world.produce(("plain", 0, batch()), version=version, acks=acks)
    assert world.took()[1] < general + 9
    world.compare()


# -- where no short way is tried


def one_produce(broker: LightBroker) -> bytes:
    broker.add("plain")
    broker.partition("plain", 0)
    topic = TopicProduceData("plain", partition_data=[PartitionProduceData(0, batch())])
    pieces = broker.router.dispatch(CONNECTION, framed(ProduceRequest(None, ONE, 1000, [topic]), 9))
    assert isinstance(pieces, list)
    return joined(pieces)


@pytest.mark.parametrize(
    ("config", "ways"),
    [
        ({}, (1, 0)),
        (
            {
                "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super_users": "User:ANONYMOUS",
            },
            (0, 1),
        ),
        ({"pykafka_emulate": "2.8"}, None),
    ],
)
def test_an_authorizer_or_another_release_keeps_to_the_general_way(
    tmp_path: Path, config: dict[str, str], ways: tuple[int, int] | None
) -> None:
    broker = LightBroker(tmp_path, **config)
    one_produce(broker)
    assert broker.router.ways().get(ApiKey.PRODUCE) == ways
    broker.stop(broker.now)


def test_a_quota_keeps_to_the_general_way(tmp_path: Path) -> None:
    broker = LightBroker(tmp_path)
    entity = [EntityData("user", None)]
    quota = ClientQuotaRecord(entity, "producer_byte_rate", 1e9)
    broker.commit_metadata([ApiMessageAndVersion(quota, 0)])
    one_produce(broker)
    assert broker.router.ways()[ApiKey.PRODUCE] == (0, 1)
    broker.stop(broker.now)


def test_a_defect_of_the_short_way_is_answered_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = LightBroker(tmp_path)
    monkeypatch.setattr(Partition, "append", lambda *args, **options: 1 / 0)
    answer = ProduceResponse.decode(one_produce(broker)[9:], 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a defect while serving PRODUCE" in caplog.text


# -- drawn requests

TOPIC_NAMES = ("plain", "plain", "plain", "compacted", "stamped", "zipped", "narrow", "rolling", "synced", "twice",
               "elsewhere", "followed", "__consumer_offsets", "missing")  # fmt: skip


@dataclasses.dataclass
class Drawn:
    """A produce with at most a few unusual fields."""

    version: int
    topic: str
    index: int
    acks: int
    count: int
    producer: tuple[int, int, int]
    options: dict[str, Any]
    fields: dict[str, Any]
    tail: bytes

    def play(self, world: World) -> None:
        producer_id, epoch, sequence = self.producer
        data = batch(self.count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **self.options)
        asked = (self.topic, self.index, bytes(data) + self.tail)
        world.produce(asked, version=self.version, acks=self.acks, **self.fields)


NO_PRODUCER = (-1, -1, -1)
drawn = st.builds(
    Drawn,
    version=st.sampled_from([3, 5, 7, 8, 9, 10, 12, 13, 13, 13]),
    topic=st.sampled_from(TOPIC_NAMES),
    index=st.sampled_from([0, 0, 0, 1, 2, -1]),
    acks=st.sampled_from([ALL, ALL, ONE, NONE, 2]),
    count=st.sampled_from([1, 1, 2, 40]),
    producer=st.one_of(
        st.just(NO_PRODUCER),
        st.tuples(st.integers(1, 2), st.integers(0, 1), st.integers(0, 4)),
        st.tuples(st.just(3), st.sampled_from([-1, 0]), st.sampled_from([-1, 0])),
    ),
    options=st.one_of(
        st.just({}),
        st.just({}),
        st.fixed_dictionaries(
            {},
            optional={
                "codec": st.sampled_from([0, 1, 4]),
                "transactional": st.booleans(),
                "control": st.booleans(),
                "log_append_time": st.sampled_from([NOW, -1]),
                "base_offset": st.sampled_from([0, 1]),
                "timestamp": st.sampled_from([NOW, -1, NOW + (1 << 40), 0]),
                "key": st.sampled_from([b"k", b"", None]),
            },
        ),
    ),
    fields=st.one_of(st.just({}), st.just({}), st.just({"transactional_id": "x"})),
    tail=st.sampled_from([b"", b"", b"", b"\0", bytes(70)]),
)


@given(st.lists(drawn, min_size=1, max_size=12), st.integers(0, 400))
def test_drawn_requests_are_answered_alike(
    tmp_path_factory: pytest.TempPathFactory, requests: list[Drawn], pause_ms: int
) -> None:
    world = World(tmp_path_factory.mktemp("twins"))
    for request in requests:
        request.play(world)
        world.wait(pause_ms)
    world.wait(2000)
    world.stop()


# -- recorded requests


@pytest.mark.whole
def test_every_batch_that_kafka_was_asked_about_is_taken_alike(tmp_path: Path) -> None:
    world = Twins(tmp_path)
    topics = {
        name: {key.replace(".", "_"): value for key, value in configs.items()} for name, configs in TOPICS.items()
    }
    for name, configs in topics.items():
        world.add(name, **configs)
    for kind in kinds():
        for version in (7, 12):
            data = TopicProduceData(kind.topic, partition_data=[PartitionProduceData(0, kind.data)])
            world.ask(framed(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data]), version))
    short, general = world.ways(ApiKey.PRODUCE)
    assert short > 50
    assert general > 100
    world.stop()
