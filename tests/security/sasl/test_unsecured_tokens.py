"""Unsecured tokens: which ones are taken, as a real 4.3.1 takes them."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.jws import InvalidToken, Shown
from pykafka_broker.security.sasl.unsecured_tokens import UnsecuredTokens
from tests.security.sasl.bearer import NOW, WALL, encoded, unsecured


def shown(token: str, **options: str) -> Shown:
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
