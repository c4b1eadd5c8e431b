"""The control API with clients that log in: what it shows of them, and how it disturbs them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from interop.raw import Closed, RawClient, framed
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from pykafka_broker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from pykafka_broker.testing import KafkaBroker
from tests.security.sasl.realms import PLAIN_LINE

ALICE, WRONG = b"\0alice\0alice-secret", b"\0alice\0wrong-secret"
LINE = "listener.name.outside.plain.sasl.jaas.config"
SETTINGS = {
    "listeners": "OUTSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "OUTSIDE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    LINE: PLAIN_LINE,
}


@pytest.fixture(scope="module")
def shared() -> Iterator[KafkaBroker]:
    with KafkaBroker(SETTINGS, log_level="debug") as broker:
        yield broker
        assert "-secret" not in broker.log_path.read_text()  # whatever the tests have sent


@pytest.fixture
def broker(shared: KafkaBroker) -> Iterator[KafkaBroker]:
    shared.clear_requests()
    yield shared
    shared.faults.clear()


@pytest.fixture
def client(broker: KafkaBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        yield client


def log_in(client: RawClient, token: bytes = ALICE) -> int:
    assert client.call(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
    return int(client.call(SaslAuthenticateRequest(token), 2).error_code)


def test_the_steps_of_a_login_are_among_the_requests_and_its_tokens_are_not(
    broker: KafkaBroker, client: RawClient
) -> None:
    log_in(client)
    assert [seen["api"] for seen in broker.requests(bodies=True)] == ["SaslHandshake", "SaslAuthenticate"]
    [seen] = broker.requests("SaslAuthenticate", bodies=True)
    assert seen["request"]["auth_bytes"] == "[hidden]"
    assert "alice-secret" not in json.dumps(broker.requests(bodies=True))


def test_a_refusal_is_among_them_with_its_error(broker: KafkaBroker, client: RawClient) -> None:
    assert log_in(client, WRONG) == ErrorCode.SASL_AUTHENTICATION_FAILED
    [seen] = broker.requests(error="SASL_AUTHENTICATION_FAILED")
    assert seen["api"] == "SaslAuthenticate"


def test_passwords_that_are_set_are_not_shown(broker: KafkaBroker, client: RawClient) -> None:
    log_in(client)
    salted = ScramCredentialUpsertion("carol", 1, 4096, b"salt", b"salted-secret")
    client.call(AlterUserScramCredentialsRequest(upsertions=[salted]), 0)
    configs = [AlterableConfig(LINE, 0, PLAIN_LINE), AlterableConfig("log.cleaner.threads", 0, "1")]
    client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", configs)]), 1)
    shown = json.dumps(broker.requests(bodies=True))
    assert "carol" in shown
    assert "log.cleaner.threads" in shown
    assert "-secret" not in shown


def test_accounts_that_are_changed_count_at_once(broker: KafkaBroker, client: RawClient) -> None:
    log_in(client)
    added = [AlterableConfig(LINE, 0, PLAIN_LINE.replace("user_bob", "user_carol"))]
    answer = client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", added)]), 1)
    assert answer.responses[0].error_code == 0
    with RawClient(broker.bootstrap_servers) as carol:
        assert log_in(carol, b"\0carol\0bob-secret") == 0
    removed = [AlterableConfig(LINE, 1, None)]
    client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", removed)]), 1)
    with RawClient(broker.bootstrap_servers) as carol:
        assert log_in(carol, b"\0carol\0bob-secret") == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_clients_are_listed_before_they_have_logged_in(broker: KafkaBroker, client: RawClient) -> None:
    assert any(each["listener"] == "OUTSIDE" for each in broker.connections())


def test_a_fault_meets_clients_that_have_logged_in(broker: KafkaBroker, client: RawClient) -> None:
    log_in(client)
    broker.faults.add(api="Metadata", drop="before")
    client.send(MetadataRequest([]), 9)
    with pytest.raises(Closed):
        client.receive()


@pytest.mark.parametrize("token", [ALICE, WRONG])
def test_a_login_may_be_held_up(broker: KafkaBroker, client: RawClient, token: bytes) -> None:
    broker.faults.add(api="SaslAuthenticate", delay_ms=300)
    began = time.monotonic()
    error = log_in(client, token)
    assert time.monotonic() - began >= 0.3
    if token == ALICE:
        assert client.call(MetadataRequest([]), 9).brokers
    else:
        assert error == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed_by_broker()


def test_a_login_may_be_refused_for_once(broker: KafkaBroker, client: RawClient) -> None:
    broker.faults.add(api="SaslAuthenticate", error="SASL_AUTHENTICATION_FAILED", times=1)
    assert log_in(client) == ErrorCode.SASL_AUTHENTICATION_FAILED
    with RawClient(broker.bootstrap_servers) as again:
        assert log_in(again) == 0


def test_bare_tokens_are_taken_while_faults_are_there(broker: KafkaBroker, client: RawClient) -> None:
    broker.faults.add(api="Produce", drop="before")
    client.call(SaslHandshakeRequest("PLAIN"), 0)
    client.send_bytes(framed(ALICE))
    assert client.receive_frame() == b""
    assert client.call(MetadataRequest([]), 9).brokers


def test_a_login_waits_for_a_broker_that_pauses(broker: KafkaBroker, client: RawClient) -> None:
    broker.pause()
    client.send(SaslHandshakeRequest("PLAIN"), 1)
    client.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.receive_frame()
    broker.unpause()
    client.socket.settimeout(10)
    assert client.receive().error_code == 0
    assert client.call(SaslAuthenticateRequest(ALICE), 2).error_code == 0


def test_clients_stay_logged_in_through_a_reset(broker: KafkaBroker, client: RawClient) -> None:
    log_in(client)
    with RawClient(broker.bootstrap_servers) as half:
        half.call(SaslHandshakeRequest("PLAIN"), 1)
        broker.reset()
        assert half.call(SaslAuthenticateRequest(ALICE), 2).error_code == 0
    assert client.call(MetadataRequest([]), 9).brokers


def test_no_password_that_was_sent_or_set_is_in_the_log(broker: KafkaBroker, client: RawClient) -> None:
    log_in(client)
    bad = [AlterableConfig(LINE, 0, "Module required user_alice=bad-secret")]
    client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", bad)]), 1)
    with RawClient(broker.bootstrap_servers) as alice:  # it keeps the accounts that it had
        assert log_in(alice) == 0
    log = broker.log_path.read_text()
    assert "OUTSIDE keeps the settings that it had" in log
    assert "-secret" not in log
