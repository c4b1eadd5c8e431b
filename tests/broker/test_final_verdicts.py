"""Errors that end a producer: a coordinator with followers sends them only after a new commit.

A coordinator that was away and has not heard that another node took over can't commit, so it ends no producer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.api.init_producer_id import init_producer_id
from pykafka_broker.broker.api.transactions import add_partitions_to_txn, end_txn
from pykafka_broker.broker.coordinators.add_partitions_to_txn import PartitionVerification
from pykafka_broker.broker.waiting.future import Future, Lost
from pykafka_broker.cluster.topic_names import TRANSACTION_STATE
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from tests.broker.support import ANOTHER_NODE, NOW, LightBroker

WRONG_EPOCH = 9


class Coordinator:
    """Node 1 coordinates `x`, whose producer is 0 in epoch 0; another node follows."""

    def __init__(self, directory: Path, replicas: tuple[int, ...] = (1, ANOTHER_NODE)) -> None:
        self.broker = LightBroker(directory)
        self.broker.add(TRANSACTION_STATE, replicas=replicas, isr=replicas)
        self.broker.add("t")
        self.log = self.broker.services.replicas.leader(TRANSACTION_STATE, 0)
        self.ask(init_producer_id, ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest("x", 60_000), 5)
        self.acknowledge()
        self.records = self.log.log.log_end_offset

    def ask(self, handler: Any, key: ApiKey, request: Any, version: int) -> Any:
        """Call a handler and return its answer, or the future of it."""
        return handler(self.broker.services, self.broker.context(key, version), request)

    def acknowledge(self) -> None:
        """Let the follower fetch up to the end of the log."""
        if self.log.followers is not None:
            self.log.fetched_by(ANOTHER_NODE, self.log.log.log_end_offset, NOW)

    def depose(self) -> None:
        self.broker.change(TRANSACTION_STATE, leader=ANOTHER_NODE)


@pytest.fixture
def coordinator(tmp_path: Path) -> Coordinator:
    return Coordinator(tmp_path)


def end(coordinator: Coordinator, name: str = "x", epoch: int = WRONG_EPOCH) -> Any:
    return coordinator.ask(end_txn, ApiKey.END_TXN, EndTxnRequest(name, 0, epoch, True), 5)


def verify(coordinator: Coordinator) -> Any:
    one = AddPartitionsToTxnTransaction("x", 0, WRONG_EPOCH, True, [AddPartitionsToTxnTopic("t", [0])])
    return coordinator.ask(
        add_partitions_to_txn, ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest(transactions=[one]), 5
    )


def init(coordinator: Coordinator) -> Any:
    request = InitProducerIdRequest("x", 60_000, 0, WRONG_EPOCH)
    return coordinator.ask(init_producer_id, ApiKey.INIT_PRODUCER_ID, request, 5)


@pytest.mark.parametrize("ask", [end, verify, init])
def test_a_fenced_producer_is_told_so_when_the_followers_agree(coordinator: Coordinator, ask: Any) -> None:
    answer = ask(coordinator)
    assert isinstance(answer, Future)
    assert not answer.done
    coordinator.acknowledge()
    assert answer.succeeded


@pytest.mark.parametrize("ask", [end, verify, init])
def test_who_is_deposed_fences_nobody(coordinator: Coordinator, ask: Any) -> None:
    answer = ask(coordinator)
    coordinator.depose()
    assert isinstance(answer.error, Lost)


def test_it_changes_nothing(coordinator: Coordinator) -> None:
    before = coordinator.broker.transactions.transaction("x")
    end(coordinator)
    end(coordinator, "a name that nobody has")
    assert coordinator.broker.transactions.transaction("x") == before
    assert len(coordinator.broker.transactions.transactions()) == 1
    assert coordinator.log.log.log_end_offset == coordinator.records + 2


@pytest.mark.parametrize("agree", [True, False])
def test_a_partition_of_the_coordinators_own_node_waits_too(coordinator: Coordinator, agree: bool) -> None:
    partition = coordinator.broker.services.replicas.leader("t", 0)
    verification = coordinator.broker.transactions.add_or_verify("x", 0, WRONG_EPOCH, partition, True)
    assert isinstance(verification, PartitionVerification)
    assert not verification.done
    if agree:
        coordinator.acknowledge()
    else:
        coordinator.depose()
    assert verification.result() is (ErrorCode.PRODUCER_FENCED if agree else ErrorCode.NOT_COORDINATOR)


def test_a_coordinator_without_followers_says_it_at_once(tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path, (1,))
    assert not isinstance(end(coordinator), Future)
    assert coordinator.log.log.log_end_offset == coordinator.records
