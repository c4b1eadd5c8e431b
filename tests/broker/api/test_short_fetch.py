"""The short way of Fetch beside the general way, on two brokers that are asked the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.log.filesystem import OsFile
from pykafka_broker.log.partition_log import Origin
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from pykafka_broker.protocol.messages.fetch_response import FetchResponse
from pykafka_broker.protocol.stored.remove_topic_record import RemoveTopicRecord
from tests.broker.api.test_short_produce import batch
from tests.broker.frames import framed
from tests.broker.support import ANOTHER_NODE, LightBroker
from tests.broker.twins import Twins
from tests.log.support import marker

VERSIONS = range(4, 19)
NO_SESSION = (0, -1)
WAIT_MS = 500
UNKNOWN_ID = b"\7" * 16
LONG_NAME = "long" * 62  # the longest that Kafka lets a topic have is 249


class World(Twins):
    """Twins whose topics have ten batches in each partition, a few of them aborted in one."""

    def __init__(self, directory: Path, **config: str) -> None:
        super().__init__(directory, **config)
        made: dict[str, dict[str, Any]] = {
            "plain": {"partitions": 2},
            "idle": {},
            LONG_NAME: {},
            "aborted": {},
            "rolled": {"segment_bytes": "1048576", "segment_index_bytes": "16", "index_interval_bytes": "0"},
            "elsewhere": {"leader": ANOTHER_NODE, "replicas": (1, 2), "isr": (1, 2)},
        }
        self.ids = {name: self.add(name, **made[name]) for name in made}
        self.session = NO_SESSION  # the next request of the client's session
        for broker in self.both:
            for topic, index in (("plain", 0), ("plain", 1), ("rolled", 0)):
                for count in range(10):
                    broker.partition(topic, index).append(batch(count % 3 + 1), broker.now)
            transaction: dict[str, Any] = {
                "transactional": True,
                "producer_id": 5,
                "producer_epoch": 0,
                "base_sequence": 0,
            }
            broker.partition("aborted", 0).append(batch(2, **transaction), broker.now)
            self._abort(broker)
            broker.partition("aborted", 0).append(batch(2), broker.now)
            open_one: dict[str, Any] = {
                "transactional": True,
                "producer_id": 6,
                "producer_epoch": 0,
                "base_sequence": 0,
            }
            broker.partition("aborted", 0).append(batch(2, **open_one), broker.now)
            broker.partition("idle", 0)

    @staticmethod
    def _abort(broker: LightBroker) -> None:
        broker.partition("aborted", 0).append(marker(5, 0, commit=False), broker.now, origin=Origin.COORDINATOR)

    def append(self, topic: str, index: int = 0) -> list[bytes]:
        for broker in self.both:
            broker.partition(topic, index).append(batch(), broker.now)
        return self.settle()

    def request(
        self, *asked: tuple[str, int, int], version: int, session: tuple[int, int] = NO_SESSION, **fields: Any
    ) -> FetchRequest:
        partition = {"partition_max_bytes": 1 << 20, "current_leader_epoch": -1} | {
            key: fields.pop(key)
            for key in ("partition_max_bytes", "current_leader_epoch", "last_fetched_epoch")
            if key in fields
        }
        if version < 9:
            partition.pop("current_leader_epoch")
        if version < 12:
            partition.pop("last_fetched_epoch", None)
        topics = []
        for topic, index, offset in asked:
            named = FetchTopic(partitions=[FetchPartition(index, fetch_offset=offset, **partition)])
            if version >= 13:
                named.topic_id = self.ids.get(topic, UNKNOWN_ID)
            else:
                named.topic = topic
            topics.append(named)
        request = FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=1 << 20, topics=topics)
        if version >= 7:
            request.session_id, request.session_epoch = session
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def fetch(self, *asked: tuple[str, int, int], version: int = 17, **fields: Any) -> bytes | None:
        return self.ask(framed(self.request(*asked, version=version, **fields), version))

    def begin(self, *asked: tuple[str, int, int], version: int = 17) -> int:
        """Begin a session; return its id."""
        answer = self.fetch(*asked, version=version, session=(0, 0), max_wait_ms=0)
        assert answer is not None
        return FetchResponse.decode(answer[8 + (version >= 12) :], version).session_id

    def took(self) -> tuple[int, int]:
        return self.ways(ApiKey.FETCH)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.wait(2 * WAIT_MS)
    world.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_records_that_are_there_go_the_short_way(world: World, version: int) -> None:
    for offset in (0, 1, 5, 17):
        for isolation in (0, 1):
            assert world.fetch(("plain", 0, offset), version=version, isolation_level=isolation)
            assert world.fetch(("rolled", 0, offset), version=version, isolation_level=isolation)
    assert world.took() == (16, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_at_the_end_waits_in_the_short_way(world: World, version: int) -> None:
    before = world.took()
    for isolation in (0, 1):
        assert world.fetch(("idle", 0, isolation), version=version, isolation_level=isolation) is None
        (answer,) = world.append("idle")
        assert len(answer) > 60
    assert world.fetch(("idle", 0, 2), version=version) is None
    assert len(world.wait(WAIT_MS)) == 1
    assert world.fetch(("idle", 0, 2), version=version) is None
    assert len(world.hurry()) == 1
    assert world.took() == (before[0] + 4, before[1])


@pytest.mark.parametrize("version", range(7, 19))
def test_a_session_of_one_partition_goes_the_short_way_after_its_first_request(world: World, version: int) -> None:
    session = world.begin(("idle", 0, 0), version=version)
    before = world.took()
    for epoch in range(1, 6):
        world.fetch(("idle", 0, epoch - 1), version=version, session=(session, epoch))
        assert len(world.append("idle")) == 1
    world.fetch(version=version, session=(session, 6))  # nothing has changed: the last offset once more
    world.fetch(version=version, session=(session, 7), isolation_level=1)
    world.fetch(("idle", 0, 5), version=version, session=(session, 8))
    assert len(world.wait(WAIT_MS)) == 1
    assert world.took() == (before[0] + 8, before[1])
    world.fetch(version=version, session=(session, 3))  # an epoch that is over
    world.fetch(version=version, session=(session + 1, 9))
    world.fetch(("plain", 0, 0), version=version, session=(session, 9))  # a second partition
    world.fetch(version=version, session=(session, 10))
    assert world.took() == (before[0] + 8, before[1] + 4)


@pytest.mark.parametrize("version", range(7, 19))
def test_a_session_is_told_of_news_of_a_topic_with_a_long_name(world: World, version: int) -> None:
    """The request that begins the session goes the general way; those after it need not name the topic."""
    session = world.begin((LONG_NAME, 0, 0), version=version)
    assert world.fetch(version=version, session=(session, 1)) is None
    (answer,) = world.append(LONG_NAME)
    (topic,) = FetchResponse.decode(answer[8 + (version >= 12) :], version).responses
    assert (topic.topic, topic.partitions[0].error_code) == (LONG_NAME if version < 13 else "", 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_that_does_not_wait_goes_the_short_way(world: World, version: int) -> None:
    before, asked = world.took(), 0
    for fields in ({"max_wait_ms": 0}, {"max_wait_ms": -1}, {"min_bytes": 0}, {"max_wait_ms": 0, "min_bytes": 100}):
        for isolation in (0, 1):
            assert world.fetch(("idle", 0, 0), version=version, isolation_level=isolation, **fields)
            asked += 1
    assert world.took() == (before[0] + asked, before[1])


@pytest.mark.parametrize("version", range(7, 19))
def test_a_session_that_does_not_wait_is_told_of_news_alone(world: World, version: int) -> None:
    session = world.begin(("idle", 0, 0), version=version)
    before = world.took()
    sizes = []
    for epoch in range(1, 7):
        if epoch == 3:
            world.append("idle")  # the records are read behind their end: the high watermark is the news
        named = [("idle", 0, 1)] if epoch == 3 else []
        answer = world.fetch(
            *named, version=version, session=(session, epoch), max_wait_ms=0, isolation_level=epoch % 2
        )
        assert answer is not None
        sizes.append(len(answer))
    assert len(set(sizes[:2] + sizes[3:])) == 1
    assert sizes[2] > sizes[0]
    assert world.took() == (before[0] + 6, before[1])


@pytest.mark.parametrize("version", range(12, 19))
def test_a_consumer_that_names_the_epoch_of_its_last_record_goes_the_short_way(world: World, version: int) -> None:
    assert world.fetch(("plain", 0, 3), version=version, last_fetched_epoch=0)
    assert world.fetch(("idle", 0, 0), version=version, last_fetched_epoch=0) is None
    assert len(world.append("idle")) == 1
    assert world.took() == (2, 0)


def test_a_session_that_another_connection_changes_meanwhile(world: World) -> None:
    session = world.begin(("idle", 0, 0))
    assert world.fetch(session=(session, 1)) is None
    assert world.fetch(("plain", 0, 3), session=(session, 2)) is not None
    assert len(world.append("idle")) == 1
    assert world.fetch(session=(session, 3)) is not None


def test_what_happens_to_a_partition_meanwhile_ends_the_wait_alike(world: World) -> None:
    for change in ({"leader": ANOTHER_NODE}, {"leader": 1}):
        for version in (11, 17):
            world.fetch(("idle", 0, 0), version=version)
        for broker in world.both:
            broker.change("idle", isr=[1, 2], replicas=[1, 2], **change)
        world.settle()
        world.fetch(("idle", 0, 0))
        world.wait(WAIT_MS)
    world.fetch(("idle", 0, 0))
    for broker in world.both:
        broker.commit_metadata([ApiMessageAndVersion(RemoveTopicRecord(world.ids["idle"]), 0)])
    (answer,) = world.settle()
    told = FetchResponse.decode(answer[9:], 17).responses[0].partitions[0]
    assert told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_older_epoch_of_the_leader_is_refused_alike(world: World) -> None:
    world.fetch(("plain", 0, 0), current_leader_epoch=0)
    for broker in world.both:
        for leader in (ANOTHER_NODE, 1):
            broker.change("plain", leader=leader, isr=[1, 2], replicas=[1, 2])
    for epoch in range(-1, 5):
        world.fetch(("plain", 0, 0), current_leader_epoch=epoch)
        world.fetch(("plain", 0, 20), current_leader_epoch=epoch)
    assert world.took()[1] >= 8


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_unusual_goes_the_general_way(world: World, version: int) -> None:
    before = world.took()
    unusual: list[tuple[list[tuple[str, int, int]], dict[str, Any]]] = [
        ([("plain", 0, 0), ("plain", 1, 0)], {}),
        ([], {}),
        ([("plain", 0, 400)], {}),
        ([("plain", 0, -1)], {}),
        ([("plain", 7, 0)], {}),
        ([("missing", 0, 0)], {}),
        ([("elsewhere", 0, 0)], {}),
        ([("aborted", 0, 0)], {"isolation_level": 1}),
        ([("plain", 0, 0)], {"isolation_level": 2}),
        ([("plain", 0, 0)], {"max_bytes": 0}),
        ([("idle", 0, 0)], {"min_bytes": 100}),
        ([("plain", 0, 17)], {"min_bytes": 10_000}),
    ]
    if version >= 9:
        unusual += [([("plain", 0, 0)], {"current_leader_epoch": epoch}) for epoch in (1, 9)]
    if version < 15:
        unusual.append(([("plain", 0, 0)], {"replica_id": 2}))
    if version >= 12:
        unusual += [([("plain", 0, 0)], {"last_fetched_epoch": 1}), ([("plain", 0, 400)], {"last_fetched_epoch": 0})]
    if version >= 11:
        unusual.append(([("plain", 0, 0)], {"rack_id": "here"}))
    for asked, fields in unusual:
        world.fetch(*asked, version=version, **fields)
        world.wait(WAIT_MS)
    assert world.took() == (before[0], before[1] + len(unusual))


@pytest.mark.parametrize("version", [7, 13, 17])
def test_a_second_partition_and_the_end_of_a_session_go_the_general_way(world: World, version: int) -> None:
    several, ended = (world.begin(("plain", 0, 0), version=version) for _ in range(2))
    before = world.took()
    world.fetch(("plain", 1, 0), version=version, session=(several, 1))
    world.fetch(version=version, session=(several, 2))
    world.fetch(("plain", 0, 0), version=version, session=(ended, -1))
    world.fetch(version=version, session=(ended, 1))
    assert world.took() == (before[0], before[1] + 4)


def test_the_brokers_limit_of_bytes_is_kept_alike(tmp_path: Path) -> None:
    world = World(tmp_path, fetch_max_bytes="1024")
    for _ in range(20):
        world.append("plain")
    answer = world.fetch(("plain", 0, 0))
    assert answer is not None
    assert len(answer) < 1200
    assert world.took() == (1, 0)
    world.stop()


def test_open_transactions_hide_records_from_some(world: World) -> None:
    for offset in range(8):
        for isolation in (0, 1):
            world.fetch(("aborted", 0, offset), isolation_level=isolation)
            world.wait(WAIT_MS)


@pytest.mark.parametrize("most", [1, 70, 200, 1 << 20])
def test_limits_of_bytes_are_kept_alike(world: World, most: int) -> None:
    for version in (4, 11, 17):
        for offset in range(0, 20, 3):
            world.fetch(("plain", 0, offset), version=version, partition_max_bytes=most)
            world.fetch(("plain", 0, offset), version=version, max_bytes=most, min_bytes=most)
            world.wait(WAIT_MS)


def test_long_answers_leave_from_the_file(world: World) -> None:
    for broker in world.both:
        for _ in range(20):
            broker.partition("plain", 0).append(batch(300), broker.now)
    for version in (4, 17):
        answer = world.fetch(("plain", 0, 0), version=version)
        assert answer is not None
        assert len(answer) > 64 << 10


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_every_beginning_of_a_request_and_every_changed_byte_is_taken_alike(world: World, version: int) -> None:
    frame = bytes(framed(world.request(("plain", 0, 3), version=version, max_wait_ms=3), version, "client"))
    for end in range(8, len(frame)):
        world.ask(frame[:end])
    for at in range(8, len(frame)):
        for change in (0x01, 0x80):
            world.ask(frame[:at] + bytes((frame[at] ^ change,)) + frame[at + 1 :])
            world.hurry()
    world.ask(frame + b"\0")


def test_a_disk_that_fails_is_told_alike(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(OsFile, "read_at", fail)
        for version in (4, 11, 17):
            for offset in (0, 4, 20):
                world.fetch(("plain", 0, offset), version=version)
        world.wait(WAIT_MS)


# -- drawn requests


@dataclasses.dataclass
class Drawn:
    """A fetch with at most a few unusual fields, in the client's session or without."""

    version: int
    asked: list[tuple[str, int, int]]
    in_session: bool
    fields: dict[str, Any]
    forgets: bool
    appends: bool
    then_ms: int

    def play(self, world: World, sessions: dict[int, tuple[int, int]]) -> None:
        fields, session = dict(self.fields), NO_SESSION
        if self.in_session and self.version >= 7:
            session = sessions.get(self.version, (0, 0))
            if self.forgets:
                by_id = self.version >= 13
                topic = {"topic_id": world.ids["plain"]} if by_id else {"topic": "plain"}
                fields["forgotten_topics_data"] = [ForgottenTopic(partitions=[0], **topic)]
        answer = world.fetch(*self.asked, version=self.version, session=session, **fields)
        told = [answer] if answer else []
        if self.appends:
            told += world.append("idle")
        told += world.wait(self.then_ms)
        told += world.hurry()
        if session[1] == 0 and told and self.in_session and self.version >= 7:
            response = FetchResponse.decode(told[0][8 + (self.version >= 12) :], self.version)
            sessions[self.version] = response.session_id, 1
        elif session != NO_SESSION:
            sessions[self.version] = session[0], session[1] + 1


places = st.tuples(
    st.sampled_from(["plain", "plain", "idle", "idle", "aborted", "rolled", "elsewhere", "missing"]),
    st.sampled_from([0, 0, 0, 1, 3]),
    st.sampled_from([0, 0, 1, 2, 5, 19, 20, 30, -1]),
)
drawn = st.builds(
    Drawn,
    version=st.sampled_from([4, 6, 7, 11, 12, 13, 15, 17, 17, 18]),
    asked=st.one_of(st.lists(places, min_size=1, max_size=1), st.lists(places, max_size=3)),
    in_session=st.booleans(),
    fields=st.one_of(
        st.just({}),
        st.fixed_dictionaries(
            {},
            optional={
                "isolation_level": st.sampled_from([0, 1, 1, 2]),
                "min_bytes": st.sampled_from([0, 1, 1, 60, 10_000]),
                "max_bytes": st.sampled_from([-1, 0, 1, 100, 1 << 20]),
                "max_wait_ms": st.sampled_from([-1, 0, 1, 400]),
                "partition_max_bytes": st.sampled_from([0, 1, 100, 1 << 20]),
                "current_leader_epoch": st.sampled_from([-5, -1, 0, 1]),
                "last_fetched_epoch": st.sampled_from([-1, 0, 0, 1]),
            },
        ),
    ),
    forgets=st.sampled_from([False, False, False, True]),
    appends=st.booleans(),
    then_ms=st.sampled_from([0, 0, 100, 600]),
)


@given(st.lists(drawn, min_size=1, max_size=10))
def test_drawn_requests_are_answered_alike(tmp_path_factory: pytest.TempPathFactory, requests: list[Drawn]) -> None:
    world = World(tmp_path_factory.mktemp("twins"))
    sessions: dict[int, tuple[int, int]] = {}
    for request in requests:
        request.play(world, sessions)
    world.wait(2 * WAIT_MS)
    world.stop()
