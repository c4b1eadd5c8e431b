"""Consumer groups: no partition has two owners at any time, and everything is owned in the end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka_broker.coordinators.groups import consumer, re2
from pykafka_broker.coordinators.groups.assignors import ASSIGNORS, Assignment, GroupSpec
from pykafka_broker.coordinators.groups.consumer_group import UNOWNED, ConsumerGroup, ConsumerGroupMember
from pykafka_broker.coordinators.groups.group import TimerKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from pykafka_broker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest
from tests.coordinators.machine import Broker, Partition
from tests.coordinators.steps import steps_of

SESSION_MS = 45_000


class Client:
    """An honest consumer, which stops reading revoked partitions before it reports so."""

    def __init__(self, machine: Any, name: str, instance_id: str | None = None) -> None:
        self.machine = machine
        self.name = name
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: dict[bytes, set[int]] = {}
        self.last_beat = machine.now

    def beat(self, epoch: int | None = None, **fields: Any) -> ErrorCode:
        request = ConsumerGroupHeartbeatRequest(
            "g", self.name, self.epoch if epoch is None else epoch, self.instance_id, **fields
        )
        machine = self.machine
        reply = machine.run(machine.coordinator.consumer_heartbeat(request, machine.caller(1), machine.now))
        if reply.error_code == ErrorCode.NONE:
            self.last_beat = machine.now
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                self.owned = {one.topic_id: set(one.partitions) for one in reply.assignment.topic_partitions}
        elif reply.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.owned = 0, {}
        return ErrorCode(reply.error_code)

    def join(self, topics: list[str] | None = None, regex: str | None = None, assignor: str | None = None) -> ErrorCode:
        return self.beat(
            0,
            rebalance_timeout_ms=30_000,
            topic_partitions=[],
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
        )

    def report(self) -> ErrorCode:
        return self.beat(topic_partitions=[TopicPartitions(topic, sorted(p)) for topic, p in self.owned.items()])

    @property
    def partitions(self) -> set[tuple[bytes, int]]:
        return {(topic, partition) for topic, partitions in self.owned.items() for partition in partitions}


def join_as_classic(machine: Any, member_id: str, token: object = "", **protocols: bytes) -> Any:
    """Join with the classic protocol; by default with a subscription to the topic t."""
    subscription = (1).to_bytes(2, "big") + ConsumerProtocolSubscription(["t"]).encode(1)
    known = [JoinGroupRequestProtocol(*each) for each in (protocols or {"range": subscription}).items()]
    request = JoinGroupRequest("g", SESSION_MS, 60_000, member_id, None, "consumer", known)
    return machine.run(machine.coordinator.join(request, machine.caller(5), token, machine.now))


def settle(clients: list[Client], rounds: int = 12) -> None:
    """Let all members send heartbeats until nothing changes any more."""
    for _ in range(rounds):
        for client in clients:
            client.report()


def group_state(machine: Any) -> str:
    return str(machine.coordinator.groups["g"].state_name)


def test_a_change_of_topics_that_could_not_be_written_is_found_again(machine: Any) -> None:
    machine.topic("t", 1)
    one = Client(machine, "one")
    one.join(["t"])
    settle([one])
    machine.topic("t", 2)
    request = ConsumerGroupHeartbeatRequest("g", "one", one.epoch)
    lost = machine.coordinator.consumer_heartbeat(request, machine.caller(1), machine.now)
    assert lost.records
    settle([one])
    assert len(one.partitions) == 2


def test_partitions_that_move_to_another_rack_begin_an_epoch(machine: Any) -> None:
    machine.topics.brokers |= {1: Broker("a"), 2: Broker("b"), 3: Broker("b")}
    machine.topic("t", 1)
    one = Client(machine, "one")
    one.join(["t"])
    settle([one])
    epochs = [one.epoch]
    for replica in (2, 3):
        machine.topics.topics["t"].partitions[0] = Partition((replica,))
        machine.coordinator.on_topics_changed(["t"], False, next(machine.versions))
        settle([one])
        epochs.append(one.epoch)
    assert epochs == [epochs[0], epochs[0] + 1, epochs[0] + 1], "brokers 2 and 3 are in the same rack"


def test_a_member_whose_end_could_not_be_written_is_taken_out_later(machine: Any) -> None:
    machine.topic("t", 1)
    one = Client(machine, "one")
    one.join(["t"])
    machine.now = machine.coordinator.next_deadline()
    assert machine.coordinator.on_deadline(machine.now).records  # and the log refuses them
    assert group_state(machine) != "Empty"
    machine.wait(1_000)
    assert group_state(machine) == "Empty"
    assert TimerKey("consumer-session", "g", "one") not in machine.coordinator.table.timers


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "leave", "beat", "report", "report", "silence", "grow", "restart", "resubscribe"]),
        st.integers(0, 4),
        st.integers(0, 3),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(steps=STEPS, assignor=st.sampled_from(["uniform", "range"]))
def test_no_partition_has_two_owners_and_in_the_end_all_are_owned(
    steps: list[tuple[str, int, int]], assignor: str, new_machine: Callable[..., Any]
) -> None:
    machine = new_machine()
    machine.topic("t", 3)
    machine.topic("u", 2)
    subscriptions = [["t"], ["u"], ["t", "u"], ["t", "nowhere"]]
    clients: dict[int, Client] = {}
    for action, number, choice in steps:
        client = clients.get(number)
        if action == "join" and client is None:
            clients[number] = client = Client(machine, f"m{number}", f"i{number}" if number == 4 else None)
            assert client.join(subscriptions[choice], assignor=assignor) is ErrorCode.NONE
        elif action == "grow":
            machine.topic("t", len(machine.topics.topics["t"].partitions) + 1)
        elif action == "restart":
            machine.restart()
        elif client is None:
            continue
        elif action == "leave":
            client.beat(-1)
            del clients[number]
        elif action == "beat":
            client.beat()
        elif action == "report":
            client.report()
        elif action == "resubscribe":
            client.beat(subscribed_topic_names=subscriptions[choice])
        elif action == "silence":
            for other in clients.values():
                other.report()
            machine.wait(SESSION_MS // 2)
        for one in list(clients):
            if machine.now - clients[one].last_beat >= SESSION_MS:
                del clients[one]  # taken for dead, and it knows that it may be
        owned = [partition for client in clients.values() for partition in client.partitions]
        assert len(owned) == len(set(owned))
        clients = {one: client for one, client in clients.items() if client.epoch > 0}
    for _ in range(3):  # whoever fell silent is out in the end
        settle(list(clients.values()))
        clients = {one: client for one, client in clients.items() if client.epoch > 0}
        machine.wait(SESSION_MS // 2)
    settle(list(clients.values()))
    if not clients:
        return
    assert group_state(machine) == "Stable"
    names = set().union(*(machine.coordinator.groups["g"].members[c.name].topic_names for c in clients.values()))
    wanted = {(machine.topics.topics[n].id, p) for n in names & {"t", "u"} for p in machine.topics.topics[n].partitions}
    assert set().union(*(client.partitions for client in clients.values())) == wanted


def test_a_pattern_is_resolved_with_the_join_and_follows_the_topics(machine: Any) -> None:
    first = machine.topic("logs-a", 1)
    machine.topic("other", 1)
    client = Client(machine, "m")
    client.join(regex="logs-.*")
    assert client.partitions == {(first, 0)}
    second = machine.topic("logs-b", 2)
    client.report()
    assert client.partitions == {(first, 0), (second, 0), (second, 1)}
    group = machine.coordinator.groups["g"]
    assert group.regexes["logs-.*"].topics == {"logs-a", "logs-b"}
    machine.restart()
    assert machine.coordinator.groups["g"].regexes["logs-.*"].topics == {"logs-a", "logs-b"}
    client.report()
    client.beat(subscribed_topic_regex="other")
    settle([client])
    assert set(machine.coordinator.groups["g"].regexes) == {"other"}
    assert client.partitions == {(machine.topics.topics["other"].id, 0)}
    client.beat(-1)
    assert machine.coordinator.groups["g"].regexes == {}


def test_a_pattern_stands_for_what_its_member_may_see(machine: Any) -> None:
    """A right that comes later counts within ten minutes."""
    first, second = machine.topic("logs-a", 1), machine.topic("logs-b", 1)
    seen = {"logs-a"}
    machine.may_see = seen.__contains__
    client = Client(machine, "m")
    client.join(regex="logs-.*")
    assert client.partitions == {(first, 0)}
    seen.add("logs-b")
    begun = machine.now
    while client.partitions == {(first, 0)} and machine.now < begun + 2 * 600_000:
        machine.wait(20_000)
        client.beat()
    assert client.partitions == {(first, 0), (second, 0)}
    assert machine.now - begun == 600_000


def test_a_broken_pattern_changes_nothing(machine: Any) -> None:
    machine.topic("t", 1)
    client = Client(machine, "m")
    client.join(["t"])
    written = len(machine.log)
    assert client.beat(subscribed_topic_regex="(") is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(machine.log) == written
    assert client.beat() is ErrorCode.NONE


def test_patterns_that_take_long_are_left_to_the_next_heartbeats(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new topic makes all patterns of a group old at once; each heartbeat resolves as many as nobody notices."""
    machine.topic("logs-a", 1)
    clients = [Client(machine, name) for name in "pqr"]
    for client in clients:
        client.join(regex=f"logs-.|{client.name}")
    monkeypatch.setattr(consumer, "MAX_WORK", 1)
    topic = machine.topic("logs-b", 3)
    for resolved in (1, 2, 3):
        clients[0].beat()
        known = machine.coordinator.groups["g"].regexes.values()
        assert sum("logs-b" in each.topics for each in known) == resolved
    settle(clients)
    assert set().union(*(client.partitions for client in clients)) >= {(topic, index) for index in range(3)}


def test_a_pattern_that_was_left_is_resolved_though_the_patterns_before_it_have_no_new_topic(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.topic("logs-a", 1)
    clients = [Client(machine, name) for name in "pq"]
    for client, pattern in zip(clients, ("a.*", "logs-.*"), strict=True):
        client.join(regex=pattern)
    monkeypatch.setattr(consumer, "MAX_WORK", 1)
    machine.topic("logs-b", 1)
    for client in clients * 2:
        client.beat()
    assert len(clients[1].partitions) == 2


def test_a_pattern_that_became_too_large_stands_for_its_former_topics(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machine.topic("logs-a", 1)
    client = Client(machine, "m")
    client.join(regex="logs-.")
    machine.topic("logs-b", 1)
    monkeypatch.setattr(re2, "MAX_WORK", 1)
    assert client.beat() is ErrorCode.NONE
    written = len(machine.log)
    settle([client])
    assert client.partitions == {(first, 0)}
    assert len(machine.log) == written  # it is not tried again and again
    assert client.beat(subscribed_topic_regex="logs-.*") is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_names_and_pattern_add_up(machine: Any) -> None:
    named, matched = machine.topic("named", 1), machine.topic("logs", 1)
    client = Client(machine, "m")
    client.join(["named"], regex="l.*")
    assert client.partitions == {(named, 0), (matched, 0)}


@pytest.mark.parametrize(
    ("first", "second", "regex", "differ"),
    [
        (["t"], ["t"], None, False),
        (["t"], ["t", "none"], None, True),
        ([], [], "t", False),
        (["t"], ["t"], "t", True),
    ],
)
def test_subscriptions_are_compared_by_their_names(
    machine: Any, monkeypatch: pytest.MonkeyPatch, first: list[str], second: list[str], regex: str | None, differ: bool
) -> None:
    """Compare as Kafka does for its assignors, whether there is such a topic or not."""
    seen: list[GroupSpec] = []
    assign = ASSIGNORS["uniform"]

    def noted(spec: GroupSpec) -> dict[str, Assignment]:
        seen.append(spec)
        return assign(spec)

    monkeypatch.setitem(ASSIGNORS, "uniform", noted)
    machine.topic("t", 2)
    for name, topics in (("one", first), ("two", second)):
        Client(machine, name).join(topics, regex=regex)
    assert seen[-1].homogeneous is not differ


def test_topics_that_a_group_does_not_read_are_not_looked_up_one_by_one(machine: Any) -> None:
    """Thousands may be made at once, beside a thousand groups."""
    machine.topic("t", 1)
    client = Client(machine, "m")
    client.join(["t"])
    client.report()
    steps = []
    for count in (1, 1_000):
        names = [f"other-{at}" for at in range(count)]
        _, taken = steps_of(partial(machine.coordinator.on_topics_changed, names, True, next(machine.versions)))
        steps.append(taken)
    assert steps[1] <= steps[0]
    assert not machine.coordinator.groups["g"].metadata_stale


def test_a_deleted_topic_is_taken_away(machine: Any) -> None:
    topic = machine.topic("t", 2)
    client = Client(machine, "m")
    client.join(["t"])
    del machine.topics.topics["t"], machine.topics.topics_by_id[topic]
    machine.coordinator.on_topics_changed(["t"], False, next(machine.versions))
    settle([client])
    assert client.partitions == set()
    assert group_state(machine) == "Stable"


def test_targets_are_not_computed_more_often_than_the_interval(new_machine: Callable[..., Any]) -> None:
    machine = new_machine(group_consumer_assignment_interval_ms="1000")
    machine.topic("t", 2)
    one, two = Client(machine, "one"), Client(machine, "two")
    one.join(["t"])
    two.join(["t"])
    assert group_state(machine) == "Assigning"
    machine.wait(999)
    one.report()
    assert group_state(machine) == "Assigning"
    machine.wait(1)
    one.report()
    assert group_state(machine) == "Reconciling"
    settle([one, two])
    assert [len(client.partitions) for client in (one, two)] == [1, 1]


def test_a_target_of_a_coordinator_whose_clock_was_ahead_is_no_reason_to_wait(
    new_machine: Callable[..., Any],
) -> None:
    machine = new_machine(group_consumer_assignment_interval_ms="1000")
    machine.topic("t", 2)
    one, two = Client(machine, "one"), Client(machine, "two")
    one.join(["t"])
    machine.now -= 3_600_000
    machine.restart()
    two.join(["t"])
    settle([one, two])
    assert [len(client.partitions) for client in (one, two)] == [1, 1]


def test_rights_that_a_coordinator_with_a_clock_ahead_has_checked_are_checked_again(machine: Any) -> None:
    machine.topic("logs-a", 1)
    machine.may_see = {"logs-a"}.__contains__
    client = Client(machine, "m")
    client.join(regex="logs-.*")
    client.report()
    machine.now -= 3_600_000
    machine.restart()
    client.beat()
    machine.may_see = frozenset[str]().__contains__
    for _ in range(32):
        machine.wait(20_000)
        client.beat()
    assert client.partitions == set()


def test_a_heartbeat_without_news_writes_nothing(machine: Any) -> None:
    machine.topic("t", 2)
    client = Client(machine, "m")
    client.join(["t"])
    written = len(machine.log)
    for _ in range(5):
        machine.wait(5_000)
        assert client.beat() is ErrorCode.NONE
        assert client.report() is ErrorCode.NONE
    assert len(machine.log) == written


def test_a_member_that_missed_its_answer_may_repeat_the_epoch_before(machine: Any) -> None:
    machine.topic("t", 2)
    one, two = Client(machine, "one"), Client(machine, "two")
    one.join(["t"])
    epoch = one.epoch
    two.join(["t"])
    settle([one, two])
    assert one.epoch == epoch + 1
    one.epoch = epoch
    assert one.report() is ErrorCode.NONE
    assert one.epoch == epoch + 1
    one.epoch = epoch
    one.owned = {topic: {0, 1} for topic in one.owned}
    assert one.report() is ErrorCode.FENCED_MEMBER_EPOCH, "it claims more than it has"


@pytest.mark.parametrize("policy", ["disabled", "upgrade", "downgrade", "bidirectional"])
def test_a_static_member_keeps_its_place_for_a_session(policy: str, new_machine: Callable[..., Any]) -> None:
    machine = new_machine(group_consumer_migration_policy=policy)
    machine.topic("t", 2)
    one, two = Client(machine, "one", "i"), Client(machine, "two")
    one.join(["t"])
    two.join(["t"])
    settle([one, two])
    had = one.partitions
    one.beat(-2)
    machine.wait(SESSION_MS // 2)
    two.report()
    again = Client(machine, "again", "i")
    assert again.join(["t"]) is ErrorCode.NONE
    assert again.partitions == had
    again.beat(-2)
    two.report()
    machine.wait(SESSION_MS - 1)
    two.report()
    assert len(two.partitions) == 1
    machine.wait(1)
    settle([two])
    assert len(two.partitions) == 2


@pytest.mark.parametrize(("release", "epoch"), [("4.3", 2), ("4.4", 3)])
def test_a_vote_for_another_assignor_begins_an_epoch(release: str, epoch: int, new_machine: Callable[..., Any]) -> None:
    machine = new_machine(pykafka_emulate=release)
    machine.topic("t", 2)
    one = Client(machine, "one")
    one.join(["t"])
    one.report()
    one.beat(server_assignor="uniform")  # the default already
    assert machine.coordinator.groups["g"].epoch == 2
    one.beat(server_assignor="range")
    assert (machine.coordinator.groups["g"].epoch, one.epoch) == (epoch, epoch)


def test_assignors_may_be_configured_by_their_classes(new_machine: Callable[..., Any]) -> None:
    """A Kafka 4.4.0 with these settings answers so, and lists the assignors in the order of a hash table."""
    classes = (f"org.apache.kafka.coordinator.group.assignor.{name}Assignor" for name in ("Range", "Uniform"))
    machine = new_machine(group_consumer_assignors=",".join(classes))
    machine.topic("t", 2)
    request = ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, 30_000, ["t"], None, "none", [])
    refused = machine.run(machine.coordinator.consumer_heartbeat(request, machine.caller(1), machine.now))
    assert refused.error_message == "ServerAssignor none is not supported. Supported assignors: uniform, range."
    assert Client(machine, "one").join(["t"], assignor="range") is ErrorCode.NONE
    assert Client(machine, "two").join(["t"]) is ErrorCode.NONE
    assert machine.coordinator.describe_consumer("g").assignor_name == "range"


@pytest.mark.parametrize(("release", "code"), [("4.3", ErrorCode.GROUP_MAX_SIZE_REACHED), ("4.4", ErrorCode.NONE)])
def test_a_static_member_comes_back_to_a_full_group(
    release: str, code: ErrorCode, new_machine: Callable[..., Any]
) -> None:
    machine = new_machine(pykafka_emulate=release, group_consumer_max_size="1")
    machine.topic("t", 2)
    one = Client(machine, "one", "i")
    one.join(["t"])
    one.beat(-2)
    assert Client(machine, "two").join(["t"]) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert Client(machine, "again", "i").join(["t"]) is code


def test_a_group_is_not_converted_before_its_first_generation(new_machine: Callable[..., Any]) -> None:
    """Kafka 4.4.0 answers so too, and then sends the waiting member away; here the member goes on to wait."""
    machine = new_machine(group_initial_rebalance_delay_ms="1500", group_consumer_migration_policy="bidirectional")
    machine.topic("t", 2)
    member_id = join_as_classic(machine, "").member_id
    assert join_as_classic(machine, member_id, "waits") is None
    one = Client(machine, "one")
    assert one.join(["t"]) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert group_state(machine) == "PreparingRebalance"
    machine.wait(1_500)
    assert machine.answers["waits"].error_code == ErrorCode.NONE
    assert one.join(["t"]) is ErrorCode.NONE


def test_a_classic_member_joins_again_for_a_new_target_and_not_for_a_new_epoch(new_machine: Callable[..., Any]) -> None:
    """Kafka 4.4.0 answers so too, asked with the policy "upgrade" and two consumers beside a classic member."""
    machine = new_machine(group_consumer_migration_policy="upgrade")
    coordinator = machine.coordinator
    machine.topic("t", 4)
    clients = [Client(machine, "one"), Client(machine, "two")]
    for client in clients:
        client.join(["t"])

    def beat() -> ErrorCode:
        return ErrorCode(coordinator.heartbeat(HeartbeatRequest("g", generation, member_id), machine.now))

    member_id = join_as_classic(machine, "").member_id
    generation = join_as_classic(machine, member_id).generation_id
    for _ in range(6):
        settle(clients, 1)
        if beat() is ErrorCode.REBALANCE_IN_PROGRESS:
            generation = join_as_classic(machine, member_id).generation_id
    assert beat() is ErrorCode.NONE
    clients[0].beat(-1)
    group = coordinator.groups["g"]
    assert (group.epoch, group.assignment_epoch) == (generation + 1, generation)
    assert beat() is ErrorCode.NONE
    clients[1].beat()
    assert group.assignment_epoch == group.epoch
    assert beat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_next_epoch_is_fenced_until_it_has_begun(machine: Any) -> None:
    topic_id = machine.topic("t", 1)
    one = Client(machine, "one")
    one.join(["t"])
    settle([one])
    with pytest.raises(ApiError) as caught:
        machine.coordinator.groups["g"].check_offset_commit("one", None, one.epoch + 1, 9, False)
    assert caught.value.code is ErrorCode.STALE_MEMBER_EPOCH
    assert one.owned == {topic_id: {0}}
    assert one.beat(one.epoch + 1) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_gives_nothing_back_is_out_in_time_also_after_a_restart(machine: Any) -> None:
    machine.topic("t", 4)
    one, two = Client(machine, "one"), Client(machine, "two")
    one.join(["t"])
    settle([one])
    two.join(["t"])
    one.beat()
    machine.restart()
    for _ in range(6):
        assert "one" in machine.coordinator.groups["g"].members
        one.beat()
        machine.wait(5_000)
    assert "one" not in machine.coordinator.groups["g"].members


def test_a_partition_is_its_later_owners_when_an_earlier_owner_goes() -> None:
    """The record by which the earlier owner gave the partition back may be missing."""
    topic_id, group = bytes(16), ConsumerGroup("g")
    for epoch, name in enumerate(["one", "two", "three"], 1):
        member = ConsumerGroupMember(name)
        member.epoch, member.assigned = epoch, {topic_id: {0: epoch}}
        group.set_member(member)
    owned = []
    for name in ("one", "three", "two"):
        group.remove_member(name)
        owned.append(group.partition_epoch(topic_id, 0))
    assert owned == [3, UNOWNED, UNOWNED]


def test_a_member_that_joins_again_under_its_id_has_its_target_after_a_restart(machine: Any) -> None:
    machine.topic("t", 4)
    one, two = Client(machine, "one"), Client(machine, "two")
    for join in (one.join, two.join):
        join(["t"])
        settle([one, two])
    two.beat(-1)
    two.epoch, two.owned = 0, {}
    two.join(["t"])
    settle([one, two])
    targets = dict(machine.coordinator.groups["g"].targets)
    assert targets["two"]
    machine.restart()
    assert machine.coordinator.groups["g"].targets == targets


def test_a_member_of_a_converted_group_has_its_session(machine: Any) -> None:
    machine.topic("t", 4)
    member_id = join_as_classic(machine, "").member_id
    generation = join_as_classic(machine, member_id).generation_id
    machine.run(machine.coordinator.sync(SyncGroupRequest("g", generation, member_id), "sync", machine.now))
    Client(machine, "one").join(["t"])
    assert machine.coordinator.groups["g"].members.keys() == {member_id, "one"}
    machine.wait(SESSION_MS + 1)
    assert not machine.coordinator.groups["g"].members


def test_a_classic_member_that_lives_stays_in_a_consumer_group(machine: Any) -> None:
    machine.topic("t", 4)
    clients = [Client(machine, "one")]
    clients[0].join(["t"])
    member_id = join_as_classic(machine, "").member_id
    generation, joins = join_as_classic(machine, member_id).generation_id, 1
    for second in range(0, 300, 5):
        if second == 100:
            clients.append(Client(machine, "two"))
            clients[1].join(["t"])
        settle(clients, 1)
        error = machine.coordinator.heartbeat(HeartbeatRequest("g", generation, member_id), machine.now)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            generation, joins = join_as_classic(machine, member_id).generation_id, joins + 1
            sync = machine.run(machine.coordinator.sync(SyncGroupRequest("g", generation, member_id), "", machine.now))
            error = ErrorCode(sync.error_code)
        assert error is ErrorCode.NONE
        machine.wait(5_000)
    assert joins > 2


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\1\0\0", b"\xff\xff\0\0\0\0"])
@pytest.mark.parametrize(
    ("release", "code"), [("4.3", ErrorCode.UNKNOWN_SERVER_ERROR), ("4.4", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)]
)
def test_a_classic_member_whose_subscription_makes_no_sense(
    release: str, code: ErrorCode, metadata: bytes, new_machine: Callable[..., Any]
) -> None:
    """A running Kafka of each of the two releases answers so."""
    machine = new_machine(pykafka_emulate=release)
    machine.topic("t", 2)
    Client(machine, "one").join(["t"])
    request = JoinGroupRequest(
        "g", 45_000, 60_000, "two", None, "consumer", [JoinGroupRequestProtocol("range", metadata)]
    )
    assert machine.run(machine.coordinator.join(request, machine.caller(5), object(), machine.now)).error_code is code


def test_members_that_wait_are_sent_back_though_the_consumer_that_converts_the_group_is_refused(machine: Any) -> None:
    machine.topic("t", 2)
    first, second = (join_as_classic(machine, "").member_id for _ in range(2))
    generation = join_as_classic(machine, first).generation_id
    machine.run(machine.coordinator.sync(SyncGroupRequest("g", generation, first), object(), machine.now))
    assert join_as_classic(machine, second, "waits") is None
    assert Client(machine, "new").join(regex="(") is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert machine.answers["waits"].error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert group_state(machine) == "PreparingRebalance"
    join_as_classic(machine, first, "first")
    assert join_as_classic(machine, second).generation_id == generation + 1
    assert machine.answers["first"].error_code == ErrorCode.NONE


@pytest.mark.parametrize("silently", [False, True])
def test_a_group_turns_back_though_a_subscription_of_a_member_makes_no_sense(silently: bool, machine: Any) -> None:
    """Only the first protocol of a member is read when it joins, and all members may agree on another one."""
    machine.topic("t", 2)
    client = Client(machine, "consumer")
    client.join(["t"])
    subscription = (1).to_bytes(2, "big") + ConsumerProtocolSubscription(["t"]).encode(1)
    for protocols in ({"range": subscription, "other": b""}, {"other": subscription}):
        join_as_classic(machine, join_as_classic(machine, "", **protocols).member_id, **protocols)
    if silently:
        machine.wait(SESSION_MS)
    else:
        assert client.beat(-1) is ErrorCode.NONE
    assert machine.coordinator.groups["g"].type_name == "classic"
