"""Produce: each partition has its own answer; some mistakes make a whole request wrong."""

from __future__ import annotations

import gc
import random
import weakref
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.api.produce import produce, refusal_of_append
from pykafka_broker.broker.api.produce_checks import RefusedByLog
from pykafka_broker.broker.waiting.future import Future, Parked
from pykafka_broker.cluster.topic_names import TRANSACTION_STATE
from pykafka_broker.errors import ClosedOnPurpose
from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from pykafka_broker.records.compression import GZIP, ZSTD
from pykafka_broker.records.conversion import build_message_set
from pykafka_broker.records.header import write_crc
from pykafka_broker.records.record import BatchRecord, iter_records
from pykafka_broker.steps import at_once
from tests.broker.support import ANOTHER_NODE, NOW, LightBroker, batch


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    return LightBroker(tmp_path)


def asked(
    records: dict[int, Any], *, topic: str = "t", topic_id: bytes | None = None, acks: int = -1, **fields: Any
) -> ProduceRequest:
    named = TopicProduceData(partition_data=[PartitionProduceData(index, data) for index, data in records.items()])
    if topic_id is None:
        named.name = topic
    else:
        named.topic_id = topic_id
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[named], **fields)


def answers(
    broker: LightBroker, request: ProduceRequest, version: int = 9, client_id: str = "test"
) -> list[PartitionProduceResponse]:
    context = broker.context(ApiKey.PRODUCE, version, client_id)
    response = produce(broker.services, context, request)
    assert isinstance(response, ProduceResponse)
    assert len(response.encode(version))
    return [one for topic in response.responses for one in topic.partition_responses]


def stored(broker: LightBroker, partition: int = 0) -> list[bytes | None]:
    log = broker.partition_log("t", partition)
    read = log.read(log.log_start_offset, 1 << 30, log.log_end_offset)
    return [] if read is None else [record.value for record in iter_records(read.records.read())]


def test_offsets_and_log_start_are_answered(broker: LightBroker) -> None:
    broker.add("t")
    first, second = (answers(broker, asked({0: batch(b"a", b"b")}))[0] for _ in range(2))
    assert (first.error_code, first.base_offset, first.log_append_time_ms, first.log_start_offset) == (0, 0, -1, 0)
    assert second.base_offset == 2


def test_one_bad_partition_does_not_spoil_the_other(broker: LightBroker) -> None:
    broker.add("t", 2)
    bad = batch(b"x")
    bad[-1] ^= 1
    found = answers(broker, asked({0: bad, 1: batch(b"y"), 9: batch(b"z")}))
    assert [one.error_code for one in found] == [
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [one.base_offset for one in found] == [-1, 0, -1]
    assert stored(broker, 1) == [b"y"]


def test_a_log_that_has_gone_since_it_refused_does_not_spoil_the_answers_for_others(broker: LightBroker) -> None:
    """Records are checked in steps, between which a topic may be deleted."""
    answer = refusal_of_append(broker.services, "gone", 3, RefusedByLog(ErrorCode.INVALID_RECORD, "bad"))
    assert (answer.index, answer.error_code, answer.log_start_offset) == (3, ErrorCode.INVALID_RECORD, -1)


@pytest.mark.parametrize(
    ("data", "transactional", "code"),
    [
        (bytes(100), False, ErrorCode.CORRUPT_MESSAGE),
        (batch(b"x"), False, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), True, None),
    ],
    ids=["unreadable", "denied", "without a transaction"],
)
def test_records_that_were_refused_do_not_wait_for_the_garbage_collector(
    broker: LightBroker, data: bytes, transactional: bool, code: int | None
) -> None:
    broker.add("t")
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        broker.services.authorize_by(Denying())
    records = memoryview(bytearray(data))
    gone = weakref.ref(records)
    gc.collect()
    gc.disable()
    try:
        request = asked({0: records}, acks=1, transactional_id="x" if transactional else None)
        produced = produce(broker.services, broker.context(ApiKey.PRODUCE, 9), request)
        assert isinstance(produced, ProduceResponse)
        refused = produced.responses[0].partition_responses[0].error_code
        assert refused == code if code is not None else refused
        del records, request
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("others", "code"),
    [
        ((1, 1, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ((0, 1, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ((1, 0, 1), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ((7, 1, 0), ErrorCode.NONE),
    ],
    ids=["another partition", "the same partition", "another epoch", "a missing partition"],
)
def test_transactional_batches_of_two_producers_are_refused_together(
    broker: LightBroker, others: tuple[int, int, int], code: ErrorCode
) -> None:
    """Kafka looks at all existing partitions before the first is written."""
    broker.add("t", 2)
    broker.add(TRANSACTION_STATE)
    own = broker.transactions.init_producer_id("x", 60_000, None, broker.now)
    index, id_above, epoch_above = others
    data = []
    for partition, producer_id, epoch in (
        (index, own.producer_id + id_above, own.producer_epoch + epoch_above),
        (0, own.producer_id, own.producer_epoch),
    ):
        records = batch(b"v", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
        data.append(PartitionProduceData(partition, memoryview(records)))
    told = answers(broker, ProduceRequest("x", -1, 1000, [TopicProduceData("t", partition_data=data)]), 12)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [one.error_code for one in told] == ([code, code] if code else [missing, code])
    text = "Transactional records contained more than one producer ID" if code else None
    assert told[1].error_message == text
    assert len(stored(broker)) == (0 if code else 1)


class Denying:
    """An authorizer that denies everything."""

    def allows(self, *asked: Any) -> bool:
        return False

    def rule(self, *asked: Any) -> str:
        return "Denying"

    allows_some = allows


def test_an_append_is_told_to_those_who_wait(broker: LightBroker) -> None:
    broker.add("t")
    partition = broker.partition("t", 0)
    woken: list[int] = []
    waiting = Parked(None, keys=(partition,), poll=lambda now: woken.append(now))
    broker.purgatory.park(waiting)
    answers(broker, asked({0: batch(b"x")}))
    broker.purgatory.settle(5)
    assert woken == [5]


@pytest.mark.parametrize("acks", [2, -2, 7])
def test_other_acks_are_refused(broker: LightBroker, acks: int) -> None:
    broker.add("t")
    assert answers(broker, asked({0: batch(b"x")}, acks=acks))[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert stored(broker) == []


def test_acks_zero_has_no_answer_and_closes_on_an_error(broker: LightBroker) -> None:
    broker.add("t")
    context = broker.context(ApiKey.PRODUCE, 9)
    assert produce(broker.services, context, asked({0: batch(b"x")}, acks=0)) is None
    assert stored(broker) == [b"x"]
    with pytest.raises(ClosedOnPurpose, match="UNKNOWN_TOPIC_OR_PARTITION"):
        produce(broker.services, context, asked({0: batch(b"x")}, acks=0, topic="u"))


def test_topics_by_id(broker: LightBroker) -> None:
    topic_id = broker.add("t")
    assert answers(broker, asked({0: batch(b"x")}, topic_id=topic_id), 13)[0].base_offset == 0
    unknown = answers(broker, asked({0: batch(b"x")}, topic_id=b"\7" * 16), 13)
    assert unknown[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_internal_topics_are_for_the_admin_client_only(broker: LightBroker) -> None:
    broker.add("__consumer_offsets")
    request = asked({0: batch(b"x")}, topic="__consumer_offsets")
    assert answers(broker, request)[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert answers(broker, request, client_id="__admin_client")[0].error_code == ErrorCode.NONE


def test_a_transactional_batch_needs_a_transactional_id(broker: LightBroker) -> None:
    broker.add("t", 2)
    transactional = batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    found = answers(broker, asked({0: transactional, 1: batch(b"y")}))
    assert [one.error_code for one in found] == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2


def test_min_insync_replicas_counts_for_acks_all_only(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2), min_insync_replicas="2")
    assert answers(broker, asked({0: batch(b"x")}))[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert answers(broker, asked({0: batch(b"x")}, acks=1))[0].error_code == ErrorCode.NONE


def test_bad_records_are_named(broker: LightBroker) -> None:
    broker.add("t", cleanup_policy="compact")
    from pykafka_broker.records.builder import BatchBuilder

    builder = BatchBuilder()
    builder.append(b"k", b"v", broker.now)
    builder.append(None, b"v", broker.now)
    answer = answers(broker, asked({0: bytearray(builder.build())}))[0]
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in answer.record_errors] == [1]


class TestIdempotence:
    @staticmethod
    def sequenced(sequence: int, *values: bytes, epoch: int = 0) -> bytearray:
        return batch(*values, producer_id=9, producer_epoch=epoch, base_sequence=sequence)

    def test_a_duplicate_is_answered_with_its_first_offset(self, broker: LightBroker) -> None:
        broker.add("t")
        for sequence in range(5):
            assert answers(broker, asked({0: self.sequenced(sequence, b"x")}))[0].base_offset == sequence
        for sequence in range(5):
            again = answers(broker, asked({0: self.sequenced(sequence, b"x")}))[0]
            assert (again.error_code, again.base_offset) == (ErrorCode.NONE, sequence)
        assert len(stored(broker)) == 1  # the first batch
        assert broker.partition_log("t", 0).log_end_offset == 5

    def test_a_gap_is_out_of_order_and_an_old_epoch_is_fenced(self, broker: LightBroker) -> None:
        broker.add("t")
        answers(broker, asked({0: self.sequenced(0, b"x", epoch=1)}))
        gap = answers(broker, asked({0: self.sequenced(5, b"x", epoch=1)}))[0]
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        old = answers(broker, asked({0: self.sequenced(1, b"x", epoch=0)}))[0]
        assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


class TestFlush:
    """`flush.messages`: an answer after the sync only."""

    def test_the_answer_waits_for_the_sync(self, broker: LightBroker) -> None:
        broker.add("t", flush_messages="1")
        jobs: list[Job] = []
        broker.logs.submit = jobs.append
        context = broker.context(ApiKey.PRODUCE, 9)
        parked = produce(broker.services, context, asked({0: batch(b"x")}))
        assert isinstance(parked, Parked)
        assert not parked.done
        (job,) = jobs
        job.run()
        job.apply()
        assert parked.done
        assert parked.result().responses[0].partition_responses[0].error_code == ErrorCode.NONE

    def test_a_sync_that_fails_is_no_acknowledgement(self, broker: LightBroker) -> None:
        broker.add("t", flush_messages="1")
        jobs: list[Job] = []
        broker.logs.submit = jobs.append
        parked = produce(broker.services, broker.context(ApiKey.PRODUCE, 9), asked({0: batch(b"x")}))
        assert isinstance(parked, Parked)
        jobs[0].failed(OSError(5, "Input/output error"))
        answer = parked.result().responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)

    def test_readers_see_it_after_the_sync_whatever_acks_says(self, broker: LightBroker) -> None:
        broker.add("t", flush_messages="1")
        jobs: list[Job] = []
        broker.logs.submit = jobs.append
        log = broker.partition_log("t", 0)
        seen: list[int] = []
        keys = (broker.partition("t", 0),)
        broker.purgatory.park(Parked(None, keys=keys, poll=lambda now: seen.append(log.high_watermark)))
        for acks in (0, 1, -1):
            produce(broker.services, broker.context(ApiKey.PRODUCE, 9), asked({0: batch(b"x")}, acks=acks))
        broker.purgatory.settle(5)
        assert (seen, log.high_watermark) == ([], 0)
        while jobs:
            run_inline(jobs.pop(0))
        broker.purgatory.settle(6)
        assert (seen, log.high_watermark) == ([3], 3)

    def test_a_duplicate_is_not_acknowledged_before_its_sync(self, broker: LightBroker) -> None:
        broker.add("t", flush_messages="1")
        jobs: list[Job] = []
        broker.logs.submit = jobs.append
        first, again = (
            produce(
                broker.services,
                broker.context(ApiKey.PRODUCE, 9),
                asked({0: batch(b"x", producer_id=9, producer_epoch=0, base_sequence=0)}),
            )
            for _ in range(2)
        )
        assert isinstance(first, Parked)
        assert isinstance(again, Parked)
        assert (first.done, again.done, len(jobs)) == (False, False, 1)
        run_inline(jobs[0])
        assert [one.result().responses[0].partition_responses[0].base_offset for one in (first, again)] == [0, 0]


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1)])
def test_message_sets_of_old_clients_are_taken_in(broker: LightBroker, version: int, magic: int) -> None:
    broker.add("t")
    old = at_once(
        build_message_set([BatchRecord(0, broker.now, b"k", b"one"), BatchRecord(1, broker.now, None, b"two")], magic)
    )
    answer = answers(broker, asked({0: bytearray(old)}), version)[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    assert stored(broker) == [b"one", b"two"]


class LaterBroker(LightBroker):
    """A broker whose long work goes on when the test says so."""

    def __init__(self, directory: Path) -> None:
        self.later: list[Any] = []
        super().__init__(directory)
        self.services.slices._later = self.later.append

    def go_on(self) -> int:
        """Run the long work until nothing is left; return the number of rounds."""
        rounds = 0
        while self.later:
            self.later.pop()()
            rounds += 1
        return rounds


def test_a_topic_without_partitions_is_not_answered(tmp_path: Path) -> None:
    broker = LaterBroker(tmp_path)
    broker.add("t", 1)
    for count in (1, 1000):  # at once, and in slices
        request = asked(dict.fromkeys(range(count), batch(b"a")))
        request.topic_data.insert(0, TopicProduceData("none"))
        answer = produce(broker.services, broker.context(ApiKey.PRODUCE, 9), request)
        assert isinstance(answer, Future) is (count > 1)
        broker.go_on()
        response: Any = answer.result() if isinstance(answer, Future) else answer
        assert [(topic.name, len(topic.partition_responses)) for topic in response.responses] == [("t", count)]
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def bomb() -> bytearray:
    return batch(bytes(8 << 20), codec=ZSTD)


def test_a_bomb_waits_in_slices_and_its_buffer_may_be_used_again(tmp_path: Path) -> None:
    broker = LaterBroker(tmp_path)
    broker.add("t", 2)
    sent = bomb()
    kept = bytes(sent)
    reply = produce(broker.services, broker.context(ApiKey.PRODUCE, 9), asked({0: batch(b"a"), 1: memoryview(sent)}))
    assert isinstance(reply, Future)
    assert stored(broker, 0) == [b"a"], "the others do not wait"
    sent[:] = bytes(len(sent))
    assert broker.go_on() > 8
    response = reply.result()
    codes = [one.error_code for one in response.responses[0].partition_responses]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE]
    log = broker.partition_log("t", 1)
    read = log.read(0, 1 << 30, log.log_end_offset)
    assert read is not None
    assert bytes(read.records.read())[21:] == kept[21:]


def test_batches_that_wait_for_their_turn_outlive_their_buffer(tmp_path: Path) -> None:
    broker = LaterBroker(tmp_path)
    broker.add("t", 3)
    values = [random.Random(seed).randbytes(70_000) for seed in range(3)]
    sent = [batch(value, codec=ZSTD) for value in values]
    request = asked({index: memoryview(each) for index, each in enumerate(sent)})
    reply = produce(broker.services, broker.context(ApiKey.PRODUCE, 9), request)
    assert isinstance(reply, Future)
    for each in sent:
        each[:] = bytes(len(each))
    broker.go_on()
    assert [each.error_code for each in reply.result().responses[0].partition_responses] == [ErrorCode.NONE] * 3
    assert [stored(broker, index) for index in range(3)] == [[value] for value in values]


def test_a_bomb_of_an_old_format_waits_in_slices_and_its_buffer_may_be_used_again(tmp_path: Path) -> None:
    broker = LaterBroker(tmp_path)
    broker.add("t")
    sent = bytearray(at_once(build_message_set([BatchRecord(0, NOW, None, bytes(8 << 20))], 1, codec=GZIP)))
    reply = produce(broker.services, broker.context(ApiKey.PRODUCE, 2), asked({0: memoryview(sent)}))
    assert isinstance(reply, Future)
    sent[:] = bytes(len(sent))
    assert broker.go_on() > 30
    assert reply.result().responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert stored(broker) == [bytes(8 << 20)]


def test_records_that_lost_their_leader_while_they_were_looked_at(tmp_path: Path) -> None:
    broker = LaterBroker(tmp_path)
    broker.add("t")
    reply = produce(broker.services, broker.context(ApiKey.PRODUCE, 9), asked({0: bomb()}))
    assert isinstance(reply, Future)
    broker.change("t", leader=2)
    broker.go_on()
    (answer,) = reply.result().responses[0].partition_responses
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_partition_that_came_after_the_coordinator_was_asked_is_to_be_tried_again(tmp_path: Path) -> None:
    broker = LaterBroker(tmp_path)
    broker.add("t", 17)  # one partition more than a turn writes
    broker.change("t", 16, leader=ANOTHER_NODE)
    inside = batch(b"v", producer_id=0, producer_epoch=0, base_sequence=0, transactional=True)
    request = asked({index: batch(b"a") for index in range(16)} | {16: inside}, transactional_id="x")
    reply = produce(broker.services, broker.context(ApiKey.PRODUCE, 12), request)
    assert isinstance(reply, Future)
    broker.change("t", 16, leader=1)
    broker.go_on()
    codes = [one.error_code for one in reply.result().responses[0].partition_responses]
    assert codes == [ErrorCode.NONE] * 16 + [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert stored(broker, 16) == []


def test_who_wants_no_answer_gets_none_after_a_wait_either(tmp_path: Path) -> None:
    broker = LaterBroker(tmp_path)
    broker.add("t")
    reply = produce(broker.services, broker.context(ApiKey.PRODUCE, 9), asked({0: bomb()}, acks=0))
    assert isinstance(reply, Future)
    broker.go_on()
    assert reply.result() is None
    assert stored(broker) == [bytes(8 << 20)]


def test_records_are_not_looked_at_where_the_key_says_so(tmp_path: Path) -> None:
    broken = batch(b"a", b"b")
    broken[-1] = 2  # a header that is not there
    write_crc(broken)
    for validate, code in (("true", ErrorCode.INVALID_RECORD), ("false", ErrorCode.NONE)):
        broker = LightBroker(tmp_path / validate, pykafka_validate_records=validate)
        broker.add("t")
        assert answers(broker, asked({0: bytearray(broken)}))[0].error_code == code
