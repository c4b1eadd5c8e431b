"""TLS on one listener: what is wrong is told when it is bound, and what is altered holds for the next client."""

from __future__ import annotations

import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.server.tls_listener import TlsListener
from tests.security.tls.certificates import Issued, authority, server_certificate
from tests.server.support import run
from tests.server.test_server import serving
from tests.server.tls_support import client_context, tls_settings

FRONT = "listener.name.front."
LOCATION = FRONT + "ssl.keystore.location"


def with_settings(**texts: str) -> Any:
    config = BrokerConfig({"ssl.keystore.type": "PEM"} | {name.replace("_", "."): text for name, text in texts.items()})
    return SimpleNamespace(broker=SimpleNamespace(config=config))


def test_a_listener_whose_key_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"listener FRONT: Missing required configuration ssl\.keystore\.location"):
        TlsListener("FRONT", with_settings())


def test_rules_that_can_not_be_read_are_refused(tmp_path: Path) -> None:
    server = with_settings(
        ssl_keystore_location=server_certificate().write(tmp_path / "broker.pem"),
        listener_name_front_ssl_principal_mapping_rules="RULE:[/x/",
    )
    with pytest.raises(ConfigError, match=r"listener\.name\.front\.ssl\.principal\.mapping\.rules: listener FRONT"):
        TlsListener("FRONT", server)


def altered(server: Any, **texts: str) -> None:
    names = {name.replace("_", "."): text for name, text in texts.items()}
    server.broker.config = server.broker.config.with_dynamic({}, names)


async def shown(connect: Any) -> bytes:
    """The certificate that a new client sees."""
    client = await connect()
    seen: bytes = client.writer.get_extra_info("ssl_object").getpeercert(True)
    client.send(b"echo:a")
    assert await client.answer() == b"a"
    return seen


def test_a_key_that_is_altered_is_shown_to_the_next_client_and_connections_go_on(tmp_path: Path) -> None:
    path = tmp_path / "next.pem"

    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, connect, _):
            old = await connect()
            for _ in range(2):  # the second time under the same path
                renewed = authority().issue("broker")
                renewed.write(path)
                altered(server, listener_name_front_ssl_keystore_location=str(path))
                assert await shown(connect) == renewed.der()
            path.write_text("no key any more")
            altered(server, listener_name_front_ssl_keystore_location=str(path))
            assert await shown(connect) == renewed.der()
            old.send(b"echo:b")
            assert await old.answer() == b"b"

    run(scenario)


def test_who_is_trusted_no_more_does_not_come_in_again(tmp_path: Path) -> None:
    alice = client_context(ssl.TLSVersion.TLSv1_2, authority().issue("alice"), tmp_path)
    path = tmp_path / "trusted.pem"
    path.write_text(authority("Another").pem)

    async def scenario() -> None:
        settings = tls_settings(tmp_path, ssl_client_auth="required")
        async with serving(tmp_path, alice, **settings) as (server, connect, _):
            await shown(connect)
            altered(server, listener_name_front_ssl_truststore_certificates=authority("Another").pem)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await connect()

    run(scenario)


def check(issued: Issued, changed: str = LOCATION, **texts: str) -> None:
    """Whether a listener with the certificate of `broker` may have this one."""
    old = server_certificate()
    inline = {"ssl_keystore_key": old.key_pem(), "ssl_keystore_certificate_chain": old.chain_pem}
    listener = TlsListener("FRONT", with_settings(**inline))
    now = {"ssl_keystore_key": issued.key_pem(), "ssl_keystore_certificate_chain": issued.chain_pem}
    listener.check(with_settings(**now | texts).broker.config, [changed])


def test_a_new_certificate_is_for_the_same_broker() -> None:
    check(authority().issue("broker"))
    check(authority("Another").issue("broker"))
    check(authority().issue("broker", ("localhost", "127.0.0.1", "more.example")))


def test_another_name_is_refused_unless_it_is_allowed() -> None:
    another = authority().issue("another")
    with pytest.raises(ConfigError) as refused:
        check(another)
    assert str(refused.value) == (
        "Validation of dynamic config update of SSLFactory failed: org.apache.kafka.common.config.ConfigException: "
        "Keystore DistinguishedName does not match:  existing={alias=kafka, DN=CN=broker}, "
        "new={alias=kafka, DN=CN=another}"
    )
    check(another, ssl_allow_dn_changes="true")


def test_a_lost_alternative_name_is_refused_unless_it_is_allowed() -> None:
    fewer = authority().issue("broker", ("localhost",))
    with pytest.raises(ConfigError) as refused:
        check(fewer)
    assert str(refused.value) == (
        "Validation of dynamic config update of SSLFactory failed: org.apache.kafka.common.config.ConfigException: "
        "Keystore SubjectAltNames do not match:  existing={alias=kafka, SAN=[[2, localhost], [7, 127.0.0.1]]}, "
        "new={alias=kafka, SAN=[[2, localhost]]}"
    )
    check(fewer, ssl_allow_san_changes="true")


def test_what_concerns_another_listener_or_no_key_is_not_looked_at() -> None:
    another = authority().issue("another")
    for name in ("listener.name.back.ssl.keystore.location", "log.retention.ms", FRONT + "max.connections"):
        check(another, name)
