"""The short way of OffsetCommit beside the general way, on two brokers that are asked the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.broker.coordinators.coordinator_log import read_batches
from pykafka_broker.broker.requests.encoded_reply import UnwrittenReply
from pykafka_broker.log.filesystem import OsFile
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from pykafka_broker.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.join_group_response import JoinGroupResponse
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_commit_response import OffsetCommitResponse
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from pykafka_broker.protocol.messages.response_header import ResponseHeader
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from pykafka_broker.protocol.runtime import Message
from tests.broker.frames import framed, joined
from tests.broker.twins import CONNECTION, Twins

VERSIONS = range(5, 11)
BY_ID = 10
CLASSIC_VERSION = 4


class World(Twins):
    """Twins that coordinate groups; of topic `gone` there is nothing, not even an id that was once one."""

    def __init__(self, directory: Path, **offsets: Any) -> None:
        super().__init__(directory)
        self.ids = {name: self.add(name, partitions=2) for name in ("plain", "other")}
        self.ids["gone"] = b"\7" * 16
        self.add("__consumer_offsets", partitions=3, cleanup_policy="compact", **offsets)

    def request(
        self, *places: tuple[str, int], version: int, group: str = "g", epoch: int = -1, member: str = "", **fields: Any
    ) -> OffsetCommitRequest:
        """Return a request for these partitions. fields: of the whole, and `offset`, `leader_epoch` and `metadata`."""
        told = fields.pop("offset", 7), fields.pop("leader_epoch", -1), -1, fields.pop("metadata", "")
        topics = [
            OffsetCommitRequestTopic(
                "" if version >= BY_ID else topic,
                self.ids[topic] if version >= BY_ID else bytes(16),
                [OffsetCommitRequestPartition(index, *told)],
            )
            for topic, index in places
        ]
        return OffsetCommitRequest(group, epoch, member, topics=topics, **fields)

    def commit(self, *places: tuple[str, int], version: int = 9, **fields: Any) -> int | None:
        """Return the error code of the last partition, None without an answer."""
        answer = self.ask(framed(self.request(*places, version=version, **fields), version))
        return (
            None
            if answer is None
            else decoded(OffsetCommitResponse, answer, version).topics[-1].partitions[-1].error_code
        )

    def offsets(self, *groups: str) -> bytes | None:
        """Return what both know of the groups."""
        asked = [OffsetFetchRequestGroup(group, topics=None) for group in groups]
        return self.ask(framed(OffsetFetchRequest(groups=asked), 9))

    def took(self) -> tuple[int, int]:
        return self.ways(ApiKey.OFFSET_COMMIT)

    def classic_member(self, group: str) -> tuple[str, int]:
        """Return the id and the generation of the member that makes the group."""
        request = JoinGroupRequest(
            group, 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
        )
        self.ask(framed(request, 3))
        (answer,) = self.wait(5_000)
        joined = decoded(JoinGroupResponse, answer, 3)
        synced = SyncGroupRequest(
            group,
            joined.generation_id,
            joined.member_id,
            assignments=[SyncGroupRequestAssignment(joined.member_id, b"")],
        )
        self.ask(framed(synced, 2))
        return joined.member_id, joined.generation_id

    def consumer(self, group: str, epoch: int = 0, owned: list[TopicPartitions] | None = None) -> Any:
        """Return the answer to a heartbeat of the group's one member."""
        subscribed = ["plain"] if not epoch else None
        request = ConsumerGroupHeartbeatRequest(
            group, "m", epoch, None, None, -1 if epoch else 60_000, subscribed, None, None, owned if epoch else []
        )
        answer = self.ask(framed(request, 1))
        assert answer is not None
        return decoded(ConsumerGroupHeartbeatResponse, answer, 1)


def decoded(kind: type[Message], answer: bytes, version: int) -> Any:
    header = SPECS[ApiKey(kind.API_KEY)].response_header_version(version)
    _, body = ResponseHeader.read(answer, 4, header)
    return kind.decode(answer[body:], version)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    assert world.commit(("plain", 0)) == ErrorCode.NONE  # the first one makes the coordinator
    yield world
    world.stop()


def test_a_plain_commit_goes_the_short_way(world: World) -> None:
    for group in ("g0", "g1"):  # the first one opens the coordinator's log
        world.commit(("plain", 0), group=group)
    before = world.took()
    for version in VERSIONS:
        for offset in (0, 8, 9):
            told = {
                "leader_epoch": -1 if version < 6 else offset,
                "metadata": "x" * offset,
                "member": "m" * (offset % 2),
            }
            group = f"g{offset % 2}"
            assert world.commit(("plain", 1), version=version, group=group, offset=offset, **told) == ErrorCode.NONE
        world.offsets("g", "g0", "g1")
    assert world.took() == (before[0] + 3 * len(VERSIONS), before[1])


@pytest.mark.parametrize(
    ("places", "fields", "is_refused"),
    [
        ([("plain", 0), ("plain", 1)], {}, False),
        ([("plain", 0), ("other", 1)], {}, False),
        ([("plain", 0)], {"metadata": None}, False),
        ([("plain", 0)], {"metadata": "x" * 5000}, True),
        ([("plain", 2)], {}, True),
        ([("gone", 0)], {}, True),
        ([("plain", 0)], {"epoch": 3}, True),
        ([("plain", 0)], {"group": "unknown", "epoch": 3}, True),
    ],
)
def test_what_is_unusual_goes_the_general_way(
    world: World, places: list[tuple[str, int]], fields: dict[str, Any], is_refused: bool
) -> None:
    before = world.took()
    for version in VERSIONS:
        assert bool(world.commit(*places, version=version, **fields)) == is_refused
    world.offsets("g", "unknown")
    assert world.took() == (before[0], before[1] + len(VERSIONS))


def test_a_static_id_goes_the_general_way(world: World) -> None:
    before = world.took()
    for version in range(7, 11):
        world.commit(("plain", 0), version=version, group_instance_id="i")
    assert world.took() == (before[0], before[1] + 4)


def test_a_member_of_a_classic_group_commits_and_lives_on(world: World) -> None:
    member, generation = world.classic_member("classic")
    before = world.took()
    for _ in range(5):
        assert world.commit(("plain", 0), group="classic", member=member, epoch=generation) == ErrorCode.NONE
        world.wait(7_000)
    assert world.took() == (before[0] + 5, before[1])
    for who, epoch in ((member, generation + 1), ("another", generation), ("", -1)):
        assert world.commit(("plain", 0), group="classic", member=who, epoch=epoch)
    world.wait(60_000)
    assert world.commit(("plain", 0), group="classic", member=member, epoch=generation)
    world.offsets("classic")


def test_a_member_of_a_consumer_group_commits_with_its_epoch(world: World) -> None:
    told = world.consumer("modern")
    owned = [TopicPartitions(each.topic_id, each.partitions) for each in told.assignment.topic_partitions]
    world.consumer("modern", told.member_epoch, owned)
    before = world.took()
    assert world.commit(("plain", 0), group="modern", member="m", epoch=told.member_epoch) == ErrorCode.NONE
    assert world.took() == (before[0] + 1, before[1])
    for version in (8, 9, 10):
        for epoch in (told.member_epoch - 1, told.member_epoch + 1):
            world.commit(("plain", 1), group="modern", member="m", epoch=epoch, version=version)
    world.offsets("modern")


@pytest.mark.parametrize(
    "offsets",
    [{"replicas": (1, 2), "isr": (1, 2)}, {"flush_messages": "1"}, {"flush_messages": "3"}],
)
def test_an_answer_that_waits_goes_the_general_way(tmp_path: Path, offsets: dict[str, Any]) -> None:
    world = World(tmp_path, **offsets)
    for _ in range(6):
        world.commit(("plain", 0))
    assert world.took()[1] >= 2
    world.wait(10_000)
    world.stop()


def test_a_log_that_refuses_is_told_alike(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(OsFile, "write_at", fail)
        for version in VERSIONS:
            assert world.commit(("plain", 0), version=version, offset=99)
    world.offsets("g")
    assert world.commit(("plain", 0)) == ErrorCode.NONE


@pytest.mark.parametrize("version", [5, 6, 7, 8, 10])
def test_every_beginning_of_a_request_and_every_changed_byte_is_taken_alike(world: World, version: int) -> None:
    frame = bytes(framed(world.request(("plain", 0), version=version, metadata="m"), version, "client"))
    for end in range(8, len(frame)):
        world.ask(frame[:end])
    for at in range(8, len(frame)):
        for change in (0x01, 0x80):
            world.ask(frame[:at] + bytes((frame[at] ^ change,)) + frame[at + 1 :])
    world.ask(frame + b"\0")
    world.offsets("g")


# -- several clients in one turn of the loop


class Turn:
    """A broker in the middle of a turn, with further requests to be served."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.broker = world.short
        self.last: list[Callable[[], None]] = []
        self.broker.services.at_end_of_turn = self._at_end

    def _at_end(self, step: Callable[[], None]) -> bool:
        self.last.append(step)
        return True

    def commit(self, *places: tuple[str, int], version: int = 9, **fields: Any) -> Any:
        return self.broker.router.dispatch(
            CONNECTION, framed(self.world.request(*places, version=version, **fields), version)
        )

    def end(self) -> None:
        for step in self.last:
            step()
        self.last.clear()

    def batches(self, index: int) -> list[int]:
        """Return how many records each batch of a coordinator's log has."""
        return [header.count for header, _ in read_batches(self.broker.partition("__consumer_offsets", index).log)]

    def offset(self, group: str) -> int:
        committed = self.broker.services.groups.coordinator.offsets.committed(group)
        return committed["plain"][0].offset


@pytest.fixture
def turn(tmp_path: Path) -> Turn:
    world = World(tmp_path)
    world.commit(("plain", 0))
    return Turn(world)


def code_of(answer: Any, version: int = 9) -> int:
    code: int = decoded(OffsetCommitResponse, joined(answer), version).topics[0].partitions[0].error_code
    return code


def test_commits_of_one_turn_are_one_batch(turn: Turn) -> None:
    index = turn.broker.services.groups.shards.index_of("g")
    before = turn.batches(index)
    answers = [turn.commit(("plain", 0), offset=offset) for offset in range(10, 20)]
    assert [type(each) for each in answers] == [UnwrittenReply] * 10
    turn.end()
    assert [code_of(each) for each in answers] == [ErrorCode.NONE] * 10
    assert turn.batches(index) == [*before, 10]
    assert turn.offset("g") == 19


def test_who_asks_in_the_same_turn_sees_what_was_committed_before(turn: Turn) -> None:
    answer = turn.commit(("plain", 0), offset=11)
    assert turn.offset("g") == 11
    assert code_of(answer) == ErrorCode.NONE
    also = turn.commit(("plain", 0), offset=12)
    assert code_of(turn.commit(("plain", 0), ("plain", 1), offset=13)) == ErrorCode.NONE, "the general way"
    assert code_of(also) == ErrorCode.NONE
    assert turn.offset("g") == 13
    turn.end()


def test_commits_that_are_too_long_together_are_written_one_by_one(tmp_path: Path) -> None:
    world = World(tmp_path, max_message_bytes="400")
    world.commit(("plain", 0))
    turn, index = Turn(world), world.short.services.groups.shards.index_of("g")
    before = turn.batches(index)
    answers = [
        turn.commit(("plain", 0), offset=offset, metadata="x" * size) for offset, size in ((1, 90), (2, 90), (3, 5))
    ]
    answers.append(turn.commit(("plain", 0), offset=4, version=7, metadata="x" * 400))
    turn.end()
    codes = [code_of(each) for each in answers[:-1]] + [code_of(answers[-1], 7)]
    assert codes == [ErrorCode.NONE] * 3 + [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert turn.batches(index) == [*before, 1, 1, 1]
    assert turn.offset("g") == 3


def test_a_follower_that_comes_in_the_same_turn_has_to_have_the_commit(tmp_path: Path) -> None:
    world = World(tmp_path, replicas=(1, 2), isr=(1,))
    world.commit(("plain", 0))
    turn, index = Turn(world), world.short.services.groups.shards.index_of("g")
    partition = turn.broker.partition("__consumer_offsets", index)
    answers = [turn.commit(("plain", 0), offset=offset) for offset in (20, 21)]
    assert [type(each) for each in answers] == [UnwrittenReply] * 2
    partition.fetched_by(2, partition.log.log_end_offset, turn.broker.now)
    turn.end()
    assert partition.high_watermark < partition.log.log_end_offset
    assert [code_of(each) for each in answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert turn.offset("g") == 21


def test_a_disk_that_fails_is_told_to_all_of_the_turn(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    before = turn.offset("g")

    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    answers = [turn.commit(("plain", 0), offset=offset, version=version) for offset, version in ((30, 7), (31, 9))]
    with monkeypatch.context() as patched:
        patched.setattr(OsFile, "write_at", fail)
        turn.end()
    assert [code_of(answers[0], 7), code_of(answers[1])] == [ErrorCode.NOT_COORDINATOR] * 2
    assert turn.offset("g") == before


def test_a_turn_whose_records_would_wait_for_a_sync_goes_the_general_way(tmp_path: Path) -> None:
    world = World(tmp_path, flush_messages="4")
    world.commit(("plain", 0))
    turn, before = Turn(world), world.took()
    for offset in range(3):
        turn.commit(("plain", 0), offset=offset)
    assert world.took() == (before[0] + 2, before[1] + 1)
    turn.end()


# -- drawn requests


@dataclasses.dataclass
class Drawn:
    """A commit with at most a few unusual fields."""

    version: int
    places: list[tuple[str, int]]
    fields: dict[str, Any]

    def play(self, world: World) -> None:
        world.commit(*self.places, version=self.version, **self.fields)


places = st.tuples(st.sampled_from(["plain", "plain", "other", "gone"]), st.sampled_from([0, 0, 1, 2, -1]))
drawn = st.builds(
    Drawn,
    version=st.sampled_from([*VERSIONS]),
    places=st.one_of(st.lists(places, min_size=1, max_size=1), st.lists(places, min_size=1, max_size=3)),
    fields=st.fixed_dictionaries(
        {},
        optional={
            "group": st.sampled_from(["g", "h", "", "x" * 200, "ü"]),
            "epoch": st.sampled_from([-1, -2, 0, 1]),
            "member": st.sampled_from(["", "m"]),
            "offset": st.sampled_from([0, 1, -1, (1 << 63) - 1]),
            "metadata": st.sampled_from(["", None, "m", "x" * 4096, "x" * 4097, "ü"]),
        },
    ),
)


@given(st.lists(drawn, min_size=1, max_size=12), st.integers(0, 400))
def test_drawn_requests_are_answered_alike(
    tmp_path_factory: pytest.TempPathFactory, requests: list[Drawn], pause_ms: int
) -> None:
    world = World(tmp_path_factory.mktemp("twins"))
    for request in requests:
        request.play(world)
        world.wait(pause_ms)
        world.offsets("g", "h")
    world.stop()
