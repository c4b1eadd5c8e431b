"""Fetch: limits, sessions, waiting, isolation, epochs and old formats."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.api.fetch import fetch
from pykafka_broker.broker.waiting.future import Future, Parked
from pykafka_broker.log.filesystem import FileSlice
from pykafka_broker.log.partition_log import Origin
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from pykafka_broker.protocol.messages.fetch_response import FetchResponse, PartitionData
from pykafka_broker.records.compression import GZIP
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from tests.broker.support import LightBroker, batch
from tests.log.support import marker

VERSION = 12
BIG = 1 << 30


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    return LightBroker(tmp_path)


def asked(
    offsets: dict[int, int],
    *,
    topic: str = "t",
    max_bytes: int = BIG,
    partition_max_bytes: int = BIG,
    min_bytes: int = 1,
    max_wait_ms: int = 500,
    session: tuple[int, int] = (0, -1),
    topic_id: bytes | None = None,
    **fields: Any,
) -> FetchRequest:
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes)
    request.session_id, request.session_epoch = session
    for name in ("isolation_level", "forgotten_topics_data"):
        if name in fields:
            setattr(request, name, fields.pop(name))
    partitions = [
        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes, **fields)
        for partition, offset in offsets.items()
    ]
    if partitions:
        named = FetchTopic(partitions=partitions)
        if topic_id is None:
            named.topic = topic
        else:
            named.topic_id = topic_id
        request.topics = [named]
    return request


def answer(broker: LightBroker, request: FetchRequest, version: int = VERSION) -> FetchResponse:
    response = fetch(broker.services, broker.context(ApiKey.FETCH, version), request)
    assert isinstance(response, FetchResponse)
    response.write(version, lambda piece: None)
    return response


def parts(response: FetchResponse) -> dict[int, PartitionData]:
    return {data.partition_index: data for topic in response.responses for data in topic.partitions}


def values(data: PartitionData) -> list[bytes | None]:
    raw = data.records if isinstance(data.records, bytes) else data.records.read()
    return [record.value for _, one in iter_batches(raw) for record in iter_records(one)]


def test_from_the_start_and_from_the_middle_of_a_batch(broker: LightBroker) -> None:
    broker.add("t")
    log = broker.partition_log("t", 0)
    log.append(batch(b"a", b"b", b"c"), broker.now)
    log.append(batch(b"d"), broker.now)
    assert values(parts(answer(broker, asked({0: 0})))[0]) == [b"a", b"b", b"c", b"d"]
    assert values(parts(answer(broker, asked({0: 2})))[0]) == [b"a", b"b", b"c", b"d"]
    data = parts(answer(broker, asked({0: 3})))[0]
    assert values(data) == [b"d"]
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (4, 4, 0)
    assert data.aborted_transactions is None


def test_the_first_batch_comes_whole_above_every_limit_and_only_the_first(broker: LightBroker) -> None:
    broker.add("t", 2)
    for partition in (0, 1):
        broker.partition_log("t", partition).append(batch(b"x" * 500), broker.now)
    found = parts(answer(broker, asked({0: 0, 1: 0}, max_bytes=10, partition_max_bytes=10)))
    assert values(found[0]) == [b"x" * 500]
    assert values(found[1]) == []


@pytest.mark.parametrize(("limit", "aborted"), [(0, []), (10, None), (2000, [])])
def test_aborted_transactions_are_null_where_no_batch_fits(
    broker: LightBroker, limit: int, aborted: list[Any] | None
) -> None:
    broker.add("t", 2)
    for partition in (0, 1):
        broker.partition_log("t", partition).append(batch(b"x" * 500), broker.now)
    request = asked({0: 0, 1: 0}, isolation_level=1)
    request.topics[0].partitions[1].partition_max_bytes = limit
    assert parts(answer(broker, request))[1].aborted_transactions == aborted


def test_what_is_short_is_in_the_answer_and_what_is_long_stays_in_its_file(broker: LightBroker) -> None:
    broker.add("t", 2)
    for partition, size in enumerate((100, 40_000)):
        broker.partition_log("t", partition).append(batch(b"x" * size), broker.now)
    found = parts(answer(broker, asked({0: 0, 1: 0})))
    assert isinstance(found[0].records, bytes)
    assert isinstance(found[1].records, FileSlice)


@pytest.mark.parametrize("version", [1, 11])  # records are converted, and are not
def test_a_disk_that_fails_while_an_answer_is_made(
    broker: LightBroker, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    def failing(self: FileSlice) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    broker.add("t")
    broker.partition_log("t", 0).append(batch(b"x"), broker.now)
    monkeypatch.setattr(FileSlice, "read", failing)
    pending = fetch(broker.services, broker.context(ApiKey.FETCH, version), asked({0: 0}))
    data = parts(pending.result() if isinstance(pending, Future) else pending)[0]
    assert (data.error_code, data.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    assert [directory.online for directory in broker.services.logs.directories] == [False]


def test_the_total_limit_is_shared(broker: LightBroker) -> None:
    broker.add("t", 3)
    size = len(batch(b"x" * 500))
    for partition in range(3):
        broker.partition_log("t", partition).append(batch(b"x" * 500), broker.now)
    found = parts(answer(broker, asked({0: 0, 1: 0, 2: 0}, max_bytes=2 * size)))
    assert [len(found[partition].records or b"") for partition in range(3)] == [size, size, 0]


def test_it_waits_for_records_and_an_append_wakes_it(broker: LightBroker) -> None:
    broker.add("t")
    parked = fetch(broker.services, broker.context(ApiKey.FETCH, VERSION), asked({0: 0}))
    assert isinstance(parked, Parked)
    assert parked.deadline == broker.now + 500
    assert parked.yields
    answers: list[FetchResponse] = []
    parked.add_done_callback(lambda done: answers.append(done.result()))
    broker.purgatory.park(parked)
    broker.partition("t", 0).append(batch(b"new"), broker.now)
    broker.purgatory.settle(broker.now)
    assert values(parts(answers[0])[0]) == [b"new"]


def test_it_waits_until_min_bytes_are_there(broker: LightBroker) -> None:
    broker.add("t")
    log = broker.partition_log("t", 0)
    log.append(batch(b"x" * 100), broker.now)
    parked = fetch(broker.services, broker.context(ApiKey.FETCH, VERSION), asked({0: 0}, min_bytes=300))
    assert isinstance(parked, Parked)
    assert parked.poll is not None
    assert parked.poll(broker.now) is None
    log.append(batch(b"y" * 200), broker.now)
    answer = parked.poll(broker.now)
    assert answer is not None
    assert values(parts(answer)[0]) == [b"x" * 100, b"y" * 200]


def test_the_deadline_brings_what_there_is(broker: LightBroker) -> None:
    broker.add("t")
    broker.partition_log("t", 0).append(batch(b"x"), broker.now)
    parked = fetch(broker.services, broker.context(ApiKey.FETCH, VERSION), asked({0: 0}, min_bytes=3000))
    assert isinstance(parked, Parked)
    assert parked.expire is not None
    assert values(parts(parked.expire(broker.now))[0]) == [b"x"]


def test_without_patience_or_partitions_it_never_waits(broker: LightBroker) -> None:
    broker.add("t")
    assert values(parts(answer(broker, asked({0: 0}, max_wait_ms=0)))[0]) == []
    assert answer(broker, asked({})).responses == []


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        ({"topic": "nobody"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"offsets": {7: 0}}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"offsets": {0: 2}}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offsets": {0: -1}}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"current_leader_epoch": 3}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_an_error_is_answered_at_once(broker: LightBroker, request_of: dict[str, Any], code: ErrorCode) -> None:
    broker.add("t")
    broker.partition_log("t", 0).append(batch(b"x"), broker.now)
    offsets = request_of.pop("offsets", {0: 1})
    (data,) = parts(answer(broker, asked(offsets, **request_of))).values()
    assert data.error_code == code
    assert (data.high_watermark, data.log_start_offset) == (-1, -1)
    assert data.records == b""


def test_an_older_leader_epoch_is_fenced(broker: LightBroker) -> None:
    broker.add("t")
    broker.elect_again("t", 4)
    assert parts(answer(broker, asked({0: 0}, current_leader_epoch=3)))[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_negative_leader_epoch_is_none(broker: LightBroker) -> None:
    """Fetch takes every negative leader epoch for none, like a real broker; other requests take only -1 for none."""
    broker.add("t")
    broker.elect_again("t")
    for epoch in (-1, -2):
        assert parts(answer(broker, asked({0: 0}, max_wait_ms=0, current_leader_epoch=epoch)))[0].error_code == 0


def test_histories_that_part_are_told_where(broker: LightBroker) -> None:
    broker.add("t")
    log = broker.partition_log("t", 0)
    log.append(batch(b"a", b"b"), broker.now, leader_epoch=1)
    log.append(batch(b"c"), broker.now, leader_epoch=5)
    for offset in (3, 2):  # the second has an offset that there is, but of an epoch that has none
        data = parts(answer(broker, asked({0: offset}, last_fetched_epoch=3)))[0]
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (1, 2)
    assert values(parts(answer(broker, asked({0: 2}, last_fetched_epoch=1)))[0]) == [b"c"]


def test_topics_by_id(broker: LightBroker) -> None:
    topic_id = broker.add("t")
    broker.partition_log("t", 0).append(batch(b"x"), broker.now)
    response = answer(broker, asked({0: 0}, topic_id=topic_id), version=13)
    assert response.responses[0].topic_id == topic_id
    assert values(parts(response)[0]) == [b"x"]
    unknown = answer(broker, asked({0: 0}, topic_id=b"\7" * 16), version=13)
    assert parts(unknown)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


class TestSessions:
    def test_an_incremental_fetch_leaves_out_what_has_not_changed(self, broker: LightBroker) -> None:
        broker.add("t", 2)
        full = answer(broker, asked({0: 0, 1: 0}, session=(0, 0), max_wait_ms=0))
        assert full.session_id == 100
        assert sorted(parts(full)) == [0, 1]
        quiet = answer(broker, asked({}, session=(100, 1), max_wait_ms=0))
        assert quiet.session_id == 100
        assert quiet.responses == []
        broker.partition_log("t", 1).append(batch(b"x"), broker.now)
        assert list(parts(answer(broker, asked({}, session=(100, 2), max_wait_ms=0)))) == [1]

    def test_after_a_read_that_failed_the_offsets_are_told_again(
        self, broker: LightBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def failing(self: FileSlice) -> bytes:
            raise OSError(errno.EMFILE, "Too many open files")

        broker.add("t")
        answer(broker, asked({0: 0}, session=(0, 0), max_wait_ms=0))
        broker.partition_log("t", 0).append(batch(b"x"), broker.now)
        with monkeypatch.context() as patched:
            patched.setattr(FileSlice, "read", failing)
            data = parts(answer(broker, asked({}, session=(100, 1), max_wait_ms=0)))[0]
        assert (data.error_code, data.high_watermark) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        again = parts(answer(broker, asked({0: 1}, session=(100, 2), max_wait_ms=0)))
        assert again[0].high_watermark == 1, "the client does not take the offsets of an error"

    def test_partitions_are_added_moved_and_forgotten(self, broker: LightBroker) -> None:
        broker.add("t", 2)
        broker.partition_log("t", 1).append(batch(b"x"), broker.now)
        answer(broker, asked({0: 0}, session=(0, 0), max_wait_ms=0))
        more = answer(broker, asked({1: 0}, session=(100, 1), max_wait_ms=0))
        assert list(parts(more)) == [1]
        assert answer(broker, asked({1: 1}, session=(100, 2), max_wait_ms=0)).responses == []
        forgotten = [ForgottenTopic(topic="t", partitions=[1])]
        gone = asked({}, session=(100, 3), max_wait_ms=0, forgotten_topics_data=forgotten)
        answer(broker, gone)
        broker.partition_log("t", 1).append(batch(b"y"), broker.now)
        assert answer(broker, asked({}, session=(100, 4), max_wait_ms=0)).responses == []

    @pytest.mark.parametrize("room", [1, BIG])
    def test_partitions_take_turns_from_the_second_fetch_on(self, broker: LightBroker, room: int) -> None:
        """The answer that opens a session changes no turn in Kafka 4.4.0, whether the others had room or not."""
        broker.add("t", 3)
        for partition in range(3):
            broker.partition_log("t", partition).append(batch(b"x" * 100), broker.now)
        answer(broker, asked({0: 0, 1: 0, 2: 0}, session=(0, 0), max_bytes=room))
        told = [parts(answer(broker, asked({}, session=(100, epoch), max_bytes=1))) for epoch in (1, 2, 3, 4)]
        assert [list(each) for each in told] == [[0], [1], [2], [0]]

    def test_an_error_is_told_again_and_so_is_its_end(self, broker: LightBroker) -> None:
        broker.add("t")
        answer(broker, asked({0: 0}, session=(0, 0), max_wait_ms=0))
        wrong = answer(broker, asked({0: 9}, session=(100, 1), max_wait_ms=0))
        assert parts(wrong)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        again = answer(broker, asked({}, session=(100, 2), max_wait_ms=0))
        assert parts(again)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        right = answer(broker, asked({0: 0}, session=(100, 3), max_wait_ms=0))
        assert parts(right)[0].error_code == ErrorCode.NONE

    def test_wrong_ids_and_epochs(self, broker: LightBroker) -> None:
        broker.add("t")
        assert answer(broker, asked({}, session=(5, 1))).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        answer(broker, asked({0: 0}, session=(0, 0), max_wait_ms=0))
        assert answer(broker, asked({}, session=(100, 9))).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH

    def test_a_full_fetch_with_the_final_epoch_closes_it(self, broker: LightBroker) -> None:
        broker.add("t")
        answer(broker, asked({0: 0}, session=(0, 0), max_wait_ms=0))
        closed = answer(broker, asked({0: 0}, session=(100, -1), max_wait_ms=0))
        assert closed.session_id == 0
        assert answer(broker, asked({}, session=(100, 1))).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


class TestIsolation:
    def test_readers_of_committed_records_stop_at_the_last_stable_offset(self, broker: LightBroker) -> None:
        broker.add("t")
        log = broker.partition_log("t", 0)
        log.append(batch(b"plain"), broker.now)
        open_one = batch(b"open", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        log.append(open_one, broker.now)
        committed = parts(answer(broker, asked({0: 0}, isolation_level=1)))[0]
        assert values(committed) == [b"plain"]
        assert (committed.last_stable_offset, committed.high_watermark) == (1, 2)
        assert committed.aborted_transactions == []
        assert values(parts(answer(broker, asked({0: 0})))[0]) == [b"plain", b"open"]

    def test_an_aborted_transaction_is_told_with_its_first_batch(self, broker: LightBroker) -> None:
        """The transaction begins with the last batch for which the answer has room."""
        broker.add("t")
        log = broker.partition_log("t", 0)
        begins = batch(b"open", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        log.append(begins, broker.now)
        log.append(marker(1, 0, commit=False), broker.now, origin=Origin.COORDINATOR)
        data = parts(answer(broker, asked({0: 0}, isolation_level=1, partition_max_bytes=1)))[0]
        assert values(data) == [b"open"]
        assert [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()] == [(1, 0)]


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_old_clients_get_old_message_formats(broker: LightBroker, version: int, magic: int) -> None:
    broker.add("t")
    broker.partition_log("t", 0).append(batch(b"a", b"b"), broker.now)
    reply = fetch(broker.services, broker.context(ApiKey.FETCH, version), asked({0: 0}))
    assert isinstance(reply, Future)
    data = parts(reply.result())[0]
    assert isinstance(data.records, bytes | bytearray)
    assert data.records[16] == magic


def test_why_a_batch_can_not_be_converted_is_logged(
    broker: LightBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pykafka_broker.broker.api.fetch._MOST_CONVERTED", 1000)
    broker.add("t")
    broker.partition_log("t", 0).append(batch(bytes(2000), codec=GZIP), broker.now)
    reply = fetch(broker.services, broker.context(ApiKey.FETCH, 3), asked({0: 0}))
    assert isinstance(reply, Future)
    assert parts(reply.result())[0].error_code == ErrorCode.CORRUPT_MESSAGE
    assert "t-0 from offset 0 on can't be converted for an old client" in caplog.text


def test_an_epoch_before_all_ends_where_an_empty_log_begins(broker: LightBroker) -> None:
    broker.add("t")
    log = broker.partition_log("t", 0)
    assert log.epochs.led_end_offset_for(-2, log.log_end_offset) == (-2, 0)
    assert log.epochs.led_end_offset_for(-1, log.log_end_offset) == (-1, -1)
