"""Requests for the end offsets of partitions that other brokers lead."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.broker.coordinators.share_host import UNKNOWN, EndOffsetRequests
from tests.broker.neighbourhood import Neighbourhood
from tests.broker.support import batch


@pytest.fixture
def nodes(tmp_path: Path) -> Neighbourhood:
    """Nodes of which node 2 leads t-0 with one record and t-1 with two, and node 1 leads t-2."""
    nodes = Neighbourhood(tmp_path)
    nodes.add("t", 2, 2, 1)
    nodes[2].partition("t", 0).append(batch(b"a"), nodes.now)
    nodes[2].partition("t", 1).append(batch(b"a", b"b"), nodes.now)
    return nodes


def test_questions_that_gather_are_asked_together(nodes: Neighbourhood) -> None:
    requests = EndOffsetRequests(nodes[1].whole.node)
    asked = [requests.ask(2, "t", number) for number in (0, 1, 0)]
    nodes.network.run()
    assert [one.result() for one in asked] == [1, 2, 1]
    assert len(nodes.network.log) == 2


@pytest.mark.parametrize("trouble", ["cut", "not the leader", "nobody"])
def test_what_can_not_be_heard_is_unknown(nodes: Neighbourhood, trouble: str) -> None:
    if trouble == "cut":
        nodes.network.cut.add(2)
    requests = EndOffsetRequests(nodes[1].whole.node)
    question = requests.ask(7 if trouble == "nobody" else 2, "t", 2 if trouble == "not the leader" else 0)
    nodes.network.run()
    assert question.result() == UNKNOWN


@pytest.mark.parametrize("leader", [3, 1])
def test_the_next_leader_is_asked_once_the_first_one_has_moved(tmp_path: Path, leader: int) -> None:
    nodes = Neighbourhood(tmp_path, brokers=3)
    nodes.add("u", 2, replicas=(1, 2, 3))
    nodes[2].partition("u", 0).append(batch(b"a", b"b", b"c"), nodes.now)
    nodes.network.deaf.add(2)
    work = nodes[1].whole.services.slices.begin(nodes[1].whole.services.shares.end_offset("u", 0))
    nodes.network.run()
    assert not work.done
    nodes.move("u", 0, leader)
    nodes.network.run()
    assert work.result() == 3
