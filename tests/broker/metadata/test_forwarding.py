"""A client's request in an Envelope, and the controller's answer out of one."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.broker.metadata.metadata_follower import forward, sealed
from pykafka_broker.broker.requests.context import ConnectionContext, RequestContext
from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.errors import ApiError
from pykafka_broker.peers import LinkError, LinkTimeout, NotServed, OnReply, Unsendable
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from pykafka_broker.protocol.messages.default_principal_data import DefaultPrincipalData
from pykafka_broker.protocol.messages.envelope_response import EnvelopeResponse
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.messages.response_header import ResponseHeader
from pykafka_broker.protocol.runtime import Message

REQUEST = CreateTopicsRequest([CreatableTopic("t", 1, 1)], timeout_ms=1234)


def context(version: int = 7, host: str = "127.0.0.1") -> RequestContext:
    connection = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), (host, 5000), "User:alice")
    return RequestContext(ApiKey.CREATE_TOPICS, version, 42, "me", connection, 0)


class Controller:
    def __init__(self) -> None:
        self.asked: list[tuple[Any, OnReply, int]] = []

    def ask(self, request: Message, on_reply: OnReply, timeout_ms: int) -> None:
        self.asked.append((request, on_reply, timeout_ms))

    def answer(self, reply: Message | LinkError) -> None:
        self.asked.pop()[1](reply)


def answered(future: Future[Any]) -> Any:
    assert future.done
    return future.result()


@pytest.mark.parametrize("version", [4, 7])
def test_the_request_goes_as_it_came(version: int) -> None:
    envelope = sealed(context(version), REQUEST)
    header, body = RequestHeader.read(envelope.request_data, 0, 2 if version >= 5 else 1)
    assert (header.request_api_key, header.request_api_version) == (ApiKey.CREATE_TOPICS, version)
    assert (header.correlation_id, header.client_id) == (42, "me")
    assert CreateTopicsRequest.decode(envelope.request_data[body:], version).topics[0].name == "t"


def test_the_controller_is_told_who_asks() -> None:
    envelope = sealed(context(), REQUEST)
    assert envelope.request_principal is not None
    principal = DefaultPrincipalData.decode(envelope.request_principal[2:], 0)
    assert (envelope.request_principal[:2], principal.type, principal.name) == (b"\0\0", "User", "alice")
    assert (envelope.client_host_address, principal.token_authenticated) == (b"\x7f\0\0\1", False)
    assert len(sealed(context(host="0:0:0:0:0:0:0:1"), REQUEST).client_host_address) == 16


def test_the_answer_is_the_controllers() -> None:
    controller = Controller()
    reply = forward(controller.ask, context(), REQUEST)
    assert controller.asked[0][2] == 1234
    assert not reply.done
    answer = CreateTopicsResponse(topics=[CreatableTopicResult("t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)])
    controller.answer(EnvelopeResponse(ResponseHeader(42).encode(1) + answer.encode(7)))
    assert answered(reply).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (LinkTimeout("too late", sent=True), ErrorCode.REQUEST_TIMED_OUT),
        (NotServed("no"), ErrorCode.UNSUPPORTED_VERSION),
        (Unsendable("no"), ErrorCode.UNSUPPORTED_VERSION),
        (EnvelopeResponse(None, ErrorCode.UNSUPPORTED_VERSION), ErrorCode.UNSUPPORTED_VERSION),
        (EnvelopeResponse(None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(b"\0\0"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_without_an_answer_the_client_is_told_why(reply: Any, code: ErrorCode) -> None:
    controller = Controller()
    waiting = forward(controller.ask, context(), REQUEST)
    controller.answer(reply)
    with pytest.raises(ApiError) as raised:
        answered(waiting)
    assert raised.value.code is code
