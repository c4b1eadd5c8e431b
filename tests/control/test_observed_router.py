"""A router that is watched and disturbed: frames go in, answers come out or not."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import PendingReply, served_versions
from pykafka_broker.broker.requests.routes import ROUTES
from pykafka_broker.broker.waiting.future import Future, Parked
from pykafka_broker.control.history.entries import HistoryFile
from pykafka_broker.control.history.noting import NotingRouter
from pykafka_broker.control.observed_router import BrokerKnows, HeldReply, ObservedRouter
from pykafka_broker.control.traffic.exchange import Exchange, decoded_response
from pykafka_broker.control.traffic.faults import Action, Chaos, Event, FaultTable, Match, Rule
from pykafka_broker.control.traffic.mentions import FetchedSession
from pykafka_broker.control.traffic.recorder import Recorder
from pykafka_broker.control.traffic.request_log import RequestLog
from pykafka_broker.errors import ClosedOnPurpose, FrameError
from pykafka_broker.log.filesystem import FileSlice, OsFile
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.records.compression import GZIP
from pykafka_broker.records.header import check_crc, read_header
from pykafka_broker.server.link_codec import encode_request
from pykafka_broker.server.server import Server
from tests.broker.support import NOW, LightBroker, batch

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
CONNECTION = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))


class Watched:
    """A broker of one topic with three partitions behind an observed router."""

    def __init__(self, directory: Path) -> None:
        self.broker = LightBroker(directory)
        self.topic_id = self.broker.add("orders", 3)
        self.broker.add("other", 1)
        self.log = RequestLog()
        self.faults = FaultTable(self)
        self.sent: list[bytes] = []
        self.later_steps: list[tuple[int, Callable[[], None]]] = []
        self.last_steps: list[Callable[[], None]] = []
        self.befallen: list[tuple[str, Event | None]] = []
        self.router = ObservedRouter(self.broker.router.dispatch, self.broker.clock, self.log, self.faults, self)

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self.broker.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def has_topic(self, topic: str) -> bool:
        return topic in self.broker.image.topics

    def fetched(self, session: FetchedSession) -> list[tuple[Any, int]]:
        assert isinstance(session, int)
        return self.broker.services.fetch_sessions.partitions(session)

    def log_end(self, topic: str, partition: int, size: int) -> FileSlice | None:
        return BrokerKnows(cast(Server, self)).log_end(topic, partition, size)

    def cut(self, connection: int, half: bytes) -> None:
        self.sent.append(half)

    def befall(self, exchange: Exchange, rule: Rule) -> None:
        self.befallen.append((exchange.api, rule.action.event))

    def send(self, connection: int, answer: list[Any]) -> None:
        self.sent.append(b"".join(answer))

    def later(self, action: Action, step: Callable[[], None]) -> None:
        self.later_steps.append((action.delay_ms, step))

    def cancel(self, future: Future[Any]) -> None:
        self.broker.services.purgatory.cancel(future)

    def at_end(self, step: Callable[[], None]) -> bool:
        self.last_steps.append(step)
        return True

    def take_steps(self) -> None:
        steps, self.last_steps = self.last_steps, []
        for step in steps:
            step()

    def fault(self, action: Action, **match: Any) -> Rule:
        if "api" in match:
            match["api"] = frozenset({match["api"]})
        return self.faults.add(Match(**match), action)

    def dispatch(self, request: Message, version: int) -> Any:
        frame = b"".join(encode_request(request, version, 77, "client"))[4:]
        return self.router.dispatch(CONNECTION, memoryview(bytearray(frame)))

    def ask(self, request: Message, version: int) -> Any:
        return answer(self.dispatch(request, version), request, version)

    def end_offset(self, partition: int, topic: str = "orders") -> int:
        asked = ListOffsetsRequest(topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(partition, -1, -1)])])
        frame = b"".join(encode_request(asked, 7, 1, "inside"))[4:]
        found = self.broker.router.dispatch(CONNECTION, memoryview(bytearray(frame)))
        return int(answer(found, asked, 7).topics[0].partitions[0].offset)


def answer(pieces: Any, request: Message, version: int) -> Any:
    whole = b"".join(piece.read() if hasattr(piece, "fileno") else piece for piece in pieces)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    assert int.from_bytes(whole[4:8], "big") in (1, 77)
    return decoded_response(whole[4:], SPECS[request.API_KEY], version)


def produce(*partitions: int, topic: str = "orders", acks: int = 1) -> ProduceRequest:
    data = [PartitionProduceData(number, bytes(batch(b"v"))) for number in partitions]
    return ProduceRequest(acks=acks, timeout_ms=100, topic_data=[TopicProduceData(topic, partition_data=data)])


def errors_of(response: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.index): each.error_code for topic in response.responses for each in topic.partition_responses
    }


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(tmp_path)
    yield watched
    watched.broker.stop(NOW)


def test_what_is_asked_and_answered_is_in_the_log(watched: Watched) -> None:
    watched.ask(produce(0), 9)
    watched.ask(HeartbeatRequest("g", 1, "m"), 4)
    first, second = watched.log.since()
    assert (first.number, first.api, first.version, first.client_id, first.wall_ms) == (1, "Produce", 9, "client", NOW)
    assert (first.correlation_id, first.connection, first.errors, first.fault) == (77, CONNECTION, [], None)
    assert first.request.topic_data[0].name == "orders"
    assert first.response.responses[0].partition_responses[0].base_offset == 0
    assert first.answer_bytes > 0
    assert first.duration_ns > 0
    assert (second.api, second.errors) == ("Heartbeat", ["NOT_COORDINATOR"])


def test_what_makes_no_sense_is_in_the_log_too(watched: Watched) -> None:
    with pytest.raises(FrameError):
        watched.router.dispatch(CONNECTION, memoryview(b"\x00\x12"))
    with pytest.raises(FrameError):
        watched.dispatch(HeartbeatRequest("g", 1, "m"), 4) and watched.router.dispatch(
            CONNECTION, memoryview(b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff")
        )
    *_, heartbeat, unknown = watched.log.since()
    assert heartbeat.api == "Heartbeat"
    assert (unknown.api, unknown.request, unknown.response, unknown.answer) == ("999", None, None, None)


def test_a_long_request_is_kept_by_its_beginning_and_decodes(watched: Watched) -> None:
    request = produce(0)
    request.topic_data[0].partition_data[0].records = bytes(batch(bytes(100_000)))
    watched.ask(request, 9)
    (seen,) = watched.log.since()
    assert len(seen.frame) < seen.request_bytes
    assert len(seen.request.topic_data[0].partition_data[0].records) > 100_000


def test_a_long_request_without_an_answer_is_noted_with_its_whole_length(watched: Watched) -> None:
    request = produce(0, acks=0)
    request.topic_data[0].partition_data[0].records = bytes(batch(bytes(100_000)))
    assert watched.dispatch(request, 9) is None
    watched.ask(HeartbeatRequest("g", 1, "m"), 4)
    long, short = watched.log.since()
    assert long.request_bytes > 100_000
    assert long.answer is None
    assert (short.request_bytes, short.fault) == (len(short.frame), None)


def test_what_is_known_of_an_entry_is_the_same_after_it_was_put_away(watched: Watched) -> None:
    watched.ask(MetadataRequest(topics=None), 9)
    watched.ask(ApiVersionsRequest("a", "1"), 3)
    watched.ask(produce(0), 9)
    watched.fault(Action(error=NOT_LEADER), times=1)
    watched.ask(produce(0), 9)
    before = [_told(each) for each in watched.log.since()]
    watched.log.seal()
    assert [_told(each) for each in watched.log.since()] == before
    assert [each.number for each in watched.log.since(2)] == [3, 4]
    metadata, _, _, failed = watched.log.since()
    assert {each.name for each in metadata.response.topics} == {"orders", "other"}
    assert (failed.errors, failed.fault) == (["NOT_LEADER_OR_FOLLOWER"], 1)


def _told(exchange: Exchange) -> tuple[Any, ...]:
    said = exchange.number, exchange.wall_ms, exchange.connection, exchange.duration_ns, exchange.fault
    return *said, exchange.frame, exchange.request_bytes, b"".join(exchange.answer or []), exchange.errors


def test_many_long_answers_are_put_away_before_they_are_many_bytes(watched: Watched) -> None:
    for number in range(300):
        watched.broker.add(f"topic-{number}", 5)
    one = len(b"".join(watched.dispatch(MetadataRequest(topics=None), 9)))
    assert one > 10_000
    for _ in range(5 + (4 << 20) // one):
        watched.dispatch(MetadataRequest(topics=None), 9)
    assert watched.log.unsealed_bytes < 1 << 20


def test_long_answers_that_were_waited_for_are_bounded_in_bytes(watched: Watched) -> None:
    """An answer to a question about very many partitions has very many short pieces."""
    piece = bytes(4_000)
    future: Future[Any] = Future()
    future.complete([(4 + 250 * len(piece)).to_bytes(4, "big") + bytes(4), *[piece] * 250])
    watched.router._serve = lambda connection, frame: HeldReply(future)
    for _ in range(100):
        watched.dispatch(MetadataRequest(topics=None), 9).pieces()
    assert len(watched.log) < 40  # of a megabyte each
    assert watched.log.last_number == 100


def fetch(*partitions: int, session_id: int = 0, session_epoch: int = 0, wait: int = 500) -> FetchRequest:
    wanted = [FetchPartition(number, fetch_offset=0, partition_max_bytes=1 << 20) for number in partitions]
    return FetchRequest(
        max_wait_ms=wait,
        min_bytes=1,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic("orders", partitions=wanted)] if partitions else [],
    )


def test_one_that_waits_is_seen_waiting_and_then_answered(watched: Watched) -> None:
    pending = watched.dispatch(fetch(0), 12)
    assert isinstance(pending, PendingReply)
    (waiting,) = watched.log.unanswered()
    assert (waiting.number, waiting.api, waiting.answer) == (None, "Fetch", None)
    assert list(watched.log.since()) == []
    assert isinstance(pending.future, Parked)
    watched.broker.services.purgatory.hurry(pending.future, NOW)
    pending.pieces()
    assert list(watched.log.unanswered()) == []
    assert [each.api for each in watched.log.since()] == ["Fetch"]


def test_one_whose_client_has_gone_has_no_answer(watched: Watched) -> None:
    pending = watched.dispatch(fetch(0), 12)
    watched.cancel(pending.future)
    assert list(watched.log.unanswered()) == []
    assert [each.answer for each in watched.log.since()] == [None]


# -- errors


def test_an_error_meets_only_the_partitions_that_are_named(watched: Watched) -> None:
    rule = watched.fault(Action(error=NOT_LEADER), topic="orders", partition=1)
    response = watched.ask(produce(0, 1, 2), 9)
    assert errors_of(response) == {("orders", 0): 0, ("orders", 1): NOT_LEADER, ("orders", 2): 0}
    assert len(response.responses) == 1
    assert [watched.end_offset(number) for number in range(3)] == [1, 0, 1]
    failed = next(each for each in response.responses[0].partition_responses if each.index == 1)
    assert failed.base_offset == -1
    watched.ask(produce(0, 2), 9)
    assert rule.hits == 1


def test_an_error_without_a_partition_meets_all_of_the_topic(watched: Watched) -> None:
    watched.fault(Action(error=NOT_LEADER), topic="orders", times=1)
    assert set(errors_of(watched.ask(produce(0, 1), 9)).values()) == {NOT_LEADER}
    assert set(errors_of(watched.ask(produce(0, 1), 9)).values()) == {0}
    assert watched.end_offset(0) == 1


def test_an_error_of_an_applied_request_tells_of_none_of_its_effects(watched: Watched) -> None:
    watched.fault(Action(error=ErrorCode.REQUEST_TIMED_OUT, applied=True), api=ApiKey.PRODUCE)
    assert set(errors_of(watched.ask(produce(0, 1), 9)).values()) == {ErrorCode.REQUEST_TIMED_OUT}
    assert [watched.end_offset(number) for number in range(2)] == [1, 1]


def test_an_applied_error_of_one_partition_leaves_the_others(watched: Watched) -> None:
    watched.fault(Action(error=ErrorCode.REQUEST_TIMED_OUT, applied=True), partition=1)
    response = watched.ask(produce(0, 1), 9)
    assert errors_of(response) == {("orders", 0): 0, ("orders", 1): ErrorCode.REQUEST_TIMED_OUT}
    assert watched.end_offset(1) == 1


def test_an_applied_error_leaves_the_answer_to_what_does_not_decode(watched: Watched) -> None:
    """A version of ApiVersions that no broker knows yet, say."""
    rule = watched.fault(Action(error=ErrorCode.UNKNOWN_SERVER_ERROR, applied=True))
    frame = SPECS[ApiKey.API_VERSIONS].api_key.to_bytes(2, "big") + b"\0\x63" + bytes(4) + b"\xff\xff\0"
    pieces = watched.router.dispatch(CONNECTION, memoryview(bytearray(frame)))
    assert isinstance(pieces, list)
    (seen,) = watched.log.since()
    assert (seen.errors, rule.hits) == (["UNSUPPORTED_VERSION"], 1)


def test_who_wants_no_answer_is_cut_off_as_kafka_does_it(watched: Watched) -> None:
    watched.fault(Action(error=NOT_LEADER))
    with pytest.raises(ClosedOnPurpose):
        watched.dispatch(produce(0, acks=0), 9)


def test_an_error_of_a_group_stands_where_the_group_is_answered(watched: Watched) -> None:
    watched.fault(Action(error=ErrorCode.REBALANCE_IN_PROGRESS), group="g", times=1)
    assert watched.ask(HeartbeatRequest("g", 1, "m"), 4).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    partitions = [OffsetCommitRequestPartition(0, 5)]
    watched.fault(Action(error=ErrorCode.ILLEGAL_GENERATION), group="g", times=1)
    commit = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("orders", partitions=partitions)])
    assert watched.ask(commit, 8).topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSTABLE_OFFSET_COMMIT])
def test_a_question_for_all_offsets_of_a_group_fails_with_one_of_its_topics(
    watched: Watched, error: ErrorCode, applied: bool
) -> None:
    rule = watched.fault(Action(error=error, applied=applied), topic="orders", api=ApiKey.OFFSET_FETCH)
    (group,) = watched.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), 8).groups
    assert (group.group_id, group.error_code, rule.hits) == ("g", error, 1)
    assert watched.ask(OffsetFetchRequest(group_id="g", topics=None), 7).error_code == error


def test_a_description_of_all_topics_fails_for_one(watched: Watched) -> None:
    watched.fault(Action(error=NOT_LEADER), topic="orders", partition=1)
    asked = (DescribeTopicPartitionsRequest([]), DescribeTopicPartitionsRequest([TopicRequest("orders")]))
    for request in asked:
        found = {each.name: each.partitions for each in watched.ask(request, 0).topics}
        assert [each.error_code for each in found["orders"]] == [0, NOT_LEADER, 0]
        assert all(each.error_code == 0 for each in found.get("other", ()))


def test_a_fetch_of_a_session_meets_what_its_session_has(watched: Watched) -> None:
    session = watched.ask(fetch(0, 1, wait=0), 12).session_id
    watched.fault(Action(error=NOT_LEADER), topic="orders", partition=1, times=1)
    response = watched.ask(fetch(session_id=session, session_epoch=1), 12)
    (topic,) = response.responses
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(1, NOT_LEADER)]
    assert (response.session_id, response.error_code) == (session, 0)
    assert watched.ask(fetch(session_id=session, session_epoch=2, wait=0), 12).error_code == 0


def test_a_fetch_with_another_error_fails_as_a_whole(watched: Watched) -> None:
    watched.fault(Action(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), topic="orders")
    response = watched.ask(fetch(0), 12)
    assert (response.error_code, response.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


def test_metadata_keeps_its_brokers_beside_an_error(watched: Watched) -> None:
    watched.broker.listeners["PLAINTEXT"] = Listening()
    watched.fault(Action(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), topic="orders", times=1)
    response = watched.ask(MetadataRequest(topics=None), 9)
    assert {each.name: each.error_code for each in response.topics} == {"orders": 29, "other": 0}
    assert [each.node_id for each in response.brokers] == [1]
    watched.fault(Action(error=ErrorCode.LEADER_NOT_AVAILABLE), topic="orders", times=1)
    response = watched.ask(MetadataRequest(topics=None), 9)
    assert {each.error_code for each in response.topics} == {0}  # the partitions are there, and have no leader
    led = {each.name: {(it.error_code, it.leader_id) for it in each.partitions} for each in response.topics}
    assert led == {"orders": {(5, -1)}, "other": {(0, 1)}}
    watched.fault(Action(error=ErrorCode.LEADER_NOT_AVAILABLE), topic="orders", partition=2)
    orders = next(each for each in watched.ask(MetadataRequest(topics=None), 9).topics if each.name == "orders")
    assert {each.partition_index: (each.error_code, each.leader_id) for each in orders.partitions} == {
        0: (0, 1),
        1: (0, 1),
        2: (5, -1),
    }


class Listening:
    name, host, port, protocol = "PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"
    advertised: tuple[str, int] | None = None


@pytest.mark.parametrize("api_key", sorted(ROUTES), ids=lambda key: key.name)
def test_an_error_is_told_in_every_version_of_every_api_or_the_connection_ends(
    watched: Watched, api_key: ApiKey
) -> None:
    lowest, highest = served_versions(api_key)
    watched.fault(Action(error=ErrorCode.UNKNOWN_SERVER_ERROR))
    request_type = SPECS[api_key].request_class()
    for version in range(lowest, highest + 1):
        try:
            pieces = watched.dispatch(request_type(), version)
        except FrameError:
            continue
        assert "UNKNOWN_SERVER_ERROR" in [each.errors for each in watched.log.since()][-1]
        assert answer(pieces, request_type(), version) is not None


# -- the rest


def test_a_drop_before_has_no_effect_and_one_after_has(watched: Watched) -> None:
    watched.fault(Action(drop="before"), times=1)
    with pytest.raises(ClosedOnPurpose, match="before the request is served"):
        watched.dispatch(produce(0), 9)
    assert watched.end_offset(0) == 0
    watched.fault(Action(drop="after"), times=1)
    with pytest.raises(ClosedOnPurpose, match="after the request was served"):
        watched.dispatch(produce(0), 9)
    assert watched.end_offset(0) == 1
    assert [(each.answer, each.fault) for each in watched.log.since()] == [(None, 1), (None, 2)]


def test_a_cut_answer_is_sent_by_half(watched: Watched) -> None:
    watched.fault(Action(cut=True), api=ApiKey.API_VERSIONS, times=1)
    assert watched.dispatch(ApiVersionsRequest("a", "1"), 3) is None
    (half,) = watched.sent
    whole = b"".join(watched.dispatch(ApiVersionsRequest("a", "1"), 3))
    assert half == whole[: len(whole) // 2]


def test_only_fetched_records_are_corrupted_and_count(watched: Watched) -> None:
    rule = watched.fault(Action(corrupt=True), topic="orders", partition=1, times=1)
    watched.ask(produce(0, 1), 9)
    assert watched.ask(fetch(2, wait=0), 12).error_code == 0
    assert rule.hits == 0
    (topic,) = watched.ask(fetch(0, 1), 12).responses
    good = {each.partition_index: is_whole(each.records) for each in topic.partitions}
    assert good == {0: True, 1: False}
    (topic,) = watched.ask(fetch(0, 1), 12).responses
    assert all(is_whole(each.records) for each in topic.partitions)
    assert rule.hits == 1


def is_whole(records: memoryview) -> bool:
    try:
        check_crc(records, read_header(records))
    except Exception:
        return False
    return True


def test_throttling_is_told_where_the_api_tells_of_it(watched: Watched) -> None:
    watched.fault(Action(throttle_ms=250))
    assert watched.ask(produce(0), 9).throttle_time_ms == 250
    assert errors_of(watched.ask(produce(0), 9)) == {("orders", 0): 0}
    assert watched.ask(produce(0), 0) is not None  # which has no room for it


def held(watched: Watched, request: Message, version: int) -> tuple[Any, list[Any]]:
    """Dispatch a request that must wait; return the pending reply and a list that gets its answer."""
    pending = watched.dispatch(request, version)
    assert isinstance(pending, PendingReply)
    answers: list[Any] = []
    pending.future.add_done_callback(lambda _: answers.append(pending.pieces()))
    return pending, answers


def test_a_delayed_request_is_carried_out_when_its_time_is_over(watched: Watched) -> None:
    rule = watched.fault(Action(delay_ms=30))
    _, answers = held(watched, produce(0), 9)
    assert (watched.end_offset(0), answers, len(rule.held)) == (0, [], 1)
    ((delay_ms, step),) = watched.later_steps
    step()
    assert (delay_ms, watched.end_offset(0), len(rule.held)) == (30, 1, 0)
    assert errors_of(answer(answers[0], produce(0), 9)) == {("orders", 0): 0}


def test_a_delayed_fetch_may_wait_for_itself(watched: Watched) -> None:
    watched.fault(Action(delay_ms=30), times=1)
    _, answers = held(watched, fetch(0), 12)
    watched.later_steps[0][1]()
    assert answers == []
    watched.ask(produce(0), 9)
    watched.broker.settle(NOW)
    assert len(answer(answers[0], fetch(0), 12).responses[0].partitions[0].records) > 0


def test_what_hangs_goes_on_when_the_fault_is_removed(watched: Watched) -> None:
    rule = watched.fault(Action(hang=True))
    _, answers = held(watched, produce(0), 9)
    watched.faults.remove(rule.id)
    assert watched.end_offset(0) == 1
    assert len(answers) == 1


def test_what_hangs_is_forgotten_with_its_client(watched: Watched) -> None:
    rule = watched.fault(Action(hang=True))
    pending, answers = held(watched, produce(0), 9)
    watched.cancel(pending.future)
    assert (rule.held, answers) == ({}, [])
    watched.faults.clear()
    assert watched.end_offset(0) == 0


@pytest.mark.parametrize("action", [Action(drop="after"), Action(cut=True), Action(throttle_ms=9)], ids=repr)
def test_a_removed_fault_does_nothing_to_those_that_wait_still(watched: Watched, action: Action) -> None:
    rule = watched.fault(action, nth=1)
    _, answers = held(watched, fetch(0), 12)
    watched.faults.remove(rule.id)
    watched.ask(produce(0), 9)
    watched.broker.settle(NOW)
    assert answer(answers[0], fetch(0), 12).throttle_time_ms == 0
    assert (rule.hits, watched.sent) == (1, [])


def test_what_a_removed_fault_held_meets_neither_it_nor_others_that_are_removed_too(watched: Watched) -> None:
    watched.fault(Action(delay_ms=30, error=NOT_LEADER), times=1)
    _, answers = held(watched, produce(0), 9)
    watched.fault(Action(throttle_ms=9))
    watched.faults.clear()
    response = answer(answers[0], produce(0), 9)
    assert (errors_of(response), response.throttle_time_ms) == ({("orders", 0): 0}, 0)


def seed_of(action: Action, api_key: int) -> int:
    """Return the seed of a chaos that does this to the first request."""

    def drawn(seed: int) -> Action:
        found = Chaos(seed, 1.0).drawn("client", api_key, 1) or Action()
        return replace(found, delay_ms=min(found.delay_ms, action.delay_ms))

    return next(seed for seed in range(1000) if drawn(seed) == action)


def test_a_chaos_that_has_ended_does_nothing_to_those_that_wait_still(watched: Watched) -> None:
    watched.faults.set_chaos(seed_of(Action(drop="after"), ApiKey.FETCH), 1.0)
    _, answers = held(watched, fetch(0), 12)
    watched.faults.clear()
    watched.ask(produce(0), 9)
    watched.broker.settle(NOW)
    assert len(answer(answers[0], fetch(0), 12).responses[0].partitions[0].records) > 0


@pytest.mark.parametrize("end", [FaultTable.end_chaos, FaultTable.clear, lambda faults: faults.set_chaos(1, 0.5)])
def test_what_a_chaos_delays_is_carried_out_at_its_end(watched: Watched, end: Callable[[FaultTable], object]) -> None:
    """On a stopped clock no delay would ever be over."""
    watched.faults.set_chaos(seed_of(Action(delay_ms=1), ApiKey.PRODUCE), 1.0)
    _, answers = held(watched, produce(0), 9)
    assert (watched.end_offset(0), answers) == (0, [])
    end(watched.faults)
    assert (watched.end_offset(0), len(answers)) == (1, 1)
    watched.later_steps[0][1]()
    assert watched.end_offset(0) == 1


def test_a_delay_and_an_error_are_had_together(watched: Watched) -> None:
    watched.fault(Action(delay_ms=5, error=NOT_LEADER))
    _, answers = held(watched, produce(0), 9)
    watched.later_steps[0][1]()
    assert errors_of(answer(answers[0], produce(0), 9)) == {("orders", 0): NOT_LEADER}


def test_the_first_fault_that_fits_acts_alone(watched: Watched) -> None:
    first = watched.fault(Action(error=NOT_LEADER), topic="orders", times=1)
    second = watched.fault(Action(error=ErrorCode.KAFKA_STORAGE_ERROR), topic="orders")
    assert set(errors_of(watched.ask(produce(0), 9)).values()) == {NOT_LEADER}
    assert (first.hits, second.hits) == (1, 0)
    assert set(errors_of(watched.ask(produce(0), 9)).values()) == {ErrorCode.KAFKA_STORAGE_ERROR}


def test_an_event_befalls_before_the_request_is_carried_out(watched: Watched) -> None:
    watched.faults.add(Match(api=frozenset({0}), nth=2), Action(event="bump_leader_epoch"))
    watched.ask(produce(0), 9)
    assert watched.befallen == []
    watched.ask(produce(0), 9)
    assert watched.befallen == [("Produce", "bump_leader_epoch")]
    assert [each.fault for each in watched.log.since()] == [None, 1]


def test_one_that_waited_before_the_fault_came_meets_what_happens_to_answers(watched: Watched) -> None:
    pending = watched.dispatch(fetch(0), 12)
    answers: list[Any] = []
    pending.future.add_done_callback(lambda _: answers.append(pending.pieces()))
    rule = watched.fault(Action(corrupt=True))
    watched.ask(produce(0), 9)
    watched.broker.settle(NOW)
    assert not is_whole(answer(answers[0], fetch(0), 12).responses[0].partitions[0].records)
    assert rule.hits == 1


@pytest.fixture
def commits(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Any]]:
    """Return a function that commits within a turn of the loop; the disk is full at the turn's end."""
    watched.broker.add("__consumer_offsets", 1)
    watched.ask(commit(), 8)  # the folder is made with the first record
    watched.broker.services.at_end_of_turn = watched.at_end

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(OsFile, "write_at", full)
    yield lambda version: watched.dispatch(commit(), version)
    monkeypatch.undo()


def commit() -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(0, 7, committed_metadata="")
    return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("orders", partitions=[partition])])


def test_a_commit_is_logged_with_what_comes_of_its_record(watched: Watched, commits: Callable[[int], Any]) -> None:
    told, known = [commits(version) for version in (7, 8)], watched.log.last_number
    watched.take_steps()
    assert [each.errors for each in watched.log.since(known)] == [["NOT_COORDINATOR"]] * 2
    for pieces, version in zip(told, (7, 8), strict=True):
        found = answer(pieces, commit(), version)
        assert found.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_a_commit_is_recorded_with_what_comes_of_its_record(
    watched: Watched, commits: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.log.recorder = recorder = Recorder({})
    watched.faults.watching = True
    told = commits(8)
    assert not recorder.exchanges
    watched.take_steps()
    assert answer(told, commit(), 8).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    monkeypatch.undo()  # the recording's own file is written only now
    (line,) = [*recorder.lines()][1:]
    assert b64decode(json.loads(line)["response"]) == b"".join(told)[4:]


@pytest.mark.parametrize("size", [100, 20_000])
def test_a_request_is_recorded_as_it_came(watched: Watched, size: int) -> None:
    """Keep a request whole, though the log writes offsets into its batches."""
    watched.log.recorder = recorder = Recorder({})
    watched.faults.watching = True
    frame = b"".join(encode_request(produce(0), 9, 1, "x" * (size - 60)))[4:]
    buffer = bytearray(frame)
    assert watched.router.dispatch(CONNECTION, memoryview(buffer)) is not None
    buffer[:] = bytes(len(buffer))
    (line,) = [*recorder.lines()][1:]
    assert b64decode(json.loads(line)["request"]) == frame


LARGE = batch(b"v" * 9_000)


@pytest.mark.parametrize(
    ("records", "settings", "version", "is_copied"),
    [
        ([LARGE, LARGE], {}, 9, False),
        ([batch(b"v" * 9_000, codec=GZIP, timestamp=1), batch(b"w" * 20_000)], {}, 3, True),  # one is short
        ([batch(b"v" * 17_000)], {}, 13, False),
        ([LARGE, LARGE, LARGE, LARGE], {}, 9, True),  # the topic has three partitions
        ([LARGE, LARGE], {"message.timestamp.type": "LogAppendTime"}, 9, True),
        ([LARGE, LARGE], {"compression.type": "gzip"}, 9, True),
        ([LARGE, LARGE], {"max.message.bytes": "1000"}, 9, True),
        ([LARGE, LARGE, bytearray(30_000)], {}, 9, True),
    ],
)
def test_long_records_are_recorded_as_they_came(
    watched: Watched, records: list[bytearray], settings: Any, version: int, is_copied: bool
) -> None:
    """Refer to the records in the log, if the log has them, and copy them otherwise."""
    watched.log.recorder = recorder = Recorder({})
    watched.faults.watching = True
    topic_id = watched.broker.add("large", 3, **settings)
    data = [PartitionProduceData(number, bytes(each)) for number, each in enumerate(records)]
    request = ProduceRequest(acks=1, timeout_ms=100, topic_data=[TopicProduceData("large", topic_id, data)])
    frames = [b"".join(encode_request(request, version, number, "x"))[4:] for number in range(2)]
    for frame in frames:
        buffer = bytearray(frame)
        assert watched.router.dispatch(CONNECTION, memoryview(buffer)) is not None
        buffer[:] = bytes(len(buffer))
    assert recorder._end == (sum(map(len, frames)) if is_copied else 0)
    assert recorder.size_bytes > sum(map(len, frames))
    assert [b64decode(json.loads(line)["request"]) for line in [*recorder.lines()][1:]] == frames


@pytest.mark.parametrize("watching", ["a long request", "a long request in a history", "a fault"])
@pytest.mark.usefixtures("commits")
def test_a_commit_is_written_at_once_where_the_answer_is_looked_at(
    watched: Watched, watching: str, tmp_path: Path
) -> None:
    history = HistoryFile(str(tmp_path / "history"))
    known, client_id = watched.log.last_number, "x" * 20_000 if "long" in watching else "client"
    if "history" in watching:
        parts = watched.broker.router.dispatch, watched.broker.clock, watched.log, watched.faults, watched
        watched.router = NotingRouter(history, *parts)
    if "fault" in watching:
        watched.fault(Action(error=NOT_LEADER), api=ApiKey.FETCH)
    frame = b"".join(encode_request(commit(), 8, 77, client_id))[4:]
    found = answer(watched.router.dispatch(CONNECTION, memoryview(bytearray(frame))), commit(), 8)
    assert found.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert [each.errors for each in watched.log.since(known)] == [["NOT_COORDINATOR"]]
    history.close()


def test_who_waited_is_answered_after_a_pause_and_not_in_it(watched: Watched) -> None:
    _, answers = held(watched, fetch(0), 12)
    watched.faults.pause()
    watched.end_offset(0)
    inside = b"".join(encode_request(produce(0), 9, 1, "inside"))[4:]
    watched.broker.router.dispatch(CONNECTION, memoryview(bytearray(inside)))
    watched.broker.settle(NOW)
    assert (answers, watched.sent) == ([[]], [])
    watched.faults.unpause()
    (sent,) = watched.sent
    assert len(answer([sent], fetch(0), 12).responses[0].partitions[0].records) > 0


@pytest.mark.parametrize("chosen", [{"times": 1}, {"nth": 1}, {}])
def test_a_request_of_a_pause_meets_faults_when_the_pause_is_over(watched: Watched, chosen: Any) -> None:
    watched.faults.pause()
    rule = watched.fault(Action(error=NOT_LEADER), api=ApiKey.PRODUCE, **chosen)
    _, answers = held(watched, produce(0), 9)
    assert (rule.fitted, rule.hits) == (0, 0)
    watched.faults.unpause()
    assert errors_of(answer(answers[0], produce(0), 9)) == {("orders", 0): NOT_LEADER}
    assert (rule.fitted, rule.hits) == (1, 1)
    assert [each.fault for each in watched.log.since()] == [rule.id]


def test_a_request_of_a_pause_may_be_delayed_afterwards_and_goes_with_its_client(watched: Watched) -> None:
    watched.faults.pause()
    rule = watched.fault(Action(delay_ms=5))
    held(watched, produce(0), 9)
    pending, answers = held(watched, produce(1), 9)
    watched.faults.unpause()
    assert len(rule.held) == 2
    watched.cancel(pending.future)
    assert (len(rule.held), answers) == (1, [])
    for _, step in watched.later_steps:
        step()
    assert [watched.end_offset(number) for number in (0, 1)] == [1, 0]
