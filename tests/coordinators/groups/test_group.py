"""Deadlines are set, moved, cancelled and taken out in order; ties between protocols end as a real Kafka ends them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.coordinators.groups.classic_group import ClassicGroup, ClassicGroupMember
from pykafka_broker.coordinators.groups.group import TimerKey, Timers
from pykafka_broker.coordinators.groups.java_order import in_hash_order
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, Topology
from tests.coordinators.machine import Machine

KEYS = [TimerKey("classic-session", "g", str(number)) for number in range(4)] + [TimerKey("consumer-join", "h", "m")]
STEPS = st.one_of(
    st.tuples(st.just("set"), st.sampled_from(KEYS), st.integers(0, 50)),
    st.tuples(st.just("cancel"), st.sampled_from(KEYS), st.just(0)),
    st.tuples(st.just("pop"), st.just(KEYS[0]), st.integers(0, 50)),
    st.tuples(st.just("cancel-group"), st.just(KEYS[0]), st.just(0)),
)


@given(st.lists(STEPS, max_size=60))
def test_behaves_like_a_dict_that_is_searched_for_its_least_value(steps: list[tuple[str, TimerKey, int]]) -> None:
    timers, model = Timers(), dict[TimerKey, int]()
    for action, key, time in steps:
        if action == "set":
            timers.set(key, time)
            model[key] = time
        elif action == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        elif action == "cancel-group":
            timers.cancel_group("g", "classic")
            model = {key: time for key, time in model.items() if key.group_id != "g"}
        else:
            popped = timers.pop(time)
            least = min(model.values(), default=None)
            if least is None or least > time:
                assert popped is None
            else:
                assert popped is not None
                assert model.pop(popped) == least
        assert timers.next_deadline() == min(model.values(), default=None)
        assert len(timers._deadlines) == len(model)


def test_a_session_that_is_prolonged_leaves_one_heap_entry() -> None:
    timers = Timers()
    for now in range(10_000):
        timers.set(KEYS[0], now + 30_000)
    assert len(timers._heap) == 1
    assert timers.next_deadline() == 39_999


# The order of a Java HashMap: these are the orders of a real Kafka

KAFKA = ["a", "b", "sticky", "range", "roundrobin", "connect", "cooperative-sticky"]


def test_names_come_in_the_order_of_kafkas_table() -> None:
    assert in_hash_order(sorted(KAFKA)) == in_hash_order(sorted(KAFKA, reverse=True)) == KAFKA


def test_names_in_one_slot_stay_as_they_were() -> None:
    assert in_hash_order(["range", "x1"]) == ["range", "x1"]
    assert in_hash_order(["x1", "range"]) == ["x1", "range"]
    assert in_hash_order(["uniform", "a"]) == ["uniform", "a"]


def test_a_longer_table_has_more_slots() -> None:
    """A Java hash table of 16 slots has `p` and `range` in slots 0 and 9, one of 32 slots in slots 16 and 9."""
    many = [f"p{number}" for number in range(13)]
    assert in_hash_order(["range", "p"]) == ["p", "range"]
    found = [name for name in in_hash_order(["p", "range", *many]) if name in ("p", "range")]
    assert found == ["range", "p"]


@pytest.mark.parametrize("order", [("m", "n"), ("n", "m")])
def test_as_many_votes_are_decided_by_the_table(order: tuple[str, str]) -> None:
    group = ClassicGroup("g", 0)
    wanted = {"m": ["range", "roundrobin"], "n": ["roundrobin", "range"]}
    for name in order:
        member = ClassicGroupMember("g", name, None, "", "", 1, 1, "consumer", [(one, b"") for one in wanted[name]])
        group.add(member, name)
    assert group.select_protocol() == "range"


class Counted(str):
    """A group id that counts how often one is compared with another."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_the_deadlines_of_a_group_are_forgotten_without_a_look_at_those_of_others() -> None:
    """A node that loses a log with thousands of groups forgets them one after the other, in one turn."""
    timers, groups = Timers(), 500
    for number in range(groups):
        timers.set(TimerKey("classic-session", Counted(f"g{number}"), "m"), number)
    timers.set(TimerKey("consumer-session", Counted("g1"), "m"), 7)
    timers.cancel(TimerKey("classic-session", Counted("g2"), "m"))
    Counted.compared = 0
    for number in range(groups):
        timers.cancel_group(Counted(f"g{number}"), "classic")
    assert Counted.compared < 20 * groups
    assert (len(timers._deadlines), timers.next_deadline()) == (1, 7)


def test_deadlines_that_never_come_are_not_kept() -> None:
    """A member may give itself 24 days to give partitions back, and leave at once."""
    timers = Timers()
    for number in range(5_000):
        key = TimerKey("consumer-rebalance", "g", f"m{number}")
        timers.set(key, 2**31 - number)
        timers.cancel(key)
    assert len(timers._heap) < 1_000
    timers.set(TimerKey("consumer-rebalance", "g", "m"), 5)
    assert timers.next_deadline() == 5


# As a 4.4.0 answers: Java's `trim` takes away what is not above a space.
BLANK, NOT_BLANK = ("", " ", "  ", "\t", "\x01", "\0", "\x1f"), ("\u2003", "\xa0", "\x85", " a", "\x7f", "!")


@pytest.mark.parametrize("text", [*BLANK, *NOT_BLANK])
@pytest.mark.parametrize("field", ["GroupId", "MemberId", "InstanceId", "RackId"])
def test_blank_texts_are_empty(machine: Machine, field: str, text: str) -> None:
    machine.topic("t")
    texts: dict[str, Any] = {"GroupId": "g", "MemberId": "m", "InstanceId": None, "RackId": None, field: text}
    group_id, member_id, instance_id, rack_id = texts.values()
    told = f"{field} can't be empty." if text in BLANK else None

    consumer = ConsumerGroupHeartbeatRequest(group_id, member_id, 0, instance_id, rack_id, 1_000, ["t"])
    consumer.topic_partitions = []
    assert machine.coordinator.consumer_heartbeat(consumer, machine.caller(1), 0).reply.error_message == told
    topology = Topology(0, [])
    streams = StreamsGroupHeartbeatRequest(group_id, member_id, 0, 0, instance_id, rack_id, 1_000, topology, [], [], [])
    assert machine.coordinator.streams.heartbeat(streams, machine.caller(0), 0).reply.error_message == told
    if field != "InstanceId":
        share = ShareGroupHeartbeatRequest(group_id, member_id, 0, rack_id, ["t"])
        reply = machine.coordinator.share.heartbeat(share, machine.caller(1), 0).reply
        assert reply.error_message == (None if text == "" and field == "MemberId" else told)
        assert (reply.error_code == ErrorCode.INVALID_REQUEST) == (text in BLANK)


def test_a_first_consumer_of_version_0_may_have_a_blank_id(machine: Machine) -> None:
    machine.topic("t")
    request = ConsumerGroupHeartbeatRequest("g", " ", 0, None, None, 1_000, ["t"], topic_partitions=[])
    assert not machine.coordinator.consumer_heartbeat(request, machine.caller(0), 0).reply.error_code
