"""Requests for the active controller go to whichever node that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka_broker.broker.metadata.metadata_follower import NodeToControllerChannel
from pykafka_broker.clock import Clock
from pykafka_broker.peers import Address, LinkTimeout
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from pykafka_broker.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from pykafka_broker.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from pykafka_broker.protocol.runtime import Message
from tests.cluster.raft.quorum import Network

NOW = 1_000_000
ONE, TWO = (Address("127.0.0.1", port, "CONTROLLER") for port in (9001, 9002))


class Asked:
    """A connection to two controllers, and the answers that came back."""

    def __init__(self) -> None:
        self.clock = Clock(NOW)
        self.codes = {ONE: ErrorCode.NONE, TWO: ErrorCode.NONE}
        self.down: set[Address] = set()
        self.got: list[tuple[Address, Message]] = []
        self.replies: list[Any] = []
        self.network = Network({ONE: self._node(ONE), TWO: self._node(TWO)}, lambda address: address not in self.down)
        self.line = NodeToControllerChannel(self.network, self.clock, "7")

    def _node(self, address: Address) -> Callable[[Any], Message]:
        def answer(request: Any) -> Message:
            self.got.append((address, request))
            if isinstance(request, BrokerHeartbeatRequest):
                return BrokerHeartbeatResponse(error_code=self.codes[address])
            if isinstance(request, BrokerRegistrationRequest):
                return BrokerRegistrationResponse(error_code=self.codes[address])
            return AllocateProducerIdsResponse(error_code=self.codes[address])

        return answer

    def ask(self, request: Message | None = None, timeout_ms: int = 1000) -> None:
        self.line.ask(request or AllocateProducerIdsRequest(7, 1), self.replies.append, timeout_ms)

    def pass_time(self, ms: int) -> None:
        self.clock.set(self.clock.now + ms)
        due = self.line.next_deadline()
        if due is not None and due <= self.clock.now:
            self.line.on_deadline(self.clock.now)
        self.network.bring()


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_the_answer_comes_from_the_active_one(asked: Asked) -> None:
    asked.line.use_controller(ONE)
    asked.ask()
    asked.network.bring()
    assert [type(reply) for reply in asked.replies] == [AllocateProducerIdsResponse]
    assert asked.network.opened == [(ONE, "7")]


def test_it_waits_until_one_is_known(asked: Asked) -> None:
    asked.ask()
    asked.pass_time(100)
    assert asked.replies == []
    asked.line.use_controller(TWO)
    asked.network.bring()
    assert len(asked.replies) == 1


def test_one_that_is_not_active_is_asked_again_and_then_the_next_one(asked: Asked) -> None:
    asked.codes[ONE] = ErrorCode.NOT_CONTROLLER
    asked.line.use_controller(ONE)
    asked.ask()
    asked.network.bring()
    asked.pass_time(50)
    assert (len(asked.got), asked.replies) == (2, [])
    asked.line.use_controller(TWO)
    asked.network.bring()
    assert [reply.error_code for reply in asked.replies] == [0]


def test_a_lost_connection_is_no_answer(asked: Asked) -> None:
    asked.down.add(ONE)
    asked.line.use_controller(ONE)
    asked.ask()
    asked.network.bring()
    assert asked.replies == []
    asked.down.clear()
    asked.pass_time(50)
    assert len(asked.replies) == 1


def test_the_time_is_over(asked: Asked) -> None:
    asked.ask(timeout_ms=300)
    asked.pass_time(299)
    assert asked.replies == []
    asked.pass_time(1)
    assert [type(reply) for reply in asked.replies] == [LinkTimeout]
    assert asked.line.next_deadline() is None


def test_other_errors_are_answers(asked: Asked) -> None:
    asked.codes[ONE] = ErrorCode.STALE_BROKER_EPOCH
    asked.line.use_controller(ONE)
    asked.ask()
    asked.network.bring()
    assert [reply.error_code for reply in asked.replies] == [ErrorCode.STALE_BROKER_EPOCH]


def test_heartbeats_follow_the_registration_and_nothing_else_does(asked: Asked) -> None:
    asked.line.use_controller(ONE)
    for request in (BrokerRegistrationRequest(), BrokerHeartbeatRequest(), AllocateProducerIdsRequest()):
        asked.ask(request)
    assert len(asked.network.opened) == 2


def test_nobody_hears_anything_after_the_end(asked: Asked) -> None:
    asked.line.use_controller(ONE)
    asked.ask()
    asked.line.close()
    asked.network.bring()
    asked.ask()
    assert asked.replies == []
