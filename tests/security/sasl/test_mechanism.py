"""Which mechanisms there are.

What mechanisms may ask.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.jaas import login_module
from pykafka_broker.security.sasl.mechanism import mechanism_of
from pykafka_broker.security.sasl.scram import user_keys
from tests.security.sasl.realms import add_user, realm_of


@pytest.mark.parametrize("name", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_each_client_has_an_exchange_of_its_own(name: str) -> None:
    server = mechanism_of(name, realm_of())
    assert server() is not server()


def test_one_that_is_not_served_is_told_with_the_listener() -> None:
    with pytest.raises(
        ConfigError, match=r"DIGEST-MD5 for configuration sasl.enabled.mechanisms: listener OUTSIDE: it must be one of"
    ):
        mechanism_of("DIGEST-MD5", realm_of())


def test_a_mechanism_is_imported_by_the_first_listener_that_has_it() -> None:
    code = "import sys, pykafka_broker.security.sasl.mechanism; print([n for n in sys.modules if '.sasl.' in n])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "mechanism" in found
    assert "plain" not in found
    assert "scram" not in found


def test_users_are_those_of_the_moment() -> None:
    image = MetadataImage()
    realm = realm_of(image=image)
    assert user_keys(realm, 1, "alice") is None
    add_user(image, "alice", "secret", iterations=8192)
    keys = user_keys(realm, 1, "alice")
    assert keys is not None
    assert keys.iterations == 8192
    assert user_keys(realm, 2, "alice") is None


def test_a_realm_knows_its_listener_and_its_login_modules() -> None:
    realm = realm_of()
    assert realm.settings.name == "OUTSIDE"
    assert login_module(realm.settings, "PLAIN").options["user_bob"] == "bob-secret"
