"""Channels to the other brokers, and requests that are gathered for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.channels import RequestBatcher
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.peers import Address, LinkError, Peer
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.metadata_response import MetadataResponse
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.stored.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from tests.broker.neighbourhood import Neighbourhood
from tests.broker.support import LightBroker


class Silent:
    """A server that takes every request and answers none."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address, self.client_id = address, client_id
        self.closed = False

    def send(self, *_: Any, **__: Any) -> None: ...

    def withdraw(self, request: Message) -> bool:
        return False

    def served(self, api_key: int) -> tuple[int, int] | None: ...

    def close(self) -> None:
        self.closed = True


class SilentPeers:
    def open(self, address: Address, client_id: str) -> Peer:
        return Silent(address, client_id)


def registered(node: LightBroker, port: int, epoch: int) -> None:
    record = RegisterBrokerRecord(
        broker_id=2, broker_epoch=epoch, end_points=[BrokerEndpoint("PLAINTEXT", "other", port, 0)]
    )
    node.metadata.commit([ApiMessageAndVersion(record, 1)])


def test_a_neighbour_is_found_by_its_registration(tmp_path: Path) -> None:
    node = LightBroker(tmp_path)
    whole = node.whole.node
    whole.peers = SilentPeers()
    assert whole.broker_channels.peer(2, "a") is None
    registered(node, 9, epoch=7)
    first = whole.broker_channels.peer(2, "a")
    assert isinstance(first, Silent)
    assert first.address == Address("other", 9, "PLAINTEXT")
    again, other = whole.broker_channels.peer(2, "a"), whole.broker_channels.peer(2, "b")
    assert (again is first, other is first) == (True, False)
    registered(node, 10, epoch=8)
    second = whole.broker_channels.peer(2, "a")
    assert isinstance(second, Silent)
    assert second.address.port == 10
    assert first.closed


class Asking(RequestBatcher[str]):
    """A sender of requests that describe topics, two topics in each."""

    client_id = "asking-%d"

    def __init__(self, nodes: Neighbourhood) -> None:
        super().__init__(nodes[1].whole.node)
        self.heard: list[str] = []
        self._given_up: set[str] = set()

    def give_up(self, broker_id: int, name: str) -> None:
        self._given_up.add(name)
        self._choose_anew([broker_id])

    def _choose(self, waiting: list[str]) -> tuple[list[str], list[str]]:
        wanted = [name for name in waiting if name not in self._given_up]
        return wanted[:2], wanted[2:]

    def _request(self, wanted: list[str]) -> Message:
        return MetadataRequest([MetadataRequestTopic(name=name) for name in wanted])

    def _complete(self, wanted: list[str], answer: Message | LinkError) -> None:
        if isinstance(answer, MetadataResponse):
            if "defect" in wanted:
                raise RuntimeError("a defect")
            self.heard += [topic.name or "" for topic in answer.topics]
        else:
            self.heard += [f"no {name}" for name in wanted]


@pytest.fixture
def nodes(tmp_path: Path) -> Neighbourhood:
    return Neighbourhood(tmp_path)


def test_one_request_is_open_at_a_time(nodes: Neighbourhood) -> None:
    asking = Asking(nodes)
    for name in "abcd":
        asking.send(2, name)
    assert len(nodes.network.sent) == 1
    nodes.network.run()
    assert sorted(asking.heard) == list("abcd")
    assert [len(request.topics) for *_, request in nodes.network.log] == [1, 2, 1]  # type: ignore[attr-defined]
    assert {(source, target, name) for source, target, name, _ in nodes.network.log} == {(1, 2, "asking-1")}
    assert not list(asking._unanswered())


def test_a_broken_line_ends_one_request_and_the_next_one_is_tried(nodes: Neighbourhood) -> None:
    asking = Asking(nodes)
    nodes.network.cut.add(2)
    asking.send(2, "a")
    asking.send(2, "b")
    nodes.network.step()
    assert asking.heard == ["no a"]
    nodes.network.cut.clear()
    nodes.network.run()
    assert asking.heard == ["no a", "b"]


def test_a_defect_at_an_answer_ends_its_items_and_the_next_ones_go_on(nodes: Neighbourhood) -> None:
    asking = Asking(nodes)
    for name in ("defect", "a", "b"):
        asking.send(2, name)
    nodes.network.run()
    assert asking.heard == ["no defect", "a", "b"]
    assert not list(asking._unanswered())


def test_what_is_given_up_before_it_has_left_never_leaves(nodes: Neighbourhood) -> None:
    asking = Asking(nodes)
    for name in "abc":
        asking.send(2, name)
    nodes.network.step()
    assert len(nodes.network.sent) == 1, "b and c, which go together"
    asking.give_up(2, "b")
    nodes.network.run()
    asking.give_up(2, "x")
    assert asking.heard == ["a", "c"]
    assert [len(request.topics) for *_, request in nodes.network.log] == [1, 1]  # type: ignore[attr-defined]


def test_who_is_not_known_is_not_waited_for(nodes: Neighbourhood) -> None:
    asking = Asking(nodes)
    asking.send(7, "a")
    assert asking.heard == ["no a"]
