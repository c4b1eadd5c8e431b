"""What members of streams groups (KIP-1071) do, well and badly.

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    KeyValue,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.scenarios.groups.actors import Actor, ClassicMember, ConsumerMember
from tests.scenarios.groups.stage import Scenario, Stage
from tests.scenarios.groups.streams_actor import StreamsMember, endpoint, joined, one_step, tags, two_steps

SCENARIOS: dict[str, Scenario] = {}


def scenario(run: Scenario) -> Scenario:
    SCENARIOS[run.__name__.replace("_", "-")] = run
    return run


def inner(s: Stage, suffix: str, partitions: int = 0, **configs: str) -> TopicInfo:
    """An internal topic."""
    pairs = [KeyValue(name.replace("_", "."), value) for name, value in configs.items()]
    return TopicInfo(f"{s.world.name}-{suffix}", partitions, 0, pairs)


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
def streams_topologies_that_make_no_sense(s: Stage) -> None:
    topic = s.topic("t", 2)

    def bring(topology: Topology) -> None:
        nonlocal number
        one = StreamsMember(s, "one", topology)
        one.group = f"{s.group}-{number}"
        one.join()
        one.describe_streams()
        number += 1

    number = 0
    bring(Topology(0, [Subtopology("0", [topic], ["t.*"])]))
    bring(one_step(topic, changelogs=[inner(s, "log", 3)]))
    bring(Topology(0, [Subtopology("0", [topic], copartition_groups=[CopartitionGroup([7])])]))
    bring(Topology(0, [Subtopology("0", [topic], copartition_groups=[CopartitionGroup([0], [1])])]))
    bring(Topology(0, [Subtopology("0", [topic], copartition_groups=[CopartitionGroup([], [], [3])])]))
    bring(Topology(0, [Subtopology("0", [topic], copartition_groups=[CopartitionGroup([-1])])]))
    bring(one_step("a b"))
    bring(one_step("__consumer_offsets"))
    bring(one_step("a b", "__consumer_offsets"))
    bring(Topology(0, []))
    bring(Topology(0, [Subtopology("0", [])]))
    bring(Topology(0, [Subtopology("0", [], state_changelog_topics=[inner(s, "log")])]))
    bring(Topology(-1, [Subtopology("0", [topic])]))
    bring(Topology(0, [Subtopology("0", [topic]), Subtopology("0", [topic])]))
    bring(Topology(0, [Subtopology("0", [topic]), Subtopology("1", [topic])]))
    loop = [inner(s, "loop")]
    bring(Topology(0, [Subtopology("0", [], repartition_source_topics=loop, repartition_sink_topics=[loop[0].name])]))


@scenario
def streams_topics_that_are_missing(s: Stage) -> None:
    topic = f"{s.world.name}-later"
    one = StreamsMember(s, "one", two_steps(topic, inner(s, "by-word"), inner(s, "counts")))
    one.join()
    one.beat()
    one.describe_streams()
    one.list_groups()
    s.topic("later", 2)
    one.beat()
    one.settle()
    one.beat()
    one.beat(owned={"0": [0, 1], "1": [0, 1]})
    one.describe_streams()


@scenario
def streams_many_topics_that_are_missing(s: Stage) -> None:
    one = StreamsMember(s, "one", one_step(*(f"{s.world.name}-{number}" for number in (5, 3, 1, 2, 4))))
    one.join()


@scenario
def streams_topics_that_do_not_fit(s: Stage) -> None:
    narrow, wide = s.topic("narrow", 2), s.topic("wide", 4)
    one = StreamsMember(s, "one", joined(narrow, wide))
    one.join()
    one.beat()
    two = StreamsMember(s, "two", joined(narrow, repartition=[inner(s, "fixed", 3)]))
    two.group = f"{s.group}-2"
    two.join()
    three = StreamsMember(s, "three", one_step(narrow, changelogs=[TopicInfo(wide)]))
    three.group = f"{s.group}-3"
    three.join()
    lost = Topology(0, [Subtopology("0", [narrow], repartition_source_topics=[inner(s, "from-nowhere")])])
    four = StreamsMember(s, "four", lost)
    four.group = f"{s.group}-4"
    four.join()


@scenario
def streams_topics_that_have_to_fit(s: Stage) -> None:
    wide = s.topic("wide", 4)
    narrow = s.topic("narrow", 2)
    steps = Topology(
        0,
        [
            Subtopology("0", [narrow], repartition_sink_topics=[inner(s, "re").name]),
            Subtopology(
                "1",
                [wide],
                repartition_source_topics=[inner(s, "re")],
                state_changelog_topics=[inner(s, "log", cleanup_policy="compact", segment_bytes="1048576")],
                copartition_groups=[CopartitionGroup([0], [], [0])],
            ),
        ],
    )
    one = StreamsMember(s, "one", steps)
    one.join()
    one.settle()
    one.beat()
    one.describe_streams()
    one.show_topic("re")
    one.show_topic("log")


@scenario
def streams_tasks_move_to_another_process(s: Stage) -> None:
    topology = one_step(s.topic("t", 4))
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.join()
    one.beat(owned={"0": [0, 1, 2, 3]})
    two.join()
    one.describe_streams()
    two.beat()
    shrunk = one.beat()
    one.describe_streams()
    two.beat()
    kept = sorted(shrunk.active_tasks[0].partitions)
    one.beat(owned={"0": kept})
    one.list_groups()
    two.beat()
    two.describe_streams()
    one.beat(-1)
    two.beat()
    two.beat(owned={"0": [0, 1, 2, 3]})
    two.beat(-1)
    two.describe_streams()


@scenario
def streams_tasks_move_twice(s: Stage) -> None:
    topology = one_step(s.topic("t", 6))
    one, two, three = (StreamsMember(s, name, topology) for name in ("one", "two", "three"))
    one.join()
    two.join()
    first = one.beat()
    three.join()
    one.beat(owned={"0": list(range(6))})
    second = one.beat(owned={"0": sorted(first.active_tasks[0].partitions)})
    one.describe_streams()
    two.beat()
    one.beat(owned={"0": sorted(second.active_tasks[0].partitions)})
    two.beat()
    three.beat()
    one.describe_streams()


@scenario
def streams_initial_delay(s: Stage) -> None:
    topology = one_step(s.topic("t", 4))
    one, two = StreamsMember(s, "one", topology, "a"), StreamsMember(s, "two", topology, "b")
    one.configure_group(streams_initial_rebalance_delay_ms=1000, streams_session_timeout_ms=40000)
    one.join()
    one.describe_streams()
    one.beat()
    s.wait(300)
    two.join()
    two.beat()
    one.list_groups()
    s.wait(1200)
    one.describe_streams()
    one.beat()
    two.beat()
    one.beat(-1)
    two.beat(-1)
    two.join()
    one.join()
    s.wait(1200)
    two.beat()
    two.beat(-1)
    one.beat(-1)
    one.join()
    one.beat(-1)
    s.wait(1500)
    one.describe_streams()


@scenario
def streams_assignment_interval(s: Stage) -> None:
    topology = one_step(s.topic("t", 2))
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.configure_group(streams_assignment_interval_ms=1000, streams_session_timeout_ms=40000)
    one.join()
    two.join()
    one.describe_streams()
    one.beat()
    two.beat()
    s.wait(1200)
    two.beat()
    one.beat(owned={"0": [0]})
    two.beat()
    one.describe_streams()


@scenario
def streams_threads_of_one_process(s: Stage) -> None:
    topology = one_step(s.topic("t", 4))
    one, two = StreamsMember(s, "one", topology, "p"), StreamsMember(s, "two", topology, "p")
    one.join()
    two.join()
    one.beat()
    one.beat(owned={"0": []})
    two.beat()
    one.describe_streams()


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
def streams_topology_that_changes(s: Stage) -> None:
    topic, other = s.topic("t", 2), s.topic("u", 2)
    one = StreamsMember(s, "one", one_step(topic, epoch=3))
    one.join()
    two = StreamsMember(s, "two", one_step(topic, epoch=2))
    two.join()
    two.beat()
    one.join(topology=one_step(topic, other, epoch=3))
    one.join(topology=one_step(topic, other, epoch=4))
    one.join(topology=one_step(topic, epoch=4))
    one.beat(-1)
    two.beat()
    two.beat(-1)
    three = StreamsMember(s, "three", one_step(other, epoch=5))
    three.join()
    three.delete_groups()
    three.join()
    three.describe_streams()


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
def streams_standby_tasks(s: Stage) -> None:
    topology = two_steps(s.topic("t", 2), inner(s, "by-word"), inner(s, "counts"))
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.configure_group(streams_num_standby_replicas=1, streams_session_timeout_ms=40000)
    one.join(user_endpoint=endpoint(1))
    one.settle()
    one.beat()
    one.beat(owned={"0": [0, 1], "1": [0, 1]})
    two.join(user_endpoint=endpoint(2))
    shrunk = one.beat()
    owned = {tasks.subtopology_id: tasks.partitions for tasks in shrunk.active_tasks}
    one.beat(owned=owned)
    two.beat()
    one.beat(owned=owned)
    one.describe_streams()
    two.beat()
    one.configure_group(streams_num_standby_replicas=0)
    two.beat()
    one.beat()
    one.describe_streams()


@scenario
def streams_endpoints(s: Stage) -> None:
    topology = two_steps(s.topic("t", 2), inner(s, "by-word"), inner(s, "counts"))
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.endpoint_epoch = 0
    two.endpoint_epoch = 0
    one.join()
    one.settle()
    one.beat()
    one.beat(user_endpoint=endpoint(1))
    one.beat()
    one.beat(endpoint_information_epoch=-1)
    two.join(user_endpoint=endpoint(2))
    two.beat()
    one.beat()
    one.beat(-1)
    two.beat()


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
def streams_tasks_that_are_not_given_back(s: Stage) -> None:
    topology = one_step(s.topic("t", 2))
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.join(rebalance_timeout_ms=700)
    one.beat(owned={"0": [0, 1]})
    two.join()
    one.beat()
    s.wait(400)
    one.beat(owned={"0": [0, 1]})
    s.wait(500)
    one.beat(owned={"0": [0, 1]})
    two.beat()
    two.describe_streams()


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


@scenario
def streams_topic_that_goes(s: Stage) -> None:
    topic = s.topic("t", 2)
    one = StreamsMember(s, "one", two_steps(topic, inner(s, "by-word"), inner(s, "counts")))
    one.join()
    one.settle()
    one.beat()
    one.drop_topic("counts")
    one.beat()
    one.settle()
    one.beat()
    one.drop_topic("t")
    one.beat()
    one.describe_streams()
    one.list_groups()
