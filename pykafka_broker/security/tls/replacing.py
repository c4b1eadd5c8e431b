"""Keys and certificates of a listener that are replaced while it serves (KIP-226).

Rule: a new certificate is for the same broker, with its name and at least its alternative names, unless
`ssl.allow.dn.changes` and `ssl.allow.san.changes` say that it need not be; else nothing changes. Clients are told in
Kafka's words.
"""

from __future__ import annotations

import ipaddress

from pykafka_broker.config.values import ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.tls.der import names_of
from pykafka_broker.security.tls.distinguished_names import text_of
from pykafka_broker.security.tls.stores import KeyStore, StoreError

_IP_ADDRESS = 7
_TEXTS = (1, 2, 6)  # mail, DNS and URI


def refused(error: ConfigError) -> ConfigError:
    """As Kafka wraps what is wrong with new settings."""
    reason = error.kafka if isinstance(error, StoreError) else str(error)
    return ConfigError(f"Validation of dynamic config update of SSLFactory failed: {reason}")


def check_replacement(old: KeyStore, new: KeyStore, settings: ListenerSettings) -> None:
    """Raises ConfigError."""
    before, after = names_of(old.chain[0]), names_of(new.chain[0])
    if before.subject != after.subject and not settings.get("ssl.allow.dn.changes"):
        existing, proposed = (
            f"{{alias={store.alias}, DN={text_of(names.subject)}}}" for store, names in ((old, before), (new, after))
        )
        raise _mismatch("DistinguishedName does", existing, proposed)
    if not set(before.alternatives) <= set(after.alternatives) and not settings.get("ssl.allow.san.changes"):
        existing, proposed = (
            f"{{alias={store.alias}, SAN=[{', '.join(map(_shown, names.alternatives))}]}}"
            for store, names in ((old, before), (new, after))
        )
        raise _mismatch("SubjectAltNames do", existing, proposed)


def _mismatch(what: str, existing: str, new: str) -> ConfigError:
    return ConfigError(
        f"org.apache.kafka.common.config.ConfigException: Keystore {what} not match:  existing={existing}, new={new}"
    )


def _shown(name: bytes) -> str:
    """An alternative name as Java prints it; short ones only have a length of one byte."""
    kind, content = name[0] & 0x1F, name[2:]
    if kind in _TEXTS:
        return f"[{kind}, {content.decode('latin-1')}]"
    if kind == _IP_ADDRESS and len(content) in (4, 16):
        return f"[{kind}, {ipaddress.ip_address(content)}]"
    return f"[{kind}, #{content.hex()}]"
