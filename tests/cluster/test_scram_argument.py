"""A user of `--add-scram` can log in afterwards, and no sentence about a wrong one has the password."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from pykafka_broker.cluster.format_request import FormatError
from pykafka_broker.cluster.scram_argument import scram_user


def test_the_keys_are_those_of_rfc_5802() -> None:
    user = scram_user(" SCRAM-SHA-512=[name=alice,password=alice-secret,iterations=5000] ", lambda: b"the salt")
    salted = hashlib.pbkdf2_hmac("sha512", b"alice-secret", b"the salt", 5000)
    client_key = hmac.digest(salted, b"Client Key", "sha512")
    assert (user.name, user.mechanism, user.salt, user.iterations) == ("alice", 2, b"the salt", 5000)
    assert user.stored_key == hashlib.sha512(client_key).digest()
    assert user.server_key == hmac.digest(salted, b"Server Key", "sha512")


def test_a_salted_password_stands_for_the_password() -> None:
    salt = base64.b64encode(b"the salt").decode()
    salted = base64.b64encode(hashlib.pbkdf2_hmac("sha256", b"secret", b"the salt", 4096)).decode()
    one = scram_user(f'SCRAM-SHA-256=[name=a,salt="{salt}",saltedpassword="{salted}"]', bytes)
    other = scram_user(f'SCRAM-SHA-256=[name=a,salt="{salt}",password="secret"]', bytes)
    assert one == other


@pytest.mark.parametrize(
    "text",
    [
        "SCRAM-SHA-1=[name=a,password=hunter2]",
        "SCRAM-SHA-256=[name=a,password=hunter2",
        "SCRAM-SHA-256=name=a,password=hunter2",
        "SCRAM-SHA-256=[password=hunter2]",
        "SCRAM-SHA-256=[name=a,password=hunter2,iterations=1]",
        "SCRAM-SHA-256=[name=a,password=hunter2,salt=!]",
        "SCRAM-SHA-256=[name=a,password=hunter2,other=1]",
        "SCRAM-SHA-256=[name=a,saltedpassword=hunter2!,salt=MWx2]",
        "SCRAM-SHA-256=[name=a,saltedpassword=hunter2]",
        "SCRAM-SHA-256=[name=a,password=]",
    ],
)
def test_what_is_wrong_with_a_user_is_told_without_the_password(text: str) -> None:
    with pytest.raises(FormatError) as raised:
        scram_user(text, bytes)
    assert "hunter2" not in str(raised.value)
