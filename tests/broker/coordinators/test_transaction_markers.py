"""One request of markers is open to a broker at a time, and takes along what has gathered."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.broker.coordinators import transaction_markers
from pykafka_broker.broker.coordinators.transaction_markers import MarkerRequest, MarkerSender
from pykafka_broker.coordinators.transactions.coordinator import Markers
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from tests.broker.neighbourhood import Neighbourhood

Heard = list[tuple[str, PartitionKey, ErrorCode]]


@pytest.fixture
def nodes(tmp_path: Path) -> Neighbourhood:
    nodes = Neighbourhood(tmp_path)
    nodes.add("t", 2, 2, replicas=(1, 2))
    return nodes


@pytest.fixture
def sender(nodes: Neighbourhood) -> MarkerSender:
    return MarkerSender(nodes[1].whole.node)


def send(sender: MarkerSender, heard: Heard, producer_id: int, *partitions: int, epoch: int = 0) -> None:
    places = frozenset(("t", number) for number in partitions)
    markers = Markers(f"x{producer_id}", producer_id, epoch, True, places, 0, 0)
    order = MarkerRequest(markers, places, lambda place, code: heard.append((markers.transactional_id, place, code)))
    sender.send(2, order)


def requests(nodes: Neighbourhood) -> list[dict[int, list[int]]]:
    """Return the partitions of each producer in each request."""
    return [
        {marker.producer_id: marker.topics[0].partition_indexes for marker in request.markers}  # type: ignore[attr-defined]
        for *_, request in nodes.network.log
    ]


def test_what_comes_while_one_is_open_goes_together(nodes: Neighbourhood, sender: MarkerSender) -> None:
    heard: Heard = []
    for producer_id in (1, 2, 3):
        send(sender, heard, producer_id, 0, 1)
    assert len(nodes.network.sent) == 1
    nodes.network.run()
    assert requests(nodes) == [{1: [0, 1]}, {2: [0, 1], 3: [0, 1]}]
    assert len(heard) == 6
    assert {code for *_, code in heard} == {ErrorCode.NONE}


def test_very_many_partitions_go_in_several_requests(
    nodes: Neighbourhood, sender: MarkerSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_markers, "_MOST_PARTITIONS", 3)
    heard: Heard = []
    for producer_id in (1, 2, 3, 4):
        send(sender, heard, producer_id, *([0] if producer_id == 4 else [0, 1]))
    nodes.network.run()
    assert requests(nodes) == [{1: [0, 1]}, {2: [0, 1]}, {3: [0, 1], 4: [0]}]
    monkeypatch.setattr(transaction_markers, "_MOST_PARTITIONS", 1)
    send(sender, heard, 5, 0, 1)
    nodes.network.run()
    assert requests(nodes)[-1] == {5: [0, 1]}, "a transaction of more goes alone"
    assert [code for *_, code in heard] == [ErrorCode.NONE] * 9


def test_two_markers_of_one_producer_go_one_after_the_other(nodes: Neighbourhood, sender: MarkerSender) -> None:
    heard: Heard = []
    send(sender, heard, 1, 0)
    send(sender, heard, 2, 0)
    send(sender, heard, 2, 1)
    nodes.network.run()
    assert requests(nodes) == [{1: [0]}, {2: [0]}, {2: [1]}]
    assert [place for _, place, _ in heard] == [("t", 0), ("t", 0), ("t", 1)]


def test_each_partition_has_its_own_error(nodes: Neighbourhood, sender: MarkerSender) -> None:
    heard: Heard = []
    send(sender, heard, 1, 0, epoch=5)
    nodes.network.run()
    send(sender, heard, 1, 0, 1, epoch=4)
    nodes.network.run()
    assert [code for *_, code in heard] == [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NONE]


def test_a_line_that_breaks_is_an_error_of_every_partition(nodes: Neighbourhood, sender: MarkerSender) -> None:
    heard: Heard = []
    nodes.network.cut.add(2)
    send(sender, heard, 1, 0, 1)
    nodes.network.run()
    assert [code for *_, code in heard] == [ErrorCode.NETWORK_EXCEPTION] * 2


def test_a_broker_that_nobody_knows_is_one_too(nodes: Neighbourhood, sender: MarkerSender) -> None:
    heard: Heard = []
    order = MarkerRequest(
        Markers("x", 1, 0, True, frozenset({("t", 0)}), 0, 0),
        [("t", 0)],
        lambda place, code: heard.append(("x", place, code)),
    )
    sender.send(7, order)
    assert heard == [("x", ("t", 0), ErrorCode.NETWORK_EXCEPTION)]


def test_what_was_dropped_does_not_leave(nodes: Neighbourhood, sender: MarkerSender) -> None:
    heard: Heard = []
    send(sender, heard, 1, 0)
    order = MarkerRequest(
        Markers("x", 2, 0, True, frozenset({("t", 0)}), 0, 0),
        [("t", 0)],
        lambda place, code: heard.append(("x", place, code)),
    )
    sender.send(2, order)
    sender.drop([order])
    nodes.network.run()
    assert requests(nodes) == [{1: [0]}]
    assert len(heard) == 1


def test_nobody_waits_for_who_leads_no_more(nodes: Neighbourhood, sender: MarkerSender) -> None:
    heard: Heard = []
    nodes.network.deaf.add(2)
    send(sender, heard, 1, 0, 1)
    nodes.network.run()
    nodes.move("t", 0, 1)
    sender.forget_moved()
    assert heard == [("x1", ("t", 0), ErrorCode.NOT_LEADER_OR_FOLLOWER)]
