"""Members of share groups, and a group's memory of the partitions that have a state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykafka_broker.coordinators.groups.group import Caller
from pykafka_broker.coordinators.share.share_group import ShareGroup, Topics, checked_member_id
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.coordinators.machine import Machine
from tests.coordinators.share.assignments.record import FIRST, RECORDED

DAY_MS = 86_400_000
CALLER = Caller(1, "client", "/127.0.0.1")


class ShareMachine(Machine):
    """One share group, "g", whose partitions get their states at once."""

    def beat(self, member_id: str, epoch: int, topics: list[str] | None = None) -> Any:
        request = ShareGroupHeartbeatRequest("g", member_id, epoch, subscribed_topic_names=topics)
        reply = self.run(self.coordinator.share.heartbeat(request, self.caller(1), self.now))
        missing = self.coordinator.share.uninitialized("g")
        if missing:
            self.run(self.coordinator.share.initialized("g", missing, missing))
        return reply

    @property
    def group(self) -> ShareGroup:
        group = self.coordinator.groups["g"]
        assert isinstance(group, ShareGroup)
        return group

    def delete(self, name: str) -> None:
        topic = self.topics.topics.pop(name)
        del self.topics.topics_by_id[topic.id]
        self.coordinator.on_topics_changed([name], False, next(self.versions))
        for effects in self.coordinator.on_topics_deleted([name]):
            self.run(effects)


@pytest.fixture
def machine() -> ShareMachine:
    machine = ShareMachine(group_share_assignment_interval_ms="0")
    machine.topic("t", 2)
    machine.topic("u", 1)
    return machine


def assigned(reply: Any) -> dict[bytes, list[int]]:
    return {one.topic_id: one.partitions for one in reply.assignment.topic_partitions}


def test_a_partition_is_assigned_once_it_has_a_state(machine: ShareMachine) -> None:
    first = machine.beat("one", 0, ["t"])
    assert assigned(first) == {}
    reply = machine.beat("one", first.member_epoch)
    assert assigned(reply) == {machine.topics.topics["t"].id: [0, 1]}


@pytest.mark.parametrize(("letter", "most"), [("a", 36), ("é", 36), ("😀", 18)])
def test_the_length_of_a_member_id_is_counted_in_javas_characters(letter: str, most: int) -> None:
    assert checked_member_id(letter * most) == letter * most
    with pytest.raises(ApiError):
        checked_member_id(letter * (most + 1))


def test_of_a_topic_only_partitions_with_a_state_are_assigned(machine: ShareMachine) -> None:
    """Partition 0 was given out where partition 1 alone had a state, and initialized later: all began anew."""
    topic_id = machine.topics.topics["t"].id
    some: Topics = {topic_id: ("t", frozenset([1]))}
    machine.run(machine.coordinator.share.initialize("g", some, fenced=False))
    machine.run(machine.coordinator.share.initialized("g", some, some))
    assert assigned(machine.beat("one", 0, ["t"])) == {topic_id: [1]}
    assert assigned(machine.beat("one", machine.group.members["one"].epoch)) == {topic_id: [0, 1]}


def test_a_change_that_could_not_be_written_is_found_again(machine: ShareMachine) -> None:
    machine.beat("one", 0, ["t"])
    epoch = machine.beat("one", machine.group.members["one"].epoch).member_epoch
    machine.topic("t", 3)
    lost = machine.coordinator.share.heartbeat(ShareGroupHeartbeatRequest("g", "one", epoch), CALLER, machine.now)
    assert lost.records
    assert machine.beat("one", epoch).member_epoch > epoch


def test_a_deleted_topic_is_forgotten_for_good(machine: ShareMachine) -> None:
    gone, stays = machine.topics.topics["t"].id, machine.topics.topics["u"].id
    machine.beat("one", 0, ["t", "u"])
    assert machine.group.initialized.keys() == {gone, stays}
    machine.delete("t")
    assert machine.group.initialized.keys() == {stays}
    machine.restart()
    assert machine.group.initialized.keys() == {stays}


def test_a_topic_that_is_deleted_while_it_is_initialized_does_not_come_back(machine: ShareMachine) -> None:
    share, deleted = machine.coordinator.share, machine.topics.topics["t"].id
    machine.run(share.heartbeat(ShareGroupHeartbeatRequest("g", "one", 0, subscribed_topic_names=["t"]), CALLER, 0))
    missing = share.uninitialized("g")
    machine.run(share.initialize("g", missing, fenced=False))
    assert machine.group.initializing.keys() == {deleted}
    machine.delete("t")
    assert not machine.group.initializing
    machine.run(share.initialized("g", missing, missing))
    assert not machine.group.initialized, "the answer came after the deletion"


def test_each_attempt_to_initialize_has_an_epoch_of_its_own(machine: ShareMachine) -> None:
    machine.beat("one", 0, ["t"])
    joined = machine.group.epoch
    assert machine.run(machine.coordinator.share.initialize("g", {}, fenced=True)) == joined
    assert machine.run(machine.coordinator.share.initialize("g", {}, fenced=True)) == joined + 1
    machine.restart()
    assert machine.run(machine.coordinator.share.initialize("g", {}, fenced=True)) == joined + 2
    assert machine.group.epoch == joined + 2


def test_what_a_group_has_begun_since_the_deletion_of_a_topic_is_kept(machine: ShareMachine) -> None:
    """The groups have their turns one after the other, and others are served in between."""
    machine.beat("one", 0, ["t", "u"])
    topic = machine.topics.topics.pop("t")
    del machine.topics.topics_by_id[topic.id]
    left = machine.coordinator.on_topics_deleted(["t"])
    new = machine.topic("t", 1, bytes(16))
    machine.beat("one", machine.group.members["one"].epoch)
    for effects in left:
        machine.run(effects)
    assert machine.group.initialized.keys() == {machine.topics.topics["u"].id, new}


def test_states_that_are_being_deleted_are_not_made_meanwhile(machine: ShareMachine) -> None:
    machine.beat("one", 0, ["t"])
    share, states = machine.coordinator.share, dict(machine.group.initialized)
    machine.run(share.delete_topics("g", states))
    assert not machine.group.initialized
    assert not share.uninitialized("g")
    machine.run(share.initialized("g", {}, states))  # the deletion has failed
    assert (machine.group.initialized, machine.group.deleting) == (states, {})
    machine.run(share.delete_topics("g", states))
    machine.run(share.initialize("g", {}, fenced=False))
    machine.restart()
    assert machine.coordinator.share.uninitialized("g") == states


def test_an_attempt_to_initialize_leaves_nothing_behind(machine: ShareMachine) -> None:
    share = machine.coordinator.share
    machine.run(share.heartbeat(ShareGroupHeartbeatRequest("g", "one", 0, subscribed_topic_names=["t"]), CALLER, 0))
    missing = share.uninitialized("g")
    machine.run(share.initialize("g", missing, fenced=False))
    machine.run(share.initialized("g", missing, {}))
    assert not machine.group.initializing
    assert share.uninitialized("g") == missing


def test_a_member_gets_nothing_of_a_topic_that_it_has_left(machine: ShareMachine) -> None:
    machine.beat("one", 0, ["t", "u"])
    epoch = machine.beat("one", machine.group.members["one"].epoch).member_epoch
    machine.beat("two", 0, ["t"])  # a new target, which the first member has not heard of
    machine.group_config = {"share.assignment.interval.ms": "60000"}
    reply = machine.beat("one", epoch, ["u"])
    assert reply.member_epoch > epoch
    assert assigned(reply).keys() == {machine.topics.topics["u"].id}


def test_an_empty_group_stays_until_it_is_deleted(machine: ShareMachine) -> None:
    machine.beat("one", 0, ["t"])
    machine.beat("one", -1)
    machine.restart()
    machine.wait(30 * DAY_MS)
    assert machine.group.is_empty
    assert machine.group.initialized
    machine.run(machine.coordinator.delete_group("g"))
    machine.restart()
    assert "g" not in machine.coordinator.groups


def test_a_member_whose_end_could_not_be_written_is_taken_out_later(machine: ShareMachine) -> None:
    machine.beat("one", 0, ["t"])
    lost = machine.coordinator.share.heartbeat(ShareGroupHeartbeatRequest("g", "one", -1), CALLER, machine.now)
    assert lost.records
    machine.wait(44_000)
    assert not machine.group.is_empty
    machine.wait(2_000)
    assert machine.group.is_empty


def test_a_silent_member_is_out_after_its_session(machine: ShareMachine) -> None:
    machine.beat("one", 0, ["t"])
    machine.beat("two", 0, ["t"])
    machine.wait(44_000)
    machine.beat("two", machine.group.members["two"].epoch)
    machine.wait(2_000)
    assert machine.group.members.keys() == {"two"}


def test_a_heartbeat_asks_for_the_settings_of_its_group_once(machine: ShareMachine) -> None:
    epoch = machine.beat("m", 0, ["t"]).member_epoch
    asked: list[str] = []

    def overrides(group_id: str) -> dict[str, str]:
        asked.append(group_id)
        return {}

    machine.coordinator.table.group_config = overrides
    machine.beat("m", epoch)
    assert asked == ["g"]


@pytest.mark.parametrize("history", json.loads(RECORDED.read_text(encoding="utf-8")))
def test_members_get_what_kafka_gives_them(history: dict[str, Any]) -> None:
    machine = ShareMachine(group_share_assignment_interval_ms="0")
    names = {}
    for name, (topic_id, count) in history["topics"].items():
        names[bytes.fromhex(topic_id)] = name
        machine.topic(name, count, bytes.fromhex(topic_id))
    machine.beat(FIRST, 0, [*history["topics"]])
    machine.beat(FIRST, -1)
    for member_id, topics, expected in history["steps"]:
        known = machine.group.members.get(member_id)
        machine.beat(member_id, -1 if topics is None else 0 if known is None else known.epoch, topics)
        for member in [*machine.group.members.values()]:
            machine.beat(member.member_id, member.epoch)
        assert {
            member.member_id: {names[topic_id]: sorted(parts) for topic_id, parts in member.assigned.items()}
            for member in machine.group.members.values()
        } == expected
