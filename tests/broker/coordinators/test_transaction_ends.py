"""Transactions come to their end in partitions that other brokers lead, whatever happens to those on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka_broker.broker.coordinators.coordinator_log import partition_for, read_batches
from pykafka_broker.broker.coordinators.transaction_markers import ELSEWHERE_RETRY_MS, MARKER_RETRY_MS
from pykafka_broker.broker.waiting.future import PARTITIONS_A_SLICE, Slices
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.topic_names import TRANSACTION_STATE
from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.list_transactions_request import ListTransactionsRequest
from pykafka_broker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from tests.broker.neighbourhood import Neighbourhood, ask
from tests.broker.support import batch

BOTH = (1, 2)
DESCRIBED = {"Ongoing", "PrepareCommit", "CompleteCommit", "PrepareAbort", "CompleteAbort"}


@pytest.fixture
def nodes(tmp_path: Path) -> Neighbourhood:
    """Two nodes with replicas of t-0, which node 1 leads, and t-1, which node 2 leads; 1 is the coordinator."""
    nodes = Neighbourhood(tmp_path)
    nodes.add(TRANSACTION_STATE, 1, replicas=BOTH)
    nodes.add("t", 1, 2, replicas=BOTH)
    return nodes


def begun(nodes: Neighbourhood, name: str = "x", coordinator: int = 1) -> tuple[int, int]:
    """Begin a transaction in both partitions; return producer id and epoch."""
    made = nodes.call(coordinator, InitProducerIdRequest(name, 60_000), 4)
    assert made.error_code == ErrorCode.NONE
    producer = made.producer_id, made.producer_epoch
    topics = [AddPartitionsToTxnTopic("t", [0, 1])]
    added = nodes.call(coordinator, AddPartitionsToTxnRequest([], name, *producer, topics), 3)
    codes = [one.partition_error_code for one in added.results_by_topic_v3_and_below[0].results_by_partition]
    assert codes == [ErrorCode.NONE] * 2
    return producer


def end(nodes: Neighbourhood, producer: tuple[int, int], name: str = "x", *, coordinator: int = 1) -> None:
    answers = nodes.asked(coordinator, EndTxnRequest(name, *producer, True), 3)
    assert [each.error_code for each in answers] == [ErrorCode.NONE], "the outcome is certain, wherever markers go"


def markers(nodes: Neighbourhood, node: int, partition: int) -> int:
    return sum(header.is_control for header, _ in read_batches(nodes.log(node, "t", partition)))


def state(nodes: Neighbourhood, name: str = "x", coordinator: int = 1) -> str:
    listed = nodes.call(coordinator, ListTransactionsRequest(), 1).transaction_states
    found = {one.transactional_id: one.transaction_state for one in listed}[name]
    assert found in DESCRIBED
    return str(found)


def sent(nodes: Neighbourhood) -> list[WriteTxnMarkersRequest]:
    return [request for *_, request in nodes.network.log if isinstance(request, WriteTxnMarkersRequest)]


def test_each_partition_gets_its_marker_from_its_leader(nodes: Neighbourhood) -> None:
    end(nodes, begun(nodes))
    assert markers(nodes, 1, 0) == 1
    nodes.network.run()
    assert (markers(nodes, 2, 1), state(nodes)) == (1, "CompleteCommit")
    [(source, target, client_id, request)] = nodes.network.log
    assert (source, target, client_id) == (1, 2, "broker-1-txn-marker-sender")
    assert isinstance(request, WriteTxnMarkersRequest)
    assert [(topic.name, topic.partition_indexes) for topic in request.markers[0].topics] == [("t", [1])]


@pytest.mark.parametrize(
    ("producer_id", "coordinator_epoch", "code"),
    [
        (-1, 0, ErrorCode.UNKNOWN_SERVER_ERROR),
        (-5, 0, ErrorCode.NONE),
        (77, -1, ErrorCode.NONE),
        (77, -2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ],
)
def test_strange_markers_are_answered_as_by_kafka(
    nodes: Neighbourhood, producer_id: int, coordinator_epoch: int, code: ErrorCode
) -> None:
    topics = [WritableTxnMarkerTopic("t", [0])]
    request = WriteTxnMarkersRequest([WritableTxnMarker(producer_id, 0, False, topics, coordinator_epoch)])
    (answer,) = nodes.call(1, request, 1).markers
    assert answer.topics[0].partitions[0].error_code == code
    assert markers(nodes, 1, 0) == (code is ErrorCode.NONE)


def test_nothing_is_over_while_another_broker_is_silent(nodes: Neighbourhood) -> None:
    producer = begun(nodes)
    nodes.network.deaf.add(2)
    end(nodes, producer)
    nodes.settle()
    assert state(nodes) == "PrepareCommit"
    again = nodes.call(1, InitProducerIdRequest("x", 60_000), 4)
    assert again.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def test_an_end_that_can_not_be_recorded_writes_no_marker_again(nodes: Neighbourhood) -> None:
    producer = begun(nodes)
    end(nodes, producer)
    set_min_insync_replicas(nodes, "2")
    nodes.network.run()
    for _ in range(5):
        nodes.wait(MARKER_RETRY_MS)
    assert (markers(nodes, 1, 0), markers(nodes, 2, 1), state(nodes)) == (1, 1, "PrepareCommit")
    set_min_insync_replicas(nodes, "1")
    nodes.wait(MARKER_RETRY_MS)
    assert (markers(nodes, 1, 0), markers(nodes, 2, 1), state(nodes)) == (1, 1, "CompleteCommit")


def set_min_insync_replicas(nodes: Neighbourhood, value: str) -> None:
    """Change the config of the coordinator's log, of which node 1 alone is in sync."""
    record = ConfigRecord(ConfigResourceType.TOPIC, TRANSACTION_STATE, "min.insync.replicas", value)
    nodes.commit(1, [ApiMessageAndVersion(record, 0)])


def test_a_broker_that_is_away_gets_its_marker_when_it_is_back(nodes: Neighbourhood) -> None:
    producer = begun(nodes)
    nodes.network.cut.add(2)
    end(nodes, producer)
    nodes.settle()
    for _ in range(3):
        nodes.wait(ELSEWHERE_RETRY_MS)
    assert state(nodes) == "PrepareCommit"
    nodes.network.cut.clear()
    nodes.wait(ELSEWHERE_RETRY_MS)
    assert (markers(nodes, 1, 0), markers(nodes, 2, 1), state(nodes)) == (1, 1, "CompleteCommit")


def test_a_new_leader_is_asked_though_the_one_before_never_answers(nodes: Neighbourhood) -> None:
    producer = begun(nodes)
    nodes.network.deaf.add(2)
    end(nodes, producer)
    nodes.network.run()
    nodes.move("t", 1, 1)
    nodes.settle()
    assert (markers(nodes, 1, 1), state(nodes)) == (1, "CompleteCommit")


def test_a_partition_that_moves_between_two_slices_gets_its_marker_from_its_new_leader(nodes: Neighbourhood) -> None:
    turns: list[Callable[[], None]] = []
    nodes.add("a", 2, replicas=BOTH)
    nodes.add("many", *[1] * PARTITIONS_A_SLICE, replicas=BOTH)
    made = nodes.call(1, InitProducerIdRequest("x", 60_000), 4)
    producer = made.producer_id, made.producer_epoch
    topics = [AddPartitionsToTxnTopic("a", [0]), AddPartitionsToTxnTopic("many", [*range(PARTITIONS_A_SLICE)])]
    nodes.call(1, AddPartitionsToTxnRequest([], "x", *producer, topics), 3)
    nodes[1].whole.node.slices = Slices(turns.append)
    nodes.network.deaf.add(2)
    nodes.asked(1, EndTxnRequest("x", *producer, True), 3)
    assert len(turns) == 1, "the last partition is still to be marked"
    nodes.move("a", 0, 1)
    turns.pop()()
    assert state(nodes) == "CompleteCommit"


def test_a_marker_that_a_change_of_leaders_cuts_off_is_written_again(nodes: Neighbourhood) -> None:
    """While another broker's answer is awaited, the marker here is lost, and its offset is committed with a record."""
    producer = begun(nodes)
    nodes.change("t", 0, isr=[1, 2])  # node 2 does not fetch: nothing is committed any more
    nodes.network.deaf.add(2)
    end(nodes, producer)
    log = nodes.log(1, "t", 0)
    nodes.change("t", 0, leader=2)
    assert markers(nodes, 1, 0) == 1
    log.truncate_to(log.log_end_offset - 1)
    nodes.change("t", 0, leader=1, isr=[1])
    for value in (b"another record", b"one more"):
        log.append(batch(value), nodes.now)
    log.advance_high_watermark(log.log_end_offset)
    nodes.network.deaf.clear()
    for _ in range(4):  # node 2 answers after the time-out of the request that was lost
        nodes.wait(10_000)
    assert (markers(nodes, 1, 0), state(nodes)) == (1, "CompleteCommit")


def test_a_client_that_goes_away_takes_no_marker_along(tmp_path: Path) -> None:
    nodes, jobs = Neighbourhood(tmp_path), list[Job]()
    nodes.add(TRANSACTION_STATE, 1, replicas=BOTH)
    nodes.add("t", 1, 2, flush_messages="1")
    producer = begun(nodes)
    nodes[1].logs.submit = jobs.append  # the marker here is not synced yet
    waiting = ask(nodes[1], nodes.connection, EndTxnRequest("x", *producer, True), 3, lambda answer: None)
    assert waiting is not None
    nodes[1].services.purgatory.cancel(waiting)
    nodes.network.run()
    assert (markers(nodes, 1, 0), markers(nodes, 2, 1), state(nodes)) == (1, 1, "PrepareCommit")
    nodes[1].logs.submit = run_inline
    for job in jobs:
        run_inline(job)
    nodes.wait(MARKER_RETRY_MS)
    assert (markers(nodes, 1, 0), markers(nodes, 2, 1), state(nodes)) == (1, 1, "CompleteCommit")


def test_a_partition_that_was_deleted_needs_no_marker(nodes: Neighbourhood) -> None:
    producer = begun(nodes)
    nodes.network.cut.add(2)
    end(nodes, producer)
    nodes.remove("t")
    nodes.settle()
    assert state(nodes) == "CompleteCommit"


def test_a_marker_that_is_lost_has_no_other_written_again(nodes: Neighbourhood) -> None:
    nodes.add("u", 1, replicas=BOTH)
    producer = begun(nodes)
    added = AddPartitionsToTxnRequest([], "x", *producer, [AddPartitionsToTxnTopic("u", [0])])
    assert nodes.call(1, added, 3).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    for topic in ("t", "u"):
        nodes.change(topic, isr=[1, 2])
    end(nodes, producer)
    nodes.network.run()
    nodes.remove("u")
    partition = nodes[1].partition("t", 0)
    partition.fetched_by(2, partition.log.log_end_offset, nodes.now)
    nodes.wait(MARKER_RETRY_MS)
    assert (markers(nodes, 1, 0), markers(nodes, 2, 1), state(nodes)) == (1, 1, "CompleteCommit")


def test_the_next_coordinator_goes_on_with_what_was_decided(nodes: Neighbourhood) -> None:
    producer = begun(nodes)
    nodes.network.deaf.add(2)
    end(nodes, producer)
    nodes.settle()
    nodes.network.deaf.clear()
    nodes.move(TRANSACTION_STATE, 0, 2)
    nodes.settle()
    assert (markers(nodes, 1, 0), markers(nodes, 2, 1)) == (2, 1), "one marker more is harmless"
    assert state(nodes, coordinator=2) == "CompleteCommit"
    assert nodes.call(1, EndTxnRequest("x", *producer, True), 3).error_code == ErrorCode.NOT_COORDINATOR


def test_a_coordinator_that_was_replaced_writes_nothing_any_more(nodes: Neighbourhood) -> None:
    nodes.move("t", 0, 2)
    producer = begun(nodes)
    nodes.network.cut.add(2)
    end(nodes, producer)
    nodes.move(TRANSACTION_STATE, 0, 2)
    nodes.network.cut.clear()
    nodes.wait(10_000)
    assert (markers(nodes, 2, 0), markers(nodes, 2, 1)) == (1, 1)
    assert not sent(nodes), "it had not left when the coordinator was replaced"


def test_a_marker_of_an_older_coordinator_is_refused(nodes: Neighbourhood) -> None:
    """A leader refuses the marker of a coordinator that has lost its partition and does not know so."""
    nodes.move(TRANSACTION_STATE, 0, 2)
    nodes.move(TRANSACTION_STATE, 0, 1)
    end(nodes, begun(nodes))
    nodes.network.run()
    [request] = sent(nodes)
    request.markers[0].coordinator_epoch -= 1
    answer = nodes.call(2, request, 1)
    code = answer.markers[0].topics[0].partitions[0].error_code
    assert code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_key_has_the_shard_that_java_gives_it() -> None:
    assert partition_for("x", 50) == 20


def test_a_producer_is_told_at_once_to_come_back_while_a_dead_replica_is_in_sync(nodes: Neighbourhood) -> None:
    """A running Kafka 4.4.0 answers so, with its follower paused."""
    producer = begun(nodes)
    nodes.change(TRANSACTION_STATE, 0, isr=[1, 2])  # and broker 2 fetches nothing
    assert not nodes.asked(1, EndTxnRequest("x", *producer, True), 3), "the outcome is not committed"
    again = nodes.asked(1, InitProducerIdRequest("x", 60_000), 4)
    assert [each.error_code for each in again] == [ErrorCode.CONCURRENT_TRANSACTIONS]


def test_markers_that_followers_have_to_fetch_hold_no_answer_back(nodes: Neighbourhood) -> None:
    producer = begun(nodes)
    nodes.change("t", 0, isr=[1, 2])
    end(nodes, producer)
    nodes.network.run()
    again = nodes.asked(1, InitProducerIdRequest("x", 60_000), 4)
    assert [each.error_code for each in again] == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert state(nodes) == "PrepareCommit"


def test_what_is_not_committed_within_the_transactions_timeout_is_answered(nodes: Neighbourhood) -> None:
    """Expect Kafka's answers: each transaction has a time-out of its own, and the shorter time-out is over first."""
    nodes.change(TRANSACTION_STATE, 0, isr=[1, 2])
    long = nodes.asked(1, InitProducerIdRequest("long", 60_000), 4)
    short = nodes.asked(1, InitProducerIdRequest("short", 3_000), 4)
    nodes.wait(2_999)
    assert (long, short) == ([], [])
    nodes.wait(1)
    assert ([each.error_code for each in short], long) == ([ErrorCode.COORDINATOR_NOT_AVAILABLE], [])
    nodes.wait(57_000)
    assert [each.error_code for each in long] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
