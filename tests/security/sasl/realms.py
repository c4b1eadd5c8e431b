"""Listeners for tests: settings, users, and a nonce that is known."""

from __future__ import annotations

import hashlib
import hmac

from pykafka_broker.clock import Clock
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.config import BrokerConfig
from pykafka_broker.protocol.stored.user_scram_credential_record import UserScramCredentialRecord
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.mechanism import Around, Realm

PREFIX = "listener.name.outside."
MODULES = "org.apache.kafka.common.security"
PLAIN_LINE = f'{MODULES}.plain.PlainLoginModule required user_alice="alice-secret" user_bob="bob-secret";'
SCRAM_LINE = f"{MODULES}.scram.ScramLoginModule required;"
OAUTH_LINE = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"
JAAS = {
    PREFIX + "plain.sasl.jaas.config": PLAIN_LINE,
    PREFIX + "scram-sha-256.sasl.jaas.config": SCRAM_LINE,
    PREFIX + "scram-sha-512.sasl.jaas.config": SCRAM_LINE,
    PREFIX + "oauthbearer.sasl.jaas.config": OAUTH_LINE,
}
NONCE = "serverNonce"
_DIGESTS = {1: "sha256", 2: "sha512"}


def settings_of(settings: dict[str, str] | None = None) -> ListenerSettings:
    return ListenerSettings(BrokerConfig({**JAAS, **(settings or {})}), "OUTSIDE")


class Kept:
    """A document whose content the test sets."""

    def __init__(self, content: bytes = b"", error: str = "") -> None:
        self.content = self.next_content = content
        self.error = self.next_error = error
        self.failures = self.reads = 0
        self.read_at = 1_000_000

    def read(self) -> None:
        self.reads += 1
        self.error = self.next_error
        self.failures = self.failures + 1 if self.error else 0
        if not self.error:
            self.content = self.next_content


def around(image: MetadataImage | None = None, clock: Clock | None = None) -> Around:
    image = image or MetadataImage()
    return Around(lambda: image, clock or Clock(1_000_000), lambda: NONCE, lambda url: Kept())


def realm_of(settings: dict[str, str] | None = None, image: MetadataImage | None = None) -> Realm:
    return Realm(settings_of(settings), around(image))


def add_user(image: MetadataImage, name: str, password: str, kind: int = 1, iterations: int = 4096) -> None:
    """Add a SCRAM user, as `kafka-configs --add-config SCRAM-SHA-256=[password=...]` does."""
    digest, salt = _DIGESTS[kind], b"salt of " + name.encode()
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    stored = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    server = hmac.digest(salted, b"Server Key", digest)
    image.scram[kind, name] = UserScramCredentialRecord(name, kind, salt, stored, server, iterations)
