"""Scripts of requests about the placement of partitions. Rule: as in `scripts.py`."""

from __future__ import annotations

from pykafka_broker.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.cluster.recorder.stage import Stage


def reassignments(stage: Stage) -> None:
    for broker in (1, 2, 3, 4):
        stage.join(broker)
    stage.register(5)
    stage.create("t", [1, 2], [2, 1], [1, 2], [1, 2], [1, 2], [1, 2])
    stage.create("lone", [1])
    everything = ListPartitionReassignmentsRequest(60000, None)
    stage.ask("none", everything)
    stage.reassign("start", "t", [3, 2])
    stage.ask("one", everything)
    named = [ListPartitionReassignmentsTopics("t", [0, 1, 9]), ListPartitionReassignmentsTopics("nowhere", [0])]
    stage.ask("named", ListPartitionReassignmentsRequest(60000, named))
    stage.reassign("the same again", "t", [3, 2])
    stage.alter("not all yet", "t", [1])
    stage.alter("all but the one that stays", "t", [1, 3])
    stage.create("wide", [1, 2, 3])
    stage.create("s", [1, 2], [1, 2], [1, 2], [1, 2], [1, 2], [1, 2], [1, 2], [1, 2])
    stage.reassign("start s-0", "s", [3, 4])
    stage.reassign("change s-0", "s", [4, 2])
    stage.reassign("cancel s-0", "s", None)
    stage.reassign("cancel again", "s", None)
    stage.reassign("start s-1", "s", [3, 4], 1)
    stage.alter("half of them", "s", [1, 2, 3], number=1)
    stage.reassign("cancel s-1", "s", None, 1)
    stage.reassign("only fewer", "wide", [2, 1])
    stage.reassign("only another order", "s", [2, 1], 3)
    stage.reassign("the assignment that is", "s", [1, 2], 4)
    stage.reassign("more", "s", [1, 2, 3], 4)
    stage.reassign("more, forbidden", "s", [1, 2, 3], 5, allow_replication_factor_change=False)
    stage.reassign("as many, not forbidden", "s", [1, 3], 5, allow_replication_factor_change=False)
    stage.reassign(
        "change of the number, forbidden, while under way", "s", [3], 5, allow_replication_factor_change=False
    )
    stage.reassign("unknown topic", "nowhere", [1])
    stage.reassign("unknown partition", "t", [1], 99)
    stage.reassign("cancel of an unknown partition", "t", None, 99)
    stage.reassign("empty", "t", [], 1)
    stage.reassign("unknown broker", "t", [1, 9], 1)
    stage.reassign("negative", "t", [1, -2], 1)
    stage.reassign("twice", "t", [1, 1], 1)
    stage.reassign("a fenced one", "t", [2, 5], 1)
    stage.unfence(5)
    stage.alter("with the one that was fenced", "t", [2, 1, 5], number=1)
    stage.reassign("the leader goes", "lone", [2])
    stage.alter("the new one alone", "lone", [1, 2])
    stage.reassign("start t-2", "t", [3, 4], 2)
    stage.fence(3)
    stage.alter("the other", "t", [1, 2, 4], number=2)
    stage.unfence(3)
    stage.alter("both", "t", [1, 2, 4, 3], number=2)
    stage.reassign("start t-3", "t", [3, 2], 3)
    stage.fence(2)
    stage.alter("without the one that stays", "t", [1, 3], number=3)
    stage.reassign("start t-4", "t", [3, 4], 4)
    stage.fence(1)
    stage.reassign("cancel t-4 with nobody left", "t", None, 4)
    stage.reassign("start t-5", "t", [3, 4], 5)
    stage.unfence(1)
    stage.unfence(2)
    stage.ask("what is left", everything)
    stage.create("o", [2, 1], [2, 1], [2, 1])
    stage.reassign("another order of both", "o", [4, 3])
    stage.reassign("changed to", "o", [4, 2])
    stage.alter("all that are wanted now", "o", [2, 1, 4])
    stage.alter("and the one that is not", "o", [2, 1, 4, 3])
    stage.reassign("start o-1", "o", [4, 2], 1)
    stage.reassign("changed back", "o", [2, 1], 1)
    stage.reassign("start o-2", "o", [4, 3], 2)
    stage.alter("one of two", "o", [2, 1, 3], number=2)
    stage.reassign("changed to the one that is in sync", "o", [3, 1], 2)
    stage.create("w", [2, 3, 1])
    stage.reassign("fewer and others", "w", [4])
    for name, unclean in (("safe", "false"), ("sorry", "true")):
        stage.create(name, [1, 2], unclean_leader_election_enable=unclean)
        stage.reassign(f"start {name}", name, [3, 4])
        stage.alter(f"half of {name}", name, [1, 2, 3])
    stage.expire(2)
    stage.expire(1)
    for name in ("safe", "sorry"):
        stage.reassign(f"cancel {name}, nobody left", name, None)
    stage.unfence(1)
    for name in ("safe", "sorry"):
        stage.reassign(f"cancel {name}, one eligible", name, None)


def placement(stage: Stage) -> None:
    for broker, rack in ((1, "a"), (2, "b"), (3, "b")):
        stage.join(broker, rack)
    stage.creation("racks", CreatableTopic("racks", 12, 3))
    stage.creation("racks, two", CreatableTopic("racks2", 12, 2))
    stage.creation("racks, one", CreatableTopic("racks1", 12, 1))
    stage.creation("too many", CreatableTopic("many", 1, 4))
    stage.ask("more racks", CreatePartitionsRequest([CreatePartitionsTopic("racks", 20, None)], 60000))
    stage.fence(3)
    stage.creation("a fenced one, three", CreatableTopic("fenced3", 12, 3))
    stage.creation("a fenced one, two", CreatableTopic("fenced2", 12, 2))
    stage.creation("a fenced one, one", CreatableTopic("fenced1", 12, 1))
    stage.ask("more with a fenced one", CreatePartitionsRequest([CreatePartitionsTopic("racks", 30, None)], 60000))
    stage.create("manual", [3, 1], [1, 3])
    stage.create("manual-fenced", [3])
    stage.ask(
        "manual more",
        CreatePartitionsRequest([CreatePartitionsTopic("manual", 3, [CreatePartitionsAssignment([3, 2])])], 60000),
    )
    stage.ask(
        "manual more, only the fenced",
        CreatePartitionsRequest([CreatePartitionsTopic("racks1", 13, [CreatePartitionsAssignment([3])])], 60000),
    )
    stage.fence(1)
    stage.fence(2)
    stage.creation("all fenced", CreatableTopic("none", 1, 1))
    stage.create("manual-all-fenced", [1, 2])
    stage.ask("more, all fenced", CreatePartitionsRequest([CreatePartitionsTopic("racks", 31, None)], 60000))


def fenced_racks(stage: Stage) -> None:
    for broker, rack in ((1, "a"), (2, "b"), (3, "c")):
        stage.join(broker, rack)
    stage.fence(2)
    stage.creation("one in each rack", CreatableTopic("each", 12, 2))
    stage.join(4, "a")
    stage.fence(3)
    stage.creation("only one rack is there", CreatableTopic("one-rack", 12, 2))
    stage.creation("three of four", CreatableTopic("three", 12, 3))


def no_racks(stage: Stage) -> None:
    for broker in (1, 2, 3, 4):
        stage.join(broker)
    stage.creation("four", CreatableTopic("t", 24, 3))
    stage.join(5, "a")
    stage.creation("one of them in a rack", CreatableTopic("u", 24, 2))
    stage.join(6, "a")
    stage.creation("three racks", CreatableTopic("v", 24, 3))
    stage.ask("three at once", CreateTopicsRequest([CreatableTopic(name, 3, 2) for name in "xyz"]))
