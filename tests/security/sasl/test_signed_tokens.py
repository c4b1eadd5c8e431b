"""Signed tokens: which ones are taken, as a real 4.4.0 takes them.

The keys that sign tokens: which one is taken, and when they are read anew.
"""

from __future__ import annotations

import builtins
import json
import logging
import sys
from typing import Any

import pytest

from pykafka_broker.clock import Clock
from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.jws import InvalidToken, ShownToken
from pykafka_broker.security.sasl.mechanism import Challenge, Done, Realm, mechanism_of
from pykafka_broker.security.sasl.oauthbearer import Jwks, SignedTokens
from tests.security.sasl.bearer import NOW, WALL, message, unsecured
from tests.security.sasl.realms import MODULES, PREFIX, Kept, around, settings_of
from tests.security.sasl.signing import SHARED, key_set, public_key, signed, signed_text

URL = "sasl.oauthbearer.jwks.endpoint.url"
KEYS = key_set(public_key("r1"), public_key("r2"), public_key("e1"), public_key("o1"), public_key("h1"))
ANY = {"allow.unverified.audience": "true", "allow.unverified.issuer": "true"}


def realm(settings: dict[str, str] | None = None, release: str = "") -> Realm:
    chosen = ANY if settings is None else settings
    given = {f"{PREFIX}sasl.oauthbearer.{name}": value for name, value in chosen.items()}
    document = Kept(KEYS)
    stand = around(clock=Clock(1_000_000, WALL))._replace(document=lambda url: document)
    return Realm(settings_of({PREFIX + URL: "file:/keys", "pykafka.emulate": release, **given}), stand)


def shown(token: str, wall: int = WALL, release: str = "", **settings: str) -> ShownToken:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return SignedTokens(realm(ANY | named, release)).shown(token, wall)


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
    """Return the token with another signature."""
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
        signed(nbf=NOW + 20, exp=NOW + 10),  # each of them within what the clocks may differ by
        signed(sub=None),
        signed(sub=""),
        signed(sub="  "),
        signed(scope=" "),
        signed_text("[]"),
        signed_text(f'{{"sub":5,"iat":{NOW},"exp":{NOW + 9}}}'),
        signed_text(f'{{"sub":"a","iat":{NOW},"exp":"{NOW + 9}"}}'),
        signed_text(f'{{"sub":"a","iat":"{NOW}","exp":{NOW + 9}}}'),
        signed_text(f'{{"sub":"a","nbf":"x","iat":{NOW},"exp":{NOW + 9}}}'),
        signed_text(f'{{"sub":"a","sub":"b","iat":{NOW},"exp":{NOW + 9}}}'),
        signed_text(f'{{"sub":"a","iat":{NOW},"exp":1e18}}'),
        signed_text(f'{{"sub":"a","iss":5,"iat":{NOW},"exp":{NOW + 9}}}'),
        signed_text(f'{{"sub":"a","iss":[],"iat":{NOW},"exp":{NOW + 9}}}'),
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


@pytest.mark.parametrize("audience", ['"x"', "[]", "5", "[5]"])
def test_an_audience_where_none_is_expected(audience: str) -> None:
    """Kafka 4.3.1 refuses such a token; a 4.4.0 that starts so takes tokens of any audience, as it is told."""
    token = signed_text(f'{{"sub":"alice","aud":{audience},"iat":{NOW},"exp":{NOW + 9}}}')
    assert shown(token).name == "alice"
    with pytest.raises(InvalidToken, match=r"audience|claim aud"):
        shown(token, release="4.3")


@pytest.mark.parametrize("claim", ["audience", "issuer"])
def test_without_an_expected_audience_and_issuer_the_start_ends_since_4_4(claim: str) -> None:
    expected = {"expected.audience": "kafka", "expected.issuer": "https://me"}
    del expected[f"expected.{claim}"]
    with pytest.raises(ConfigError, match=rf"expected\.{claim} of listener OUTSIDE .*allow\.unverified\.{claim}"):
        SignedTokens(realm(expected))
    SignedTokens(realm(expected | {f"allow.unverified.{claim}": "true"}))
    SignedTokens(realm(expected, "4.3"))


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


VALIDATES = "OAuthBearerValidatorCallbackHandler"


@pytest.mark.parametrize("place", ["", "secured."])
def test_kafkas_handler_is_what_asks_for_signed_tokens(place: str) -> None:
    handler = f"{MODULES}.oauthbearer.{place}{VALIDATES}"
    known = realm()
    anything = {f"{PREFIX}sasl.oauthbearer.{name}": value for name, value in ANY.items()}
    settings = settings_of(
        {**anything, PREFIX + URL: "x", PREFIX + "oauthbearer.sasl.server.callback.handler.class": handler}
    )
    server = mechanism_of("OAUTHBEARER", Realm(settings, known.around))
    assert type(server().step(message(signed()), WALL)) is Done
    assert type(server().step(message(unsecured()), WALL)) is Challenge


def test_another_class_that_validates_can_not_be_had() -> None:
    assert shown(signed(), jwt_validator_class=f"{MODULES}.oauthbearer.BrokerJwtValidator").name == "alice"
    with pytest.raises(ConfigError, match=r"com\.example\.Own .* listener OUTSIDE"):
        shown(signed(), jwt_validator_class="com.example.Own")


def test_without_a_url_the_start_ends() -> None:
    with pytest.raises(ConfigError, match=r"jwks\.endpoint\.url of listener OUTSIDE is not set"):
        SignedTokens(Realm(settings_of(), around()))


def test_without_the_extra_only_signed_tokens_end_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, SignedTokens.__module__)
    real = builtins.__import__

    def without_jwt(wanted: str, *rest: Any, **more: Any) -> Any:
        if wanted.split(".")[0] == "jwt":
            raise ImportError(wanted)
        return real(wanted, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_jwt)
    unsigned = mechanism_of("OAUTHBEARER", Realm(settings_of(), around()))
    assert type(unsigned().step(message(unsecured()), WALL)) is Done
    handler = {PREFIX + "oauthbearer.sasl.server.callback.handler.class": f"{MODULES}.oauthbearer.{VALIDATES}"}
    with pytest.raises(ConfigError, match="pip install PyJWT cryptography"):
        mechanism_of("OAUTHBEARER", Realm(settings_of(handler), around()))


START = 1_000_000
HOUR = 3_600_000


def jwks(document: Kept) -> Jwks:
    return Jwks(settings_of(), document)


@pytest.mark.parametrize(
    ("kid", "algorithm"),
    [("r1", "RS256"), ("r1", "PS512"), ("r2", "RS384"), ("e1", "ES256"), ("o1", "EdDSA"), ("h1", "HS256")],
)
def test_a_key_is_found_by_its_id(kid: str, algorithm: str) -> None:
    found = jwks(Kept(KEYS)).key(kid, algorithm, START)
    assert found is not None
    assert found.key_id == kid


def test_without_an_id_it_is_the_first_of_its_kind() -> None:
    found = jwks(Kept(KEYS)).key(None, "RS256", START)
    assert found is not None
    assert found.key_id == "r1"


@pytest.mark.parametrize(("kid", "algorithm"), [("r1", "ES256"), ("r1", "HS256"), ("e1", "RS256"), ("x", "RS256")])
def test_a_key_of_another_kind_or_id_is_none(kid: str, algorithm: str) -> None:
    assert jwks(Kept(KEYS)).key(kid, algorithm, START) is None


def test_a_key_may_be_for_one_algorithm_or_for_another_use() -> None:
    keys = jwks(Kept(key_set(public_key("r1", alg="RS384", use="sig"), public_key("r2", use="enc"))))
    assert keys.key("r1", "RS384", START) is not None
    assert keys.key("r1", "RS256", START) is None
    assert keys.key("r2", "RS256", START) is None


NO_KEY_SETS = [
    b"",
    b"garbage",
    b"\xff\xfe",
    b"[]",
    b"{}",
    b'{"keys":5}',
    b'{"keys":[]}',
    b'{"keys":[5]}',
    b'{"keys":[{}]}',
    b'{"keys":[{"kty":5}]}',
    b"[" * 100_000,
    key_set(*[public_key("o1")] * 1001),
    key_set(public_key("r1", use="enc")),
]


@pytest.mark.parametrize("content", NO_KEY_SETS, ids=range(len(NO_KEY_SETS)))
def test_what_is_no_key_set_ends_the_start(content: bytes) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url of listener OUTSIDE"):
        jwks(Kept(content))


def test_what_can_not_be_read_ends_the_start() -> None:
    with pytest.raises(ConfigError, match="No such file"):
        jwks(Kept(error="No such file"))


def test_what_was_read_before_will_do_while_it_can_not_be_read() -> None:
    """A listener whose settings change looks at its keys anew."""
    assert jwks(Kept(KEYS, error="unreachable")).key("r1", "RS256", START) is not None


@pytest.mark.parametrize(
    "key",
    [{"kty": "RSA", "kid": "b", "n": "!", "e": "AQAB"}, {"kty": "RSA", "kid": "b"}, {"kty": "RSA", "kid": "b", "n": 5}],
)
def test_one_key_that_is_garbage_spoils_only_itself(key: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    keys = jwks(Kept(key_set(key, public_key("r1"))))
    with caplog.at_level(logging.WARNING):
        assert keys.key("b", "RS256", START) is None
    assert "can't be used" in caplog.text
    assert keys.key("r1", "RS256", START) is not None


def test_garbage_later_leaves_the_keys_as_they_were() -> None:
    document = Kept(KEYS)
    keys = jwks(document)
    document.next_content = b"garbage"
    assert keys.key("new", "RS256", START + 1000) is None
    assert keys.key("r1", "RS256", START + 1000) is not None
    assert document.reads == 1


def test_an_unknown_id_is_looked_for_anew() -> None:
    document = Kept(key_set(public_key("r1")))
    keys = jwks(document)
    document.next_content = KEYS
    assert keys.key("r2", "RS256", START + 1000) is not None


def test_but_not_more_than_once_a_second() -> None:
    document = Kept(KEYS)
    keys = jwks(document)
    for _ in range(100):
        assert keys.key("x", "RS256", START + 999) is None
    assert document.reads == 0
    keys.key("x", "RS256", START + 1000)
    assert document.reads == 1


def test_old_keys_are_read_anew() -> None:
    document = Kept(KEYS)
    keys = jwks(document)
    document.next_content = key_set(public_key("r2"))
    assert keys.key("r1", "RS256", START + HOUR - 1) is not None
    assert keys.key("r1", "RS256", START + HOUR) is None


def test_after_failures_there_are_longer_and_longer_pauses() -> None:
    document = Kept(KEYS)
    keys = jwks(document)
    document.next_error = "unreachable"
    document.failures, document.error = 6, "unreachable"
    for now in (START + 1000, START + 3199):  # 100 ms, doubled five times
        keys.key("x", "RS256", now)
    assert document.reads == 0
    keys.key("x", "RS256", START + 3200)
    assert document.reads == 1
    document.failures = 60
    keys.key("x", "RS256", START + 9999)
    assert document.reads == 1
    keys.key("x", "RS256", START + 10_000)
    assert document.reads == 2
    assert keys.key("r1", "RS256", START + 10_000) is not None


def test_nothing_of_the_document_is_told(caplog: pytest.LogCaptureFixture) -> None:
    secret = json.dumps({"keys": [{"kty": "RSA", "d": "very-secret"}], "x": 1})[:-1].encode()
    with caplog.at_level(logging.DEBUG), pytest.raises(ConfigError) as error:
        jwks(Kept(secret))
    assert "very-secret" not in caplog.text + str(error.value)
