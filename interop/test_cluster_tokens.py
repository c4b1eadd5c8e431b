"""Delegation tokens in a cluster: made at one broker, used and removed at others, kept by the controller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from interop.kafka_cluster import OURS, THEIRS, KafkaCluster
from interop.raw import RawClient
from interop.secured import NotAuthenticated, plain, scram
from interop.test_security_tokens import TOKEN_AUTH, create, described, password_of
from interop.waiting import eventually
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from pykafka_broker.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest

pytestmark = pytest.mark.ours_only
PATIENCE_S = 30.0
ALL = (1, 2, 3)
MODULES = "org.apache.kafka.common.security"
SETTINGS = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{MODULES}.plain.PlainLoginModule required username="node" password="node-secret" '
        'user_node="node-secret" user_alice="alice-secret" user_bob="bob-secret";'
    ),
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
    "delegation.token.secret.key": "the-secret-key-of-tokens",
    "delegation.token.expiry.check.interval.ms": "200",
}
SLOW = [pytest.mark.java, pytest.mark.skipif("not config.getoption('--slow', default=False)")]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((OURS, [OURS, OURS, OURS]), id="ours"),
        pytest.param((THEIRS, [OURS, THEIRS, OURS]), id="their controller", marks=SLOW),
        pytest.param((OURS, [OURS, THEIRS, OURS]), id="our controller", marks=SLOW),
    ],
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    controller, brokers = request.param
    directory = tmp_path_factory.mktemp("tokens") / "nodes"
    with KafkaCluster(directory, controllers=[controller], brokers=brokers, config=SETTINGS) as running:
        yield running


def at(cluster: KafkaCluster, node: int, user: str = "alice") -> RawClient:
    """Return a client of that broker, logged in as the user."""
    return plain(RawClient(cluster.broker(node).address), user, f"{user}-secret")


def logs_in(cluster: KafkaCluster, node: int, token: Any, password: str | None = None) -> bool:
    """Return whether the broker lets in a client with the token, as the token's owner alice."""
    with RawClient(cluster.broker(node).address) as client:
        try:
            scram(client, token.token_id, password or password_of(token), extensions=TOKEN_AUTH)
        except NotAuthenticated:
            return False
        who = client.call(CreateDelegationTokenRequest())
        assert who.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert who.principal_name == "alice"
        return bool(client.call(MetadataRequest([])).brokers)


def lets_in(cluster: KafkaCluster, node: int, token: Any, expected: bool) -> None:
    """Wait until the broker accepts the token, or until it refuses the token, as expected."""
    eventually(lambda: logs_in(cluster, node, token), expected, PATIENCE_S)


def test_a_token_of_one_broker_is_known_to_all(cluster: KafkaCluster) -> None:
    for maker in ALL:
        with closing(at(cluster, maker)) as alice:
            token = create(alice)
        for node in ALL:
            lets_in(cluster, node, token, True)
    assert not logs_in(cluster, 1, token, "wrong")


def test_it_is_renewed_and_removed_anywhere(cluster: KafkaCluster) -> None:
    with closing(at(cluster, 1)) as first, closing(at(cluster, 2, "bob")) as bob, closing(at(cluster, 3)) as last:
        token = create(first, "bob")
        eventually(lambda: token.token_id in described(last, "alice"), True, PATIENCE_S)
        told = []

        def renewed() -> int:  # Kafka's controller may hear of a token after its brokers
            answer = bob.call(RenewDelegationTokenRequest(token.hmac, 3_600_000))
            told.append(answer.expiry_timestamp_ms)
            return int(answer.error_code)

        eventually(renewed, 0, PATIENCE_S)
        assert told[-1] < token.expiry_timestamp_ms
        eventually(lambda: described(last, "alice")[token.token_id].expiry_timestamp, told[-1], PATIENCE_S)
        assert last.call(ExpireDelegationTokenRequest(token.hmac, -1)).error_code == 0
        for node in ALL:
            lets_in(cluster, node, token, False)
        assert bob.call(RenewDelegationTokenRequest(token.hmac, -1)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_the_controller_takes_away_what_has_expired(cluster: KafkaCluster) -> None:
    with closing(at(cluster, 1)) as first, closing(at(cluster, 3)) as last:
        short = first.call(CreateDelegationTokenRequest(max_lifetime_ms=300))
        assert short.error_code == 0
        kept = create(first)
        eventually(lambda: kept.token_id in described(last, "alice"), True, PATIENCE_S)
        eventually(lambda: short.token_id in described(last, "alice"), False, PATIENCE_S)


def test_it_outlives_a_controller(cluster: KafkaCluster) -> None:
    with closing(at(cluster, 2)) as alice:
        token = create(alice)
        cluster.controllers[0].restart()

        def renewed() -> int:
            return int(alice.call(RenewDelegationTokenRequest(token.hmac, -1)).error_code)

        eventually(renewed, 0, PATIENCE_S)
    for node in ALL:
        lets_in(cluster, node, token, True)
