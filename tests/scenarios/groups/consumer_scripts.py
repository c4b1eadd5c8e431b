"""Scenarios of members of consumer groups (KIP-848) that join, leave and commit, by the protocol or against it.

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from tests.scenarios.groups.actors import Actor, ConsumerMember, owned
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts

SCENARIOS = scenario = Scripts[Stage]()


@scenario
def consumer_alone(s: Stage) -> None:
    topic = s.topic("t", 3)
    one = ConsumerMember(s, "one")
    watcher = Actor(s, "watcher")
    one.join(topic)
    one.beat()
    owned(one, topic, 0, 1, 2)
    watcher.describe_consumer(operations=True)
    watcher.describe_consumer(version=0)
    watcher.describe()
    watcher.describe(version=5)
    watcher.list_groups()
    watcher.list_groups(states=["stable"], types=["Consumer"])
    watcher.delete_groups()
    one.beat(-1)
    watcher.describe_consumer()
    watcher.list_groups()
    watcher.delete_groups()
    watcher.describe_consumer()
    watcher.list_groups()


@scenario
def consumer_version_0_may_have_no_id(s: Stage) -> None:
    topic = s.topic("t", 1)
    one = ConsumerMember(s, "one", version=0)
    one.member_id = ""
    answer = one.join(topic)
    one.member_id = answer.member_id
    one.beat()
    one.member_id = ""
    one.beat(1)
    one.version = 1
    one.join(topic)


@scenario
def consumer_revokes_before_another_is_assigned(s: Stage) -> None:
    topic = s.topic("t", 4)
    one, two = ConsumerMember(s, "one"), ConsumerMember(s, "two")
    watcher = Actor(s, "watcher")
    one.join(topic)
    owned(one, topic, 0, 1, 2, 3)
    two.join(topic)
    watcher.describe_consumer()
    two.beat()
    shrunk = one.beat()
    watcher.describe_consumer()
    two.beat()
    kept = sorted(shrunk.assignment.topic_partitions[0].partitions)
    owned(one, topic, *kept)
    watcher.list_groups()
    two.beat()
    watcher.describe_consumer()
    one.beat(-1)
    two.beat()
    two.beat(-1)
    watcher.describe_consumer()


@scenario
def consumer_heartbeats_that_make_no_sense(s: Stage) -> None:
    topic = s.topic("t", 1)
    one = ConsumerMember(s, "one")
    one.join(topic, group_id="")
    one.join(topic, member_id="")
    one.join(topic, instance_id="")
    one.join(topic, rack_id="")
    one.join(topic, rebalance_timeout_ms=-1)
    one.beat(0, rebalance_timeout_ms=1000, subscribed_topic_names=[topic])
    one.beat(0, owned={topic: [0]}, rebalance_timeout_ms=1000, subscribed_topic_names=[topic])
    one.beat(0, owned={}, rebalance_timeout_ms=1000)
    one.beat(-3)
    one.beat(-2)
    one.join(topic, server_assignor="nonsense")
    one.join(topic, server_assignor="")
    one.join(subscribed_topic_names=[])
    one.join(subscribed_topic_names=[], subscribed_topic_regex="[")
    one.join(subscribed_topic_regex="")
    one.beat(1)
    one.beat(-1)


@scenario
def consumer_epochs_that_are_fenced(s: Stage) -> None:
    topic = s.topic("t", 2)
    one, two = ConsumerMember(s, "one"), ConsumerMember(s, "two")
    one.join(topic)
    two.join(topic)
    one.beat(member_id="nobody")
    one.beat(-1, member_id="nobody")
    one.beat(9)
    one.beat(owned={topic: [0, 1]})
    now = one.epoch
    one.beat(now - 1)
    one.beat(now - 1, owned={})
    one.beat(now - 1, owned={topic: [0, 1]})
    one.join(topic)
    owned(one, topic, 0)
    one.beat()
    two.beat()
    two.beat()
    one.beat(1, group_id=s.group + "-none")
    one.beat(-1, group_id=s.group + "-none")


@scenario
def consumer_group_that_is_full(s: Stage) -> None:
    topic = "of-no-importance"
    members = [ConsumerMember(s, f"m{index}") for index in range(5)]
    for member in members:
        member.join(topic)
    members[0].beat(-1)
    members[4].join(topic)


@scenario
def consumer_session_that_ends(s: Stage) -> None:
    topic = s.topic("t", 2)
    one, two = ConsumerMember(s, "one"), ConsumerMember(s, "two")
    watcher = Actor(s, "watcher")
    one.join(topic)
    two.join(topic)
    for _ in range(4):
        s.wait(500)
        two.beat()
    one.beat()
    watcher.describe_consumer()
    s.wait(1_900)
    watcher.describe_consumer()


@scenario
def consumer_that_does_not_revoke(s: Stage) -> None:
    topic = s.topic("t", 2)
    one, two = ConsumerMember(s, "one"), ConsumerMember(s, "two")
    one.join(topic, rebalance_timeout_ms=1_000)
    owned(one, topic, 0, 1)
    two.join(topic, rebalance_timeout_ms=1_000)
    one.beat()
    for _ in range(3):
        s.wait(450)
        one.beat()
        two.beat()


@scenario
def consumer_session_of_another_length(s: Stage) -> None:
    topic = s.topic("t", 2)
    one = ConsumerMember(s, "one")
    watcher = Actor(s, "watcher")
    one.join(topic)
    one.configure_group(consumer_session_timeout_ms=700, consumer_heartbeat_interval_ms=150)
    one.beat()
    s.wait(1_100)
    watcher.describe_consumer()
    one.beat()


@scenario
def consumer_topic_that_goes_and_grows(s: Stage) -> None:
    topic, other = s.topic("t", 1), s.topic("u", 2)
    one, watcher = ConsumerMember(s, "one"), Actor(s, "watcher")
    one.join(topic, other)
    one.commit({(topic, 0): 1, (other, 1): 2})
    one.drop_topic("u")
    one.beat()
    one.beat(owned={topic: [0]})
    watcher.describe_consumer()
    watcher.fetch(None)
    one.commit({(other, 1): 3})
    s.topic("u", 1)
    one.beat()
    watcher.fetch({other: [0, 1]})
    one.beat(subscribed_topic_names=[])
    one.beat()
    watcher.describe_consumer()


@scenario
def consumer_subscription_that_changes(s: Stage) -> None:
    topic, other = s.topic("t", 2), s.topic("u", 2)
    one = ConsumerMember(s, "one")
    watcher = Actor(s, "watcher")
    one.join(topic)
    owned(one, topic, 0, 1)
    one.beat(subscribed_topic_names=[topic, other])
    one.beat(owned={topic: [0, 1], other: [0, 1]})
    one.beat(subscribed_topic_names=[other])
    watcher.describe_consumer()
    one.beat(owned={other: [0, 1]})
    one.beat(subscribed_topic_names=[])
    watcher.describe_consumer()
    one.beat(owned={})
    one.beat(subscribed_topic_names=[other], rack_id="r1", rebalance_timeout_ms=1234)
    watcher.describe_consumer()


@scenario
def consumer_of_a_topic_that_comes_later(s: Stage) -> None:
    one = ConsumerMember(s, "one")
    one.join(f"{s.world.name}-t")
    one.beat()
    s.topic("t", 2)
    s.wait(200)
    one.beat()
    one.beat()


@scenario
def consumer_assignors(s: Stage) -> None:
    topic, other = s.topic("t", 3), s.topic("u", 3)
    one, two = ConsumerMember(s, "a"), ConsumerMember(s, "b")
    watcher = Actor(s, "watcher")
    one.join(topic, other, server_assignor="range")
    two.join(topic, other, server_assignor="range")
    shrunk = one.beat()
    left: dict[str, list[int]] = {topic: [], other: []}
    for part in shrunk.assignment.topic_partitions:
        left[topic if bytes(part.topic_id) == s.topic_id(topic) else other] = sorted(part.partitions)
    one.beat(owned=left)
    two.beat()
    watcher.describe_consumer()
    three = ConsumerMember(s, "c")
    three.join(other, server_assignor="uniform")
    watcher.describe_consumer()


@scenario
def consumer_offsets(s: Stage) -> None:
    topic, other = s.topic("t", 2), s.topic("u", 1)
    ids = {topic: s.topic_id(topic), other: s.topic_id(other)}
    one, two = ConsumerMember(s, "one"), ConsumerMember(s, "two")
    outsider = Actor(s, "outsider")
    one.join(topic)
    owned(one, topic, 0, 1)
    one.commit({(topic, 0): 1, (topic, 1): 2, (other, 0): 3})
    one.commit({(topic, 0): 2}, version=10, topic_ids=ids)
    one.commit({(topic, 0): 9}, version=8)
    one.commit({(topic, 0): 9}, epoch=7)
    one.commit({(topic, 0): 9}, epoch=0)
    one.commit({(topic, 0): 9}, epoch=-1)
    one.commit({(topic, 0): 9}, member_id="nobody")
    one.commit({(topic, 0): 9}, member_id="nobody", epoch=-1)
    outsider.commit({(topic, 0): 9})
    outsider.fetch({topic: [0, 1]})
    outsider.fetch({topic: [0, 1]}, version=10, topic_ids=ids)
    outsider.fetch(None, member_id="one", epoch=2)
    outsider.fetch(None, member_id="one", epoch=0)
    outsider.fetch(None, member_id="nobody", epoch=1)
    outsider.fetch(None, member_id="", epoch=-1)
    outsider.delete_offsets({topic: [0], other: [0]})
    two.join(topic)
    one.beat()
    one.commit({(topic, 0): 5, (topic, 1): 5}, epoch=2)
    owned(one, topic, 0)
    owned(one, topic, 1)
    one.beat()
    two.beat()
    one.commit({(topic, 0): 6, (topic, 1): 6, (other, 0): 6}, epoch=2)
    one.commit({(topic, 0): 6}, epoch=2)
    one.commit({(topic, 1): 6}, epoch=2)
    one.commit({(topic, 0): 6}, epoch=1)
    one.commit({(topic, 0): 7, (topic, 1): 7})
    two.commit({(topic, 0): 8, (topic, 1): 8}, epoch=2)
    outsider.fetch(None)
    one.beat(-1)
    two.beat(-1)
    outsider.commit({(topic, 0): 9})
    one.commit({(topic, 0): 10}, epoch=2)
    outsider.fetch(None)


@scenario
def consumer_epochs_that_follow_each_other(s: Stage) -> None:
    topic = s.topic("t", 6)
    one, two, three = (ConsumerMember(s, name) for name in ("one", "two", "three"))
    watcher = Actor(s, "watcher")
    one.join(topic)
    owned(one, topic, 0, 1, 2, 3, 4, 5)
    two.join(topic)
    shrunk = one.beat()
    three.join(topic)
    watcher.describe_consumer()
    kept = shrunk.assignment.topic_partitions[0].partitions
    again = one.beat(owned={topic: kept})
    two.beat()
    watcher.describe_consumer()
    one.beat(owned={topic: again.assignment.topic_partitions[0].partitions} if again.assignment else None)
    two.beat()
    three.beat()
    two.beat(-1)
    three.beat()
    one.beat()
    watcher.describe_consumer()


@scenario
def consumer_that_comes_back_under_its_id(s: Stage) -> None:
    topic, other = s.topic("t", 2), s.topic("u", 1)
    one, two = ConsumerMember(s, "one"), ConsumerMember(s, "two")
    one.join(topic)
    owned(one, topic, 0, 1)
    one.join(topic)
    one.join(topic, other)
    two.join(topic)
    one.beat()
    one.join(topic)
    two.beat()
    Actor(s, "watcher").describe_consumer()


@scenario
def consumer_that_moves(s: Stage) -> None:
    topic = s.topic("t", 2)
    one = ConsumerMember(s, "one")
    one.join(topic, rack_id="r1")
    one.beat(rack_id="r2")
    one.beat()
    one.beat(server_assignor="range")
    one.beat()
    one.beat(rebalance_timeout_ms=5_000)
    one.beat(subscribed_topic_names=[topic, topic])
    one.beat(owned={topic: [0, 1]}, subscribed_topic_names=[topic], rebalance_timeout_ms=5_000)
    Actor(s, "watcher").describe_consumer()
