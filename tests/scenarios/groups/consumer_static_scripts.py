"""Static members of consumer groups (KIP-848): they leave for a while, and others may take their place.

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from tests.scenarios.groups.actors import Actor, ConsumerMember, owned
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts

SCENARIOS = scenario = Scripts[Stage]()


@scenario
def consumer_that_is_static(s: Stage) -> None:
    topic = s.topic("t", 2)
    one = ConsumerMember(s, "one", instance_id="i1")
    watcher = Actor(s, "watcher")
    one.join(topic)
    owned(one, topic, 0, 1)
    thief = ConsumerMember(s, "thief", instance_id="i1")
    thief.join(topic)
    thief.beat(1)
    one.beat(instance_id=None)
    ConsumerMember(s, "other", instance_id="i2").beat(1)
    one.beat(-2)
    watcher.describe_consumer()
    again = ConsumerMember(s, "again", instance_id="i1")
    again.join(topic)
    one.beat(1)
    again.beat()
    watcher.describe_consumer()
    again.beat(-1)
    watcher.describe_consumer()


@scenario
def consumer_static_that_is_away_and_owes_partitions(s: Stage) -> None:
    topic = s.topic("t", 2)
    one, two = ConsumerMember(s, "one", instance_id="i1"), ConsumerMember(s, "two")
    watcher = Actor(s, "watcher")
    one.join(topic, rebalance_timeout_ms=600)
    owned(one, topic, 0, 1)
    two.join(topic)
    one.beat()
    one.beat(-2)
    watcher.describe_consumer()
    watcher.delete_groups()
    s.wait(900)
    two.beat()
    watcher.describe_consumer()
    s.wait(1_000)
    two.beat()
    watcher.describe_consumer()


@scenario
def consumer_static_that_comes_back_in_time(s: Stage) -> None:
    topic = s.topic("t", 2)
    one, two = ConsumerMember(s, "one", instance_id="i1"), ConsumerMember(s, "two")
    watcher = Actor(s, "watcher")
    one.join(topic)
    owned(one, topic, 0, 1)
    two.join(topic)
    one.beat()
    one.beat(-2)
    again = ConsumerMember(s, "again", instance_id="i1")
    again.join(topic)
    two.beat()
    watcher.describe_consumer()
    again.commit({(topic, 0): 1})
    one.commit({(topic, 0): 2}, epoch=1)
    two.beat()


@scenario
def consumer_static_that_changes_its_mind(s: Stage) -> None:
    topic, other = s.topic("t", 2), s.topic("u", 1)
    one = ConsumerMember(s, "one", instance_id="i1")
    two = ConsumerMember(s, "two")
    one.join(topic)
    two.join(topic)
    one.beat(-2)
    again = ConsumerMember(s, "again", instance_id="i1")
    again.join(topic, other)
    two.beat()
    again.beat()
    again.beat(-2)
    s.wait(1_900)
    Actor(s, "watcher").describe_consumer()
