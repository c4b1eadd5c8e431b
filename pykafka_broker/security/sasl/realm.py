"""What mechanisms of one listener may ask: its settings, the users and tokens of the metadata, the time.

Rule: settings are those of one moment; users and tokens are looked up when a client logs in, so a change of them counts
for the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from pykafka_broker.clock import Clock
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.jaas import LoginModule, login_module


class Document(Protocol):
    """What stands at a URL. content: as it was read last, whatever has become of it since; error: why it could not be
    read the last time, or an empty text; failures: one after the other; read_at: by `now`, when that was tried.
    """

    content: bytes
    error: str
    failures: int
    read_at: int

    def read(self) -> None:
        """Read it anew: at once if that takes no time, else beside the loop."""


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
    document: what stands at a URL, which has been read once; the same one for the same URL.
    """

    image: Callable[[], MetadataImage]
    clock: Clock
    new_nonce: Callable[[], str]
    document: Callable[[str], Document]


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
