"""The settings of OpenSSL for a listener, seen in handshakes in memory.

Names of cipher suites.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.tls.contexts import choose, openssl_name
from pykafka_broker.security.tls.contexts import server_context as made
from tests.security.tls.certificates import Issued, authority, pem_of, server_certificate


def settings(**texts: str) -> ListenerSettings:
    issued = server_certificate()
    named = {
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.key": issued.key_pem(),
        "ssl.keystore.certificate.chain": issued.chain_pem,
    }
    named |= {f"ssl.{name.replace('_', '.')}": text for name, text in texts.items()}
    return ListenerSettings(BrokerConfig(named), "OUTSIDE")


def server_context(settings: ListenerSettings) -> ssl.SSLContext:
    return made(settings)[0]


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after it, server first."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    steps: list[Callable[[], None]] = [theirs.do_handshake, ours.do_handshake]
    for _ in range(6):
        for step in list(steps):
            try:
                step()
                steps.remove(step)
            except ssl.SSLWantReadError:
                pass
    assert not steps
    return ours, theirs


def client(tmp_path: Path | None = None, shows: Issued | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority().pem)
    if shows is not None:
        assert tmp_path is not None
        context.load_cert_chain(shows.write(tmp_path / "client.pem"))
    return context


def test_the_best_protocol_that_both_have_is_spoken() -> None:
    _, theirs = handshake(server_context(settings()), client())
    assert theirs.version() == "TLSv1.3"
    _, theirs = handshake(server_context(settings(enabled_protocols="TLSv1.2")), client())
    assert theirs.version() == "TLSv1.2"


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.enabled\.protocols: listener OUTSIDE: the protocols are TLSv1\.2, "):
        server_context(settings(enabled_protocols="TLSv1.3,TLSv7"))


def test_suites_are_chosen_by_their_names_in_java() -> None:
    suites = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    _, theirs = handshake(server_context(settings(cipher_suites=suites)), client())
    assert theirs.cipher()[:2] == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2")  # type: ignore[index]
    with pytest.raises(ConfigError, match=r"ssl\.cipher\.suites: listener OUTSIDE: Unsupported CipherSuite: TLS_NULL"):
        server_context(settings(cipher_suites="TLS_AES_128_GCM_SHA256,TLS_NULL"))


def test_an_encrypted_key_opens_with_its_password_only() -> None:
    key = server_certificate().key_pem("secret")
    handshake(server_context(settings(keystore_key=key, key_password="secret")), client())
    with pytest.raises(ConfigError, match="can't be decrypted with the password that is set") as refused:
        server_context(settings(keystore_key=key, key_password="guessed"))
    assert "guessed" not in str(refused.value)


def test_a_key_that_is_not_of_its_certificate_is_refused() -> None:
    with pytest.raises(ConfigError, match="its private key does not belong to its first certificate"):
        server_context(settings(keystore_key=authority().issue("another").key_pem()))


def test_a_client_shows_its_certificate_where_it_is_wanted(tmp_path: Path) -> None:
    alice = authority().issue("alice")
    trusting = {"truststore_certificates": authority().pem}
    for auth, shown in (("required", True), ("requested", True), ("none", False)):
        ours, _ = handshake(server_context(settings(client_auth=auth, **trusting)), client(tmp_path, alice))
        assert ours.getpeercert(True) == (alice.der() if shown else None)


@pytest.mark.parametrize("auth", ["required", "requested"])
@pytest.mark.parametrize("fault", ["foreign", "expired", "not yet", "for servers"])
def test_a_bad_certificate_is_refused_also_where_none_would_do(tmp_path: Path, auth: str, fault: str) -> None:
    bad = {
        "foreign": lambda: authority("Another").issue("mallory"),
        "expired": lambda: authority().issue("alice", begins=-3, ends=-1),
        "not yet": lambda: authority().issue("alice", begins=1),
        "for servers": lambda: authority().issue("alice", server_only=True),
    }[fault]()
    server = server_context(settings(client_auth=auth, truststore_certificates=authority().pem))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, client(tmp_path, bad))


def test_no_certificate_will_do_only_where_it_is_not_required() -> None:
    trusting = {"truststore_certificates": authority().pem}
    handshake(server_context(settings(client_auth="requested", **trusting)), client())
    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        handshake(server_context(settings(client_auth="required", **trusting)), client())


def test_whatever_is_in_the_trust_store_is_trusted(tmp_path: Path) -> None:
    """A single certificate, without the one that issued it."""
    alice = authority("Another").issue("alice")
    server = server_context(settings(client_auth="required", truststore_certificates=pem_of(alice.certificate)))
    with pytest.raises(ConfigError):
        server_context(settings(client_auth="required", truststore_certificates="nothing"))
    ours, _ = handshake(server, client(tmp_path, alice))
    assert ours.getpeercert(True) == alice.der()


KNOWN = {
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_DHE_DSS_WITH_AES_256_GCM_SHA384": "DHE-DSS-AES256-GCM-SHA384",
}


def new_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def test_java_s_names_have_their_counterparts() -> None:
    assert {suite: openssl_name(suite) for suite in KNOWN} == KNOWN
    assert openssl_name("TLS_AES_128_GCM_SHA256") is None
    assert openssl_name("ECDHE-RSA-AES256-GCM-SHA384") is None


def test_only_what_is_named_is_offered() -> None:
    context = new_context()
    assert choose(context, ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"]) is None
    older = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert older == ["ECDHE-RSA-AES256-GCM-SHA384"]
    assert context.maximum_version is not ssl.TLSVersion.TLSv1_2


def test_suites_of_one_protocol_leave_no_other() -> None:
    context = new_context()
    assert choose(context, ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]) is None
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    context = new_context()
    assert choose(context, ["TLS_AES_256_GCM_SHA384"]) is None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize("suite", ["TLS_NULL", "TLS_RSA_WITH_RC4_128_MD5", "TLS_RSA_WITH_AES_128_GCM_SHA384", ""])
def test_what_is_not_there_is_told(suite: str) -> None:
    assert choose(new_context(), ["TLS_AES_256_GCM_SHA384", suite]) == suite
