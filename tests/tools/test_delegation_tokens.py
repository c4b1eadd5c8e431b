"""`delegation-tokens` as JSON."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools.delegation_tokens import Token, _show
from pykafka_broker.tools.frame import Tool, main, parser_of

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SETTINGS = {
    "listeners": "SASL://127.0.0.1:0",
    "inter.broker.listener.name": "SASL",
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": f'{_MODULE} user_alice="alice-secret";',
    "delegation.token.secret.key": "a secret",
}


def test_the_life_of_a_token_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "alice.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={_MODULE} username="alice" password="alice-secret";\n'
    )
    with KafkaBroker(_SETTINGS, in_process=True) as broker:
        connected = ["--bootstrap-server", broker.bootstrap_servers, "--command-config", str(config), "--json"]

        def asked(*arguments: str) -> object:
            assert main("delegation-tokens", [*connected, *arguments]) == 0
            return json.loads(capsys.readouterr().out)

        made = asked("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
        assert isinstance(made, dict)
        assert (made["owner"], made["requester"], made["renewers"]) == ("User:alice", "User:alice", ["User:bob"])
        hmac = made["hmac"]
        assert asked("--describe", "--owner-principal", "User:alice") == [made]
        renewed = asked("--renew", "--hmac", hmac, "--renew-time-period", "3600000")
        assert isinstance(renewed, dict)
        assert made["issued_ms"] < renewed["expires_ms"] < made["expires_ms"]
        assert asked("--expire", "--hmac", hmac, "--expiry-time-period", "-1")
        assert asked("--describe", "--owner-principal", "User:alice") == []


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.posix("Windows has no time.tzset")
@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (10**15, "33658-09-27T01:46"),
        (2**63 - 1, "292278994-08-17T07:12"),
        (951_825_600_000, "2000-02-29T12:00"),
        (-1, "1969-12-31T23:59"),
    ],
)
def test_dates_of_any_year(ms: int, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A token may live as long as a Java `long` says."""
    _show(Tool(parser_of("topics").parse(["--list"])), [Token("id", b"", "", "", [], ms, ms, ms)])
    assert capsys.readouterr().out.count(told) == 3


def test_a_hash_that_is_none_is_not_repeated_as_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "empty.properties"
    config.write_text("")
    where = ["--bootstrap-server", "127.0.0.1:1", "--command-config", str(config)]
    assert main("delegation-tokens", [*where, "--renew", "--hmac", "s*cret", "--renew-time-period", "1"]) == 1
    assert "s*cret" not in capsys.readouterr().err
