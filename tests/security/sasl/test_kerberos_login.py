"""This node with a ticket, without a Kerberos: what is told at the start, and the order of the exchange. Tickets are in
interop/test_cluster_logins.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.jaas import parse_login_module
from pykafka_broker.security.sasl.login import LoginFailed
from tests.security.sasl.realms import PREFIX, settings_of
from tests.security.sasl.tickets import MODULE, Context

pytest.importorskip("gssapi", reason="the extra gssapi is not installed")

SERVICE = {PREFIX + "sasl.kerberos.service.name": "kafka"}
CACHE = f'{MODULE} useTicketCache=true principal="node@R.COM";'


def login(line: str, settings: dict[str, str] | None = None) -> Any:
    from pykafka_broker.security.sasl.kerberos import kerberos_login

    new_login = kerberos_login(settings_of(SERVICE if settings is None else settings), parse_login_module(line))
    return new_login(0, "host")


@pytest.fixture
def in_context(monkeypatch: pytest.MonkeyPatch) -> Callable[[Context], Any]:
    from pykafka_broker.security.sasl import kerberos

    def logged_in(context: Context) -> Any:
        monkeypatch.setattr(kerberos, "_new_context", lambda *_: context)
        return login(CACHE)

    return logged_in


@pytest.mark.parametrize(
    ("line", "settings", "says"),
    [
        (CACHE, {}, "sasl.kerberos.service.name of listener OUTSIDE is not set"),
        (f"{MODULE};", SERVICE, "needs keyTab and principal, or useTicketCache"),
        (f'{MODULE} keyTab="/x";', SERVICE, "needs keyTab and principal, or useTicketCache"),
        (f'{MODULE} keyTab="/x" principal="node@R.COM";', SERVICE, "no key of node@R.COM in /x"),
    ],
)
def test_what_is_missing_ends_the_start(line: str, settings: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        login(line, settings)


def test_no_layer_is_chosen_once_the_context_stands(in_context: Callable[[Context], Any]) -> None:
    client = in_context(Context(b"ticket", b"\1\1\0\0"))
    assert client.waits
    assert [client.step(b""), client.step(b"offer"), client.step(b"")] == [
        b"ticket",
        b"wrapped\1\0\0\0node@R.COM",
        None,
    ]


@pytest.mark.parametrize("offer", [b"", b"\1", b"\4\0\0\0", b"\1\0\0\0\0"])
def test_a_peer_that_wants_a_layer_is_left(in_context: Callable[[Context], Any], offer: bytes) -> None:
    client = in_context(Context(None, offer))
    assert client.step(b"") == b""
    with pytest.raises(LoginFailed, match="kafka@host wants a security layer"):
        client.step(b"offer")


def test_without_a_ticket_it_says_for_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", "FILE:/nowhere")
    monkeypatch.setenv("KRB5_CONFIG", "/dev/null")
    with pytest.raises(LoginFailed, match="Kerberos has no way to kafka@host: "):
        login(CACHE).step(b"")
