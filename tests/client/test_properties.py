"""Properties of a client, and what of them makes no sense."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import Unusable
from pykafka_broker.client.properties import (
    addresses,
    check_resolvable,
    integer,
    java_split,
    long,
    nonempty,
    number,
    read_properties,
    security_of,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        (" a:1 , b:2", [("a", 1), ("b", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
    ],
)
def test_addresses(text: str, found: list[tuple[str, int]]) -> None:
    assert addresses(text) == found


@pytest.mark.parametrize(
    "text", ["", ",", "a:1,", ",a:1", "localhost", "localhost:", ":9092", "localhost:port", "a:1,b:70000"]
)
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(Unusable, match="bootstrap"):
        addresses(text)


def test_one_host_has_to_have_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def resolve(host: str, port: int, **_: object) -> list[object]:
        asked.append(host)
        if host == "there":
            return []
        raise (UnicodeError if host == "a..b" else socket.gaierror)(host)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    check_resolvable([("gone", 1), ("there", 2), ("not.asked", 3)])
    assert asked == ["gone", "there"]
    with pytest.raises(Unusable, match="No resolvable bootstrap urls"):
        check_resolvable([("gone", 1), ("a..b", 2)])


def test_a_file_as_java_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# comment\nclient.id : tools\nsasl.jaas.config = a \\\n   b\n")
    assert read_properties(str(file)) == {"client.id": "tools", "sasl.jaas.config": "a b"}
    with pytest.raises(Unusable, match=r"cannot read .*absent"):
        read_properties(str(tmp_path / "absent"))
    file.write_text("client.id=tools\n", encoding="utf-16")
    with pytest.raises(Unusable, match=r"cannot read .*client\.properties: it is UTF-16"):
        read_properties(str(file))


def test_a_number() -> None:
    assert number({}, "request.timeout.ms", 5) == 5
    assert number({"request.timeout.ms": "7"}, "request.timeout.ms", 5) == 7
    with pytest.raises(Unusable, match=r"Invalid value soon for configuration request\.timeout\.ms"):
        number({"request.timeout.ms": "soon"}, "request.timeout.ms", 5)
    assert number({"send.buffer.bytes": "-1"}, "send.buffer.bytes", 5, least=-1) == -1
    with pytest.raises(
        Unusable, match=r"Invalid value -2 for configuration send\.buffer\.bytes: Value must be at least -1"
    ):
        number({"send.buffer.bytes": "-2"}, "send.buffer.bytes", 5, least=-1)


def test_the_kind_of_a_number_is_that_of_java() -> None:
    beyond = str(1 << 31)
    assert number({"linger.ms": beyond}, "linger.ms", 5) == 1 << 31
    with pytest.raises(Unusable, match=r"configuration linger\.ms: Not a number of type LONG"):
        number({"linger.ms": str(1 << 63)}, "linger.ms", 5)
    with pytest.raises(Unusable, match=r"configuration request\.timeout\.ms: Not a number of type INT"):
        number({"request.timeout.ms": beyond}, "request.timeout.ms", 5)


def test_blanks_around_values_do_not_count() -> None:
    assert Client("127.0.0.1:1", {"acks": " all\t", "client.id": "a b "}).properties == {
        "acks": "all",
        "client.id": "a b",
    }


def test_a_text_that_may_not_be_empty() -> None:
    assert nonempty({}, "transactional.id") is None
    assert nonempty({"transactional.id": "t"}, "transactional.id") == "t"
    with pytest.raises(Unusable, match=r"Invalid value  for configuration transactional\.id: String must be non-empty"):
        nonempty({"transactional.id": ""}, "transactional.id")


def test_nothing_is_secured_where_nothing_is_asked_for() -> None:
    assert security_of({}) is None
    assert security_of({"security.protocol": "plaintext"}) is None


@pytest.mark.parametrize(
    "properties",
    [
        {"security.protocol": "TLS"},
        {"security.protocol": "SSL", "ssl.truststore.location": "/no/such/file", "ssl.truststore.type": "PEM"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"},
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-521",
            "sasl.jaas.config": "a.Login required;",
        },
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "a.Login required;"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "the-secret"},
    ],
)
def test_security_that_makes_no_sense_is_told_without_its_secret(properties: dict[str, str]) -> None:
    with pytest.raises(Unusable) as told:
        security_of(properties)
    assert str(told.value)
    assert "the-secret" not in str(told.value)
    assert "listener" not in str(told.value).lower()  # a client has none


def test_a_setting_that_clients_do_not_have_is_ignored() -> None:
    assert security_of({"security.protocol": "SSL", "ssl.client.auth": "maybe"}) is not None


def test_tokens_of_an_endpoint_are_got_as_the_properties_say() -> None:
    package = "org.apache.kafka.common.security.oauthbearer."
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{package}OAuthBearerLoginModule required clientId="me" clientSecret="the-secret";',
        "sasl.login.callback.handler.class": package + "OAuthBearerLoginCallbackHandler",
    }
    with pytest.raises(Unusable, match=r"sasl\.oauthbearer\.token\.endpoint\.url is not set"):
        security_of(properties)
    assert security_of(properties | {"sasl.oauthbearer.token.endpoint.url": "https://issuer.test/token"}) is not None


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("-7", -7), ("+5", 5), ("007", 7), ("2147483647", 2**31 - 1)])
def test_numbers(text: str, expected: int) -> None:
    assert integer(text) == long(text) == expected


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_0", "x", "1.0", "\u0661", "+", "-9223372036854775809"])
@pytest.mark.parametrize("read", [integer, long])
def test_what_is_no_number(read: Callable[[str], int], text: str) -> None:
    with pytest.raises(ValueError, match="For input string"):
        read(text)


def test_how_large_a_number_may_be() -> None:
    assert long("2147483648") == 2**31
    assert integer("-2147483648") == -(2**31)
    with pytest.raises(ValueError, match="2147483648"):
        integer("2147483648")


@pytest.mark.parametrize(
    ("text", "expected"), [("a,b", ["a", "b"]), ("a,,", ["a"]), (",a", ["", "a"]), (",", []), ("", [""])]
)
def test_split(text: str, expected: list[str]) -> None:
    assert java_split(",", text) == expected


def test_a_split_into_letters_begins_with_the_first_one() -> None:
    assert java_split("", "abc") == ["a", "b", "c"]
