"""Static members of classic groups: they come back under their instance id (KIP-345).

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from tests.scenarios.groups.actors import ClassicMember
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts

SCENARIOS = scenario = Scripts[Stage]()


@scenario
def static_member_returns_to_a_stable_group(s: Stage) -> None:
    for version in (5, 8, 9):
        group = f"{s.group}-{version}"
        one = ClassicMember(s, "one", instance_id="i1", version=version)
        two = ClassicMember(s, "two", instance_id="i2", version=version)
        one.group = two.group = group
        one.send_join()
        one.joined()
        two.send_join()
        one.send_join()
        one.joined()
        two.joined()
        two.send_sync()
        one.sync({one.member_id: b"half", two.member_id: b"other"})
        two.receive()
        again = ClassicMember(s, "two", instance_id="i2", protocols=two.protocols, version=version)
        again.group = group
        again.join()
        again.sync()
        two.heartbeat()
        two.sync()
        two.commit({}, instance_id="i2")
        again.heartbeat()
        leader = ClassicMember(s, "one", instance_id="i1", protocols=one.protocols, version=version)
        leader.group = group
        leader.join()
        leader.sync()
        one.heartbeat()
        one.join()
        leader.describe(group)
        leader.leave(("", "i2"))
        again.heartbeat()
        leader.heartbeat()


@scenario
def static_member_returns_with_other_protocols(s: Stage) -> None:
    one = ClassicMember(s, "one", instance_id="i1", protocols={"a": b"1", "b": b"1"})
    one.send_join()
    one.joined()
    one.sync({one.member_id: b"all"})
    again = ClassicMember(s, "one", instance_id="i1", protocols={"a": b"2", "b": b"2"})
    again.join()
    again.sync()
    other = ClassicMember(s, "one", instance_id="i1", protocols={"b": b"3"})
    other.join()
    other.sync({other.member_id: b"b"})
    again.heartbeat()


@scenario
def static_member_returns_during_a_rebalance(s: Stage) -> None:
    one = ClassicMember(s, "one", instance_id="i1", rebalance_ms=2_000)
    one.send_join()
    one.joined()
    two = ClassicMember(s, "two", instance_id="i2", rebalance_ms=2_000)
    two.send_join()
    again = ClassicMember(s, "two", instance_id="i2", rebalance_ms=2_000)
    again.send_join()
    two.joined()
    again.waits()
    one.send_join()
    one.joined()
    again.joined()
    again.send_sync()
    third = ClassicMember(s, "two", instance_id="i2", rebalance_ms=2_000)
    third.send_join()
    again.receive()
    third.waits()
    one.heartbeat()
    one.send_join()
    one.joined()
    third.joined()


@scenario
def static_member_stays_away(s: Stage) -> None:
    one = ClassicMember(s, "one", instance_id="i1", rebalance_ms=600, session_ms=2_000)
    one.send_join()
    one.joined()
    two = ClassicMember(s, "two", rebalance_ms=600, session_ms=6_000)
    two.enter()
    s.wait(900)
    two.joined()
    two.sync({two.member_id: b"all"})
    two.describe()
    s.wait(1_500)
    two.heartbeat()
    two.join()
    two.describe()
