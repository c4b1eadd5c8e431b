"""Classic groups as administrators see them: leaving, listing, deleting, offsets of topics that are read.

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from tests.scenarios.groups.actors import Actor, ClassicMember, assignment, stable_pair, subscription
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts

SCENARIOS = scenario = Scripts[Stage]()


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
