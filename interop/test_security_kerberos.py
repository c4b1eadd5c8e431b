"""GSSAPI: kafka-python, aiokafka and Java with tickets of a Kerberos of our own; and bytes that are no tickets."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from interop.java_transactions import JavaClients
from interop.kdc import REALM, Kdc, missing, running_kdc
from interop.raw import RawClient, framed
from interop.secured import NotAuthenticated, Secured, secured
from pykafka_broker.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from pykafka_broker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from pykafka_broker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

gssapi = pytest.importorskip("gssapi", reason="the extra gssapi is not installed")
pytestmark = pytest.mark.skipif(bool(missing()), reason=f"krb5-kdc is not installed: {missing()}")
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
STRING = "org.apache.kafka.common.serialization.String"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with running_kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        yield kdc


@pytest.fixture(scope="module")
def environment(kdc: Kdc) -> Iterator[None]:
    """An environment in which this process and its children log in as alice."""
    before = dict(os.environ)
    ticket = kdc.ticket("alice", kdc.keytab("alice"))
    os.environ |= {"KRB5_CONFIG": str(kdc.config), "KRB5CCNAME": f"FILE:{ticket}"}
    yield
    os.environ.clear()
    os.environ |= before


@pytest.fixture(scope="module")
def broker(target_name: str, kdc: Kdc, environment: None) -> Iterator[Secured]:
    keytab = kdc.keytab("kafka/localhost")
    line = f'{MODULE} keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
    settings = {
        "listener.name.kerberos.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.kerberos.gssapi.sasl.jaas.config": line,
        "listener.name.kerberos.sasl.kerberos.service.name": "kafka",
        "delegation.token.secret.key": "to ask who one is",
    }
    jvm = [f"-Djava.security.krb5.conf={kdc.config}"]
    with secured(target_name, {"KERBEROS": "SASL_PLAINTEXT"}, settings, jvm=jvm) as broker:
        yield broker


def known(broker: Secured) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.address("KERBEROS"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_domain_name": "localhost",
    }


def test_kafka_python_with_a_ticket(broker: Secured) -> None:
    with closing(KafkaProducer(**known(broker), bootstrap_timeout_ms=60_000)) as producer:
        assert producer.send("by-ticket", b"value").get(60).offset == 0


def test_aiokafka_with_a_ticket(broker: Secured) -> None:
    async def send() -> Any:
        producer = AIOKafkaProducer(**known(broker), bootstrap_timeout_ms=60_000)
        await producer.start()
        try:
            return await producer.send_and_wait("by-ticket-too", b"value")
        finally:
            await producer.stop()

    assert asyncio.run(asyncio.wait_for(send(), 60)).offset == 0


@pytest.mark.java
def test_java_with_a_keytab(broker: Secured, kdc: Kdc) -> None:
    keytab = kdc.keytab("bob")
    with JavaClients() as java:
        java.jvm.java.lang.System.setProperty("java.security.krb5.conf", str(kdc.config))
        properties = java.properties(
            **{
                "bootstrap.servers": f"localhost:{broker.ports['KERBEROS']}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": f'{MODULE} keyTab="{keytab}" principal="bob@{REALM}";',
            }
        )
        admin = java.jvm.org.apache.kafka.clients.admin.Admin.create(properties)
        try:
            token = admin.createDelegationToken().delegationToken().get()
            assert str(token.tokenInfo().owner()) == "User:bob"
        finally:
            admin.close()


class Wrapped:
    """A login that sends its tokens in SaslAuthenticate requests."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        assert client.call(SaslHandshakeRequest("GSSAPI"), 1).error_code == 0

    def show(self, token: bytes) -> bytes:
        answer = self.client.call(SaslAuthenticateRequest(token), 2)
        if answer.error_code:
            raise NotAuthenticated(answer.error_message)
        found: bytes = answer.auth_bytes
        return found


class Bare:
    """A login that sends bare tokens without a handshake, as clients of 0.9 do; Kafka 4 refuses them."""

    def __init__(self, client: RawClient) -> None:
        self.client = client

    def show(self, token: bytes) -> bytes:
        self.client.send_bytes(framed(token))
        return self.client.receive_frame()


def log_in(way: Wrapped | Bare, layer: int = 1, wish: bytes = b"somebody") -> None:
    name = gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service)
    context = gssapi.SecurityContext(name=name, usage="initiate")
    token = context.step()
    while not context.complete:
        token = context.step(way.show(token))
    offer = context.unwrap(way.show(token or b"")).message
    assert offer == b"\1\1\0\0"
    way.show(context.wrap(bytes([layer, 0, 0, 0]) + wish, False).message)


@pytest.mark.parametrize("way", [Wrapped, pytest.param(Bare, marks=pytest.mark.ours_only)])
def test_the_ticket_says_who_a_client_is_whatever_it_wishes(broker: Secured, way: type[Wrapped | Bare]) -> None:
    with broker.connect("KERBEROS") as client:
        log_in(way(client))
        who = client.call(CreateDelegationTokenRequest())
        assert (who.error_code, who.principal_name) == (0, "alice")


def test_another_security_layer_is_refused(broker: Secured) -> None:
    with broker.connect("KERBEROS") as client, pytest.raises(NotAuthenticated):
        log_in(Wrapped(client), layer=4)


@pytest.mark.parametrize("token", [b"", b"garbage", bytes(1000), b"\x60\x82\x02\x00" + bytes(100)])
def test_bytes_that_are_no_ticket_are_refused(broker: Secured, token: bytes) -> None:
    with broker.connect("KERBEROS") as client, pytest.raises(NotAuthenticated) as refused:
        Wrapped(client).show(token)
    assert "GSSAPI" in str(refused.value)


def test_a_ticket_that_was_tampered_with_is_refused(broker: Secured) -> None:
    name = gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service)
    token = bytearray(gssapi.SecurityContext(name=name, usage="initiate").step())
    token[len(token) // 2] ^= 1
    with broker.connect("KERBEROS") as client, pytest.raises(NotAuthenticated):
        Wrapped(client).show(bytes(token))


@pytest.mark.ours_only
def test_a_keytab_without_the_key_ends_the_start(kdc: Kdc, environment: None, tmp_path: Path) -> None:
    from pykafka_broker.testing import KafkaBroker

    line = f'{MODULE} keyTab="{tmp_path}/nothing" principal="kafka/localhost@{REALM}";'
    settings = {
        "listeners": "KERBEROS://127.0.0.1:0",
        "listener.security.protocol.map": "KERBEROS:SASL_PLAINTEXT",
        "listener.name.kerberos.gssapi.sasl.jaas.config": line,
        "listener.name.kerberos.sasl.kerberos.service.name": "kafka",
    }
    with pytest.raises(Exception, match="GSSAPI of listener KERBEROS"):
        KafkaBroker(settings).start()
