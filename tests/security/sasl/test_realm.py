"""What mechanisms may ask."""

from __future__ import annotations

from pykafka_broker.cluster.image import MetadataImage
from tests.security.sasl.realms import add_user, realm_of


def test_users_are_those_of_the_moment() -> None:
    image = MetadataImage()
    realm = realm_of(image=image)
    assert realm.scram_keys(1, "alice") is None
    add_user(image, "alice", "secret", iterations=8192)
    keys = realm.scram_keys(1, "alice")
    assert keys is not None
    assert keys.iterations == 8192
    assert realm.scram_keys(2, "alice") is None


def test_a_realm_knows_its_listener_and_its_login_modules() -> None:
    realm = realm_of()
    assert realm.listener == "OUTSIDE"
    assert realm.jaas("PLAIN").options["user_bob"] == "bob-secret"
