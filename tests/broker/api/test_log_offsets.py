"""ListOffsets: by time and by name, in every version."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.api.log_offsets import StartsAndEnds, list_offsets
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.scan import DamagedLog
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.log.segments import Segments
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import EARLIEST, LATEST
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsResponse
from pykafka_broker.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pykafka_broker.records.header import MAGIC_OFFSET
from tests.broker.frames import decoded, framed, joined
from tests.broker.support import ANOTHER_NODE, NOW, LightBroker, batch


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    """One partition: offsets 0-2 at NOW, 3-4 at NOW + 2000 and 5 at NOW + 1000."""
    broker = LightBroker(tmp_path)
    broker.add("t")
    log = broker.partition_log("t", 0)
    log.append(batch(b"a", b"b", b"c"), NOW)
    log.append(batch(b"d", b"e", timestamp=NOW + 2000), NOW)
    log.append(batch(b"f", timestamp=NOW + 1000), NOW)
    return broker


def answer(
    broker: LightBroker, timestamp: int, version: int = 11, *, isolation: int = 0, topic: str = "t", **fields: Any
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp, **fields)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )
    response: Any = list_offsets(broker.services, broker.context(ApiKey.LIST_OFFSETS, version), request)
    if isinstance(response, EncodedReply):
        response = ListOffsetsResponse.decode(response.body, version)
    assert len(response.encode(version))
    return response.topics[0].partitions[0]


def found(one: ListOffsetsPartitionResponse) -> tuple[int, int]:
    assert one.error_code == ErrorCode.NONE
    return one.offset, one.timestamp


@pytest.mark.parametrize("timestamp", [LATEST, NOW])
def test_version_0_fails_for_a_damaged_partition_alone(tmp_path: Path, timestamp: int) -> None:
    broker = LightBroker(tmp_path)
    broker.add("t", 2)
    for partition in range(2):
        broker.partition_log("t", partition).append(batch(b"a"), NOW)
    damage(broker.partition_log("t", 0))
    wanted = [ListOffsetsPartition(partition_index=each, timestamp=timestamp, max_num_offsets=9) for each in range(2)]
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic("t", wanted)])
    response: Any = list_offsets(broker.services, broker.context(ApiKey.LIST_OFFSETS, 0), request)
    answers = [(each.error_code, each.old_style_offsets) for each in response.topics[0].partitions]
    if timestamp == LATEST:  # no time is asked for
        assert answers == [(ErrorCode.NONE, [1, 0])] * 2
    else:
        assert answers == [(ErrorCode.KAFKA_STORAGE_ERROR, []), (ErrorCode.NONE, [0])]


def damage(log: PartitionLog) -> None:
    """Break the first header, and have the segment's times read anew."""
    log.seal()
    path = log.segments.active.log.path
    with open(path, "r+b") as file:
        file.seek(MAGIC_OFFSET)
        file.write(b"\x7f")
    os.truncate(f"{path.removesuffix('.log')}.timeindex", 0)
    loaded = LogSegment(log.segments.files, log.directory, 0, size=log.segments.size_bytes, created_ms=NOW, fresh=False)
    log.segments = Segments(log.segments.files, log.directory, [loaded])


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_carries_its_answer(broker: LightBroker, version: int) -> None:
    assert found(answer(broker, -1, version)) == (6, -1)
    assert found(answer(broker, NOW + 1, version)) == (3, NOW + 2000)


def test_by_time(broker: LightBroker) -> None:
    assert found(answer(broker, NOW - 1)) == (0, NOW)
    assert found(answer(broker, NOW)) == (0, NOW)
    assert found(answer(broker, NOW + 1)) == (3, NOW + 2000)
    assert found(answer(broker, NOW + 2000)) == (3, NOW + 2000)
    assert found(answer(broker, NOW + 2001)) == (-1, -1)


def test_by_name(broker: LightBroker) -> None:
    assert found(answer(broker, -1)) == (6, -1)
    assert found(answer(broker, -2)) == (0, -1)
    assert found(answer(broker, -3)) == (3, NOW + 2000)
    assert found(answer(broker, -4)) == (0, -1)
    assert found(answer(broker, -5)) == (-1, -1)
    assert found(answer(broker, -6)) == (-1, -1)


def test_the_start_moves_with_delete_records(broker: LightBroker) -> None:
    broker.partition_log("t", 0).delete_records_before(4)
    assert found(answer(broker, -2)) == (4, -1)
    assert found(answer(broker, -4)) == (4, -1)


def test_a_record_before_the_start_has_the_epoch_of_the_start(broker: LightBroker) -> None:
    broker.partition_log("t", 0).delete_records_before(4)
    one = answer(broker, -3)
    assert (found(one), one.leader_epoch) == ((3, NOW + 2000), 0)
    assert answer(broker, 1 << 60, 0, max_num_offsets=9).old_style_offsets == [4]
    assert answer(broker, -1, 0, max_num_offsets=-1).old_style_offsets == []


def test_a_topic_without_partitions_is_not_answered(broker: LightBroker) -> None:
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic("t", [])])
    response: Any = list_offsets(broker.services, broker.context(ApiKey.LIST_OFFSETS, 1), request)
    assert response.topics == []


def errors_in_memory() -> int:
    return sum(isinstance(each, ApiError) for each in gc.get_objects())


@pytest.mark.parametrize("timestamp", [LATEST, NOW + 9_000])
def test_an_end_that_is_not_known_leaves_nothing_to_the_garbage_collector(
    broker: LightBroker, monkeypatch: pytest.MonkeyPatch, timestamp: int
) -> None:
    monkeypatch.setattr(Partition, "knows_committed", property(lambda partition: False))
    answer(broker, EARLIEST)
    gc.collect()
    gc.disable()
    try:
        before = errors_in_memory()
        assert answer(broker, timestamp).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert errors_in_memory() == before
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(), ErrorCode.KAFKA_STORAGE_ERROR), (ApiError(ErrorCode.INVALID_RECORD), ErrorCode.INVALID_RECORD)],
)
def test_a_long_look_up_that_fails_is_told_for_its_partition_alone(
    broker: LightBroker, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def failing(segments: Segments, *asked: int) -> Iterator[None]:
        yield
        raise error

    monkeypatch.setattr(Segments, "offset_for_timestamp", failing)
    broker.add("t2")
    asked = [("t", NOW), ("t2", LATEST)]
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(t, [ListOffsetsPartition(0, -1, at)]) for t, at in asked])
    response: Any = list_offsets(broker.services, broker.context(ApiKey.LIST_OFFSETS, 5), request)
    assert [topic.partitions[0].error_code for topic in response.topics] == [code, ErrorCode.NONE]


@pytest.mark.parametrize(
    ("topic", "offset", "code"),
    [
        ("t", -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 7, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("t", 6, ErrorCode.NONE),
    ],
)
def test_records_that_are_not_deleted(broker: LightBroker, topic: str, offset: int, code: ErrorCode) -> None:
    if topic != "t":
        broker.add(topic)
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])], 1000)
    pieces: Any = broker.router.dispatch(CONNECTION, framed(request, 2))
    (told,) = decoded(pieces, ApiKey.DELETE_RECORDS, 2).topics[0].partitions
    assert told.error_code == code
    assert broker.partition_log(topic, 0).log_start_offset == (0 if code else 6)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
def test_a_name_that_the_version_does_not_know(broker: LightBroker, timestamp: int, version: int) -> None:
    assert answer(broker, timestamp, version).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_end_for_readers_of_committed_records(broker: LightBroker) -> None:
    open_one = batch(b"x", timestamp=NOW + 9000, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    broker.partition_log("t", 0).append(open_one, NOW)
    assert found(answer(broker, -1)) == (7, -1)
    assert found(answer(broker, -1, isolation=1)) == (6, -1)
    assert found(answer(broker, NOW + 9000)) == (6, NOW + 9000)
    assert found(answer(broker, NOW + 9000, isolation=1)) == (-1, -1)


def test_leader_epochs(broker: LightBroker) -> None:
    broker.elect_again("t", 3)
    log = broker.partition_log("t", 0)
    log.append(batch(b"g", timestamp=NOW + 5000), NOW)
    assert answer(broker, -1).leader_epoch == 3
    assert answer(broker, -2).leader_epoch == 0
    assert answer(broker, NOW + 5000).leader_epoch == 3
    assert answer(broker, -1, current_leader_epoch=2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert answer(broker, -1, current_leader_epoch=4).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(
    ("current", "code"),
    [
        (-1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_the_end_of_an_epoch_is_told_in_the_present_one(broker: LightBroker, current: int, code: ErrorCode) -> None:
    broker.elect_again("t", 3)
    broker.partition_log("t", 0).append(batch(b"g"), NOW)
    asked = OffsetForLeaderPartition(0, current, 0)
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("t", [asked])])
    pieces: Any = broker.router.dispatch(CONNECTION, framed(request, 4))
    (told,) = decoded(pieces, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4).topics[0].partitions
    assert told.error_code == code
    assert (told.leader_epoch, told.end_offset) == ((0, 6) if not code else (-1, -1))


def test_an_unknown_topic(broker: LightBroker) -> None:
    assert answer(broker, -1, topic="u").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_version_0_answers_a_list(broker: LightBroker) -> None:
    assert answer(broker, -1, 0, max_num_offsets=5).old_style_offsets == [6, 0]
    assert answer(broker, -1, 0, max_num_offsets=1).old_style_offsets == [6]
    assert answer(broker, -2, 0, max_num_offsets=5).old_style_offsets == [0]


def test_the_end_is_not_known_before_what_a_crash_has_left_is_synced(
    broker: LightBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka_broker.log.manager.LogManager.must_sync", lambda *arguments: None)
    broker.add("s", flush_messages="1")
    log = broker.whole.node.logs.get("s", 0)
    log.append(batch(b"a", b"b"), NOW)  # as it was found: the partition begins after that
    for version, code in ((5, ErrorCode.OFFSET_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)):
        assert answer(broker, -1, version, topic="s").error_code == code
        assert answer(broker, NOW, version, topic="s").error_code == code
    assert found(answer(broker, -2, topic="s")) == (0, -1)
    log.synced_to(2, NOW)
    assert found(answer(broker, -1, topic="s")) == (2, -1)
    assert found(answer(broker, NOW, topic="s")) == (0, NOW)


# -- answers whose offsets are filled in when the same request comes again


CONNECTION = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))
VERSIONS = (3, 4, 5, 6, 11)


def repeated_requests() -> list[ListOffsetsRequest]:
    asked: list[list[tuple[str, tuple[int, ...]]]] = [
        [("t", (0,))],
        [("t", (0,)), ("t2", (0, 1, 2))],
        [("t2", (2, 1, 2))],
        [("t", (1,))],
        [("t", ())],
        [],
    ]
    return [
        ListOffsetsRequest(
            replica,
            isolation,
            [
                ListOffsetsTopic(topic, [ListOffsetsPartition(index, -1, first - index % 2) for index in indexes])
                for topic, indexes in topics
            ],
        )
        for topics in asked
        for replica, isolation, first in ((-1, 0, -1), (-1, 1, -1), (-1, 0, -2), (1, 0, -1), (-1, 3, -1))
    ]


def compare(broker: LightBroker) -> None:
    """Compare answers to requests that come again with those made anew."""
    for request in repeated_requests():
        for version in VERSIONS:
            frame = framed(request, version)
            answers = []
            for remembers in (True, True, True, False):
                broker.services.remembers = remembers
                pieces = broker.router.dispatch(CONNECTION, frame)
                assert isinstance(pieces, list)
                answers.append(joined(pieces))
            assert answers == answers[:1] * 4


def test_the_start_of_a_log_without_records_is_of_the_leaders_epoch(broker: LightBroker) -> None:
    log = broker.partition_log("t", 0)
    log.delete_records_before(log.high_watermark)
    broker.change("t", leader=1)
    found = answer(broker, -2)
    assert (found.offset, found.leader_epoch) == (log.log_end_offset, broker.partition("t", 0).leader_epoch)


def lasting(broker: LightBroker) -> int:
    """Return how many answers are kept in the form that is filled in."""
    return sum(isinstance(reply, StartsAndEnds) for reply in broker.services.replies._replies.values())


def test_the_same_request_is_answered_with_the_offsets_of_now(broker: LightBroker) -> None:
    broker.add("t2", 3)
    compare(broker)
    # In each version with leader epochs: three questions about t, two about t and t2 (the third asks for a timestamp),
    # and three isolation levels of each that names no partition.
    assert lasting(broker) == 4 * (3 + 2 + 3 + 3)
    log = broker.partition_log("t", 0)
    log.append(batch(b"g"), NOW)
    compare(broker)
    transaction: dict[str, Any] = {"transactional": True, "producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    log.append(batch(b"h", **transaction), NOW)
    compare(broker)
    log.delete_records_before(4)
    compare(broker)
    log.delete_records_before(log.high_watermark)
    compare(broker)


def test_the_same_request_is_refused_where_the_partition_has_gone(broker: LightBroker) -> None:
    broker.add("t2", 3)
    compare(broker)
    broker.change("t2", 1, leader=ANOTHER_NODE, isr=[ANOTHER_NODE])
    compare(broker)
    broker.whole.node.replicas.offline([("t", 0)])  # as after a disk error, of which the metadata learns later
    compare(broker)


def test_the_same_request_is_refused_where_the_log_is_damaged(broker: LightBroker) -> None:
    """The metadata does not change by that where no other replica can lead."""
    compare(broker)
    log = broker.partition_log("t", 0)
    log.keeper.damaged_log(log, DamagedLog(log.segments.active.log.path, 0, "a broken batch header"))
    compare(broker)
    with pytest.raises(ApiError, match="is damaged"):
        broker.partition_log("t", 0)


def test_the_same_request_is_refused_while_the_end_is_not_known(
    broker: LightBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.add("t2", 3)
    compare(broker)
    monkeypatch.setattr(Partition, "knows_committed", False)
    compare(broker)
    assert answer(broker, -1).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
