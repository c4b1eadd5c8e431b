"""Classic groups: the initial delay, and a random walk of members that come, go, fall silent and return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka_broker.coordinators.groups.classic_group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.join_group_response import JoinGroupResponse
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS = 10_000
REBALANCE_MS = 6_000


def test_no_refusal_names_a_protocol(machine: Any) -> None:
    """Kafka 4.4.0 says null, and an empty name in versions before 7."""
    request = JoinGroupRequest("g", 350_000, 400_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"x")])
    for token in ("one", "two"):
        machine.run(machine.coordinator.join(request, machine.caller(3), token, machine.now))
        machine.wait(10_000)
    machine.wait(300_000)  # the second join has waited for the first member all the time
    refusal = machine.answers["two"]
    assert (refusal.error_code, refusal.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    for version, protocol_name in ((9, None), (7, None), (6, "")):
        assert JoinGroupResponse.decode(refusal.encode(version), version).protocol_name == protocol_name


class Client:
    """An honest consumer: one of version 3, which gets its id with its first answer, or a static one."""

    def __init__(self, machine: Any, name: str, instance_id: str | None = None) -> None:
        self.machine = machine
        self.name = name
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.members: list[str] = []
        self.tokens = 0
        self.waiting: tuple[str, Any] | None = None

    def _token(self) -> tuple[str, int]:
        self.tokens += 1
        return self.name, self.tokens

    def join(self) -> None:
        token = self._token()
        protocols = [JoinGroupRequestProtocol("range", self.name.encode())]
        request = JoinGroupRequest(
            "g", SESSION_MS, REBALANCE_MS, self.member_id, self.instance_id, "consumer", protocols
        )
        version = 3 if self.instance_id is None else 5
        machine = self.machine
        effects = machine.coordinator.join(request, machine.caller(version), token, machine.now)
        self._note("join", token, machine.run(effects))

    def sync(self) -> None:
        token = self._token()
        shares = [SyncGroupRequestAssignment(member, member.encode()) for member in self.members]
        request = SyncGroupRequest("g", self.generation, self.member_id, self.instance_id, assignments=shares)
        machine = self.machine
        self._note("sync", token, machine.run(machine.coordinator.sync(request, token, machine.now)))

    def _note(self, kind: str, token: Any, reply: Any) -> None:
        self.waiting = (kind, token)
        if reply is not None:
            self.machine.answers[token] = reply
        self.look()

    def look(self) -> None:
        """Process the answer, if there is one."""
        if self.waiting is None or self.waiting[1] not in self.machine.answers:
            return
        (kind, token), self.waiting = self.waiting, None
        reply = self.machine.answers[token]
        if kind == "join" and reply.error_code == ErrorCode.NONE:
            self.member_id, self.generation = reply.member_id, reply.generation_id
            self.members = [member.member_id for member in reply.members]
        elif kind == "sync" and reply.error_code == ErrorCode.NONE:
            assert reply.assignment in (self.member_id.encode(), b"")
        elif reply.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""

    def beat(self) -> ErrorCode:
        request = HeartbeatRequest("g", self.generation, self.member_id, self.instance_id)
        return ErrorCode(self.machine.coordinator.heartbeat(request, self.machine.now))

    def leave(self) -> None:
        members = [MemberIdentity(self.member_id, self.instance_id)]
        machine = self.machine
        machine.run(machine.coordinator.leave(LeaveGroupRequest("g", members=members), machine.now))


def group_of(machine: Any) -> ClassicGroup:
    group = machine.coordinator.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group


def check(group: ClassicGroup) -> None:
    """Assert what holds in every state of a classic group."""
    members = group.members.values()
    assert group.awaiting_join == sum(member.join_token is not None for member in members)
    assert (group.leader in group.members) or not group.members
    assert {member.instance_id: member.member_id for member in members if member.instance_id} == group.static_members
    assert group.pending_syncs <= set(group.members)
    assert not group.pending_joins & set(group.members)
    if group.state is EMPTY:
        assert not group.members
    if group.state is STABLE:
        assert all(member.join_token is None and member.sync_token is None for member in members)
    if group.state is PREPARING_REBALANCE:
        assert all(member.sync_token is None for member in members)


def check_record(machine: Any, group: ClassicGroup) -> None:
    """Assert that a restart would find the members and the generation of a stable group."""
    if group.state is STABLE:
        value = machine.log[-1][0].value
        assert {member.member_id: member.assignment for member in value.members} == group.assignments()
        assert (value.generation, value.leader) == (group.generation, group.leader)


STEPS = st.lists(
    st.tuples(st.sampled_from(["join", "sync", "beat", "leave", "restart-client", "wait"]), st.integers(0, 3)),
    max_size=50,
)


@pytest.mark.whole
@settings(max_examples=200)
@given(steps=STEPS, delay=st.sampled_from(["0", "3000"]))
def test_a_random_walk_ends_in_a_stable_group(
    steps: list[tuple[str, int]], delay: str, new_machine: Callable[..., Any]
) -> None:
    machine = new_machine(group_initial_rebalance_delay_ms=delay)
    clients = [Client(machine, f"c{number}", "static" if number == 3 else None) for number in range(4)]
    for action, number in steps:
        client = clients[number]
        if action == "wait":
            machine.wait(1_000 * (number + 1))
        elif action == "restart-client":  # its connection breaks, and with it the request that waits
            clients[number] = Client(machine, client.name, client.instance_id)
            clients[number].tokens = client.tokens + 1_000
        elif client.waiting is None:
            {"join": client.join, "sync": client.sync, "beat": client.beat, "leave": client.leave}[action]()
        for one in clients:
            one.look()
        if "g" in machine.coordinator.groups:
            check(group_of(machine))
            check_record(machine, group_of(machine))
    live_and_settle(machine, clients)
    group = group_of(machine)
    assert group.state is STABLE
    assert set(group.members) == {client.member_id for client in clients}
    assert {client.generation for client in clients} == {group.generation}
    assert all(member.assignment == member.member_id.encode() for member in group.members.values())
    assert sum(bool(client.members) for client in clients) == 1, "one of them leads"
    machine.restart()
    again = group_of(machine)
    assert (again.generation, set(again.members), again.leader) == (group.generation, set(group.members), group.leader)


def test_a_static_member_that_is_back_is_known_after_a_restart(machine: Any) -> None:
    client = Client(machine, "c", "static")
    live_and_settle(machine, [client])
    before, client.member_id = client.member_id, ""
    client.join()
    check_record(machine, group_of(machine))
    machine.restart()
    assert client.member_id != before
    assert client.beat() is ErrorCode.NONE


def live_and_settle(machine: Any, clients: list[Client]) -> None:
    """Let clients act until nothing has to be done any more; dead members leave meanwhile."""
    machine.wait(310_000)
    for client in clients:
        client.look()
    for _ in range(60):
        for client in clients:
            if client.waiting is not None:
                continue
            error = client.beat() if client.member_id else ErrorCode.UNKNOWN_MEMBER_ID
            if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                client.member_id = ""
            if error is not ErrorCode.NONE:
                client.join()
        machine.wait(1_000)
        for client in clients:
            client.look()
        for client in clients:
            if client.waiting is None and "g" in machine.coordinator.groups:
                group = group_of(machine)
                if group.state is COMPLETING_REBALANCE and client.generation == group.generation:
                    client.sync()
        for client in clients:
            client.look()


def test_the_initial_delay_grows_with_new_members_up_to_the_rebalance_timeout(
    new_machine: Callable[..., Any],
) -> None:
    machine = new_machine(group_initial_rebalance_delay_ms="3000")
    clients = [Client(machine, f"c{number}") for number in range(3)]
    clients[0].join()
    machine.wait(2_000)
    clients[1].join()
    machine.wait(1_000)
    clients[2].join()
    machine.wait(2_999)
    for client in clients:
        client.look()
        assert client.waiting is not None
    machine.wait(1)
    for client in clients:
        client.look()
    assert [client.generation for client in clients] == [1, 1, 1]
    assert [len(client.members) for client in clients] == [3, 0, 0]


def test_a_lone_member_waits_for_the_initial_delay_and_no_longer(new_machine: Callable[..., Any]) -> None:
    machine = new_machine(group_initial_rebalance_delay_ms="3000")
    client = Client(machine, "c")
    client.join()
    machine.wait(2_999)
    client.look()
    assert client.waiting is not None
    machine.wait(1)
    client.look()
    assert client.generation == 1


def ask_for_an_id(machine: Any) -> JoinGroupRequest:
    """Send the first JoinGroup of version 4; return the request to come back with, which has the member id."""
    protocols = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest("g", SESSION_MS, REBALANCE_MS, "", None, "consumer", protocols)
    reply = machine.run(machine.coordinator.join(request, machine.caller(4), "asked", machine.now))
    assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
    request.member_id = reply.member_id
    return request


def test_a_group_without_members_refuses_a_member_without_protocols(new_machine: Callable[..., Any]) -> None:
    machine = new_machine(group_initial_rebalance_delay_ms="3000")
    client = Client(machine, "c")
    client.join()
    second = ask_for_an_id(machine)
    (client.member_id,) = group_of(machine).members
    client.leave()
    assert group_of(machine).state is PREPARING_REBALANCE
    protocols, second.protocols = second.protocols, []
    reply = machine.run(machine.coordinator.join(second, machine.caller(4), "none", machine.now))
    assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    second.protocols = protocols
    assert machine.run(machine.coordinator.join(second, machine.caller(4), "some", machine.now)) is None
    machine.wait(REBALANCE_MS)
    assert machine.answers["some"].generation_id == 1


def test_a_group_that_is_too_large_after_a_restart_rebalances(new_machine: Callable[..., Any]) -> None:
    machine = new_machine()
    clients = [Client(machine, f"c{number}") for number in range(3)]
    live_and_settle(machine, clients)
    assert len(group_of(machine).members) == 3
    small = new_machine(group_max_size="2")
    small.log, small.now = machine.log, machine.now
    small.restart()
    assert group_of(small).state is PREPARING_REBALANCE
    for client in clients:
        client.machine = small
        client.join()
    for client in clients:
        client.look()
    assert sorted(group_of(small).members) == sorted(client.member_id for client in clients[:2])


def test_a_step_that_is_not_in_the_table_is_a_defect() -> None:
    with pytest.raises(RuntimeError, match="g can't go from Empty to Stable"):
        ClassicGroup("g", 0).move_to(STABLE, 0)


def test_a_member_that_waits_for_others_needs_no_heartbeats(machine: Any) -> None:
    """A connection that waits for the answer can send none, and the session may be shorter than the rebalance."""

    def join(token: str, member_id: str = "") -> str:
        protocols = [JoinGroupRequestProtocol("range", b"x")]
        request = JoinGroupRequest("g", 6_000, 60_000, member_id, None, "consumer", protocols)
        reply = machine.run(machine.coordinator.join(request, machine.caller(3), token, machine.now))
        return str((reply or machine.answers.get(token) or request).member_id)

    one = join("one")
    join("two")
    join("one again", one)
    two = machine.answers["two"].member_id
    group = machine.coordinator.groups["g"]
    shares = [SyncGroupRequestAssignment(member, b"") for member in (one, two)]
    for member in (one, two):
        sync = SyncGroupRequest("g", group.generation, member, assignments=shares)
        machine.run(machine.coordinator.sync(sync, f"sync {member}", machine.now))
    assert group.state is STABLE
    join("a third time", one)  # the leader wants another assignment
    for _ in range(4):
        machine.wait(5_000)
        beat = HeartbeatRequest("g", group.generation, two)
        assert machine.coordinator.heartbeat(beat, machine.now) is ErrorCode.REBALANCE_IN_PROGRESS
    join("two again", two)
    answer = machine.answers["a third time"]
    assert (answer.error_code, answer.member_id) == (ErrorCode.NONE, one)


def test_a_static_member_that_is_back_before_it_has_its_share(machine: Any) -> None:
    leader, static = Client(machine, "a"), Client(machine, "b", "static")
    leader.join()
    live_and_settle(machine, [leader, static])
    leader.join()
    static.join()
    leader.look()
    leader.sync()
    assert group_of(machine).pending_syncs == {static.member_id}
    back = Client(machine, "b", "static")
    back.join()
    check(group_of(machine))
    machine.wait(REBALANCE_MS + 1)
    assert back.beat() is ErrorCode.NONE


@pytest.mark.parametrize("state", [STABLE, PREPARING_REBALANCE])
def test_a_commit_counts_as_a_heartbeat(machine: Any, state: object) -> None:
    machine.topic("t")
    clients = [Client(machine, "a"), Client(machine, "b")]
    live_and_settle(machine, clients)
    leader, other = sorted(clients, key=lambda each: each.member_id != group_of(machine).leader)
    if state is PREPARING_REBALANCE:
        leader.join()
    assert group_of(machine).state is state
    machine.wait(1_500)
    topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 5)])
    commit = OffsetCommitRequest("g", other.generation, other.member_id, topics=[topic])
    machine.run(machine.coordinator.offset_requests.commit(commit, 8, machine.now))
    session = group_of(machine).members[other.member_id].session_key
    assert machine.coordinator.table.timers._deadlines[session] == machine.now + SESSION_MS


def test_a_session_begins_anew_with_the_share_that_a_member_has_waited_for(machine: Any) -> None:
    clients = [Client(machine, "a"), Client(machine, "b")]
    live_and_settle(machine, clients)
    leader, other = sorted(clients, key=lambda each: each.member_id != group_of(machine).leader)
    leader.join()
    other.join()
    leader.look()
    other.sync()
    for _ in range(5):
        machine.wait(REBALANCE_MS // 6)
        assert leader.beat() is ErrorCode.NONE
    group_of(machine).members[other.member_id].session_timeout_ms = 2_000
    machine.coordinator.table.timers.set(group_of(machine).members[other.member_id].session_key, machine.now)
    machine.wait(100)  # the session ends while the member waits
    leader.sync()
    assert group_of(machine).state is STABLE
    machine.wait(2_500)
    assert group_of(machine).state is not STABLE, "the member has said nothing since"
