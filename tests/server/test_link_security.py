"""Links to listeners with TLS and SASL, in front of a broker that has them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.control.moving_time import MovableClock
from pykafka_broker.peers import Address, LinkClosed, LinkTimeout
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.security.sasl.login import Login, LoginFailed
from pykafka_broker.server.event_loop import EventLoop, SystemClock
from pykafka_broker.server.link import Link, LinkPeers, LinkSettings, LinkState
from pykafka_broker.server.link_security import security_at
from pykafka_broker.server.serving import peers_of
from pykafka_broker.testing import KafkaBroker
from tests.security.tls.certificates import authority
from tests.server.support import run

LATER_MS = 10_000
PASSWORDS = {"broker": "broker-secret"}
MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule"}


def settings(broker: KafkaBroker, mechanism: str | None = None, password: str = "broker-secret") -> dict[str, str]:
    """Return the settings of a node that reaches the broker on the broker's only listener."""
    (listener,) = broker.listeners
    own: dict[str, str] = {}
    if listener.endswith("SSL"):
        ca = broker.client_config("confluent", user=None if mechanism is None else "broker")["ssl.ca.location"]
        own |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(ca)}
    if mechanism is not None:
        module = f"org.apache.kafka.common.security.{MODULES[mechanism]}"
        line = f'{module} required username="broker" password="{password}";'
        own |= {
            "sasl.mechanism.inter.broker.protocol": mechanism,
            f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config": line,
        }
    return own


@asynccontextmanager
async def linked(
    broker: KafkaBroker,
    config: dict[str, str],
    host: str = "127.0.0.1",
    *,
    patient: bool = True,
    clock: SystemClock | None = None,
) -> AsyncIterator[Link]:
    (listener,) = broker.listeners
    turns = EventLoop(asyncio.get_running_loop(), clock or SystemClock())
    peer = LinkPeers(turns, BrokerConfig(config)).open(Address(host, broker.port, listener), "me")
    assert isinstance(peer, Link)
    peer._settings = peer._settings._replace(patient=patient)
    try:
        yield peer
    finally:
        peer.close()
        await asyncio.sleep(0)
        turns.close()


def asked(broker: KafkaBroker, config: dict[str, str], host: str = "127.0.0.1", *, patient: bool = True) -> Any:
    """Return id and port of the brokers that a link is told of. A link that is not patient tells its first failure."""
    found: list[Any] = []

    async def scenario() -> None:
        async with linked(broker, config, host, patient=patient) as link:
            found.append(await link.ask(MetadataRequest(topics=[]), LATER_MS))

    run(scenario)
    return [(each.node_id, each.port) for each in found[0].brokers]


@pytest.mark.parametrize(
    ("security", "mechanism"),
    [
        ("ssl", None),
        ("sasl_plaintext", "PLAIN"),
        ("sasl_plaintext", "SCRAM-SHA-256"),
        ("sasl_ssl", "PLAIN"),
        ("sasl_ssl", "SCRAM-SHA-256"),
    ],
)
def test_a_link_is_let_in(security: str, mechanism: str | None) -> None:
    own: dict[str, Any] = {} if mechanism is None else {"users": PASSWORDS, "mechanisms": [mechanism]}
    with KafkaBroker(security=security, **own) as broker:
        assert asked(broker, settings(broker, mechanism)) == [(1, broker.port)]


def test_a_wrong_password_is_told_and_not_shown() -> None:
    with KafkaBroker(security="sasl_plaintext", users=PASSWORDS, mechanisms=["PLAIN"]) as broker:
        with pytest.raises(LinkTimeout, match="refuses the login of this node: Authentication failed") as refused:
            asked(broker, settings(broker, "PLAIN", password="open-sesame"), patient=False)
        assert "sesame" not in str(refused.value)


def test_a_mechanism_that_the_peer_does_not_have_is_told() -> None:
    with (
        KafkaBroker(security="sasl_plaintext", users=PASSWORDS, mechanisms=["PLAIN"]) as broker,
        pytest.raises(LinkTimeout, match="does not take SCRAM-SHA-256, but PLAIN"),
    ):
        asked(broker, settings(broker, "SCRAM-SHA-256"), patient=False)


def test_a_certificate_of_strangers_or_of_another_host_is_not_trusted(tmp_path: Path) -> None:
    with KafkaBroker(security="ssl") as broker:
        trusted = settings(broker)
        strangers = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority().pem}
        with pytest.raises(LinkTimeout, match="certificate verify failed"):
            asked(broker, strangers, patient=False)
        with pytest.raises(LinkTimeout, match="certificate verify failed: IP address mismatch"):
            asked(broker, trusted, host="0.0.0.0", patient=False)
        anywhere = trusted | {"ssl.endpoint.identification.algorithm": ""}
        assert asked(broker, anywhere) == [(1, broker.port)]


class Slow(Login):
    """A login whose step blocks until the test sets `may`, like one that waits for another server."""

    waits = True

    def __init__(self, token: bytes = b"\0broker\0broker-secret", failure: Exception | None = None) -> None:
        self.token, self.failure = token, failure
        self.may, self.begun = threading.Event(), threading.Event()

    def step(self, challenge: bytes) -> bytes | None:
        self.begun.set()
        assert self.may.wait(LATER_MS / 1000)
        if self.failure is not None:
            raise self.failure
        token, self.token = self.token, b""
        return token or None


@asynccontextmanager
async def linked_by(broker: KafkaBroker, login: Slow) -> AsyncIterator[Link]:
    (listener,) = broker.listeners
    turns = EventLoop(asyncio.get_running_loop(), SystemClock())
    security = security_at(BrokerConfig(settings(broker, "PLAIN")), listener)
    security._new_login = lambda wall, host: login
    link = Link(turns, "127.0.0.1", broker.port, LinkSettings(patient=False), security=security)
    try:
        yield link
    finally:
        link.close()
        await asyncio.sleep(0)
        turns.close()


def test_nobody_waits_for_a_login_that_waits() -> None:
    with KafkaBroker(security="sasl_plaintext", users=PASSWORDS, mechanisms=["PLAIN"]) as broker:

        async def scenario() -> None:
            login = Slow()
            async with linked_by(broker, login) as link:
                answer = asyncio.create_task(link.ask(MetadataRequest(topics=[]), LATER_MS))
                await asyncio.to_thread(login.begun.wait, LATER_MS / 1000)
                assert link.state is LinkState.LOGGING_IN
                login.may.set()
                assert (await answer).brokers

        run(scenario)


def test_a_login_that_has_failed_is_told_and_one_that_comes_too_late_is_passed_over() -> None:
    with KafkaBroker(security="sasl_plaintext", users=PASSWORDS, mechanisms=["PLAIN"]) as broker:

        async def scenario() -> None:
            for failure, told in ((LoginFailed("no ticket"), "no ticket"), (ValueError("odd"), "has met a defect")):
                login = Slow(failure=failure)
                login.may.set()
                async with linked_by(broker, login) as link:
                    with pytest.raises(LinkTimeout, match=told):
                        await link.ask(MetadataRequest(topics=[]), LATER_MS)
            late = Slow()
            async with linked_by(broker, late) as link:
                answer = asyncio.create_task(link.ask(MetadataRequest(topics=[]), LATER_MS))
                await asyncio.to_thread(late.begun.wait, LATER_MS / 1000)
                link.close()
                late.may.set()
                with pytest.raises(LinkClosed):
                    await answer
                await asyncio.sleep(0.05)
                assert link.state is LinkState.CLOSED

        run(scenario)


@pytest.mark.parametrize("patient", [True, False])
def test_a_login_is_made_anew_before_it_ends(patient: bool) -> None:
    config = {"connections.max.reauth.ms": "1000"}
    with KafkaBroker(config, security="sasl_plaintext", users=PASSWORDS, mechanisms=["PLAIN"]) as broker:

        async def scenario() -> None:
            clock = MovableClock()
            async with linked(broker, settings(broker, "PLAIN"), patient=patient, clock=clock) as link:
                states: list[LinkState] = []
                for _ in range(40):
                    await link.ask(MetadataRequest(topics=[]), LATER_MS)
                    states.append(link.state)
                    clock.hold()
                    clock.move(100)
                    clock.release()
                    await asyncio.to_thread(broker.clock.advance, milliseconds=100)
                assert set(states) <= {LinkState.READY, LinkState.RESTING}

        broker.clock.freeze()  # the link's clock is never behind
        run(scenario)
        assert len(broker.requests("SaslAuthenticate")) >= 5  # every 800 ms


BETWEEN_NODES = {
    "process.roles": "broker",
    "node.id": "1",
    "listeners": "INTERNAL://127.0.0.1:0",
    "advertised.listeners": "INTERNAL://127.0.0.1:9092",
    "controller.quorum.voters": "2@127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "INTERNAL",
    "listener.security.protocol.map": "INTERNAL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
}
PREFIX = "listener.name.internal"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"


@pytest.mark.parametrize(
    ("mechanism", "more", "says"),
    [
        ("CRAM-MD5", "Login required;", "there is no login by CRAM-MD5, only by SCRAM-SHA-256"),
        ("OAUTHBEARER", BEARER, "has no option unsecuredLoginStringClaim_sub"),
    ],
)
def test_what_nodes_can_not_log_in_by_is_said_at_the_start(mechanism: str, more: str, says: str) -> None:
    own = {
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"{PREFIX}.sasl.enabled.mechanisms": mechanism,
        f"{PREFIX}.{mechanism.lower()}.sasl.jaas.config": more,
        "sasl.oauthbearer.token.endpoint.url": "https://tokens.example",
    }
    config = BrokerConfig(BETWEEN_NODES | own)
    with pytest.raises(ConfigError, match=says):
        new_peers(config)


def test_who_is_no_broker_or_needs_no_login_starts() -> None:
    plain = BETWEEN_NODES | {"listener.security.protocol.map": "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    assert new_peers(BrokerConfig(plain)) is not None
    assert new_peers(BrokerConfig({})) is None


def new_peers(config: BrokerConfig) -> LinkPeers | None:
    made: list[LinkPeers | None] = []

    async def scenario() -> None:
        turns = EventLoop(asyncio.get_running_loop(), SystemClock())
        try:
            made.append(peers_of(turns, config))
        finally:
            turns.close()

    run(scenario)
    return made[0]
