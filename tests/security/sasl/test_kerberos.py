"""GSSAPI without a Kerberos: what is told at the start. Tickets are in interop/test_security_kerberos.py."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.security.principal_mapping import KerberosNames
from pykafka_broker.security.sasl.mechanism import Challenge, Done, LoginRefused, mechanism_of
from tests.security.sasl.realms import PREFIX, realm_of
from tests.security.sasl.tickets import MODULE, Context

pytest.importorskip("gssapi", reason="the extra gssapi is not installed")

KEY = PREFIX + "gssapi.sasl.jaas.config"
SERVICE = PREFIX + "sasl.kerberos.service.name"
WHOLE = f'{MODULE} keyTab="/nowhere/keytab" principal="kafka/localhost@R.COM"'


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "no login module for GSSAPI"),
        ({KEY: f'{MODULE} principal="kafka/h@R";'}, "needs keyTab and principal"),
        ({KEY: f'{MODULE} keyTab="/x";'}, "needs keyTab and principal"),
        ({KEY: WHOLE + ";"}, r"sasl\.kerberos\.service\.name of listener OUTSIDE is not set"),
        ({KEY: WHOLE + ' serviceName="a";', SERVICE: "b"}, "another one than serviceName"),
        ({KEY: WHOLE + ";", SERVICE: "kafka"}, "no key of kafka/localhost@R.COM in /nowhere/keytab"),
    ],
)
def test_what_is_missing_ends_the_start(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        mechanism_of("GSSAPI", realm_of(settings))


def exchange(context: Context) -> Any:
    from pykafka_broker.security.sasl.kerberos import Gssapi

    given: Any = context
    return Gssapi(given, KerberosNames(["DEFAULT"], "R.COM"), "OUTSIDE")


@pytest.mark.parametrize("answer", [None, b"answer"])
def test_the_offer_comes_when_the_context_stands(answer: bytes | None) -> None:
    client = exchange(Context(answer, b"\1\0\0\0whoever"))
    if answer:
        assert client.step(b"token", 0) == Challenge(answer)
        assert client.step(b"", 0) == Challenge(b"wrapped\1\1\0\0")
    else:
        assert client.step(b"token", 0) == Challenge(b"wrapped\1\1\0\0")
    assert client.step(b"choice", 0) == Done(b"", "User:alice")


@pytest.mark.parametrize("choice", [b"", b"\1", b"\1\0\0", b"\2\0\0\0", b"\4\0\0\0", b"\0\0\0\0"])
def test_no_other_layer_may_be_chosen(choice: bytes) -> None:
    client = exchange(Context(None, choice))
    client.step(b"token", 0)
    with pytest.raises(LoginRefused):
        client.step(b"choice", 0)


def test_messages_out_of_order_are_refused() -> None:
    with pytest.raises(LoginRefused):
        exchange(Context(None, b"")).step(b"", 0)
    client = exchange(Context(b"answer", b""))
    client.step(b"token", 0)
    with pytest.raises(LoginRefused):
        client.step(b"more", 0)


def test_a_principal_without_a_name_is_refused() -> None:
    client = exchange(Context(None, b"\1\0\0\0", "alice@ELSEWHERE"))
    client.step(b"token", 0)
    with pytest.raises(LoginRefused):
        client.step(b"choice", 0)
