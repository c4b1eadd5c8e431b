"""Commits and fetches of offsets, well and badly. Rule: each function is one scenario with a group of its own."""

from __future__ import annotations

from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.scenarios.groups.actors import Actor, ClassicMember
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts

SCENARIOS = scenario = Scripts[Stage]()


@scenario
def simple_group_in_every_version(s: Stage) -> None:
    topic = s.topic("t", 3)
    ids = {topic: s.topic_id(topic)}
    c = Actor(s, "c")
    for version in range(2, 11):
        c.commit({(topic, 0): 100 + version}, version=version, metadata=f"m{version}", topic_ids=ids, leader_epoch=0)
        c.fetch({topic: [0, 1]}, version=version, topic_ids=ids)
    c.fetch({topic: [0, 1]}, version=1)
    for version in range(2, 11):
        c.fetch(None, version=version)
    c.describe()
    c.list_groups()


@scenario
def commits_that_are_refused(s: Stage) -> None:
    topic = s.topic("t")
    ids = {topic: s.topic_id(topic), "nowhere": b"x" * 16}
    c = Actor(s, "c")
    c.commit({(topic, 0): 1, (topic, 7): 1, ("nowhere", 0): 1})
    c.commit({(topic, 0): 1, (topic, 7): 1, ("nowhere", 0): 1}, version=10, topic_ids=ids)
    c.commit({(topic, 0): 1}, metadata="x" * 101)
    c.commit({(topic, 0): 2}, metadata=None)
    c.commit({(topic, 0): 1}, epoch=3, member_id="nobody")
    c.commit({(topic, 0): 1}, epoch=-1, member_id="nobody")
    c.commit({(topic, 0): 1}, epoch=-1, instance_id="static")
    c.commit({(topic, 0): 1}, group="", version=8)
    for version in (8, 9):
        c.commit({(topic, 0): 1}, epoch=3, member_id="nobody", group=s.group + "-none", version=version)
    c.commit({(topic, 0): -1})
    c.commit({(topic, 0): -7})
    c.fetch({topic: [0, 7], "nowhere": [0]})
    c.fetch({topic: [0, 7], "nowhere": [0]}, version=10, topic_ids=ids)
    c.fetch({topic: [0]}, group="")
    c.fetch({topic: [0]}, group=s.group + "-none")
    c.fetch(None, group=s.group + "-none")
    c.fetch({topic: [0]}, member_id="nobody", epoch=3)
    c.fetch({topic: [0]}, stable=True)
    c.fetch({})


@scenario
def commits_of_a_group_with_members(s: Stage) -> None:
    topic = s.topic("t")
    one = ClassicMember(s, "one")
    outsider = Actor(s, "outsider")
    one.enter()
    one.joined()
    one.commit({(topic, 0): 1})
    outsider.commit({(topic, 0): 1})
    one.sync({one.member_id: b"all"})
    one.commit({(topic, 0): 2})
    one.commit({(topic, 0): 3}, epoch=9)
    one.commit({(topic, 0): 3}, epoch=-1)
    one.commit({(topic, 0): 3}, member_id="nobody")
    one.commit({(topic, 0): 3}, member_id="")
    one.commit({(topic, 0): 3}, instance_id="static")
    outsider.commit({(topic, 0): 4})
    outsider.fetch({topic: [0]})
    one.join()
    two = ClassicMember(s, "two")
    two.enter()
    one.commit({(topic, 0): 5})
    one.send_join()
    one.joined()
    two.joined()
    one.commit({(topic, 0): 6})
    two.commit({(topic, 0): 6}, epoch=0)
    outsider.fetch({topic: [0]})
    two.leave()
    one.leave()
    one.commit({(topic, 0): 7})
    outsider.commit({(topic, 0): 8})
    outsider.fetch(None)


@scenario
def several_groups_in_one_fetch(s: Stage) -> None:
    topic = s.topic("t")
    c = Actor(s, "c")
    c.commit({(topic, 0): 1}, group=s.group + "-a")
    c.commit({(topic, 0): 2}, group=s.group + "-b")
    groups = [OffsetFetchRequestGroup(f"{s.group}-{suffix}", topics=None) for suffix in "abc"]
    c.ask(OffsetFetchRequest(groups=groups), 9)
    c.ask(OffsetFetchRequest(groups=groups, require_stable=True), 8)
