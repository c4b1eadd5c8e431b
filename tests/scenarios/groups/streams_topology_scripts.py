"""Scenarios of topologies of streams groups (KIP-1071), and of topics that are missing or do not fit.

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.scenarios.groups.stage import Stage
from tests.scenarios.groups.streams_actor import StreamsMember, inner, joined, one_step, two_steps
from tests.scenarios.scripts import Scripts

SCENARIOS = scenario = Scripts[Stage]()


@scenario
def streams_topologies_that_make_no_sense(s: Stage) -> None:
    topic = s.topic("t", 2)
    number = 0

    def bring(topology: Topology) -> None:
        nonlocal number
        one = StreamsMember(s, "one", topology)
        one.group = f"{s.group}-{number}"
        one.join()
        one.describe_streams()
        number += 1

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
