"""Who a client is that has shown a certificate, or none."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest

from tests.security.tls.certificates import authority, subject
from tests.server.support import run, until
from tests.server.test_server import serving
from tests.server.tls_support import client_context, tls_settings

ALICE = (("2.5.4.10", "Acme, Inc."), ("2.5.4.3", "Alice"), ("1.2.840.113549.1.9.1", "a@b.c"))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("auth", "rules", "principal"),
    [
        ("none", "DEFAULT", "User:ANONYMOUS"),
        ("required", "DEFAULT", r"User:1.2.840.113549.1.9.1=#16056140622e63,CN=Alice,O=Acme\, Inc."),
        ("requested", r"RULE:^.*CN=(\w+),.*$/$1/L,DEFAULT", "User:alice"),
    ],
)
def test_the_principal_is_the_subject_of_the_certificate_by_the_rules(
    tmp_path: Path, version: ssl.TLSVersion, auth: str, rules: str, principal: str
) -> None:
    alice = authority().issue(subject(*ALICE))
    settings = tls_settings(tmp_path, ssl_client_auth=auth, ssl_principal_mapping_rules=rules)

    async def scenario() -> None:
        async with serving(tmp_path, client_context(version, alice, tmp_path), **settings) as (_, connect, _):
            client = await connect()
            client.send(b"who:")
            assert (await client.answer()).decode() == principal

    run(scenario)


def test_who_shows_none_where_it_need_not_is_anonymous(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path, ssl_client_auth="requested")) as (
            _,
            connect,
            _,
        ):
            client = await connect()
            client.send(b"who:")
            assert await client.answer() == b"User:ANONYMOUS"

    run(scenario)


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("RULE:^CN=bob$/bob/", "No rules apply to CN=" + "a" * 40 + ", rules [RULE:^CN=bob$/bob]"),
        ("RULE:^CN=(a+)+b$/$1/,DEFAULT", "the expressions of ssl.principal.mapping.rules take too long for CN=aaa"),
    ],
)
def test_a_client_without_a_name_is_closed_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rules: str, why: str
) -> None:
    """Also if finding it would take for ever: others wait for it no longer than they notice."""
    settings = tls_settings(tmp_path, ssl_client_auth="required", ssl_principal_mapping_rules=rules)
    nameless = client_context(shows=authority().issue("a" * 40), folder=tmp_path)

    async def scenario() -> None:
        async with serving(tmp_path, nameless, **settings) as (server, connect, router):
            for _ in range(3):  # what is known of a name is not found out again
                client = await connect()
                client.send(b"echo:never")
                assert await client.closed()
            await until(lambda: not server.connection_count)
            assert router.served == []

    with caplog.at_level(logging.INFO):
        run(scenario)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert all(why in line for line in lines)


def test_a_class_of_python_may_say_what_it_is_called(tmp_path: Path) -> None:
    settings = tls_settings(
        tmp_path,
        ssl_client_auth="required",
        principal_builder_class="tests.security.hooks.test_login:Department",
    )

    async def scenario() -> None:
        shown = client_context(ssl.TLSVersion.TLSv1_3, authority().issue("carol"), tmp_path)
        async with serving(tmp_path, shown, **settings) as (_, connect, _):
            client = await connect()
            client.send(b"who:")
            assert (await client.answer()).decode().startswith("User:CN=carol@")

    run(scenario)
