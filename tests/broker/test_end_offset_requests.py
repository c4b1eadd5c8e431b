"""Where partitions end that other brokers lead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.end_offset_requests import UNKNOWN, EndOffsetRequests
from pykafka_broker.broker.slices import Steps
from tests.broker.neighbourhood import Neighbourhood
from tests.broker.support import batch


@pytest.fixture
def nodes(tmp_path: Path) -> Neighbourhood:
    """Node 2 leads t: one record in t-0, two in t-1; node 1 leads t-2."""
    nodes = Neighbourhood(tmp_path)
    nodes.add("t", 2, 2, 1)
    nodes[2].partition("t", 0).append(batch(b"a"), nodes.now)
    nodes[2].partition("t", 1).append(batch(b"a", b"b"), nodes.now)
    return nodes


def test_questions_that_gather_are_asked_together(nodes: Neighbourhood) -> None:
    requests = EndOffsetRequests(nodes[1].whole.node)
    asked = [requests.ask(2, "t", number) for number in (0, 1, 0)]
    nodes.network.run()
    assert [one.offset for one in asked] == [1, 2, 1]
    assert len(nodes.network.log) == 2
    assert {after for one in asked for after in one.after} == set()


@pytest.mark.parametrize("trouble", ["cut", "not the leader", "nobody"])
def test_what_can_not_be_heard_is_unknown(nodes: Neighbourhood, trouble: str) -> None:
    if trouble == "cut":
        nodes.network.cut.add(2)
    requests = EndOffsetRequests(nodes[1].whole.node)
    question = requests.ask(7 if trouble == "nobody" else 2, "t", 2 if trouble == "not the leader" else 0)
    nodes.network.run()
    assert (question.offset, question.after) == (UNKNOWN, ())


@pytest.mark.parametrize("leader", [3, 1])
def test_the_next_leader_is_asked_once_the_first_one_has_moved(tmp_path: Path, leader: int) -> None:
    nodes = Neighbourhood(tmp_path, brokers=3)
    nodes.add("u", 2, replicas=(1, 2, 3))
    nodes[2].partition("u", 0).append(batch(b"a", b"b", b"c"), nodes.now)
    nodes.network.deaf.add(2)
    steps = nodes[1].whole.services.shares.end_offset("u", 0)
    assert not _is_answered(next(steps))
    nodes.network.run()
    nodes.move("u", 0, leader)
    found: list[int] = []

    def go_on() -> Steps[None]:
        found.append((yield from steps))

    for after in go_on():
        nodes.network.run()
        assert _is_answered(after)
    assert found == [3]


def _is_answered(after: Any) -> bool:
    return all(place.is_committed(offset) for place, offset in after)
