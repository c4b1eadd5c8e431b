"""Signed tokens: which ones are taken, as a real 4.3.1 takes them."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

from pykafka_broker.clock import Clock
from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.jws import InvalidToken, Shown
from pykafka_broker.security.sasl.mechanism import Challenge, Done, mechanism_server
from pykafka_broker.security.sasl.realm import Realm
from pykafka_broker.security.sasl.signed_tokens import SignedTokens
from tests.security.sasl.bearer import NOW, WALL, message, unsecured
from tests.security.sasl.realms import MODULES, PREFIX, Kept, around, settings_of
from tests.security.sasl.signing import SHARED, key_set, public_key, signed, signed_text

URL = "sasl.oauthbearer.jwks.endpoint.url"
KEYS = key_set(public_key("r1"), public_key("r2"), public_key("e1"), public_key("o1"), public_key("h1"))
EXPECTED = {"expected.audience": "kafka,other", "expected.issuer": "https://me"}


def realm(settings: dict[str, str] | None = None) -> Realm:
    given = {f"{PREFIX}sasl.oauthbearer.{name}": value for name, value in (settings or {}).items()}
    document = Kept(KEYS)
    stand = around(clock=Clock(1_000_000, WALL))._replace(document=lambda url: document)
    return Realm(settings_of({PREFIX + URL: "file:/keys", **given}), stand)


def shown(token: str, wall: int = WALL, **settings: str) -> Shown:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return SignedTokens(realm(named)).shown(token, wall)


@pytest.mark.parametrize(
    ("kid", "algorithm"),
    [
        *(("r1", name) for name in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        ("r2", "RS256"),
        (None, "RS256"),
        ("e1", "ES256"),
        ("o1", "EdDSA"),
        ("h1", "HS256"),
    ],
)
def test_signatures_that_are_taken(kid: str | None, algorithm: str) -> None:
    assert shown(signed(kid, algorithm)) == ("alice", (NOW + 60) * 1000)


@pytest.mark.parametrize(
    "changed",
    [
        {"iat": NOW + 50},
        {"iat": NOW + 60},
        {"nbf": NOW + 30},
        {"exp": NOW - 29, "iat": NOW - 50},
        {"exp": NOW + 30.5},
        {"iss": "x"},
        {"scope": "a b"},
        {"scope": ["a"]},
        {"scope": 3},
        {"sub": " alice "},
    ],
)
def test_claims_that_are_taken(changed: dict[str, Any]) -> None:
    assert shown(signed(**changed)) == ("alice", int(changed.get("exp", NOW + 60) * 1000))


def other(token: str) -> str:
    """With another signature."""
    head, _, signature = token.rpartition(".")
    return f"{head}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"


@pytest.mark.parametrize(
    "token",
    [
        unsecured(),
        unsecured(header={"alg": "none", "kid": "r1"}),
        unsecured(header={"alg": "None", "kid": "r1"}),
        unsecured(header={"alg": ["RS256"], "kid": "r1"}),
        unsecured(header={"alg": "RS256", "kid": "r1"}),
        signed(by="r2"),
        signed("unknown", by="r1"),
        signed(None, by="r2"),
        signed()[:-8],
        other(signed()),
        signed(exp=NOW - 31, iat=NOW - 50),
        signed(exp=NOW - 30, iat=NOW - 50),
        signed(exp=None),
        signed(iat=None),
        signed(iat=NOW + 61),
        signed(nbf=NOW + 31),
        signed(sub=None),
        signed(sub=""),
        signed(sub="  "),
        signed(aud="x"),
        signed(aud=[]),
        signed(scope=" "),
        signed_text("[]"),
        signed_text(f'{{"sub":5,"iat":{NOW},"exp":{NOW + 9}}}'),
        signed_text(f'{{"sub":"a","iat":{NOW},"exp":"{NOW + 9}"}}'),
        signed_text(f'{{"sub":"a","iat":"{NOW}","exp":{NOW + 9}}}'),
        signed_text(f'{{"sub":"a","nbf":"x","iat":{NOW},"exp":{NOW + 9}}}'),
        signed_text(f'{{"sub":"a","sub":"b","iat":{NOW},"exp":{NOW + 9}}}'),
        signed_text(f'{{"sub":"a","iat":{NOW},"exp":1e18}}'),
        signed_text(f'{{"sub":"a","aud":5,"iat":{NOW},"exp":{NOW + 9}}}'),
        signed_text(f'{{"sub":"a","aud":[5],"iat":{NOW},"exp":{NOW + 9}}}'),
        signed_text("{" * 100_000),
        signed_text(f'{{"sub":"a","iat":{NOW},"exp":{NOW + 9}}}', crit=["x"], x=1),
        signed_text(f'{{"sub":"a","iat":{NOW},"exp":{NOW + 9}}}', kid="r2"),
        "a.b.c",
        "a.b",
        "a.b.c.d.e",
        "..",
        "." * 1000,
    ],
)
def test_tokens_that_are_not(token: str) -> None:
    with pytest.raises(InvalidToken):
        shown(token)


def test_a_public_key_is_no_shared_secret() -> None:
    """The old trick: signed with HMAC, by the text of the public key."""
    import jwt

    forged = jwt.encode({"sub": "alice", "iat": NOW, "exp": NOW + 9}, SHARED, "HS256", headers={"kid": "r1"})
    with pytest.raises(InvalidToken, match="no such key"):
        shown(forged)


def test_a_token_can_not_bring_its_own_key() -> None:
    payload = f'{{"sub":"a","iat":{NOW},"exp":{NOW + 9}}}'
    brought = signed_text(payload, kid="other", jwk=public_key("r1"), jku="http://127.0.0.1:9/", x5u="http://x/")
    with pytest.raises(InvalidToken, match="no such key"):
        shown(brought)


def test_the_audience_and_the_issuer_that_are_expected() -> None:
    for audience in ("kafka", ["z", "other"]):
        token = signed(aud=audience, iss="https://me")
        assert shown(token, expected_audience="kafka,other", expected_issuer="https://me").name == "alice"
    for wrong in ({"aud": "z"}, {"aud": None}, {"aud": ["kafk"]}, {"iss": "https://you"}, {"iss": None}):
        changed: dict[str, Any] = {"aud": "kafka", "iss": "https://me", **wrong}
        with pytest.raises(InvalidToken, match=r"audience|issuer"):
            shown(signed(**changed), expected_audience="kafka,other", expected_issuer="https://me")


def test_claims_may_have_other_names() -> None:
    token = signed(sub=None, user="carol", scp="a")
    assert shown(token, sub_claim_name="user", scope_claim_name="scp").name == "carol"
    with pytest.raises(InvalidToken, match="scp"):
        shown(signed(scp=" "), scope_claim_name="scp")
    with pytest.raises(InvalidToken, match="user"):
        shown(signed(), sub_claim_name="user")


def test_the_clocks_may_differ_by_so_much() -> None:
    token = signed(exp=NOW - 4, iat=NOW - 9)
    assert shown(token, clock_skew_seconds="5").name == "alice"
    with pytest.raises(InvalidToken, match="expired"):
        shown(token, clock_skew_seconds="4")


@pytest.mark.parametrize("place", ["", "secured."])
def test_kafkas_handler_is_what_asks_for_signed_tokens(place: str) -> None:
    handler = f"{MODULES}.oauthbearer.{place}OAuthBearerValidatorCallbackHandler"
    known = realm()
    settings = settings_of({PREFIX + URL: "x", PREFIX + "oauthbearer.sasl.server.callback.handler.class": handler})
    server = mechanism_server("OAUTHBEARER", Realm(settings, known.around))
    assert type(server.begin().step(message(signed()), WALL)) is Done
    assert type(server.begin().step(message(unsecured()), WALL)) is Challenge


def test_another_class_that_validates_can_not_be_had() -> None:
    assert shown(signed(), jwt_validator_class=f"{MODULES}.oauthbearer.BrokerJwtValidator").name == "alice"
    with pytest.raises(ConfigError, match=r"com\.example\.Own .* listener OUTSIDE"):
        shown(signed(), jwt_validator_class="com.example.Own")


def test_without_a_url_the_start_ends() -> None:
    with pytest.raises(ConfigError, match=r"jwks\.endpoint\.url of listener OUTSIDE is not set"):
        SignedTokens(Realm(settings_of(), around()))


def test_without_the_extra_the_start_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    name = SignedTokens.__module__
    monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def without_jwt(wanted: str, *rest: Any, **more: Any) -> Any:
        if wanted.split(".")[0] == "jwt":
            raise ImportError(wanted)
        return real(wanted, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_jwt)
    with pytest.raises(ConfigError, match="pip install PyJWT cryptography"):
        __import__(name)
