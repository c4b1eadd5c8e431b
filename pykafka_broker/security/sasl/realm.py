"""What mechanisms of one listener may ask: its settings, the users and tokens of the metadata, the time.

Rule: settings are those of one moment; users and tokens are looked up when a client logs in, so a change of them counts
for the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pykafka_broker.clock import Clock
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.jaas import LoginModule, login_module


class ScramKeys(NamedTuple):
    """What can check the password of one user by one mechanism, and can't be used in its place."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramKeys(iterations={self.iterations})"


class TokenLogin(NamedTuple):
    """A delegation token that is valid: whose it is, what can check its password, and when it expires."""

    owner: str
    keys: ScramKeys
    expires_ms: int


class Around(NamedTuple):
    """What stands around a listener.

    image: the metadata as it is now.
    new_nonce: 128 random bits or more, as printable ASCII without a comma.
    """

    image: Callable[[], MetadataImage]
    clock: Clock
    new_nonce: Callable[[], str]


class Realm:
    """One listener, as mechanisms see it."""

    __slots__ = ("around", "settings")

    def __init__(self, settings: ListenerSettings, around: Around) -> None:
        self.settings = settings
        self.around = around

    @property
    def listener(self) -> str:
        return self.settings.name

    def jaas(self, mechanism: str) -> LoginModule:
        """The one login module of `sasl.jaas.config`. Raises ConfigError."""
        return login_module(self.settings, mechanism)

    def scram_keys(self, kind: int, name: str) -> ScramKeys | None:
        """Of a user by SCRAM-SHA-256 (1) or SCRAM-SHA-512 (2)."""
        record = self.around.image().scram.get((kind, name))
        if record is None:
            return None
        return ScramKeys(record.salt, record.iterations, record.stored_key, record.server_key)

    def token_login(self, kind: int, token_id: str) -> TokenLogin | None:
        """The same of a delegation token, by its id, if it has not expired."""
        from pykafka_broker.security.sasl.token_logins import token_login  # most listeners never see one

        return token_login(self, kind, token_id)
