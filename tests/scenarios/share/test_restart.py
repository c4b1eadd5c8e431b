"""The state of share groups after a restart, a deleted topic and the pruning of `__share_group_state`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_fetch_request import FetchPartition, FetchTopic
from tests.scenarios.groups.local import LocalWorld
from tests.scenarios.share.actors import ACCEPT, REJECT, RELEASE, Acks, ShareAdmin, ShareMember
from tests.scenarios.share.settings import CONFIG
from tests.scenarios.share.stage import ShareStage

QUICK_TO_TIDY = {
    "share_coordinator_snapshot_update_records_per_snapshot": "2",
    "share_coordinator_state_topic_prune_interval_ms": "1000",
}


class Play:
    """A group that reads one partition, and its world."""

    def __init__(self, directory: Path, **config: str) -> None:
        settings = {**CONFIG, **{key.replace("_", "."): value for key, value in config.items()}}
        self.world = LocalWorld(directory, "g", settings)
        self.come_up()
        self.topic = self.stage.topic("t", 1)
        self.admin.configure(share_auto_offset_reset="earliest")

    def come_up(self) -> None:
        self.stage = ShareStage(self.world)
        self.stage.ready()
        self.admin = ShareAdmin(self.stage, "admin")

    def restart(self) -> None:
        self.world.restart()
        self.come_up()

    def member(self, name: str) -> ShareMember:
        member = ShareMember(self.stage, name)
        member.enter(self.topic)
        return member

    def acks(self, *batches: tuple[int, int, list[int]]) -> Acks:
        return {(self.topic, 0): list(batches)}

    def read(self, member: ShareMember, **fields: Any) -> list[tuple[int, int, int]]:
        answer = member.fetch(self.topic, epoch=0, **fields)
        return [
            (run.first_offset, run.last_offset, run.delivery_count)
            for topic in answer.responses
            for part in topic.partitions
            for run in part.acquired_records
        ]

    @property
    def key(self) -> ShareKey:
        return ShareKey("g", self.stage.topic_id(self.topic), 0)


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(tmp_path)


def test_a_restart_keeps_what_is_done_and_how_often_the_rest_was_delivered(play: Play) -> None:
    one = play.member("one")
    play.admin.produce(play.topic, *"abcdef")
    play.read(one)
    one.ack(play.acks((0, 0, [ACCEPT]), (2, 3, [RELEASE, REJECT])))
    play.restart()
    back = ShareMember(play.stage, "one")
    assert back.beat(one.epoch).error_code == ErrorCode.NONE  # still a member
    assert play.read(back) == [(1, 1, 1), (2, 2, 2), (4, 5, 1)]


def test_members_that_do_not_come_back_after_a_restart_are_out(play: Play) -> None:
    play.member("one")
    play.restart()
    assert play.admin.describe_share().groups[0].group_state == "Stable"
    play.world.wait(3000)
    assert play.admin.describe_share().groups[0].group_state == "Empty"


def test_a_deleted_topic_is_begun_anew(play: Play) -> None:
    one = play.member("one")
    play.admin.produce(play.topic, "a", "b")
    play.read(one)
    one.ack(play.acks((0, 1, [ACCEPT])))
    play.admin.delete_topic(play.topic)
    assert not play.world.broker.shares.coordinator.states
    play.topic = play.stage.topic("t", 1)
    one.resubscribe(play.topic)
    play.admin.produce(play.topic, "c")
    assert play.read(one) == [(0, 0, 1)]


def test_altered_offsets_hold_at_once(play: Play) -> None:
    one = play.member("one")
    play.admin.produce(play.topic, *"abcd")
    play.read(one)
    one.ack(play.acks((0, 3, [ACCEPT])), epoch=-1)
    one.beat(-1)
    play.admin.alter({(play.topic, 0): 1})
    one.epoch = 0
    one.enter(play.topic)
    assert play.read(one) == [(1, 3, 1)]


def test_deleting_a_group_forgets_how_far_it_was(play: Play) -> None:
    one = play.member("one")
    play.admin.produce(play.topic, *"ab")
    play.read(one)
    one.ack(play.acks((0, 1, [ACCEPT])))
    one.beat(-1)
    play.admin.delete_groups()
    assert not play.world.broker.shares.coordinator.states
    one.epoch = 0
    one.enter(play.topic)
    assert play.read(one) == [(0, 1, 1)]


def test_the_state_log_is_cut_behind_the_newest_snapshots(tmp_path: Path) -> None:
    play = Play(tmp_path, **QUICK_TO_TIDY)
    one = play.member("one")
    play.admin.produce(play.topic, *"abcdefgh")
    play.read(one)
    for offset in range(7):
        one.ack(play.acks((offset, offset, [ACCEPT])))
    play.world.wait(3000)
    state = play.world.broker.shares.coordinator.states[play.key]
    starts = [play.world.broker.partition_log("__share_group_state", n).log_start_offset for n in range(3)]
    assert state.snapshot_log_offset in starts
    assert state.snapshot_log_offset > 0
    play.restart()
    back = play.member("back")
    assert [run[:2] for run in play.read(back)] == [(7, 7)]


def test_acknowledgements_that_come_along_are_answered_by_name(play: Play) -> None:
    one = play.member("one")
    play.admin.produce(play.topic, "a")
    play.read(one)
    one.session_epoch = 1
    one.send_fetch(acks=play.acks((0, 0, [ACCEPT])), max_wait_ms=0)
    (topic,) = one.wire.receive().responses
    assert [(part.partition_index, part.acknowledge_error_code) for part in topic.partitions] == [(0, 0)]


def test_a_fetch_goes_over_many_chunks(play: Play) -> None:
    one = play.member("one")
    for number in range(5):
        play.admin.produce(play.topic, str(number) * 700_000)
    assert play.read(one, max_bytes=50_000_000) == [(0, 4, 1)]


def test_a_fetch_waits_for_enough_bytes(play: Play) -> None:
    one = play.member("one")
    one.send_fetch(play.topic, epoch=0, min_bytes=300, max_wait_ms=1000)
    play.admin.produce(play.topic, "x" * 100)
    assert one.wire.is_quiet()
    play.admin.produce(play.topic, "x" * 100)
    (topic,) = one.wire.receive().responses
    assert topic.partitions[0].acquired_records[0].last_offset == 1


def test_unknown_topics_have_their_own_errors(play: Play) -> None:
    one = play.member("one")
    nowhere = FetchTopic(b"\7" * 16, [FetchPartition(0)])
    beyond = FetchTopic(play.key.topic_id, [FetchPartition(3)])
    one.send_fetch(epoch=0, topics=[nowhere, beyond], max_wait_ms=1000)
    answer = one.wire.receive()  # at once, since there is nothing to wait for
    assert {topic.partitions[0].error_code for topic in answer.responses} == {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
