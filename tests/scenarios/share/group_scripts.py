"""Scenarios of members of share groups that keep the protocol or break it.

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from tests.scenarios.groups.actors import ClassicMember, ConsumerMember
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts
from tests.scenarios.share.actors import ShareAdmin, ShareMember

SCENARIOS = scenario = Scripts[Stage]()


@scenario
def share_alone(s: Stage) -> None:
    topic = s.topic("t", 3)
    one, watcher = ShareMember(s, "one"), ShareAdmin(s, "watcher")
    one.enter(topic)
    one.beat()
    watcher.describe_share(operations=True)
    watcher.list_groups()
    watcher.list_groups(states=["stable"], types=["Share"])
    watcher.describe()
    watcher.describe_consumer()
    watcher.delete_groups()
    one.beat(subscribed_topic_names=[topic])
    one.beat(-1)
    watcher.describe_share()
    watcher.list_groups()
    watcher.delete_groups()
    watcher.describe_share()
    watcher.list_groups()
    watcher.delete_groups()


@scenario
def share_heartbeats_that_make_no_sense(s: Stage) -> None:
    topic = s.topic("t", 1)
    one = ShareMember(s, "one")
    one.beat(0, group_id="", subscribed_topic_names=[topic])
    one.beat(0, member_id="", subscribed_topic_names=[topic])
    one.beat(0, member_id="x" * 40, subscribed_topic_names=[topic])
    one.beat(0)
    one.beat(0, subscribed_topic_names=[])
    one.beat(0, rack_id="", subscribed_topic_names=[topic])
    one.beat(-2, subscribed_topic_names=[topic])
    one.beat(-3)
    one.beat(1)
    one.beat(-1)
    one.enter(topic)
    one.beat(rack_id="r1")
    one.beat(7)
    one.beat(1)
    one.beat(1, member_id="stranger")
    one.beat(-1, member_id="stranger")


@scenario
def share_epochs(s: Stage) -> None:
    topic = s.topic("t", 4)
    other = s.topic("u", 2)
    one, two, watcher = ShareMember(s, "one"), ShareMember(s, "two"), ShareAdmin(s, "watcher")
    one.enter(topic)
    watcher.describe_share()
    two.join(topic)
    s.wait(300)
    two.beat()
    one.beat()
    one.beat()
    watcher.describe_share()
    one.beat(one.epoch - 1)
    one.beat(one.epoch - 2)
    one.beat(one.epoch + 1)
    one.resubscribe(topic, other)
    two.beat()
    one.beat()
    watcher.describe_share()
    one.join(topic)
    one.beat()
    two.beat(-1)
    one.beat()
    watcher.describe_share()


@scenario
def share_more_members_than_partitions(s: Stage) -> None:
    topic = s.topic("t", 2)
    members = [ShareMember(s, name) for name in ("one", "two", "three", "four", "five")]
    members[0].enter(topic)
    for member in members[1:]:
        member.join(topic)
        member.beat()
    for member in members[:4]:
        member.beat()
    ShareAdmin(s, "watcher").describe_share()


@scenario
def share_session_that_ends(s: Stage) -> None:
    topic = s.topic("t", 1)
    one, two, watcher = ShareMember(s, "one"), ShareMember(s, "two"), ShareAdmin(s, "watcher")
    one.enter(topic)
    two.join(topic)
    s.wait(2000)
    two.beat()
    s.wait(1500)
    two.beat()
    watcher.describe_share()
    one.beat()
    s.wait(3500)
    watcher.describe_share()


@scenario
def share_topics_that_come_and_go(s: Stage) -> None:
    name = f"{s.group}-late"
    one, watcher = ShareMember(s, "one"), ShareAdmin(s, "watcher")
    one.join(name)
    one.beat()
    s.topic("late", 2)
    one.resubscribe(name)
    watcher.describe_share()
    watcher.delete_topic(name)
    one.beat()
    s.wait(500)
    one.beat()
    watcher.describe_share()


@scenario
def share_and_other_protocols(s: Stage) -> None:
    topic = s.topic("t", 1)
    one, new, old = ShareMember(s, "one"), ConsumerMember(s, "new"), ClassicMember(s, "old", version=3)
    watcher = ShareAdmin(s, "watcher")
    one.enter(topic)
    new.join(topic)
    old.join()
    watcher.commit({(topic, 0): 1})
    watcher.fetch({topic: [0]})
    watcher.delete_offsets({topic: [0]})
    one.beat(-1)
    new.join(topic)
    old.join()
    watcher.list_groups()
    watcher.describe_share()


@scenario
def share_joins_a_group_of_another_kind(s: Stage) -> None:
    topic = s.topic("t", 1)
    one, new, watcher = ShareMember(s, "one"), ConsumerMember(s, "new"), ShareAdmin(s, "watcher")
    new.join(topic)
    one.join(topic)
    one.beat(1)
    one.beat(-1)
    watcher.describe_share()
    watcher.offsets()
    watcher.alter({(topic, 0): 0})
    watcher.delete_share_offsets(topic)
