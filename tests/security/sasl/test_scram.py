"""SCRAM, byte by byte.

Logins with delegation tokens: which one is known, and what checks its password.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from pykafka_broker.clock import Clock
from pykafka_broker.cluster.delegation_tokens import token_hmac
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.protocol.stored.delegation_token_record import DelegationTokenRecord
from pykafka_broker.protocol.stored.user_scram_credential_record import UserScramCredentialRecord
from pykafka_broker.security.sasl import scram as scram_module
from pykafka_broker.security.sasl.mechanism import Challenge, Done, LoginRefused, Realm
from pykafka_broker.security.sasl.scram import (
    Scram,
    ScramKeys,
    TokenLogin,
    scram_sha_256,
    scram_sha_512,
    token_login,
    user_keys,
)
from tests.security.sasl.realms import NONCE, add_user, around, realm_of, settings_of

SERVERS = {1: scram_sha_256, 2: scram_sha_512}
DIGESTS = {1: "sha256", 2: "sha512"}


def login(kind: int, realm: Realm) -> Scram:
    return SERVERS[kind](realm)()


def users(*names: str, kind: int = 1) -> Realm:
    image = MetadataImage()
    for name in names:
        add_user(image, name, f"{name}-secret", kind)
    return realm_of(image=image)


def final(
    first: str, challenge: bytes, password: str, kind: int = 1, header: str = "n,,", twice: str = ""
) -> tuple[bytes, bytes]:
    """Return a client's final message, and the server's last message that it expects (RFC 5802, section 3)."""
    nonce, salt, iterations = (part[2:] for part in challenge.decode().split(","))
    digest = DIGESTS[kind]
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), base64.b64decode(salt), int(iterations))
    key = hmac.digest(salted, b"Client Key", digest)
    bare = first.removeprefix(header)
    without_proof = f"c={base64.b64encode(header.encode()).decode()},r={twice}{nonce}"
    message = f"{bare},{challenge.decode()},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(digest, key).digest(), message, digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    verifier = base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", digest), message, digest))
    return f"{without_proof},p={proof}".encode(), b"v=" + verifier


def whole(realm: Realm, first: str, password: str, kind: int = 1, header: str = "n,,") -> Done:
    scram = login(kind, realm)
    challenge = scram.step(first.encode(), 0)
    assert type(challenge) is Challenge
    last, expected = final(first, challenge.token, password, kind, header)
    done = scram.step(last, 0)
    assert type(done) is Done
    assert done.token == expected
    return done


def test_the_exchange_of_rfc_7677() -> None:
    image = MetadataImage()
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    image.scram[1, "user"] = UserScramCredentialRecord("user", 1, salt, stored, server, 4096)
    stand = around(image)
    realm = Realm(settings_of(), stand._replace(new_nonce=lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"))
    scram = login(1, realm)
    assert scram.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", 0) == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    done = scram.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        0,
    )
    assert done == Done(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "User:user")


@pytest.mark.parametrize("kind", [1, 2])
def test_the_right_password_makes_a_principal(kind: int) -> None:
    assert whole(users("alice", kind=kind), "n,,n=alice,r=abc", "alice-secret", kind).principal == "User:alice"


@pytest.mark.parametrize(
    ("name", "escaped"),
    [("a,b", "a=2Cb"), ("a=b", "a=3Db"), ("=2C", "=3D2C"), ("a\x01\x7f", "a\x01\x7f"), ("a b", "a b")],
)
def test_any_name_of_ascii_can_log_in(name: str, escaped: str) -> None:
    assert whole(users(name), f"n,,n={escaped},r=abc", f"{name}-secret").principal == f"User:{name}"


def test_an_authorization_id_is_part_of_what_is_signed() -> None:
    done = whole(users("alice"), "n,a=alice,n=alice,r=abc", "alice-secret", header="n,a=alice,")
    assert done.principal == "User:alice"


def test_extensions_that_nobody_knows_are_passed_over() -> None:
    for extensions in ("later=on,x=y", "tokenAuth=true", "tokenauth=true,tokenauth=no"):
        done = whole(users("alice"), f"n,,n=alice,r=abc,{extensions}", "alice-secret")
        assert (done.principal, done.by_token) == ("User:alice", False)


@pytest.mark.parametrize(
    "first",
    [
        "n,,n=nobody,r=abc",
        "n,,n=alice,r=abc,tokenauth=true",  # there is no such token
        "y,,n=alice,r=abc",
        "p=tls-unique,,n=alice,r=abc",
        "n,,n=alice",
        "n,,n=alice,r=",
        "n,,n=al=ice,r=abc",
        "n,,n=,r=abc",
        "n,,m=x,n=alice,r=abc",
        "n,,n=alice,r=abc,",
        "n,,n=alice,r=abc,later",
        "n,,n=alice,r=abc,later=ü",
        "n,,n=jürgen,r=abc",  # Kafka's server takes ASCII alone
        "",
        "\0",
        "n" * 70_000,
        "n,,n=alice,r=abc,x=" + "y" * 70_000,
    ],
)
def test_a_first_message_that_is_wrong_is_refused_as_a_wrong_password_is(first: str) -> None:
    with pytest.raises(LoginRefused) as raised:
        login(1, users("alice", "jürgen")).step(first.encode(), 0)
    assert str(raised.value) == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )


def test_a_credential_for_the_other_mechanism_is_none() -> None:
    with pytest.raises(LoginRefused, match="mechanism SCRAM-SHA-512"):
        login(2, users("alice", kind=1)).step(b"n,,n=alice,r=abc", 0)


def test_another_authorization_id_is_told() -> None:
    with pytest.raises(LoginRefused, match="authorization id that is different from username"):
        login(1, users("alice")).step(b"n,a=bob,n=alice,r=abc", 0)


def test_a_token_that_is_no_utf_8_is_refused() -> None:
    with pytest.raises(LoginRefused):
        login(1, users("alice")).step(b"n,,n=\xff,r=abc", 0)


def test_every_bit_of_the_last_message_counts() -> None:
    """A login fails if any character of the last message is changed."""
    realm = users("alice")
    first = "n,,n=alice,r=abc"
    refused = 0
    for at in range(200):
        scram = login(1, realm)
        challenge = scram.step(first.encode(), 0)
        right, _ = final(first, challenge.token, "alice-secret")
        if at >= len(right) - 2:  # of the last letters not every bit is part of the proof
            break
        if right[at : at + 1] == b"=":
            continue
        wrong = bytearray(right)
        wrong[at] ^= 1
        with pytest.raises(LoginRefused):
            scram.step(bytes(wrong), 0)
        refused += 1
    assert refused > 60


@pytest.mark.parametrize(
    "change", [(b"biws", b"eSws"), (NONCE.encode(), b"another"), (b",p=", b",q="), (b",p=", b",p=A")]
)
def test_binding_nonce_and_proof_must_be_those_of_this_exchange(change: tuple[bytes, bytes]) -> None:
    scram = login(1, users("alice"))
    first = "n,,n=alice,r=abc"
    last, _ = final(first, scram.step(first.encode(), 0).token, "alice-secret")
    assert change[0] in last
    with pytest.raises(LoginRefused):
        scram.step(last.replace(*change), 0)


def test_the_binding_is_that_of_the_first_message_even_if_it_is_signed() -> None:
    scram = login(1, users("alice"))
    token = scram.step(b"n,,n=alice,r=abc", 0).token
    last, _ = final("y,,n=alice,r=abc", token, "alice-secret", header="y,,")
    with pytest.raises(LoginRefused):
        scram.step(last, 0)


@pytest.mark.parametrize(("emulated", "taken"), [("", False), ("4.0", False), ("3.9", True), ("2.8", True)])
def test_a_nonce_with_the_clients_part_twice_is_taken_before_4_0(emulated: str, taken: bool) -> None:
    """Releases before 4.0 take a nonce with the client's part twice, which librdkafka sends before 2.6.1."""
    image = MetadataImage()
    add_user(image, "alice", "alice-secret")
    scram = login(1, realm_of({"pykafka.emulate": emulated} if emulated else {}, image))
    first = "n,,n=alice,r=abc"
    last, verifier = final(first, scram.step(first.encode(), 0).token, "alice-secret", twice="abc")
    if taken:
        assert scram.step(last, 0).token == verifier
        return
    with pytest.raises(LoginRefused):
        scram.step(last, 0)


def test_a_wrong_password_is_refused_at_the_second_message() -> None:
    with pytest.raises(LoginRefused):
        whole(users("alice"), "n,,n=alice,r=abc", "wrong")


def test_with_tokenauth_the_name_is_that_of_a_delegation_token(monkeypatch: pytest.MonkeyPatch) -> None:
    realm = users("token-id")
    keys = user_keys(realm, 1, "token-id")
    assert isinstance(keys, ScramKeys)
    found = TokenLogin("User:owner", keys, 5_000)
    monkeypatch.setattr(scram_module, "token_login", lambda realm, kind, name: found if name == "token-id" else None)
    for word in ("true", "TRUE"):  # as Java's parseBoolean has it
        done = whole(realm, f"n,,n=token-id,r=abc,tokenauth={word}", "token-id-secret")
        assert (done.principal, done.expires_ms, done.by_token) == ("User:owner", 5_000, True)


def test_keys_are_not_shown() -> None:
    keys = user_keys(users("alice"), 1, "alice")
    assert repr(keys) == "ScramKeys(iterations=4096)"


WALL = 1_000_000


def realm(wall: int = WALL, key: str | None = "sesame", expires: int = WALL + 5, ends: int = WALL + 9) -> Realm:
    image = MetadataImage()
    image.delegation_tokens["id"] = DelegationTokenRecord("User:alice", "User:bob", [], 0, ends, expires, "id")
    settings = {} if key is None else {"delegation.token.secret.key": key}
    return Realm(settings_of(settings), around(image, Clock(0, wall)))


@pytest.mark.parametrize(("kind", "digest"), [(1, "sha256"), (2, "sha512")])
def test_the_password_is_the_hmac_in_base64(kind: int, digest: str) -> None:
    login = token_login(realm(), kind, "id")
    assert login is not None
    assert (login.owner, login.expires_ms) == ("User:alice", WALL + 5)
    keys = login.keys
    password = base64.b64encode(token_hmac("sesame", "id"))
    salted = hashlib.pbkdf2_hmac(digest, password, keys.salt, keys.iterations)
    assert keys.iterations == 4096
    assert keys.stored_key == hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    assert keys.server_key == hmac.digest(salted, b"Server Key", digest)


def test_every_token_has_a_salt_of_its_own() -> None:
    one, other = (token_login(realm(key=key), 1, "id") for key in ("sesame", "another"))
    assert one is not None
    assert other is not None
    assert one.keys.salt != other.keys.salt
    assert len(one.keys.salt) == 16


def test_a_session_never_outlives_the_end_of_the_token() -> None:
    login = token_login(realm(expires=WALL + 9, ends=WALL + 3), 1, "id")
    assert login is not None
    assert login.expires_ms == WALL + 3


def test_what_is_unknown_or_has_expired_does_not_log_in() -> None:
    assert token_login(realm(), 1, "another") is None
    assert token_login(realm(wall=WALL + 5), 1, "id") is not None
    assert token_login(realm(wall=WALL + 6), 1, "id") is None


def test_a_removed_token_is_not_remembered() -> None:
    known = realm()
    assert token_login(known, 1, "id") is not None
    known.around.image().delegation_tokens.clear()
    assert token_login(known, 1, "id") is None


def test_without_a_secret_key_no_token_logs_in() -> None:
    assert token_login(realm(key=None), 1, "id") is None
