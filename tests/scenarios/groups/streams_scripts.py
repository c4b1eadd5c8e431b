"""Scenarios of members of streams groups (KIP-1071) that join, leave and commit, by the protocol or against it.

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    TaskIds,
    TaskOffset,
)
from tests.scenarios.groups.actors import Actor, ClassicMember, ConsumerMember
from tests.scenarios.groups.stage import Stage
from tests.scenarios.groups.streams_actor import StreamsMember, endpoint, inner, one_step, tags, two_steps
from tests.scenarios.scripts import Scripts

SCENARIOS = scenario = Scripts[Stage]()


@scenario
def streams_alone(s: Stage) -> None:
    topic = s.topic("t", 3)
    topology = two_steps(topic, inner(s, "by-word"), inner(s, "counts", cleanup_policy="compact"))
    one = StreamsMember(s, "one", topology)
    one.join(client_tags=tags(zone="a"), user_endpoint=endpoint(1234))
    one.describe_streams()
    one.settle()
    one.beat()
    one.beat(owned={"0": [0, 1, 2], "1": [0, 1, 2]})
    one.beat()
    one.describe_streams(operations=True)
    one.list_groups()
    one.list_groups(states=["stable"], types=["Streams"])
    one.describe_consumer()
    one.describe()
    one.delete_groups()
    one.beat(-1)
    one.describe_streams()
    one.list_groups()
    one.delete_groups()
    one.describe_streams()
    one.list_groups()


@scenario
def streams_without_inner_topics(s: Stage) -> None:
    one = StreamsMember(s, "one", one_step(s.topic("t", 2)))
    one.join()
    one.beat()
    one.beat(owned={"0": [0, 1]})
    one.join()
    one.beat()
    one.beat(client_tags=tags(zone="b"))
    one.beat()
    one.beat(process_id="another")
    one.beat()
    one.beat(rack_id="r")
    one.beat(user_endpoint=endpoint(1))
    one.beat()
    one.beat(owned={"0": [0, 1]})


@scenario
def streams_heartbeats_that_make_no_sense(s: Stage) -> None:
    topology = one_step(s.topic("t", 2))
    one = StreamsMember(s, "one", topology)
    one.join(group_id="")
    one.join(member_id="")
    one.join(rack_id="")
    one.join(instance_id="")
    one.join(instance_id="i")
    one.join(rebalance_timeout_ms=-1)
    one.join(active_tasks=[TaskIds("0", [0])], standby_tasks=[], warmup_tasks=[])
    one.join(active_tasks=[], standby_tasks=[TaskIds("0", [0])], warmup_tasks=[])
    one.join(active_tasks=[], standby_tasks=[], warmup_tasks=[TaskIds("0", [0])])
    one.join(active_tasks=None, standby_tasks=[], warmup_tasks=[])
    one.join(active_tasks=None, standby_tasks=None, warmup_tasks=None)
    one.join(active_tasks=[], standby_tasks=None, warmup_tasks=None)
    one.join(topology=None)
    one.join(task_offsets=[TaskOffset("0", 0, 1)])
    one.join(task_end_offsets=[TaskOffset("0", 0, 1)])
    one.beat(-3)
    one.beat(-2)
    one.beat(-2, instance_id="i")
    one.beat(1, topology=topology)
    one.beat(1, active_tasks=[])
    one.beat(1, standby_tasks=[], warmup_tasks=[])
    one.beat(1)
    one.beat(-1)
    one.beat(-1, group_id="missing")
    one.describe_streams("")


@scenario
def streams_epochs_that_are_fenced(s: Stage) -> None:
    topology = one_step(s.topic("t", 2))
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.join()
    two.join()
    one.beat(member_id="nobody")
    one.beat(-1, member_id="nobody")
    one.beat(9)
    one.beat()
    one.beat(owned={"0": [0, 1]})
    one.beat(owned={"0": [0]})
    one.beat()
    now = one.epoch
    one.beat(now - 1)
    one.beat(now - 1, owned={})
    one.epoch = now
    one.beat(now - 1, owned={"0": [1]})
    one.epoch = now
    one.beat(now - 2, owned={})
    one.beat(now, owned={"7": [1]})
    one.beat(now, owned={"0": [2]})
    one.beat(now, owned={"0": [0]}, standby={"0": [5]})


@scenario
def streams_shutdown(s: Stage) -> None:
    topology = one_step(s.topic("t", 2))
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.join()
    two.join()
    one.beat(shutdown_application=True)
    two.beat()
    two.beat(shutdown_application=True)
    one.beat(-1)
    two.beat()
    two.beat(-1)
    one.join()
    two.join()
    two.beat(-1, shutdown_application=True)
    one.beat()


@scenario
def streams_session_that_ends(s: Stage) -> None:
    topology = one_step(s.topic("t", 2))
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.join()
    two.join()
    s.wait(1000)
    one.beat(owned={"0": [0]})
    s.wait(900)
    one.beat()
    two.beat()
    one.describe_streams()
    s.wait(1800)
    one.describe_streams()


@scenario
def streams_static_member(s: Stage) -> None:
    topology = one_step(s.topic("t", 2))
    one, two = StreamsMember(s, "one", topology, "p"), StreamsMember(s, "two", topology, "p")
    one.join(instance_id="i")
    one.beat(instance_id="i", owned={"0": [0, 1]})
    two.join(instance_id="i")
    one.beat(-2, instance_id="i")
    one.describe_streams()
    two.join(instance_id="i")
    one.beat(1, instance_id="i")
    two.beat(instance_id="i", owned={"0": [0, 1]})
    two.describe_streams()
    two.beat(-1, instance_id="i")
    two.describe_streams()
    two.delete_groups()


@scenario
def streams_group_that_is_full(s: Stage) -> None:
    topology = one_step(s.topic("t", 2))
    members = [StreamsMember(s, f"m{number}", topology) for number in range(5)]
    for member in members[:4]:
        member.join()
    members[4].join()
    members[0].join()
    members[0].beat()


@scenario
def streams_group_meets_other_protocols(s: Stage) -> None:
    topic = s.topic("t", 2)
    topology = one_step(topic)
    one = StreamsMember(s, "one", topology)
    consumer = ConsumerMember(s, "consumer")
    classic = ClassicMember(s, "classic")
    one.join()
    consumer.join(topic)
    consumer.beat(1)
    consumer.beat(-1)
    classic.join()
    classic.sync()
    classic.heartbeat()
    classic.leave()
    one.describe_consumer()
    one.beat(-1)
    consumer.join(topic)
    classic.member_id = ""
    classic.join()
    one.describe_streams()
    one.list_groups()
    one.join()
    one.beat(1)
    one.beat(-1)
    one.describe_streams()


@scenario
def streams_group_after_an_empty_one(s: Stage) -> None:
    topic = s.topic("t", 2)
    admin = Actor(s, "admin")
    one = StreamsMember(s, "one", one_step(topic))
    admin.commit({(topic, 0): 5})
    admin.list_groups()
    one.describe_streams()
    one.join()
    one.list_groups()
    one.beat(-1)
    admin.fetch(None)


@scenario
def streams_offsets(s: Stage) -> None:
    topic = s.topic("t", 3)
    topology = one_step(topic)
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.join()
    one.commit({(topic, 0): 1, (topic, 1): 2})
    one.commit({(topic, 0): 1}, version=8)
    one.commit({(topic, 0): 1}, epoch=9)
    one.commit({(topic, 0): 1}, epoch=-1)
    one.commit({(topic, 0): 1}, epoch=-1, member_id="")
    one.commit({(topic, 0): 1}, member_id="nobody")
    two.join()
    shrunk = one.beat()
    kept = sorted(shrunk.active_tasks[0].partitions)
    one.beat(owned={"0": kept})
    two.beat()
    one.commit({(topic, kept[0]): 3}, epoch=1)
    one.commit({(topic, ({0, 1, 2} - set(kept)).pop()): 3}, epoch=1)
    one.commit({(topic, kept[0]): 3})
    one.fetch({topic: [0, 1]}, member_id="one", epoch=one.epoch)
    one.fetch({topic: [0, 1]}, member_id="one", epoch=one.epoch - 1)
    one.fetch({topic: [0, 1]}, member_id="nobody", epoch=one.epoch)
    one.fetch(None)
    one.delete_offsets({topic: [0, 1]})
    one.beat(-1)
    two.beat(-1)
    one.commit({(topic, 2): 7}, epoch=-1, member_id="")
    one.delete_offsets({topic: [0]})
    one.fetch(None)
    one.delete_groups()
    one.fetch(None)
