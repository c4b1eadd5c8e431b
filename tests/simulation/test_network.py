"""The virtual network keeps what `peers.py` promises."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from pykafka_broker.peers import Address, LinkBroken, LinkClosed, LinkError, LinkTimeout
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.metadata_response import MetadataResponse
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.testing.simulation.link import SimLink
from pykafka_broker.testing.simulation.network import Network
from pykafka_broker.testing.simulation.node import SimNode
from pykafka_broker.testing.simulation.timeline import Host, Timeline

LATER_MS = 20_000
Answers = list[Message | LinkError]


class World:
    """A node and a client with a link to it."""

    def __init__(self, seed: int = 1) -> None:
        self.timeline = Timeline()
        self.network = Network(self.timeline, Random(seed))
        self.node = SimNode(self.network, 1, {"listeners": "PLAINTEXT://n1:9092"}, self.network.random)
        self.node.start()
        self.client = Host(self.timeline, "c")
        self.network.hosts["c"] = self.client
        self.link = SimLink(self.network, self.client, Address("n1", 9092, "PLAINTEXT"), "me")
        self.answers: Answers = []

    def ask(self, timeout_ms: int = LATER_MS) -> None:
        self.client.turn(lambda: self.link.send(MetadataRequest([]), self.answers.append, timeout_ms))

    def pass_time(self, ms: int = 1_000) -> None:
        self.timeline.run(self.timeline.now + ms)


def test_an_answer_comes_once_and_not_before_send_has_returned() -> None:
    world = World()
    for _ in range(8):
        world.ask()
    assert world.answers == []
    world.pass_time()
    assert [type(each) for each in world.answers] == [MetadataResponse] * 8
    assert world.link.served(MetadataRequest.API_KEY) == (0, 13)


def test_answers_come_in_the_order_of_the_requests() -> None:
    world = World(seed=5)
    order: list[int] = []

    def numbered(number: int) -> Callable[[Message | LinkError], None]:
        return lambda reply: order.append(number)

    def send() -> None:
        for number in range(100):
            world.link.send(MetadataRequest([]), numbered(number), LATER_MS)

    world.client.turn(send)
    world.pass_time(10_000)
    assert order == list(range(100))


@pytest.mark.parametrize("kill", [SimNode.kill, SimNode.stop])
def test_a_process_that_ends_is_heard_of(kill: Callable[[SimNode], None]) -> None:
    world = World()
    world.ask()
    world.pass_time()
    world.node.pause()  # what is asked now is not answered
    world.ask()
    world.pass_time()
    assert len(world.answers) == 1
    kill(world.node)
    world.pass_time()
    assert isinstance(world.answers[1], LinkBroken)
    world.ask()
    world.node.start()
    world.pass_time()
    assert isinstance(world.answers[2], MetadataResponse)


def test_nobody_is_told_of_a_power_cut() -> None:
    world = World()
    world.ask()
    world.pass_time()
    world.node.cut_power()
    world.ask(5_000)
    world.pass_time(4_900)
    assert len(world.answers) == 1
    world.pass_time(200)
    assert isinstance(world.answers[1], LinkTimeout)
    assert world.answers[1].sent


def test_who_comes_back_does_not_know_the_connections_of_before() -> None:
    world = World()
    world.ask()
    world.pass_time()
    world.node.cut_power()
    world.node.start()
    world.ask()
    world.pass_time()
    assert isinstance(world.answers[1], LinkBroken)


def test_what_is_cut_waits_and_goes_on_when_it_is_healed() -> None:
    world = World()
    world.ask()
    world.pass_time()
    world.network.separate(("n1", "c"))
    world.ask()
    world.pass_time(10_000)
    assert len(world.answers) == 1
    world.network.heal()
    world.pass_time()
    assert isinstance(world.answers[1], MetadataResponse)


def test_nobody_can_dial_where_a_way_is_cut() -> None:
    world = World()
    world.network.separate(("n1", "c"))
    world.ask(5_000)
    world.pass_time(6_000)
    assert isinstance(world.answers[0], LinkTimeout)
    assert not world.answers[0].sent


def test_a_connection_that_breaks_is_told_to_both_sides() -> None:
    world = World()
    world.ask()
    world.pass_time()
    world.node.pause()
    world.ask()
    world.network.break_connections(lambda one, other: True)
    world.node.go_on()
    world.pass_time()
    assert isinstance(world.answers[1], LinkBroken)
    world.ask()
    world.pass_time()
    assert isinstance(world.answers[2], MetadataResponse)


@pytest.mark.parametrize("broken", ["c", "n1"])
def test_who_waits_hears_of_it_whichever_side_breaks(broken: str) -> None:
    world = World()
    world.ask()
    world.pass_time()
    world.node.pause()
    world.ask(30_000)
    world.network.break_connections(lambda one, other: one == broken)
    world.node.go_on()
    world.pass_time()
    assert isinstance(world.answers[1], LinkBroken)


def test_who_closes_his_link_is_told_later() -> None:
    world = World()
    world.ask()
    world.client.turn(world.link.close)
    assert world.answers == []
    world.pass_time()
    assert [type(each) for each in world.answers] == [LinkClosed]


def test_who_pauses_does_everything_when_he_goes_on() -> None:
    world = World()
    world.ask()
    world.pass_time()
    world.node.pause()
    for _ in range(3):
        world.ask()
    world.pass_time(5_000)
    assert len(world.answers) == 1
    world.node.go_on()
    world.pass_time()
    assert [type(each) for each in world.answers] == [MetadataResponse] * 4


def test_who_dials_somebody_that_pauses_is_answered_when_he_goes_on() -> None:
    world = World()
    world.node.pause()
    world.ask()
    world.pass_time(5_000)
    assert world.answers == []
    world.node.go_on()
    world.pass_time(500)
    assert isinstance(world.answers[0], MetadataResponse)


def test_who_has_asked_a_machine_without_power_hears_of_it_once_it_is_back() -> None:
    world = World()
    world.ask()
    world.pass_time()
    world.node.cut_power()
    world.ask()
    world.pass_time(2_000)
    assert len(world.answers) == 1
    world.node.start()
    world.pass_time(1_100)
    assert isinstance(world.answers[1], LinkBroken)
