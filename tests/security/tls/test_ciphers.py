"""Names of cipher suites."""

from __future__ import annotations

import ssl

import pytest

from pykafka_broker.security.tls.ciphers import choose, openssl_name

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
