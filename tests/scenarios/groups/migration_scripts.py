"""Groups of consumers between the classic and the consumer protocol (KIP-848, online migration).

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from tests.scenarios.groups.actors import Actor, ClassicMember, ConsumerMember, assignment, owned, subscription
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts

SCENARIOS = scenario = Scripts[Stage]()


@scenario
def consumer_group_meets_the_classic_protocol(s: Stage) -> None:
    topic = s.topic("t", 2)
    one = ConsumerMember(s, "one")
    one.join(topic)
    old = ClassicMember(s, "old", protocols={"range": subscription([topic])})
    old.sync()
    old.heartbeat()
    old.leave()
    connect = ClassicMember(s, "connect", protocol_type="connect", protocols={"default": b"x"})
    connect.join()
    old.join("nobody")
    one.beat(-1)
    old.enter()
    old.joined()
    old.describe()


@scenario
def classic_group_meets_the_consumer_protocol(s: Stage) -> None:
    topic = s.topic("t", 2)
    connect = ClassicMember(s, "connect", protocol_type="connect", protocols={"default": b"x"})
    connect.enter()
    connect.joined()
    connect.sync({connect.member_id: b"y"})
    one = ConsumerMember(s, "one")
    one.join(topic)
    one.beat(1)
    one.beat(-1)
    connect.leave()
    one.join(topic)
    one.list_groups()


@scenario
def upgrade_and_downgrade(s: Stage) -> None:
    topic = s.topic("t", 4)
    old = ClassicMember(s, "old", protocols={"range": subscription([topic])})
    watcher = Actor(s, "watcher")
    old.enter()
    old.joined()
    old.sync({old.member_id: assignment({topic: [0, 1, 2, 3]})})
    old.commit({(topic, 0): 7})
    new = ConsumerMember(s, "new")
    new.join(topic)
    watcher.list_groups()
    watcher.describe_consumer()
    old.heartbeat()
    old.protocols = {"range": subscription([topic], owned={topic: [0, 1, 2, 3]})}
    old.join()
    old.sync()
    old.heartbeat()
    new.beat()
    old.protocols = {"range": subscription([topic])}
    old.join()
    old.sync()
    new.beat()
    new.beat()
    old.heartbeat()
    old.commit({(topic, 0): 8})
    old.commit({(topic, 0): 9}, epoch=0)
    watcher.describe_consumer()
    third = ClassicMember(s, "third", protocols={"range": subscription([topic])})
    third.join()
    third.join()
    third.sync()
    third.heartbeat()
    third.leave()
    new.beat(-1)
    watcher.list_groups()
    old.heartbeat()
    old.join()
    old.sync({old.member_id: assignment({topic: [0, 1, 2, 3]})})
    watcher.describe()
    watcher.fetch(None)


@scenario
def upgrade_while_classic_members_wait(s: Stage) -> None:
    topic = s.topic("t", 2)
    one = ClassicMember(s, "one", protocols={"range": subscription([topic])})
    one.enter()
    one.joined()
    one.sync({one.member_id: assignment({topic: [0, 1]})})
    two = ClassicMember(s, "two", protocols={"range": subscription([topic])})
    two.enter()
    two.waits()
    new = ConsumerMember(s, "new")
    new.join(topic)
    two.joined()
    one.heartbeat()
    one.leave()
    two.leave()
    new.beat()


@scenario
def classic_member_of_a_consumer_group_fades_away(s: Stage) -> None:
    topic = s.topic("t", 2)
    new = ConsumerMember(s, "new")
    new.join(topic)
    owned(new, topic, 0, 1)
    old = ClassicMember(s, "old", protocols={"range": subscription([topic])}, session_ms=1_000, rebalance_ms=700)
    old.join()
    old.join()
    s.wait(900)
    new.beat()
    old.sync()
    s.wait(600)
    new.beat()
    old.heartbeat()
    again = ClassicMember(
        s, "again", instance_id="i", protocols={"range": subscription([topic])}, session_ms=1_000, rebalance_ms=5_000
    )
    again.join()
    again.sync()
    for _ in range(3):
        s.wait(500)
        new.beat()
    again.heartbeat()
