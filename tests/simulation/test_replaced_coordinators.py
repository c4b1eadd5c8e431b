"""A group coordinator that is paused, replaced, and then answers the requests of the pause before it hears of its
replacement: it must not tell old offsets, nor tell a member that it is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pykafka_broker.broker.coordinators.coordinator_log import partition_for
from pykafka_broker.broker.coordinators.group_host import GroupHost
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.testing.simulation.node import SimNode
from tests.simulation.client import Ask, Script, SimClient, Wait
from tests.simulation.layouts import CLUSTER_ID, cluster
from tests.simulation.memberships import ConsumerMembership
from tests.simulation.producers import OF
from tests.simulation.readers import committer
from tests.simulation.simulation import Simulation

pytestmark = pytest.mark.whole

GROUP = "g"
SEEDS = 2
BEFORE_MS, AWAY_MS, REST_MS = 1_500, 4_000, 500
REPLACED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
Question = Callable[[Simulation], tuple[Message, int]]


def old_offsets(simulation: Simulation | None) -> tuple[Message, int]:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)]), 8


def gives_back(partitions: set[PartitionKey]) -> Script:
    yield Wait(0)


def a_new_member(simulation: Simulation) -> tuple[Message, int]:
    """Return the heartbeat of a member that the first coordinator does not know."""
    members: list[ConsumerMembership] = []

    def join(client: SimClient) -> Script:
        members.append(ConsumerMembership(client, GROUP, simulation.partitions, None))
        yield from members[0].keep(gives_back)

    joining = simulation.do("m", join)
    while not joining.done:
        simulation.run(50)
    return ConsumerGroupHeartbeatRequest(GROUP, members[0].member_id, members[0].epoch), 1


def coordinator(simulation: Simulation) -> SimNode:
    """Return the group's coordinator, as the controller knows it."""
    partitions = simulation.nodes[101].broker.node.image.topics[CONSUMER_OFFSETS].partitions
    return simulation.nodes[partitions[partition_for(GROUP, len(partitions))].leader]


def answer_of_the_first(seed: int, question: Question, *, commits: bool) -> tuple[Any, int]:
    """Return what the first coordinator answers once it goes on, and the least offset that it may tell."""
    answers: list[Any] = []
    questions = [old_offsets(None)]

    def ask(client: SimClient, node: SimNode) -> Script:
        """Send the last question over a connection from before the pause."""
        while len(answers) < 2:
            if len(questions) > len(answers):
                request, version = questions[-1]
                answers.append((yield Ask((node.name, 9092), request, (version, version))))
            yield Wait(10)

    with Simulation(seed, cluster(3)) as simulation:
        for node in simulation.nodes.values():
            node.format(CLUSTER_ID)
            node.start()
        simulation.create_topic(1, 3)
        simulation.do("c", partial(committer, group=GROUP if commits else "another"))
        simulation.run(BEFORE_MS)
        first = coordinator(simulation)
        simulation.do("late", partial(ask, node=first))
        simulation.run(REST_MS)
        first.pause()
        simulation.run(AWAY_MS)
        assert coordinator(simulation) is not first
        questions.append(question(simulation))
        promised = simulation.history.committed_offsets.get((GROUP, OF), -1)
        simulation.run(REST_MS)
        first.go_on()
        simulation.run(REST_MS)
        assert not simulation.conclude()
    return answers[1], promised


def told_offset(answer: Any) -> int:
    """Return the committed offset of the answer, -1 for an error, which must be one of REPLACED."""
    [group] = answer.groups
    if group.error_code:
        assert group.error_code in REPLACED
        return -1
    return int(group.topics[0].partitions[0].committed_offset)


def test_no_old_offsets(seed: int) -> None:
    answer, promised = answer_of_the_first(seed, old_offsets, commits=True)
    found = told_offset(answer)
    assert promised > 0
    assert found == -1 or found >= promised


def test_no_member_is_ended(seed: int) -> None:
    answer, _ = answer_of_the_first(seed, a_new_member, commits=False)
    assert answer.error_code in (ErrorCode.NONE, *REPLACED)


def test_it_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupHost, "confirm_offsets_by_append", lambda self, *group_ids: None)
    found = [answer_of_the_first(seed, old_offsets, commits=True) for seed in (7, 8)]
    assert any(-1 < told_offset(answer) < promised for answer, promised in found)
    told = [answer_of_the_first(seed, a_new_member, commits=False)[0].error_code for seed in (7, 8)]
    assert ErrorCode.GROUP_ID_NOT_FOUND in told
