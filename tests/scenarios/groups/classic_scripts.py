"""Scenarios of members of classic groups that join, assign and rebalance, by the protocol or against it.

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from tests.scenarios.groups.actors import ClassicMember, joined_pair, stable_pair
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts

SCENARIOS = scenario = Scripts[Stage]()


@scenario
def lone_member_of_each_version(s: Stage) -> None:
    for version in range(10):
        member = ClassicMember(s, f"v{version}", version=version)
        member.group = f"{s.group}-{version}"
        if version >= 4:
            member.enter()
        else:
            member.send_join()
        member.joined()
        member.sync({member.member_id: b"all"}, version=min(version, 5))
        member.heartbeat(version=min(version, 4))
        member.describe(member.group, version=min(version, 6))
        member.leave(version=min(version, 5))
        member.describe(member.group, version=min(version, 6))


@scenario
def second_member_comes_and_goes(s: Stage) -> None:
    one, two = stable_pair(s)
    one.describe(operations=True)
    one.heartbeat()
    two.heartbeat()
    two.leave()
    one.heartbeat()
    one.describe()
    one.join()
    one.describe()
    one.sync({one.member_id: b"everything"})
    one.describe()
    one.leave()
    one.describe()
    one.heartbeat()


@scenario
def leader_leaves(s: Stage) -> None:
    one, two = stable_pair(s)
    one.leave()
    two.heartbeat()
    two.join()
    two.sync({two.member_id: b"all"})
    two.heartbeat()


@scenario
def joins_that_are_refused(s: Stage) -> None:
    one = ClassicMember(s, "one", session_ms=1)
    one.join()
    one.session_ms = 100_000_000
    one.join()
    one.session_ms = 30_000
    one.group = ""
    one.join()
    one.group = s.group
    one.join("nobody")
    one.protocols = {}
    one.join()
    one.protocols = {"range": b""}
    one.protocol_type = ""
    one.join()
    one.protocol_type = "consumer"
    one.enter()
    one.joined()
    other = ClassicMember(s, "other", protocols={"roundrobin": b"x"})
    other.join()
    other.protocols = {"range": b"x"}
    other.protocol_type = "connect"
    other.join()
    other.protocol_type = "consumer"
    other.join("nobody")
    other.instance_id = "static"
    other.join("nobody")


@scenario
def protocol_by_vote(s: Stage) -> None:
    one = ClassicMember(s, "one", protocols={"a": b"1a", "b": b"1b", "c": b"1c"})
    one.enter()
    one.joined()
    two = ClassicMember(s, "two", protocols={"b": b"2b", "a": b"2a"})
    two.enter()
    one.send_join()
    one.joined()
    two.joined()
    three = ClassicMember(s, "three", protocols={"b": b"3b", "d": b"3d"})
    three.enter()
    one.send_join()
    two.send_join()
    one.joined()
    two.joined()
    three.joined()


@scenario
def syncs_that_are_refused(s: Stage) -> None:
    one = ClassicMember(s, "one")
    one.sync()
    one.group = ""
    one.sync()
    one.group = s.group
    one.enter()
    one.joined()
    one.sync(epoch=7)
    one.sync(protocol_type="connect")
    one.sync(protocol_name="sticky")
    one.sync(protocol_name=None)
    one.sync(protocol_type=None)
    one.sync(protocol_type=None, protocol_name=None)
    one.sync(group_instance_id="static")
    one.sync({"nobody": b"x"})
    one.sync({one.member_id: b"late"})
    two = ClassicMember(s, "two")
    two.enter()
    one.sync({one.member_id: b"too late"})
    two.waits()
    one.sync(epoch=0)


@scenario
def heartbeats_that_are_refused(s: Stage) -> None:
    one = ClassicMember(s, "one")
    one.heartbeat()
    one.join()
    one.heartbeat(epoch=0)
    one.send_join()
    one.joined()
    one.heartbeat(epoch=9)
    one.heartbeat(member_id="nobody")
    one.heartbeat(instance_id="static")
    one.group = ""
    one.heartbeat()
    one.group = s.group
    one.heartbeat()
    two = ClassicMember(s, "two")
    two.enter()
    one.heartbeat()
    one.heartbeat(epoch=9)


@scenario
def rebalance_cuts_a_waiting_sync_short(s: Stage) -> None:
    one, two = joined_pair(s)
    two.send_sync()
    two.waits()
    three = ClassicMember(s, "three")
    three.enter()
    two.receive()
    three.waits()
    one.sync({one.member_id: b"x"})


@scenario
def leader_joins_again_when_stable(s: Stage) -> None:
    one, two = stable_pair(s)
    two.join()
    two.heartbeat()
    one.send_join()
    one.waits()
    two.heartbeat()
    two.send_join()
    one.joined()
    two.joined()
    two.join()
    one.join()
    two.protocols = {"range": b"changed"}
    two.send_join()
    two.waits()
    one.heartbeat()


@scenario
def full_group(s: Stage) -> None:
    members = [ClassicMember(s, f"m{index}", rebalance_ms=1_000) for index in range(5)]
    members[0].enter()
    members[0].joined()
    for member in members[1:4]:
        member.enter()
    members[0].send_join()
    for member in members[:4]:
        member.joined()
    members[4].join()
    members[0].send_join()
    members[4].join()
    for member in members[1:4]:
        member.send_join()
    for member in members[:4]:
        member.joined()


@scenario
def initial_state_of_two_at_once(s: Stage) -> None:
    one, two = ClassicMember(s, "one"), ClassicMember(s, "two")
    one.join()
    two.join()
    one.send_join()
    one.joined()
    two.send_join()
    two.waits()
    one.send_join()
    one.joined()
    two.joined()
