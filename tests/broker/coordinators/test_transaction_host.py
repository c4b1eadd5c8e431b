"""The transaction coordinator's host where syncs take their time: who ends a transaction when leaders change meanwhile,
and what is left of one whose markers can't be written.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykafka_broker.broker.api.transaction_admin import list_transactions
from pykafka_broker.broker.coordinators.coordinator_log import read_batches
from pykafka_broker.broker.waiting.future import DONE
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from pykafka_broker.coordinators.groups.re2 import RegexError
from pykafka_broker.coordinators.transactions.transaction import TransactionMetadata, TransactionState
from pykafka_broker.log.jobs import run_inline
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.list_transactions_request import ListTransactionsRequest
from tests.broker.support import LightBroker
from tests.broker.test_synced_answers import SyncedBroker, producing_to


@pytest.fixture
def node(tmp_path: Path) -> SyncedBroker:
    """A broker with an open transaction of producer 0 in t-0."""
    node = SyncedBroker(tmp_path, **{"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"})
    node.broker.create_missing_topics([CONSUMER_OFFSETS, TRANSACTION_STATE])
    node.sync()
    node.asked(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 7)
    node.sync()
    node.asked(InitProducerIdRequest("x", 60_000), 5)
    node.sync()
    producing = node.asked(producing_to(0), 12)
    node.sync()
    assert producing.response().responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return node


def markers(node: SyncedBroker) -> int:
    return sum(header.is_control for header, _ in read_batches(node.broker.partition_log("t", 0)))


def decisions(node: SyncedBroker) -> int:
    """Return the number of records in the transaction coordinator's log."""
    return node.broker.partition_log(TRANSACTION_STATE, 0).log_end_offset


def step(node: SyncedBroker) -> None:
    """Run one sync if there is one, then all that is due."""
    if node.jobs:
        run_inline(node.jobs.popleft())
    node.broker.on_deadline(node.now)


def test_each_step_waits_for_the_one_before(node: SyncedBroker) -> None:
    decided = decisions(node)
    ending = node.asked(EndTxnRequest("x", 0, 0, True), 5)
    assert (decisions(node), markers(node)) == (decided + 1, 0)
    run_inline(node.jobs.popleft())
    assert ending.response().error_code == ErrorCode.NONE, "the outcome is certain, as with Kafka"
    assert (decisions(node), markers(node)) == (decided + 1, 1)
    node.sync()
    assert (decisions(node), markers(node)) == (decided + 2, 1)


def test_a_new_epoch_of_its_log_ends_a_transaction_once(node: SyncedBroker) -> None:
    decided = decisions(node)
    ending = node.asked(EndTxnRequest("x", 0, 0, True), 5)
    node.broker.elect_again(TRANSACTION_STATE)
    node.broker.on_deadline(node.now)  # its log is read, and the outcome in it is not committed yet
    while node.jobs:
        node.broker.transactions._await(node.now)
        step(node)
    assert (decisions(node), markers(node)) == (decided + 2, 1)
    assert ending.response().error_code == ErrorCode.NONE
    assert node.broker.transactions._markers._endings == {}


def test_another_leader_goes_on_and_this_node_does_not(node: SyncedBroker) -> None:
    ending = node.asked(EndTxnRequest("x", 0, 0, True), 5)
    node.broker.elect(TRANSACTION_STATE, 2)
    assert ending.response().error_code == ErrorCode.NOT_COORDINATOR
    node.sync()
    assert markers(node) == 0
    assert node.broker.transactions._markers._endings == {}


def test_of_many_transactions_that_time_out_together_each_is_aborted(tmp_path: Path) -> None:
    broker = LightBroker(tmp_path)
    broker.add("t")
    broker.add(TRANSACTION_STATE, max_message_bytes="400")  # room for two or three transactions
    host = broker.transactions
    names = [f"x{number}" for number in range(10)]
    for name in names:
        begun = host.init_producer_id(name, 20_000, None, broker.now)
        assert host.add_partitions(name, begun.producer_id, begun.producer_epoch, [("t", 0)], 2, broker.now) == 0
    broker.now += 21_000
    host.on_deadline(broker.now)
    states = {transaction.state for _, transaction in host.transactions()}
    assert states == {TransactionState.COMPLETE_ABORT}


def test_a_load_lets_others_go_first_between_its_transactions_too(tmp_path: Path) -> None:
    """Records that a log has many of for each id are read in slices, and so are the newest records replayed."""
    broker = LightBroker(tmp_path)
    broker.add(TRANSACTION_STATE)
    host = broker.transactions
    for name in ("a", "b", "a", "a"):
        host.init_producer_id(name, 20_000, None, broker.now)
    partition = broker.services.replicas.leader(TRANSACTION_STATE, 0)
    batches = [header.size for header, _ in read_batches(partition.log)]
    sizes = list(host.load(0, partition))
    assert sizes[: len(batches)] == batches
    assert len(sizes) == len(batches) + 2
    assert all(sizes)
    assert {name for name, _ in host.transactions()} == {"a", "b"}


def test_a_list_by_a_hostile_pattern_is_refused_before_others_notice(tmp_path: Path) -> None:
    broker = LightBroker(tmp_path)
    broker.add(TRANSACTION_STATE)
    broker.transactions.init_producer_id("a" * 249, 20_000, None, broker.now)
    context = broker.context(ApiKey.LIST_TRANSACTIONS, 2)
    answer: Any = list_transactions(broker.services, context, ListTransactionsRequest(transactional_id_pattern="a+"))
    assert len(answer.transaction_states) == 1
    with pytest.raises(RegexError, match="expression is too large"):
        list_transactions(
            broker.services, context, ListTransactionsRequest(transactional_id_pattern="((.?){90}){100}x")
        )


def test_very_many_transactions_are_listed_in_steps() -> None:
    empty = TransactionMetadata(1, 0, 60_000, TransactionState.EMPTY, 0)
    known = [(f"t{number}", empty) for number in range(1_000)]
    transactions = SimpleNamespace(transactions=lambda: known, shards=SimpleNamespace(all_committed=lambda: DONE))
    services = SimpleNamespace(transactions=transactions, allows=lambda *asked: True)
    steps = cast(Any, list_transactions).__wrapped__(services, SimpleNamespace(now=0), ListTransactionsRequest())
    waits = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            listed = [each.transactional_id for each in end.value.transaction_states]
            break
        waits += 1
    assert (listed, waits) == ([name for name, _ in known], 4)
