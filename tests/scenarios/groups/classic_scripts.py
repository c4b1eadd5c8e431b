"""What members of classic groups do, well and badly.

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from tests.scenarios.groups.actors import Actor, ClassicMember, assignment, subscription
from tests.scenarios.groups.stage import Scenario, Stage

SCENARIOS: dict[str, Scenario] = {}


def scenario(run: Scenario) -> Scenario:
    SCENARIOS[run.__name__.replace("_", "-")] = run
    return run


def stable_pair(s: Stage, **fields: object) -> tuple[ClassicMember, ClassicMember]:
    """Two members with their shares: the first one leads."""
    one, two = ClassicMember(s, "one", **fields), ClassicMember(s, "two", **fields)  # type: ignore[arg-type]
    one.enter()
    one.joined()
    two.enter()
    one.send_join()
    one.joined()
    two.joined()
    two.send_sync()
    one.sync({one.member_id: b"half", two.member_id: b"other"})
    two.receive()
    return one, two


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
    one = ClassicMember(s, "one")
    one.enter()
    one.joined()
    two = ClassicMember(s, "two")
    two.enter()
    one.send_join()
    one.joined()
    two.joined()
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
def member_that_never_syncs(s: Stage) -> None:
    one = ClassicMember(s, "one", rebalance_ms=1_000)
    one.enter()
    one.joined()
    two = ClassicMember(s, "two", rebalance_ms=1_000)
    two.enter()
    one.send_join()
    one.joined()
    two.joined()
    one.sync({one.member_id: b"x", two.member_id: b"y"})
    s.wait(1_300)
    one.heartbeat()
    two.heartbeat()
    two.sync()


@scenario
def leader_that_never_syncs(s: Stage) -> None:
    one = ClassicMember(s, "one", rebalance_ms=1_000)
    one.enter()
    one.joined()
    two = ClassicMember(s, "two", rebalance_ms=1_000)
    two.enter()
    one.send_join()
    one.joined()
    two.joined()
    two.send_sync()
    s.wait(1_300)
    two.receive()
    one.heartbeat()
    two.join()


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
def leaving_in_every_way(s: Stage) -> None:
    one, two = stable_pair(s)
    one.leave(("nobody", None), ("", None), ("", "nobody"), (two.member_id, "static"))
    one.heartbeat()
    three = ClassicMember(s, "three")
    three.join()
    one.leave((three.member_id, None), (two.member_id, None))
    one.heartbeat()
    one.group = ""
    one.leave()
    one.group = s.group + "-none"
    one.leave()
    one.leave(version=2)
    one.group = s.group
    one.leave(version=1)
    one.describe()


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


@scenario
def groups_that_can_not_be_deleted(s: Stage) -> None:
    one, _ = stable_pair(s)
    one.delete_groups(s.group, s.group + "-none", "")
    one.delete_groups(s.group, version=0)
    one.leave()
    one.delete_groups()


@scenario
def empty_group_is_deleted(s: Stage) -> None:
    topic = s.topic("t")
    one = ClassicMember(s, "one")
    one.enter()
    one.joined()
    one.sync({one.member_id: b"all"})
    one.commit({(topic, 0): 5})
    one.leave()
    one.list_groups()
    one.fetch({topic: [0]})
    one.delete_groups()
    one.fetch({topic: [0]})
    one.list_groups()
    one.describe()
    one.delete_groups()


@scenario
def listing_and_describing(s: Stage) -> None:
    one, _ = stable_pair(s)
    for version in range(6):
        one.list_groups(version=version)
    one.list_groups(states=["stable"])
    one.list_groups(states=["Empty", "Dead"])
    one.list_groups(types=["CLASSIC"])
    one.list_groups(types=["consumer"])
    one.list_groups(types=["nonsense"])
    one.list_groups(states=["STABLE"], types=["Classic", "share"])
    watcher = Actor(s, "watcher")
    one.send_join()
    watcher.list_groups()
    watcher.describe()
    for version in range(7):
        watcher.describe(s.group + "-none", "", version=version)
    watcher.describe_consumer(s.group, s.group + "-none", "")


@scenario
def subscribed_topics_of_real_consumers(s: Stage) -> None:
    topic, other = s.topic("t", 2), s.topic("other")
    one = ClassicMember(s, "one", protocols={"range": subscription([topic])})
    one.enter()
    one.joined()
    one.sync({one.member_id: assignment({topic: [0, 1]})})
    one.commit({(topic, 0): 3, (topic, 1): 4, (other, 0): 5})
    one.delete_offsets({topic: [0], other: [0, 9], "nowhere": [0]})
    one.fetch(None)
    one.leave()
    one.delete_offsets({topic: [0]})
    one.fetch(None)
    one.delete_offsets({topic: [1]}, group=s.group + "-none")
    one.delete_offsets({topic: [1]}, group="")


@scenario
def offsets_of_a_group_that_is_not_of_consumers(s: Stage) -> None:
    topic = s.topic("t")
    one = ClassicMember(s, "one", protocol_type="connect", protocols={"default": b"x"})
    one.enter()
    one.joined()
    one.sync({one.member_id: b"y"})
    one.commit({(topic, 0): 3})
    one.delete_offsets({topic: [0]})
    one.leave()
    one.delete_offsets({topic: [0]})


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
