"""Clients of a listener with SASL, over sockets: what they are told, when, and what the log says of it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.raw import Closed, RawClient, framed, request_bytes
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.produce_request import ProduceRequest
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from pykafka_broker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from pykafka_broker.protocol.runtime import uvarint
from pykafka_broker.testing import KafkaBroker
from tests.security.sasl.realms import PLAIN_LINE

ALICE, WRONG = b"\0alice\0alice-secret", b"\0alice\0wrong-secret"
DELAY_MS = 200
MEMORY = {"queued.max.request.bytes": "1000000", "socket.request.max.bytes": "1000000"}
SETTINGS = {
    "listeners": "OUTSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "OUTSIDE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.outside.plain.sasl.jaas.config": PLAIN_LINE,
    "listener.name.outside.connection.failed.authentication.delay.ms": str(DELAY_MS),
    "listener.name.outside.connections.max.reauth.ms": "60000",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(SETTINGS, log_level="debug") as broker:
        broker.create_topic("t")
        yield broker
        assert "-secret" not in broker.log_path.read_text()  # whatever the tests have sent


@pytest.fixture
def client(broker: KafkaBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        yield client


def handshake(client: RawClient, version: int = 1, mechanism: str = "PLAIN") -> Any:
    return client.call(SaslHandshakeRequest(mechanism), version)


def authenticate(client: RawClient, token: bytes = ALICE) -> Any:
    return client.call(SaslAuthenticateRequest(token), 2)


def log_in(client: RawClient) -> None:
    assert handshake(client).error_code == 0
    assert authenticate(client).error_code == 0


def test_who_has_authenticated_is_served(client: RawClient) -> None:
    assert client.call(ApiVersionsRequest("test", "1"), 3).error_code == 0
    log_in(client)
    assert client.call(MetadataRequest([]), 9).brokers


def test_requests_may_be_sent_in_one_go(client: RawClient) -> None:
    for request, version in (
        (ApiVersionsRequest("test", "1"), 3),
        (SaslHandshakeRequest("PLAIN"), 1),
        (SaslAuthenticateRequest(ALICE), 2),
        (MetadataRequest([]), 9),
    ):
        client.send(request, version)
    assert [client.receive().error_code for _ in range(3)] == [0, 0, 0]
    assert client.receive().brokers


def test_a_wrong_password_is_told_after_the_delay_and_ends_the_connection(
    broker: KafkaBroker, client: RawClient
) -> None:
    size = broker.log_size
    handshake(client)
    began = time.monotonic()
    client.send(SaslAuthenticateRequest(WRONG), 2)
    client.send(SaslAuthenticateRequest(ALICE), 2)  # is not even read
    answer = client.receive()
    assert time.monotonic() - began >= DELAY_MS / 1000
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_closed_by_broker()
    log = broker.log_since(size)
    assert "Failed authentication with /127.0.0.1 (channelId=" in log
    assert "(Authentication failed: Invalid username or password)" in log


def sliced(token: bytes) -> bytes:
    """A request with so many tagged fields in its header that it is read in slices."""
    header = RequestHeader(SaslAuthenticateRequest.API_KEY, 2, 7, "raw").encode(2)[:-1]
    tagged = uvarint(5000) + b"".join(uvarint(tag) + b"\0" for tag in range(5000))
    return framed(header + tagged + SaslAuthenticateRequest(token).encode(2))


def test_a_wrong_password_in_a_request_that_is_read_in_slices_is_told_as_late(
    broker: KafkaBroker, client: RawClient
) -> None:
    size = broker.log_size
    handshake(client)
    request = sliced(WRONG)
    began = time.monotonic()
    client.send_bytes(request)
    assert b"Invalid username" in client.receive_frame()
    assert time.monotonic() - began >= DELAY_MS / 1000
    assert client.is_closed_by_broker()
    assert "Failed authentication with /127.0.0.1 (channelId=" in broker.log_since(size)


def test_a_fault_may_take_such_a_refusal_away(broker: KafkaBroker, client: RawClient) -> None:
    size = broker.log_size
    fault = broker.faults.add(api="SaslAuthenticate", drop="after")
    try:
        handshake(client)
        client.send_bytes(sliced(WRONG))
        assert client.is_closed_by_broker()
    finally:
        fault.remove()
    assert "ERROR" not in broker.log_since(size)


def test_a_refusal_that_is_kept_back_holds_nobody_else_up(broker: KafkaBroker, client: RawClient) -> None:
    broker.clock.freeze()
    try:
        handshake(client)
        client.send(SaslAuthenticateRequest(WRONG), 2)
        with RawClient(broker.bootstrap_servers) as other:
            log_in(other)
        broker.clock.advance(milliseconds=DELAY_MS)
        assert client.receive().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    finally:
        broker.clock.resume()


def test_the_delay_goes_by_the_clock_of_the_broker(broker: KafkaBroker, client: RawClient) -> None:
    broker.clock.freeze()
    try:
        handshake(client)
        client.send(SaslAuthenticateRequest(WRONG), 2)
        client.socket.settimeout(2 * DELAY_MS / 1000)
        with pytest.raises(TimeoutError):
            client.receive_frame()
        client.socket.settimeout(10)
        broker.clock.advance(milliseconds=DELAY_MS)
        assert b"Invalid username" in client.receive_frame()
        assert client.is_closed_by_broker()
    finally:
        broker.clock.resume()


def test_a_mechanism_that_there_is_not_is_told_after_the_delay(client: RawClient) -> None:
    began = time.monotonic()
    answer = handshake(client, mechanism="FOO")
    assert time.monotonic() - began >= DELAY_MS / 1000
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])
    assert client.is_closed_by_broker()


def test_a_request_among_tokens_is_told_in_its_own_answer(client: RawClient) -> None:
    handshake(client)
    assert client.call(MetadataRequest([]), 9).brokers == []  # this answer has no place for an error
    assert client.is_closed_by_broker()


def test_a_request_that_has_a_place_for_the_error_has_it_there(client: RawClient) -> None:
    handshake(client)
    assert client.call(ApiVersionsRequest("test", "1"), 3).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.is_closed_by_broker()


@pytest.mark.parametrize(
    "request_", [MetadataRequest([]), ProduceRequest(None, 1, 1000, []), SaslAuthenticateRequest()]
)
def test_what_comes_before_has_no_answer(broker: KafkaBroker, client: RawClient, request_: Any) -> None:
    size = broker.log_size
    client.send(request_)
    with pytest.raises(Closed):
        client.receive()
    assert f"({type(request_).__name__.removesuffix('Request')} before the client has" in broker.log_since(size)


def test_tokens_may_come_bare(client: RawClient) -> None:
    assert handshake(client, 0).error_code == 0
    client.send_bytes(framed(ALICE))
    assert client.receive_frame() == b""
    assert client.call(MetadataRequest([]), 9).brokers


def test_a_bare_token_that_is_wrong_ends_the_connection_after_the_delay(client: RawClient) -> None:
    handshake(client, 0)
    began = time.monotonic()
    client.send_bytes(framed(WRONG))
    with pytest.raises(Closed):
        client.receive_frame()
    assert time.monotonic() - began >= DELAY_MS / 1000


def test_a_frame_that_is_too_large_ends_the_connection_with_its_length(broker: KafkaBroker, client: RawClient) -> None:
    size = broker.log_size
    client.send_bytes((524_289).to_bytes(4, "big"))
    assert client.is_closed_by_broker()
    assert "frame length 524289 is not within 0 to 524288" in broker.log_since(size)


def test_one_that_is_just_not_too_large_is_waited_for(client: RawClient) -> None:
    handshake(client)
    answer = authenticate(client, b"x" * 524_200)
    assert "expected 3 tokens, got 1" in answer.error_message


def test_who_has_not_authenticated_holds_no_memory_that_others_wait_for() -> None:
    with (
        KafkaBroker({**SETTINGS, **MEMORY}) as broker,
        RawClient(broker.bootstrap_servers) as client,
        contextlib.ExitStack() as strangers,
    ):
        log_in(client)
        for _ in range(4):
            strangers.enter_context(RawClient(broker.bootstrap_servers)).send_bytes((500_000).to_bytes(4, "big") + b"x")
        request = framed(request_bytes(MetadataRequest([MetadataRequestTopic(name="t" * 300)]), 9))
        time.sleep(0.1)
        client.send_bytes(request[:100])
        time.sleep(0.1)  # so that it comes in parts
        client.send_bytes(request[100:])
        assert b"t" * 300 in client.receive_frame()


def test_after_the_login_requests_may_be_larger(client: RawClient) -> None:
    log_in(client)
    client.send_bytes((600_000).to_bytes(4, "big"))
    assert not client.is_closed_by_broker(0.3)


@pytest.mark.parametrize("noise", [b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\1\0", bytes(4)])
def test_noise_ends_the_connection_and_is_one_line_in_the_log(
    broker: KafkaBroker, client: RawClient, noise: bytes
) -> None:
    size = broker.log_size
    client.send_bytes(noise)
    assert client.is_closed_by_broker()
    log = broker.log_since(size)
    assert log.count("Failed authentication with /127.0.0.1") == 1
    assert "Traceback" not in log


def test_a_session_that_is_over_ends_with_the_next_request(broker: KafkaBroker, client: RawClient) -> None:
    log_in(client)
    broker.clock.advance(seconds=59)
    assert client.call(MetadataRequest([]), 9).brokers
    broker.clock.advance(seconds=2)
    client.send(MetadataRequest([]), 9)
    with pytest.raises(Closed):
        client.receive()


def test_who_authenticates_anew_goes_on(broker: KafkaBroker, client: RawClient) -> None:
    log_in(client)
    for _ in range(3):
        broker.clock.advance(seconds=70)
        log_in(client)
        assert client.call(MetadataRequest([]), 9).brokers


def test_a_fetch_that_waits_is_answered_before_a_re_authentication(broker: KafkaBroker, client: RawClient) -> None:
    log_in(client)
    topic = FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1000)])
    client.send(FetchRequest(max_wait_ms=300, min_bytes=1, topics=[topic]), 11)
    client.send(SaslHandshakeRequest("PLAIN"), 1)
    assert client.receive().responses[0].partitions[0].error_code == 0
    assert client.receive().error_code == 0
    assert authenticate(client).error_code == 0


def test_a_re_authentication_that_fails_is_called_so(broker: KafkaBroker, client: RawClient) -> None:
    size = broker.log_size
    log_in(client)
    handshake(client)
    assert authenticate(client, WRONG).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_closed_by_broker()
    assert "Failed re-authentication with /127.0.0.1" in broker.log_since(size)


def test_a_client_that_goes_away_while_it_is_refused_is_forgotten(broker: KafkaBroker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        handshake(client)
        client.send(SaslAuthenticateRequest(WRONG), 2)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    broker.wait_for_connections(n=0)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"listener.name.outside.plain.sasl.jaas.config": 'Module required user_alice="hidden-secret"'}, "semi-colon"),
        ({"sasl.enabled.mechanisms": "PLAIN,FOO"}, "FOO"),
        ({"listener.name.outside.plain.sasl.server.callback.handler.class": "com.example.Handler"}, "com.example"),
    ],
)
def test_a_mechanism_that_can_not_be_used_ends_the_start(tmp_path: Path, wrong: dict[str, str], told: str) -> None:
    file = tmp_path / "server.properties"
    settings = {**SETTINGS, **wrong, "log.dirs": str(tmp_path / "data")}
    file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    command = [sys.executable, "-m", "pykafka_broker", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "listener OUTSIDE" in ended.stderr
    assert told in ended.stderr
    assert "hidden-secret" not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_no_password_is_in_the_log(broker: KafkaBroker, client: RawClient) -> None:
    handshake(client)
    assert authenticate(client, WRONG).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    log = broker.log_path.read_text()
    assert "Failed authentication" in log
    assert "-secret" not in log
