"""Requests that name many partitions: others are served in between, and the answers are those of small requests."""

from __future__ import annotations

import gc
import struct
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.broker.waiting.future import PARTITIONS_A_SLICE, Slices, are_many, shares
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.topic_names import TRANSACTION_STATE
from pykafka_broker.errors import ApiError, FrameError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import share_acknowledge_request, share_fetch_request
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.stored.topic_record import TopicRecord
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.compression import GZIP, ZSTD
from pykafka_broker.records.conversion import iter_messages
from pykafka_broker.records.header import HEADER_SIZE, write_crc
from pykafka_broker.records.record import BatchRecord
from pykafka_broker.steps import ITEMS_A_STEP
from tests.broker.api.real_broker import RealBroker
from tests.broker.support import NOW, LightBroker, batch

MANY = 300
MOST_A_TURN = 32  # partitions, for one request; with others it has its share of the turn


class TurningBroker(LightBroker):
    """A broker whose slices of work go on when the test calls `turn`."""

    def __init__(self, directory: Path, **config: str) -> None:
        super().__init__(directory, **config)
        self.steps: list[Callable[[], None]] = []
        self.services.slices = self.whole.node.slices = Slices(self.steps.append)
        self.connection = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))

    def ask(self, request: Message, version: int) -> Asked:
        frame = RealBroker.frame(request, version)
        found = self.dispatch(self.connection, frame, self.now)
        frame[:] = bytes(len(frame))  # its buffer is used for the next one
        return Asked(self, ApiKey(request.API_KEY), version, found)

    def turn(self) -> None:
        steps, self.steps[:] = list(self.steps), []
        for step in steps:
            step()
        self.settle(self.now)


class Asked:
    """A request that was dispatched."""

    def __init__(self, broker: TurningBroker, api_key: ApiKey, version: int, found: Any) -> None:
        self._broker = broker
        self._api_key = api_key
        self._version = version
        self._found = found
        self.replies: list[Any] = []
        if isinstance(found, PendingReply):
            found.future.add_done_callback(lambda _: self.replies.append(found.response()))

    @property
    def waits(self) -> bool:
        return isinstance(self._found, PendingReply) and not self.replies

    def answer(self) -> Any:
        """Take all turns that the request needs and return its decoded answer."""
        while self._broker.steps:
            self._broker.turn()
        pieces = self._found.pieces() if isinstance(self._found, PendingReply) else self._found
        flexible = SPECS[self._api_key].flexible_from
        header = 9 if flexible is not None and self._version >= flexible else 8
        body = b"".join(
            piece if isinstance(piece, (bytes, bytearray, memoryview)) else piece.read() for piece in pieces
        )
        assert struct.unpack_from(">i", body) == (len(body) - 4,)
        return SPECS[self._api_key].response_class().decode(body[header:], self._version)

    def go_away(self) -> None:
        self._broker.purgatory.cancel(self._found.future)


class Calls:
    total = 0


def counted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> Calls:
    """Count the calls of a method from now on."""
    calls, original = Calls(), getattr(owner, name)

    def method(*arguments: Any, **named: Any) -> Any:
        calls.total += 1
        return original(*arguments, **named)

    monkeypatch.setattr(owner, name, method)
    return calls


@pytest.fixture
def broker(tmp_path: Path) -> TurningBroker:
    broker = TurningBroker(tmp_path)
    broker.add("t", MANY)
    return broker


def list_offsets(numbers: Iterable[int], timestamp: int = -1) -> ListOffsetsRequest:
    wanted = [ListOffsetsPartition(number, timestamp=timestamp) for number in numbers]
    return ListOffsetsRequest(-1, topics=[ListOffsetsTopic("t", wanted), ListOffsetsTopic("none", wanted[:1])])


def produce(numbers: Iterable[int], acks: int = -1, data: bytes | None = None) -> ProduceRequest:
    records = bytes(batch(b"v")) if data is None else data
    return ProduceRequest(
        None, acks, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(n, records) for n in numbers])]
    )


def delete_records(numbers: Iterable[int]) -> DeleteRecordsRequest:
    return DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(n, -1) for n in numbers])], 1000)


def epochs(numbers: Iterable[int]) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(n) for n in numbers])])


def producers(numbers: Iterable[int]) -> DescribeProducersRequest:
    return DescribeProducersRequest([TopicRequest("t", [*numbers])])


def fetch(
    numbers: Iterable[int], *, session: int = 0, epoch: int = 0, wait: int = 0, min_bytes: int = 0, offset: int = 0
) -> FetchRequest:
    wanted = [FetchPartition(n, fetch_offset=offset, partition_max_bytes=1 << 20) for n in numbers]
    topics = [FetchTopic("t", partitions=wanted)] if wanted else []
    return FetchRequest(
        replica_id=-1, max_wait_ms=wait, min_bytes=min_bytes, session_id=session, session_epoch=epoch, topics=topics
    )


@pytest.mark.parametrize(
    ("request_of", "version"),
    [(list_offsets, 7), (epochs, 4), (produce, 9), (producers, 0), (delete_records, 2), (fetch, 12)],
)
def test_a_turn_opens_only_some_partitions_and_the_answer_is_whole(
    broker: TurningBroker, request_of: Callable[[Iterable[int]], Message], version: int
) -> None:
    asked = broker.ask(request_of(range(MANY)), version)
    opened = len(broker.logs.loaded)
    assert asked.waits
    while asked.waits:
        assert len(broker.logs.loaded) - opened <= MOST_A_TURN
        opened = len(broker.logs.loaded)
        broker.turn()
    whole = asked.answer()
    some = broker.ask(request_of(range(3)), version)
    assert not some.waits
    few = some.answer()
    topics = [getattr(each, "topics", None) or each.responses for each in (whole, few)]
    partitions = [getattr(each[0], "partitions", None) or each[0].partition_responses for each in topics]
    assert len(partitions[0]) == MANY
    if request_of is not produce:
        assert [vars_of(one) for one in partitions[0][:3]] == [vars_of(one) for one in partitions[1]]
    assert not any(one.error_code for one in partitions[0])


@pytest.mark.parametrize("by_fetch", [True, False])
def test_a_turn_opens_only_some_partitions_of_a_share_session(broker: TurningBroker, by_fetch: bool) -> None:
    topic_id = broker.image.topics["t"].id
    partitions = [share_fetch_request.FetchPartition(n) for n in range(MANY)]
    topics = [share_fetch_request.FetchTopic(topic_id, partitions)]
    request: Message = share_fetch_request.ShareFetchRequest("g", "m", 0, topics=topics if by_fetch else [])
    if not by_fetch:
        broker.ask(request, 1).answer()
        named = [share_acknowledge_request.AcknowledgePartition(n) for n in range(MANY)]
        asked_for = [share_acknowledge_request.AcknowledgeTopic(topic_id, named)]
        request = share_acknowledge_request.ShareAcknowledgeRequest("g", "m", 1, topics=asked_for)
    opened = len(broker.logs.loaded)
    asked = broker.ask(request, 1)
    assert asked.waits
    while asked.waits:
        assert len(broker.logs.loaded) - opened <= MOST_A_TURN
        opened = len(broker.logs.loaded)
        broker.turn()
    assert asked.answer().error_code == 0
    assert len(broker.logs.loaded) >= MANY


def test_topics_that_the_client_may_not_see_are_passed_over_in_slices(
    broker: TurningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [TopicRecord(f"hidden-{number}", number.to_bytes(16, "little")) for number in range(1, ITEMS_A_STEP)]
    broker.commit_metadata([ApiMessageAndVersion(record, 0) for record in records])
    monkeypatch.setattr("pykafka_broker.broker.api.metadata._Answer._may_see", lambda *_, **__: False)
    asked = broker.ask(MetadataRequest(None), 12)
    assert asked.waits
    assert asked.answer().topics == []


def vars_of(one: Any) -> list[Any]:
    return [getattr(one, name) for name in one.__slots__ if name != "diverging_epoch"]


def test_a_produce_in_slices_keeps_its_records_and_their_order(broker: TurningBroker) -> None:
    numbers = [*range(MANY), *reversed(range(MANY))]
    answer = broker.ask(produce(numbers, data=bytes(batch(b"first", b"second"))), 9).answer()
    answers = answer.responses[0].partition_responses
    assert [one.index for one in answers] == numbers
    assert [one.base_offset for one in answers] == [0] * MANY + [2] * MANY
    read = broker.partition_log("t", MANY - 1).read(2, 1 << 20, 4)
    assert read is not None
    assert b"second" in read.records.read()


def test_records_of_a_transaction_that_ends_between_two_slices_are_refused(broker: TurningBroker) -> None:
    broker.add(TRANSACTION_STATE)
    made = broker.ask(InitProducerIdRequest("x", 60_000), 3).answer()
    producer_id, epoch = made.producer_id, made.producer_epoch
    numbers, last = range(PARTITIONS_A_SLICE + 1), PARTITIONS_A_SLICE
    topics = [AddPartitionsToTxnTopic("t", [*numbers])]
    broker.ask(AddPartitionsToTxnRequest([], "x", producer_id, epoch, topics), 3).answer()
    records = batch(b"v", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
    request = produce(numbers, data=bytes(records))
    request.transactional_id = "x"
    asked = broker.ask(request, 11)
    assert broker.partition_log("t", last).log_end_offset == 0, "its turn comes later"
    marker = WritableTxnMarker(producer_id, epoch, False, [WritableTxnMarkerTopic("t", [last])], 0)
    assert not broker.ask(WriteTxnMarkersRequest([marker]), 1).waits
    answers = asked.answer().responses[0].partition_responses
    assert [each.error_code for each in answers] == [ErrorCode.NONE] * last + [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert broker.partition_log("t", last).producers.first_unstable_offset is None


def test_what_a_producer_has_sent_is_written_though_it_has_gone(broker: TurningBroker) -> None:
    asked = broker.ask(produce(range(MANY), acks=0), 9)
    assert asked.waits
    asked.go_away()
    while broker.steps:
        broker.turn()
    assert broker.partition_log("t", MANY - 1).log_end_offset == 1


def test_records_that_are_still_looked_at_are_written_though_their_producer_has_gone(broker: TurningBroker) -> None:
    bomb = bytes(batch(bytes(8 << 20), codec=ZSTD))
    asked = broker.ask(produce([0], acks=0, data=bomb), 9)
    assert asked.waits
    asked.go_away()
    while broker.steps:
        broker.turn()
    assert broker.partition_log("t", 0).log_end_offset == 1


def test_a_large_produce_without_acks_has_no_answer_and_its_failure_closes(broker: TurningBroker) -> None:
    asked = broker.ask(produce(range(MANY), acks=0), 9)
    while broker.steps:
        broker.turn()
    assert asked.replies == [None]
    asked = broker.ask(produce([*range(MANY), MANY], acks=0), 9)
    with pytest.raises(FrameError, match=f"t-{MANY} failed: UNKNOWN_TOPIC_OR_PARTITION"):
        asked.answer()


def test_a_produce_without_acks_that_another_broker_ends_closes_the_connection(broker: TurningBroker) -> None:
    """Answers to a client that waits for none would be taken for the answers to its next requests."""
    asked = broker.ask(produce(range(MANY), acks=0), 9)
    assert asked.waits
    broker.services.slices.lose(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with pytest.raises(FrameError, match="a produce with acks=0 failed: NOT_LEADER_OR_FOLLOWER"):
        asked.answer()


def test_records_are_deleted_though_the_client_has_gone(broker: TurningBroker) -> None:
    broker.ask(produce(range(MANY)), 9).answer()
    broker.ask(delete_records(range(MANY)), 2).go_away()
    while broker.steps:
        broker.turn()
    assert {broker.partition_log("t", number).log_start_offset for number in range(MANY)} == {1}


def test_a_question_ends_with_its_client(broker: TurningBroker) -> None:
    asked = broker.ask(list_offsets(range(MANY)), 7)
    asked.go_away()
    while broker.steps:
        broker.turn()
    assert len(broker.logs.loaded) <= MOST_A_TURN


def test_partitions_that_are_named_twice_are_refused_in_slices_too(broker: TurningBroker) -> None:
    answer = broker.ask(list_offsets([*range(MANY), 7, 7, 9]), 7).answer()
    codes = {one.partition_index: one.error_code for one in answer.topics[0].partitions}
    assert len(codes) == len(answer.topics[0].partitions) == MANY
    assert {number for number, code in codes.items() if code} == {7, 9}
    assert codes[7] == ErrorCode.INVALID_REQUEST
    assert answer.topics[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_one_partition_named_very_often_takes_as_many_steps_as_names(broker: TurningBroker) -> None:
    answer = broker.ask(list_offsets([5] * 60_000), 7).answer()  # a quadratic way would take minutes
    assert [one.error_code for one in answer.topics[0].partitions] == [ErrorCode.INVALID_REQUEST]


# -- fetches of many partitions


def test_a_large_fetch_waits_and_is_answered_when_something_comes(broker: TurningBroker) -> None:
    asked = broker.ask(fetch(range(MANY), wait=1000, min_bytes=1), 12)
    for _ in range(50):
        broker.turn()
    assert asked.waits
    broker.ask(produce([MANY - 1]), 9)
    broker.settle(broker.now)
    answer = asked.answer()
    assert [len(bytes(one.records)) > 0 for one in answer.responses[0].partitions] == [False] * (MANY - 1) + [True]


def test_what_comes_while_a_large_fetch_is_reading_is_not_overlooked(broker: TurningBroker) -> None:
    asked = broker.ask(fetch(range(MANY), wait=1000, min_bytes=1), 12)
    broker.ask(produce([0]), 9)  # the fetch has read partition 0 already, and does not watch it yet
    broker.settle(broker.now)
    answer = asked.answer()
    assert len(bytes(answer.responses[0].partitions[0].records)) > 0


def test_a_large_fetch_ends_at_its_deadline(broker: TurningBroker) -> None:
    asked = broker.ask(fetch(range(MANY), wait=1000, min_bytes=1), 12)
    while broker.steps:
        broker.turn()
    broker.now += 1000
    broker.on_deadline(broker.now)
    assert asked.waits
    assert len(asked.answer().responses[0].partitions) == MANY


def test_a_large_session_is_told_once_what_is_new(broker: TurningBroker) -> None:
    session = broker.ask(fetch(range(MANY)), 12).answer().session_id
    broker.ask(produce([3, 4]), 9)
    answer = broker.ask(fetch([], session=session, epoch=1), 12).answer()
    assert [one.partition_index for one in answer.responses[0].partitions] == [3, 4]
    after = broker.ask(fetch([3, 4], session=session, epoch=2, offset=1), 12).answer()
    assert after.responses == []


def test_a_fetch_goes_on_though_another_one_has_forgotten_what_it_reads(broker: TurningBroker) -> None:
    broker.ask(produce([3]), 9)
    session = broker.ask(fetch(range(MANY)), 12).answer().session_id
    asked = broker.ask(fetch([], session=session, epoch=1), 12)
    other = fetch([], session=session, epoch=2)
    other.forgotten_topics_data = [ForgottenTopic("t", partitions=[3])]
    broker.ask(other, 12)
    assert asked.answer().error_code == ErrorCode.NONE


def test_a_fetch_that_waits_is_tried_once_however_much_has_moved(
    broker: TurningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = range(20)
    asked = broker.ask(fetch(numbers, wait=1000, min_bytes=1 << 20), 12)
    reads = counted(monkeypatch, PartitionLog, "read")
    broker.ask(produce(numbers), 9)
    broker.settle(broker.now)
    assert asked.waits
    assert reads.total == len(numbers)


# -- look-ups by time in a log of many segments


@pytest.fixture
def many_segments(tmp_path: Path) -> TurningBroker:
    """A broker with one partition of 100 segments, none of them in memory."""
    broker = TurningBroker(tmp_path)
    broker.add("t", 1)
    log = broker.partition_log("t", 0)
    for number in range(100):
        log.append(batch(b"v", timestamp=NOW + number), NOW)
        log.roll(NOW)
    broker.stop(NOW)
    gc.collect()
    return TurningBroker(tmp_path)


@pytest.mark.parametrize(("timestamp", "offset"), [(NOW + 70, 70), (-3, 99), (NOW + 500, -1)])
def test_a_look_up_by_time_asks_some_segments_a_slice(
    many_segments: TurningBroker, monkeypatch: pytest.MonkeyPatch, timestamp: int, offset: int
) -> None:
    looked_at = counted(monkeypatch, LogSegment, "batch_of")
    asked = many_segments.ask(list_offsets([0], timestamp), 7)
    seen = 0
    while asked.waits:
        assert looked_at.total - seen <= 40
        seen = looked_at.total
        many_segments.turn()
    assert asked.answer().topics[0].partitions[0].offset == offset
    again = many_segments.ask(list_offsets([0], timestamp), 7)
    assert not again.waits  # all that the search needs is in memory now


def test_the_oldest_version_learns_times_in_slices_too(many_segments: TurningBroker) -> None:
    wanted = ListOffsetsPartition(0, timestamp=NOW + 50, max_num_offsets=3)
    asked = many_segments.ask(ListOffsetsRequest(-1, topics=[ListOffsetsTopic("t", [wanted])]), 0)
    assert asked.waits
    assert asked.answer().topics[0].partitions[0].old_style_offsets == [50, 49, 48]


# -- the parts


def test_shares_are_full_and_keep_the_order() -> None:
    groups = [("a", list(range(100))), ("b", []), ("c", [1]), ("d", list(range(50)))]
    found = list(shares(groups))
    assert [sum(max(1, len(some)) for _, some in share) for share in found[:-1]] == [PARTITIONS_A_SLICE] * (
        len(found) - 1
    )
    flat = [(group, item) for share in found for group, some in share for item in some]
    assert flat == [(group, item) for group, items in groups for item in items]
    assert {group for share in found for group, _ in share} == {"a", "b", "c", "d"}
    assert list(shares([])) == []


def test_many_are_more_than_a_slice_takes() -> None:
    assert not are_many([range(PARTITIONS_A_SLICE - 1), range(1)])
    assert are_many([range(PARTITIONS_A_SLICE), range(1)])


def test_a_look_up_by_time_in_a_bomb_takes_small_steps_and_little_memory(tmp_path: Path) -> None:
    broker = TurningBroker(tmp_path)
    broker.add("t", 20)
    records = [BatchRecord(0, NOW, None, bytes(32 << 20)), BatchRecord(1, NOW + 5, None, b"v")]
    bomb = build_batch(records, codec=ZSTD)
    for number in range(20):
        broker.partition_log("t", number).append(bytearray(bomb), NOW)
    del records
    tracemalloc.start()
    asked = broker.ask(list_offsets([3], NOW + 5), 7)
    turns = 0
    while asked.waits:
        broker.turn()
        turns += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert turns > 20
    assert peak < 4 << 20
    assert asked.answer().topics[0].partitions[0].offset == 1
    answers = broker.ask(list_offsets(range(20), NOW + 1), 7).answer().topics[0].partitions
    assert [(one.offset, one.timestamp) for one in answers] == [(1, NOW + 5)] * 20


def test_a_bomb_becomes_messages_of_an_old_format_in_slices(tmp_path: Path) -> None:
    broker = TurningBroker(tmp_path)
    broker.add("t", 2)
    broker.partition_log("t", 0).append(batch(bytes(8 << 20), codec=GZIP), NOW)
    broken = batch(b"v", codec=GZIP)
    broken[HEADER_SIZE] ^= 0xFF
    write_crc(broken)
    broker.partition_log("t", 1).append(broken, NOW)
    asked = broker.ask(fetch([0, 1]), 3)
    turns = 0
    while asked.waits:
        broker.turn()
        turns += 1
    assert turns > 20
    sound, other = asked.answer().responses[0].partitions
    assert [message.value for message in iter_messages(sound.records)] == [bytes(8 << 20)]
    assert other.error_code == ErrorCode.CORRUPT_MESSAGE


def test_a_look_up_by_time_in_records_that_cant_be_read_fails_for_its_partition(tmp_path: Path) -> None:
    broker = TurningBroker(tmp_path)
    broker.add("t", 2)
    broken = batch(b"v", codec=ZSTD)
    broken[HEADER_SIZE] ^= 0xFF  # no frame begins so
    write_crc(broken)
    broker.partition_log("t", 0).append(broken, NOW)
    broker.partition_log("t", 1).append(batch(b"v"), NOW)
    answers = broker.ask(list_offsets(range(2), 0), 7).answer().topics[0].partitions
    assert [one.error_code for one in answers] == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
