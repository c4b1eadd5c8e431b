"""OAUTHBEARER, byte by byte: what a real 4.4.0 answers to the same messages.

On a scheme other than Bearer Kafka hangs up without a word, which is a refusal here.
Unsecured tokens: which ones are taken, as a real 4.4.0 takes them.
"""

from __future__ import annotations

import contextlib
import logging
import random
from typing import Any

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.jws import InvalidToken, ShownToken
from pykafka_broker.security.sasl.mechanism import Challenge, Done, LoginRefused
from pykafka_broker.security.sasl.oauthbearer import OAuthBearer, UnsecuredTokens, oauthbearer
from tests.security.sasl.bearer import NOW, WALL, encoded, message, unsecured
from tests.security.sasl.realms import MODULES, PREFIX, realm_of

INVALID = '{"status":"invalid_token"}'
NO_SENSE = "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
KEY = PREFIX + "oauthbearer."
GOOD = unsecured()
EXPIRED = unsecured(exp=NOW - 1)


def login(**options: str) -> OAuthBearer:
    given = "".join(f' {name}="{value}"' for name, value in options.items())
    line = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required{given};"
    return oauthbearer(realm_of({KEY + "sasl.jaas.config": line}))()


def test_a_good_token_makes_a_principal() -> None:
    assert login().step(message(GOOD), WALL) == Done(b"", "User:alice", (NOW + 60) * 1000)


@pytest.mark.parametrize(
    "sent",
    [
        message(GOOD, "a=alice"),
        message(GOOD, more="host=a\1port=5\1"),
        message(GOOD, more=f"auth=Bearer {GOOD}\1"),
        message(GOOD, more="a=x\1a=y\1"),
        message(GOOD, more="a=b=c\1"),
        f"n,,\1a=b\1auth=Bearer {GOOD}\1\1".encode(),
        f"n,,\1auth=bearer {GOOD}\1\1".encode(),
        f"n,,\1auth=Bearer  {GOOD}\1\1".encode(),
        message(unsecured(sub="a b"), "a=a b"),
    ],
)
def test_messages_that_kafka_takes(sent: bytes) -> None:
    assert type(login().step(sent, WALL)) is Done


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\1",
        b"\xff\xfe",
        b"n,,\1\1",
        b"n,,\1a=b\1\1",
        message(GOOD, "a="),
        message(GOOD, more="a=\1"),
        message(GOOD, more="a1=x\1"),
        message(GOOD, more="a=ü\1"),
        message(GOOD, more="auth=x\1"),
        message(GOOD) + b"x",
        message(GOOD)[:-1],
        message("a=.b."),
        f"y,,\1auth=Bearer {GOOD}\1\1".encode(),
        f"p=x,,\1auth=Bearer {GOOD}\1\1".encode(),
        f"n,,\1auth=Bearer{GOOD}\1\1".encode(),
        f"n,,\1auth=Bearer {GOOD} \1\1".encode(),
        f"n,,\1auth=Basic {GOOD}\1\1".encode(),
    ],
)
def test_messages_without_sense_are_refused_at_once(sent: bytes) -> None:
    with pytest.raises(LoginRefused) as refused:
        login().step(sent, WALL)
    assert str(refused.value) == NO_SENSE


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(LoginRefused) as refused:
        login().step(message(GOOD, "a=bob"), WALL)
    assert str(refused.value) == (
        "Authentication failed: Client requested an authorization id (bob) that is different from the token's "
        "principal name (alice)"
    )


def test_a_bad_token_is_challenged_first_and_then_refused_with_the_same_text() -> None:
    client = login()
    assert client.step(message(EXPIRED), WALL) == Challenge(INVALID.encode())
    with pytest.raises(LoginRefused) as refused:
        client.step(b"\1", WALL)
    assert str(refused.value) == INVALID


@pytest.mark.parametrize("sent", [b"", b"x", b"\1\1"])
def test_after_a_challenge_anything_else_makes_no_sense(sent: bytes) -> None:
    client = login()
    client.step(message(EXPIRED), WALL)
    with pytest.raises(LoginRefused) as refused:
        client.step(sent, WALL)
    assert str(refused.value) == NO_SENSE


def test_after_a_challenge_another_token_may_be_shown() -> None:
    client = login()
    client.step(message(EXPIRED), WALL)
    assert type(client.step(message(EXPIRED), WALL)) is Challenge
    assert type(client.step(message(GOOD), WALL)) is Done


def test_tokens_can_not_be_tried_one_after_the_other() -> None:
    """A refusal is kept back, and ends the connection; a challenge is not and does not."""
    client = login()
    for _ in range(4):
        assert type(client.step(message(EXPIRED), WALL)) is Challenge
    with pytest.raises(LoginRefused) as refused:
        client.step(message(GOOD), WALL)
    assert str(refused.value) == INVALID


def test_a_lacking_scope_is_named() -> None:
    client = login(unsecuredValidatorRequiredScope="kafka")
    answer = '{"status":"insufficient_scope", "scope":"[kafka]"}'
    assert client.step(message(GOOD), WALL) == Challenge(answer.encode())
    with pytest.raises(LoginRefused, match="insufficient_scope"):
        client.step(b"\1", WALL)


def test_the_log_has_the_rule_and_nothing_of_the_token(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        login().step(message(EXPIRED), WALL)
    assert "it has expired" in caplog.text
    assert "OUTSIDE" in caplog.text
    assert not any(part in caplog.text for part in EXPIRED.split(".") if part)


@pytest.mark.parametrize("name", ["", "internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"])
def test_unsecured_tokens_are_what_is_taken_by_default(name: str) -> None:
    settings = {KEY + "sasl.server.callback.handler.class": f"{MODULES}.oauthbearer.{name}"} if name else {}
    assert type(oauthbearer(realm_of(settings))().step(message(GOOD), WALL)) is Done


def test_another_validator_can_not_be_had() -> None:
    with pytest.raises(ConfigError, match=r"com\.example\.Own .* package\.module:Class"):
        oauthbearer(realm_of({KEY + "sasl.server.callback.handler.class": "com.example.Own"}))


@pytest.mark.parametrize("times", [1500, pytest.param(50_000, marks=pytest.mark.slow)])
def test_random_bytes_are_refused_and_nothing_else(times: int) -> None:
    draw = random.Random(14)
    good = message(GOOD)
    server = oauthbearer(realm_of())
    for _ in range(times):
        sent = bytearray(good)
        for _ in range(draw.randint(1, 8)):
            sent[draw.randrange(len(sent))] = draw.randrange(256)
        for text in (bytes(sent), draw.randbytes(draw.randint(0, 60))):
            with contextlib.suppress(LoginRefused):
                server().step(text, WALL)


def test_a_message_of_more_than_64_kib_is_not_even_read() -> None:
    """Kafka reads half a megabyte of it, and has other threads meanwhile."""
    room = (1 << 16) - len(message(GOOD, more="a=\1"))
    assert type(login().step(message(GOOD, more=f"a={room * 'x'}\1"), WALL)) is Done
    assert login().step(message(GOOD, more=f"a={(room + 1) * 'x'}\1"), WALL) == Challenge(INVALID.encode())


def shown(token: str, **options: str) -> ShownToken:
    return UnsecuredTokens({f"unsecuredValidator{name}": value for name, value in options.items()}).shown(token, WALL)


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": NOW + 50.5},
        {"iat": None},
        {"iat": NOW},
        {"nbf": NOW + 50},
        {"aud": "x", "iss": "y"},
        {"sub": "ü,= x"},
        {"sub": " alice "},
        {"scope": "a b"},
        {"scope": ["a", "b"]},
        {"scope": [3]},
        {"scope": ""},
    ],
)
def test_tokens_that_are_taken(changed: dict[str, Any]) -> None:
    found = shown(unsecured(**changed))
    assert found == (changed.get("sub", "alice"), int(changed.get("exp", NOW + 60) * 1000))


@pytest.mark.parametrize(
    "token",
    [
        unsecured(exp=None),
        unsecured(exp="1"),
        unsecured(exp=True),
        unsecured(exp=NOW),
        unsecured(exp=NOW - 1),
        unsecured(exp=1e300),
        unsecured('{"sub":"a","exp":NaN}'),
        unsecured('{"sub":"a","exp":Infinity}'),
        unsecured('{"sub":"a","exp":' + "9" * 400 + "}"),
        unsecured('{"sub":"a","exp":' + "9" * 5000 + "}"),
        unsecured('{"sub":"a","exp":null}'),
        unsecured("[" * 100_000),
        unsecured("{" * 100_000),
        unsecured(iat=NOW + 50),
        unsecured(iat="x"),
        unsecured(iat=NOW + 60),
        unsecured(sub=None),
        unsecured(sub=5),
        unsecured(sub=""),
        unsecured(sub="  "),
        unsecured(sub={"a": 1}),
        unsecured(scope=3),
        unsecured(header={"alg": "RS256"}),
        unsecured(header={"alg": "None"}),
        unsecured(header={"alg": 1}),
        unsecured(header={}),
        unsecured(header=[]),
        unsecured(header="x"),
        unsecured([]),
        unsecured("x"),
        unsecured(signature="xx"),
        unsecured().rstrip("."),
        unsecured() + ".",
        "abc",
        "a.b.",
        "..",
        f"{encoded({'alg': 'none'})}.+/+/.",
    ],
)
def test_tokens_that_are_not(token: str) -> None:
    with pytest.raises(InvalidToken):
        shown(token)


def test_the_clocks_may_differ_by_so_much() -> None:
    for token in (unsecured(exp=NOW - 1), unsecured(iat=NOW + 1)):
        with pytest.raises(InvalidToken):
            shown(token)
        assert shown(token, AllowableClockSkewMs="2000").name == "alice"
    with pytest.raises(InvalidToken, match="expired"):
        shown(unsecured(exp=NOW - 2), AllowableClockSkewMs="2000")


def test_claims_may_have_other_names() -> None:
    token = unsecured(sub=None, user="bob", scp="a b")
    assert shown(token, PrincipalClaimName="user").name == "bob"
    assert shown(token, PrincipalClaimName="user", ScopeClaimName="scp", RequiredScope="b").name == "bob"
    with pytest.raises(InvalidToken) as lacking:
        shown(token, PrincipalClaimName="user", RequiredScope="b")
    assert lacking.value.lacking == ("b",)


@pytest.mark.parametrize("scope", ["a b", ["b", "a", "c"]])
def test_all_scopes_that_are_required_must_be_there(scope: object) -> None:
    assert shown(unsecured(scope=scope), RequiredScope="a b").name == "alice"
    with pytest.raises(InvalidToken) as lacking:
        shown(unsecured(scope=scope), RequiredScope="a z")
    assert lacking.value.lacking == ("a", "z")


@pytest.mark.parametrize("text", ["x", "-1", "1.5"])
def test_an_option_that_can_not_be_read_ends_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match="unsecuredValidatorAllowableClockSkewMs"):
        UnsecuredTokens({"unsecuredValidatorAllowableClockSkewMs": text})
