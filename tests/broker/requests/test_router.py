"""From frames to answers: headers, versions, errors."""

from __future__ import annotations

import logging
import struct
from typing import Any

import pytest

from pykafka_broker.broker.requests import router as router_module
from pykafka_broker.broker.requests.context import ConnectionContext, RequestContext
from pykafka_broker.broker.requests.router import PendingReply, Router, served_versions
from pykafka_broker.broker.requests.routes import ROUTES
from pykafka_broker.broker.waiting.future import Future, Parked, Purgatory, TooLate, when_committed
from pykafka_broker.clock import Clock
from pykafka_broker.errors import ApiError, FrameError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.list_offsets_response import ListOffsetsResponse

CONNECTION = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))


class StubServices:
    def __init__(self) -> None:
        self.purgatory = Purgatory()
        self.clock = Clock(1234)
        self.quotas = None
        self.remembers = False


def frame(api_key: int, version: int, body: bytes, *, client_id: bytes | None = b"c", tags: bytes = b"") -> memoryview:
    head = struct.pack(">hhi", api_key, version, 77)
    head += struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return memoryview(bytearray(head + tags + body))


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that replaces the handler of one API and returns the router and the arguments of each call."""

    def install(api_key: ApiKey, outcome: Any) -> tuple[Router, list[tuple[RequestContext, Any]]]:
        calls: list[tuple[RequestContext, Any]] = []

        def handler(broker: Any, context: RequestContext, request: Any) -> Any:
            calls.append((context, request))
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        router = Router(StubServices())  # type: ignore[arg-type]
        endpoint = router._load(api_key)
        endpoint.handler = handler
        return router, calls

    return install


def joined(pieces: Any) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


def test_a_plain_header_and_its_answer(answering: Any) -> None:
    router, calls = answering(ApiKey.LIST_OFFSETS, ListOffsetsResponse(throttle_time_ms=3))
    body = ListOffsetsRequest(replica_id=-1).encode(2)
    answer = joined(router.dispatch(CONNECTION, frame(2, 2, body)))
    context, request = calls[0]
    assert (context.client_id, context.correlation_id, context.api_version, context.now) == ("c", 77, 2, 1234)
    assert request == ListOffsetsRequest(replica_id=-1)
    assert answer == struct.pack(">ii", len(answer) - 4, 77) + ListOffsetsResponse(throttle_time_ms=3).encode(2)


def test_a_client_id_that_is_no_utf_8_is_served(answering: Any) -> None:
    router, calls = answering(ApiKey.LIST_OFFSETS, ListOffsetsResponse())
    router.dispatch(CONNECTION, frame(2, 2, ListOffsetsRequest().encode(2), client_id=b"caf\xe9"))
    assert calls[0][0].client_id == "caf\ufffd"


def test_requests_are_logged_where_that_is_asked_for(answering: Any, caplog: pytest.LogCaptureFixture) -> None:
    router, _ = answering(ApiKey.LIST_OFFSETS, ListOffsetsResponse())
    with caplog.at_level(logging.INFO):
        router.dispatch(CONNECTION, frame(2, 2, ListOffsetsRequest().encode(2)))
    assert caplog.messages == []
    with caplog.at_level(logging.DEBUG):
        router.dispatch(CONNECTION, frame(2, 2, ListOffsetsRequest().encode(2)))
    (line,) = caplog.messages
    assert line.startswith("LIST_OFFSETS api_key=2 version=2 correlation_id=77 client_id='c' from ")


def test_a_flexible_header_skips_its_tagged_fields(answering: Any) -> None:
    router, calls = answering(ApiKey.LIST_OFFSETS, ListOffsetsResponse())
    body = ListOffsetsRequest(replica_id=-1).encode(7)
    answer = joined(router.dispatch(CONNECTION, frame(2, 7, body, client_id=None, tags=b"\x02\x00\x01x\x05\x02yz")))
    assert calls[0][0].client_id is None
    assert answer[4:9] == struct.pack(">i", 77) + b"\x00"


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\x00\x02",
        struct.pack(">hhih", 2, 2, 1, 500) + b"short",
        struct.pack(">hhih", 2, 7, 1, -1) + b"\x01\x00\x7f",
        struct.pack(">hhih", 2, 7, 1, -1) + b"\xff\xff\xff\xff\xff\xff\xff",
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", -1, 0, 1, -1),
        struct.pack(">hhih", 2, 99, 1, -1),
        struct.pack(">hhih", 2, -1, 1, -1),
        struct.pack(">hhih", 2, 2, 1, -1) + b"\x00",
    ],
)
def test_what_makes_no_sense_is_a_frame_error(bad: bytes, answering: Any) -> None:
    router, calls = answering(ApiKey.LIST_OFFSETS, ListOffsetsResponse())
    with pytest.raises(FrameError):
        router.dispatch(CONNECTION, memoryview(bytearray(bad)))
    assert calls == []


def test_an_api_error_becomes_the_answers_error(answering: Any) -> None:
    router, _ = answering(ApiKey.INIT_PRODUCER_ID, ApiError(ErrorCode.NOT_COORDINATOR))
    answer = joined(router.dispatch(CONNECTION, frame(22, 1, InitProducerIdRequest().encode(1))))
    assert InitProducerIdResponse.decode(answer[8:], 1).error_code == ErrorCode.NOT_COORDINATOR


def test_a_defect_is_logged_and_answered(answering: Any, caplog: pytest.LogCaptureFixture) -> None:
    router, _ = answering(ApiKey.INIT_PRODUCER_ID, ZeroDivisionError("oops"))
    answer = joined(router.dispatch(CONNECTION, frame(22, 1, InitProducerIdRequest().encode(1))))
    assert InitProducerIdResponse.decode(answer[8:], 1).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "ZeroDivisionError: oops" in caplog.text
    assert "correlation_id=77" in caplog.text


@pytest.mark.parametrize("waits", [False, True])
def test_an_answer_that_can_t_be_written_is_logged_and_another_one_given(
    waits: bool, answering: Any, caplog: pytest.LogCaptureFixture
) -> None:
    named = CreateTopicsResponse(topics=[CreatableTopicResult("t", error_code=42, error_message="x" * 32_768)])
    later: Future[CreateTopicsResponse] = Future()
    router, _ = answering(ApiKey.CREATE_TOPICS, later if waits else named)
    asked = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
    reply = router.dispatch(CONNECTION, frame(19, 7, asked.encode(7), tags=b"\0"))
    later.complete(named)
    answer = joined(reply.pieces() if isinstance(reply, PendingReply) else reply)
    [topic] = CreateTopicsResponse.decode(answer[9:], 7).topics
    assert isinstance(reply, PendingReply) is waits
    assert (topic.name, topic.error_code, topic.error_message) == ("t", ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert "the answer to CREATE_TOPICS can't be written" in caplog.text


def test_a_defect_that_the_answer_has_no_room_for_closes(answering: Any) -> None:
    router, _ = answering(ApiKey.LIST_OFFSETS, ZeroDivisionError("oops"))
    with pytest.raises(FrameError, match="UNKNOWN_SERVER_ERROR"):
        router.dispatch(CONNECTION, frame(2, 2, ListOffsetsRequest().encode(2)))


def test_a_parked_request_waits_in_the_purgatory(answering: Any) -> None:
    parked = Parked(100, expire=lambda now: ListOffsetsResponse(throttle_time_ms=now))
    router, _ = answering(ApiKey.LIST_OFFSETS, parked)
    pending = router.dispatch(CONNECTION, frame(2, 2, ListOffsetsRequest().encode(2)))
    assert isinstance(pending, PendingReply)
    pending.future.add_done_callback(lambda _: None)
    router._services.purgatory.on_deadline(100)
    assert joined(pending.pieces())[8:] == ListOffsetsResponse(throttle_time_ms=100).encode(2)


@pytest.mark.parametrize("step", ["poll", "expire"])
def test_a_defect_of_a_parked_request_is_its_own_answer(
    step: str, answering: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(now: int) -> Any:
        raise ZeroDivisionError("oops")

    defect: Any = {step: stumble}
    parked = Parked(100, keys=["k"], **defect)
    router, _ = answering(ApiKey.LIST_OFFSETS, parked)
    asked = ListOffsetsRequest(topics=[ListOffsetsTopic("a", [ListOffsetsPartition(4)])])
    pending = router.dispatch(CONNECTION, frame(2, 2, asked.encode(2)))
    pending.future.add_done_callback(lambda _: None)
    router._services.purgatory.touch("k")
    router._services.purgatory.settle(50)
    router._services.purgatory.on_deadline(100)
    [topic] = ListOffsetsResponse.decode(joined(pending.pieces())[8:], 2).topics
    assert (topic.name, topic.partitions[0].partition_index, topic.partitions[0].error_code) == ("a", 4, -1)
    assert "ZeroDivisionError: oops" in caplog.text


def test_a_defect_of_a_parked_request_without_room_for_it_closes(answering: Any) -> None:
    parked = Parked(100, expire=lambda now: 1 // 0)
    router, _ = answering(ApiKey.LIST_OFFSETS, parked)
    pending = router.dispatch(CONNECTION, frame(2, 2, ListOffsetsRequest().encode(2)))
    pending.future.add_done_callback(lambda _: None)
    router._services.purgatory.on_deadline(100)
    with pytest.raises(FrameError, match="UNKNOWN_SERVER_ERROR"):
        pending.pieces()


def test_one_that_was_answered_before_it_was_parked(answering: Any) -> None:
    parked = Parked(None)
    parked.complete(ListOffsetsResponse(throttle_time_ms=5))
    router, _ = answering(ApiKey.LIST_OFFSETS, parked)
    answer = joined(router.dispatch(CONNECTION, frame(2, 2, ListOffsetsRequest().encode(2))))
    assert answer[8:] == ListOffsetsResponse(throttle_time_ms=5).encode(2)


def test_no_answer_where_the_protocol_has_none(answering: Any) -> None:
    router, _ = answering(ApiKey.LIST_OFFSETS, None)
    assert router.dispatch(CONNECTION, frame(2, 2, ListOffsetsRequest().encode(2))) is None


def test_every_route_names_a_module_that_handles_it() -> None:
    for api_key in ROUTES:
        endpoint = router_module.Endpoint(api_key)
        lowest, highest = served_versions(api_key)
        spec = SPECS[api_key]
        # An API of a release that was imported ahead has no version that is served without emulation.
        assert spec.min_version <= lowest <= highest <= spec.max_version or (spec.stable_max_version, highest) == (
            -1,
            -1,
        )
        assert endpoint.handler.__module__.rpartition(".")[2] == ROUTES[api_key].module


def held(answering: Any, answer: Future[Any]) -> tuple[Router, PendingReply]:
    router, _ = answering(ApiKey.LIST_OFFSETS, answer)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0)])])
    pending = router.dispatch(CONNECTION, frame(2, 2, request.encode(2)))
    assert isinstance(pending, PendingReply)
    return router, pending


def code_of(pending: PendingReply) -> int:
    code: int = pending.response().topics[0].partitions[0].error_code
    return code


def test_an_answer_comes_when_all_that_it_tells_of_is_committed(answering: Any) -> None:
    first, second = Future[None](), Future[None]()
    response = ListOffsetsResponse(throttle_time_ms=3)
    _, pending = held(answering, first.then(lambda _: when_committed(response, second)))
    first.complete(None)
    assert not pending.future.done
    second.complete(None)
    assert pending.response() is response
    assert joined(pending.pieces())[8:] == response.encode(2)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApiError(ErrorCode.KAFKA_STORAGE_ERROR), ErrorCode.NOT_COORDINATOR),
        (TooLate(ErrorCode.COORDINATOR_NOT_AVAILABLE), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_an_answer_whose_records_are_lost_says_so(answering: Any, error: ApiError, code: ErrorCode) -> None:
    committed = Future[None]()
    answer = when_committed(ListOffsetsResponse(), committed)
    assert isinstance(answer, Future)
    _, pending = held(answering, answer)
    committed.fail(error)
    assert code_of(pending) == code


def test_a_wait_that_fails_is_answered_with_its_own_error(answering: Any) -> None:
    answer = Future[Any]()
    _, pending = held(answering, answer)
    answer.fail(ApiError(ErrorCode.KAFKA_STORAGE_ERROR))
    assert code_of(pending) == ErrorCode.KAFKA_STORAGE_ERROR


def test_what_goes_wrong_after_a_wait_is_answered_too(answering: Any, caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: None) -> None:
        raise ValueError("a defect")

    earlier = Future[None]()
    _, pending = held(answering, earlier.then(broken))
    earlier.complete(None)
    assert code_of(pending) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a defect while serving LIST_OFFSETS" in caplog.text


def test_nothing_more_is_done_for_a_connection_that_has_gone(answering: Any) -> None:
    earlier, asked = Future[None](), []
    router, pending = held(answering, earlier.then(lambda _: asked.append("then")))
    router._services.purgatory.cancel(pending.future)
    earlier.complete(None)
    assert asked == []


def test_a_wait_after_a_wait_ends_with_the_connection(answering: Any) -> None:
    earlier, polled, ended = Future[Any](), [], []
    further = Parked(2000, keys=["k"], poll=lambda now: polled.append(now))
    further.on_cancel = lambda: ended.append("ended")
    router, pending = held(answering, earlier)
    purgatory = router._services.purgatory
    earlier.complete(further)
    purgatory.touch("k")
    purgatory.settle(1)
    purgatory.cancel(pending.future)
    purgatory.touch("k")
    purgatory.settle(2)
    assert (polled, ended, len(purgatory), purgatory.next_deadline()) == ([1], ["ended"], 0, None)


def test_a_wait_after_a_wait_has_its_own_deadline(answering: Any) -> None:
    earlier, response = Future[Any](), ListOffsetsResponse()
    router, pending = held(answering, earlier)
    earlier.complete(Parked(2000, expire=lambda now: response))
    router._services.purgatory.on_deadline(2000)
    assert pending.response() is response
