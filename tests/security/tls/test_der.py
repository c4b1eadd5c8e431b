"""The names in certificates.

Names of certificates: as Java writes them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography import x509

from pykafka_broker.security.tls.der import elements, names_of, oid_text, text_of
from tests.security.tls.certificates import authority, server_certificate


def test_subject_and_alternative_names_are_found() -> None:
    names = names_of(server_certificate().der())
    assert text_of(names.subject) == "CN=broker"
    assert names.alternatives == (b"\x82\x09localhost", b"\x87\x04\x7f\0\0\x01")
    assert names_of(authority().der).alternatives == ()


def test_object_identifiers_are_dotted() -> None:
    assert oid_text(bytes.fromhex("2a864886f70d010901")) == "1.2.840.113549.1.9.1"
    assert oid_text(bytes.fromhex("883703")) == "2.999.3"
    for oid in (x509.NameOID.DOMAIN_COMPONENT, x509.NameOID.TITLE):
        assert oid.dotted_string.split(".")[0] in "0 1 2"


def test_a_certificate_that_is_cut_or_forged_anywhere_is_refused_or_read_and_never_left() -> None:
    whole = server_certificate().der()
    for size in range(len(whole)):
        with pytest.raises(ValueError):
            names_of(whole[:size])
    for position in range(300):
        forged = whole[:position] + b"\xff" + whole[position + 1 :]
        try:
            names_of(forged)
        except ValueError:
            continue


@pytest.mark.parametrize("data", ["05", "1f0100", "0480", "0485", "04820100", "0402aa"])
def test_what_is_no_der_is_refused(data: str) -> None:
    with pytest.raises(ValueError, match="DER"):
        list(elements(bytes.fromhex(data)))


ANSWERS: dict[str, str] = json.loads(Path(__file__).with_name("names.json").read_text())["subjects"]


def test_every_subject_is_written_as_java_does() -> None:
    assert {der: text_of(bytes.fromhex(der)) for der in ANSWERS} == ANSWERS


def test_what_is_no_name_is_refused() -> None:
    for der in ("", "30", "3005310330", "300d310b300906035504031302"):
        with pytest.raises(ValueError, match=r"DER|unpack"):
            text_of(bytes.fromhex(der))
