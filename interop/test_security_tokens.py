"""Delegation tokens: Kafka's own tool and admin client, logins with tokens, and a data directory that changes hands."""

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.java_transactions import JavaClients
from interop.raw import Closed, RawClient
from interop.secured import NotAuthenticated, Secured, plain, scram, secured
from interop.waiting import eventually
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from pykafka_broker.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from pykafka_broker.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from pykafka_broker.testing import KafkaBroker

SECRET_KEY = "the-secret-key-of-tokens"
MODULES = "org.apache.kafka.common.security"
PLAIN_LINE = f'{MODULES}.plain.PlainLoginModule required user_alice="alice-secret" user_bob="bob-secret";'
SCRAM_LINE = f"{MODULES}.scram.ScramLoginModule required;"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": PLAIN_LINE,
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": SCRAM_LINE,
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": SCRAM_LINE,
    "delegation.token.secret.key": SECRET_KEY,
}
SASL = {"SASL": "SASL_PLAINTEXT"}
TOKEN_AUTH = ",tokenauth=true"
DAY = 86_400_000
STRING = "org.apache.kafka.common.serialization.String"


@pytest.fixture(scope="module")
def broker(target_name: str) -> Iterator[Secured]:
    with secured(target_name, SASL, SETTINGS) as broker:
        yield broker


@pytest.fixture
def alice(broker: Secured) -> Iterator[RawClient]:
    with plain(broker.connect("SASL"), "alice", "alice-secret") as client:
        yield client


@pytest.fixture
def bob(broker: Secured) -> Iterator[RawClient]:
    with plain(broker.connect("SASL"), "bob", "bob-secret") as client:
        yield client


def described(client: RawClient, owner: str) -> dict[str, Any]:
    """Return the tokens of an owner, by id."""
    answer = client.call(DescribeDelegationTokenRequest([DescribeDelegationTokenOwner("User", owner)]))
    assert answer.error_code == 0
    return {token.token_id: token for token in answer.tokens}


def create(client: RawClient, *renewers: str, lifetime_ms: int = -1) -> Any:
    """Create a token and wait until the broker knows it: Kafka's controller answers first."""
    wanted = [CreatableRenewers("User", renewer) for renewer in renewers]
    made = client.call(CreateDelegationTokenRequest(renewers=wanted, max_lifetime_ms=lifetime_ms))
    assert made.error_code == 0
    eventually(lambda: made.token_id in described(client, made.principal_name), True)
    return made


def password_of(token: Any) -> str:
    return base64.b64encode(token.hmac).decode()


def client_settings(broker: Secured, path: Path) -> Path:
    """Write the properties of a tool that logs in as alice; return their file."""
    line = f'{MODULES}.plain.PlainLoginModule required username="alice" password="alice-secret";'
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={line}\n")
    return path


@pytest.mark.java
def test_the_tool_creates_describes_renews_and_expires(broker: Secured, java: JavaClients, tmp_path: Path) -> None:
    settings = client_settings(broker, tmp_path / "client.properties")

    def tool(*arguments: str) -> str:
        common = ("--bootstrap-server", broker.address("SASL"), "--command-config", str(settings))
        outcome = java.run("kafka-delegation-tokens", *common, *arguments)
        assert outcome.status == 0, outcome.err
        return outcome.out

    made = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    row = next(line for line in made.splitlines() if "User:alice" in line).split()
    token_id, proof = row[0], row[1]
    eventually(lambda: token_id in tool("--describe", "--owner-principal", "User:alice"), True)
    assert "User:bob" in tool("--describe", "--owner-principal", "User:alice")
    assert token_id not in tool("--describe")  # Kafka's tool asks for the tokens of nobody
    assert "expiry date" in tool("--renew", "--renew-time-period", "-1", "--hmac", proof)
    assert "expiry date" in tool("--expire", "--expiry-time-period", "-1", "--hmac", proof)
    eventually(lambda: token_id not in tool("--describe", "--owner-principal", "User:alice"), True)


@pytest.mark.java
def test_a_java_client_works_with_a_token_that_its_admin_client_has_made(broker: Secured, java: JavaClients) -> None:
    jvm = java.jvm
    line = f'{MODULES}.plain.PlainLoginModule required username="alice" password="alice-secret";'
    common = {"bootstrap.servers": broker.address("SASL"), "security.protocol": "SASL_PLAINTEXT"}
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(
        java.properties(**common, **{"sasl.mechanism": "PLAIN", "sasl.jaas.config": line})
    )
    try:
        token = admin.createDelegationToken().delegationToken().get()
        token_id, proof = token.tokenInfo().tokenId(), token.hmacAsBase64String()
        options = jvm.org.apache.kafka.clients.admin.DescribeDelegationTokenOptions()

        def is_known() -> bool:
            found = admin.describeDelegationToken(options).delegationTokens().get()
            return token_id in [each.tokenInfo().tokenId() for each in found]

        eventually(is_known, True)
    finally:
        admin.close()
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        login = f'{MODULES}.scram.ScramLoginModule required username="{token_id}" password="{proof}" tokenauth="true";'
        known = {**common, "sasl.mechanism": mechanism, "sasl.jaas.config": login}
        topic = f"by-token-{mechanism.lower()}"
        producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(
            java.properties(**known, **{f"{side}.serializer": STRING + "Serializer" for side in ("key", "value")})
        )
        record = jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, "by token")
        assert producer.send(record).get().offset() == 0
        producer.close()
        reader = jvm.org.apache.kafka.clients.admin.Admin.create(java.properties(**known))
        assert topic in [str(name) for name in reader.listTopics().names().get()]
        with pytest.raises(Exception, match="Delegation Token requests are not allowed"):
            reader.createDelegationToken().delegationToken().get()
        reader.close()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_who_logs_in_with_a_token_is_its_owner(broker: Secured, alice: RawClient, mechanism: str) -> None:
    token = create(alice)
    with broker.connect("SASL") as client:
        lifetime_ms = scram(client, token.token_id, password_of(token), mechanism, TOKEN_AUTH)
        assert DAY - 60_000 < lifetime_ms <= DAY
        who = client.call(CreateDelegationTokenRequest())
        assert who.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert (who.principal_type, who.principal_name) == ("User", "alice")
        assert client.call(MetadataRequest([])).brokers


@pytest.mark.parametrize("extensions", ["", ",tokenauth=false", ",tokenauth=yes"])
def test_without_tokenauth_an_id_is_an_unknown_user(broker: Secured, alice: RawClient, extensions: str) -> None:
    token = create(alice)
    with broker.connect("SASL") as client, pytest.raises(NotAuthenticated, match="invalid credentials"):
        scram(client, token.token_id, password_of(token), extensions=extensions)


def test_a_wrong_password_and_a_token_that_there_is_not_are_refused(broker: Secured, alice: RawClient) -> None:
    token = create(alice)
    for name, password in ((token.token_id, "wrong"), ("nothing", password_of(token))):
        with broker.connect("SASL") as client, pytest.raises(NotAuthenticated, match="invalid credentials"):
            scram(client, name, password, extensions=TOKEN_AUTH)


def test_a_removed_token_does_not_log_in_and_ends_nobody(broker: Secured, alice: RawClient) -> None:
    token = create(alice)
    with broker.connect("SASL") as early:
        scram(early, token.token_id, password_of(token), extensions=TOKEN_AUTH)
        assert alice.call(ExpireDelegationTokenRequest(token.hmac, -1)).error_code == 0
        eventually(lambda: token.token_id not in described(alice, "alice"), True)
        with broker.connect("SASL") as late, pytest.raises(NotAuthenticated):
            scram(late, token.token_id, password_of(token), extensions=TOKEN_AUTH)
        assert early.call(MetadataRequest([])).brokers


def test_a_session_ends_with_the_token(broker: Secured, alice: RawClient) -> None:
    token = create(alice, lifetime_ms=8000)
    with broker.connect("SASL") as client:
        lifetime_ms = scram(client, token.token_id, password_of(token), extensions=TOKEN_AUTH)
        assert 0 < lifetime_ms <= 8000
        assert client.call(MetadataRequest([])).brokers
        time.sleep(lifetime_ms / 1000 + 0.1)
        with pytest.raises((Closed, ConnectionError)):
            client.call(MetadataRequest([]))


def test_owner_and_renewer_renew_and_nobody_else(broker: Secured, alice: RawClient, bob: RawClient) -> None:
    shared, own = create(alice, "bob"), create(alice)
    renewed = bob.call(RenewDelegationTokenRequest(shared.hmac, 1000))
    assert renewed.error_code == 0
    assert abs(renewed.expiry_timestamp_ms - time.time() * 1000) < 10_000
    assert bob.call(RenewDelegationTokenRequest(own.hmac, -1)).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert bob.call(ExpireDelegationTokenRequest(own.hmac, -1)).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_an_expired_token_is_told_as_such(broker: Secured, alice: RawClient) -> None:
    token = create(alice)
    assert alice.call(ExpireDelegationTokenRequest(token.hmac, 0)).error_code == 0
    eventually(lambda: described(alice, "alice")[token.token_id].expiry_timestamp < token.expiry_timestamp_ms, True)
    time.sleep(0.01)
    for request in (RenewDelegationTokenRequest(token.hmac, -1), ExpireDelegationTokenRequest(token.hmac, 1000)):
        assert alice.call(request).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert alice.call(ExpireDelegationTokenRequest(token.hmac, -1)).error_code == 0


def test_nobody_asks_on_a_plain_listener(broker: Secured) -> None:
    with broker.connect("PLAINTEXT") as client:
        for request in (
            CreateDelegationTokenRequest(),
            DescribeDelegationTokenRequest(None),
            RenewDelegationTokenRequest(b"x"),
            ExpireDelegationTokenRequest(b"x"),
        ):
            assert client.call(request).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_expired_tokens_are_swept(target_name: str) -> None:
    often = {**SETTINGS, "delegation.token.expiry.check.interval.ms": "500"}
    with secured(target_name, SASL, often) as broker, plain(broker.connect("SASL"), "alice", "alice-secret") as alice:
        token, kept = create(alice, lifetime_ms=2000), create(alice)
        eventually(lambda: token.token_id not in described(alice, "alice"), True)
        assert kept.token_id in described(alice, "alice")
        answer = alice.call(RenewDelegationTokenRequest(token.hmac, -1))
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.ours_only
def test_time_that_is_moved_ends_sessions_and_tokens() -> None:
    with secured("pykafka", SASL, SETTINGS) as broker:
        assert isinstance(broker.target, KafkaBroker)
        with plain(broker.connect("SASL"), "alice", "alice-secret") as alice, broker.connect("SASL") as client:
            token = create(alice)
            scram(client, token.token_id, password_of(token), extensions=TOKEN_AUTH)
            broker.target.clock.advance(hours=23, minutes=59)
        with plain(broker.connect("SASL"), "alice", "alice-secret") as alice, broker.connect("SASL") as client:
            assert scram(client, token.token_id, password_of(token), extensions=TOKEN_AUTH) <= 60_000
            assert token.token_id in described(alice, "alice")
            broker.target.clock.advance(minutes=1, seconds=1)
            with pytest.raises((Closed, ConnectionError)):
                client.call(MetadataRequest([]))
        with broker.connect("SASL") as client, pytest.raises(NotAuthenticated):
            scram(client, token.token_id, password_of(token), extensions=TOKEN_AUTH)
        broker.target.clock.advance(hours=1)
        with plain(broker.connect("SASL"), "alice", "alice-secret") as alice:
            assert not described(alice, "alice")


@pytest.mark.ours_only
def test_a_reset_takes_the_tokens_with_it() -> None:
    with secured("pykafka", SASL, SETTINGS) as broker:
        assert isinstance(broker.target, KafkaBroker)
        with plain(broker.connect("SASL"), "alice", "alice-secret") as alice:
            token = create(alice)
            broker.target.reset()
            assert not described(alice, "alice")
            with broker.connect("SASL") as client, pytest.raises(NotAuthenticated):
                scram(client, token.token_id, password_of(token), extensions=TOKEN_AUTH)
            create(alice)


def test_a_session_goes_on_with_a_renewed_token(broker: Secured, alice: RawClient) -> None:
    """A session goes on with a renewed token: the client logs in anew on its connection (KIP-368)."""
    token = create(alice, lifetime_ms=60_000)
    alice.call(ExpireDelegationTokenRequest(token.hmac, 10_000))
    with broker.connect("SASL") as client:
        eventually(lambda: described(alice, "alice")[token.token_id].expiry_timestamp < token.expiry_timestamp_ms, True)
        first = scram(client, token.token_id, password_of(token), extensions=TOKEN_AUTH)
        alice.call(RenewDelegationTokenRequest(token.hmac, -1))
        renewed = token.expiry_timestamp_ms - 4000
        eventually(lambda: described(alice, "alice")[token.token_id].expiry_timestamp > renewed, True)
        second = scram(client, token.token_id, password_of(token), extensions=TOKEN_AUTH)
        assert first <= 10_000 < second
        time.sleep(max(0, first / 1000) + 0.2)
        answer = client.call(CreateDelegationTokenRequest())
        assert (answer.error_code, answer.principal_name) == (
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            "alice",
        )


@pytest.mark.ours_only
def test_nothing_secret_is_in_the_log(target_name: str) -> None:
    with secured(target_name, SASL, SETTINGS) as broker:
        with plain(broker.connect("SASL"), "alice", "alice-secret") as alice:
            token = create(alice, "bob")
            with broker.connect("SASL") as client:
                scram(client, token.token_id, password_of(token), extensions=TOKEN_AUTH)
            with broker.connect("SASL") as client, pytest.raises(NotAuthenticated):
                scram(client, token.token_id, "wrong-password", extensions=TOKEN_AUTH)
            alice.call(RenewDelegationTokenRequest(token.hmac, -1))
            alice.call(ExpireDelegationTokenRequest(token.hmac, -1))
        log = broker.target.log_path.read_text()
    assert "Failed authentication" in log
    for secret in (SECRET_KEY, password_of(token), token.hmac.hex(), "alice-secret", "wrong-password"):
        assert secret not in log


@pytest.mark.java
@pytest.mark.ours_only
@pytest.mark.parametrize("first", ["pykafka", "kafka"])
def test_tokens_change_hands_with_the_data_directory(first: str, tmp_path: Path) -> None:
    """Tokens that one broker made work at the next broker of the data directory: logins, renewal and removal."""
    second = {"pykafka": "kafka", "kafka": "pykafka"}[first]
    with (
        secured(first, SASL, SETTINGS, directory=tmp_path) as broker,
        plain(broker.connect("SASL"), "alice", "alice-secret") as alice,
    ):
        token, gone, renewed = create(alice, "bob"), create(alice), create(alice)
        alice.call(ExpireDelegationTokenRequest(gone.hmac, -1))
        alice.call(RenewDelegationTokenRequest(renewed.hmac, 3_600_000))
        before = described(alice, "alice")
        eventually(lambda: gone.token_id not in described(alice, "alice"), True)
    with (
        secured(second, SASL, SETTINGS, directory=tmp_path) as broker,
        plain(broker.connect("SASL"), "alice", "alice-secret") as alice,
        broker.connect("SASL") as client,
    ):
        found = described(alice, "alice")
        assert found.keys() == {token.token_id, renewed.token_id}
        assert str(found[token.token_id]) == str(before[token.token_id])
        assert found[renewed.token_id].expiry_timestamp < found[token.token_id].expiry_timestamp
        assert scram(client, token.token_id, password_of(token), extensions=TOKEN_AUTH) > 0
        assert alice.call(RenewDelegationTokenRequest(token.hmac, -1)).error_code == 0
        assert alice.call(ExpireDelegationTokenRequest(token.hmac, -1)).error_code == 0
        eventually(lambda: described(alice, "alice").keys() == {renewed.token_id}, True)
    with (
        secured(first, SASL, SETTINGS, directory=tmp_path) as broker,
        plain(broker.connect("SASL"), "alice", "alice-secret") as alice,
    ):
        assert described(alice, "alice").keys() == {renewed.token_id}
