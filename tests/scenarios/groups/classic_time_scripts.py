"""Scenarios of members of classic groups that are late or silent (KIP-62, KIP-394).

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from tests.scenarios.groups.actors import ClassicMember, joined_pair, stable_pair
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts

SCENARIOS = scenario = Scripts[Stage]()


@scenario
def member_that_does_not_come_back(s: Stage) -> None:
    one, two = stable_pair(s, rebalance_ms=1_000)
    three = ClassicMember(s, "three", rebalance_ms=1_000)
    three.enter()
    three.waits()
    s.wait(100)
    one.send_join()
    one.waits()
    s.wait(900)
    one.joined()
    three.joined()
    two.heartbeat()
    two.describe()


@scenario
def nobody_comes_back(s: Stage) -> None:
    one, two = stable_pair(s, rebalance_ms=1_000)
    two.leave()
    s.wait(1_200)
    one.heartbeat()
    one.describe()


@scenario
def session_that_ends(s: Stage) -> None:
    one, two = stable_pair(s, session_ms=1_000)
    s.wait(600)
    one.heartbeat()
    s.wait(600)
    one.heartbeat()
    two.heartbeat()
    one.join()
    one.describe()


@scenario
def commit_keeps_a_session_alive(s: Stage) -> None:
    topic = s.topic("t")
    one, _ = stable_pair(s, session_ms=1_000)
    s.wait(600)
    one.commit({(topic, 0): 1})
    s.wait(600)
    one.heartbeat()


@scenario
def id_that_is_never_used(s: Stage) -> None:
    one = ClassicMember(s, "one", session_ms=600)
    one.join()
    one.describe()
    s.wait(900)
    one.send_join()
    one.joined()


@scenario
def pending_id_holds_up_the_rebalance(s: Stage) -> None:
    one = ClassicMember(s, "one", rebalance_ms=10_000)
    one.enter()
    one.joined()
    one.sync({one.member_id: b"all"})
    late = ClassicMember(s, "late", session_ms=800)
    late.join()
    one.heartbeat()
    two = ClassicMember(s, "two")
    two.enter()
    one.send_join()
    one.waits()
    s.wait(1_200)
    one.joined()
    two.joined()


@scenario
def pending_id_outlives_all_members(s: Stage) -> None:
    one = ClassicMember(s, "one", rebalance_ms=10_000)
    one.enter()
    one.joined()
    one.sync({one.member_id: b"all"})
    late = ClassicMember(s, "late")
    late.join()
    two = ClassicMember(s, "two", rebalance_ms=10_000)
    two.enter()
    two.waits()
    late.leave((two.member_id, None), (one.member_id, None))
    two.joined()
    late.describe()
    other = ClassicMember(s, "other", protocol_type="connect")
    other.join()
    late.protocols = {"roundrobin": b"late"}
    late.send_join()
    late.joined()
    late.describe()


@scenario
def last_member_leaves_before_a_pending_id(s: Stage) -> None:
    one = ClassicMember(s, "one", rebalance_ms=10_000)
    one.enter()
    one.joined()
    one.sync({one.member_id: b"all"})
    late = ClassicMember(s, "late")
    late.join()
    one.leave()
    s.wait(100)
    one.describe()
    late.send_join()
    late.joined()


@scenario
def member_that_never_syncs(s: Stage) -> None:
    one, two = joined_pair(s, rebalance_ms=1_000)
    one.sync({one.member_id: b"x", two.member_id: b"y"})
    s.wait(1_300)
    one.heartbeat()
    two.heartbeat()
    two.sync()


@scenario
def leader_that_never_syncs(s: Stage) -> None:
    one, two = joined_pair(s, rebalance_ms=1_000)
    two.send_sync()
    s.wait(1_300)
    two.receive()
    one.heartbeat()
    two.join()
