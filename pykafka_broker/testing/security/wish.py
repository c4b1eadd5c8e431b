"""What a test wants of its broker's security, and what that means as a configuration.

Rule: what contradicts itself is a ValueError that says what to do, when the broker is made and not when it starts.
"""

from __future__ import annotations

import re
import secrets
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
DEFAULT_MECHANISMS = MECHANISMS[:3]
CLIENT_AUTH = ("none", "requested", "required")
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_MODULES = "org.apache.kafka.common.security."
_LOGIN_MODULES = {
    PLAIN: f"{_MODULES}plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_MODULES}scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_MODULES}scram.ScramLoginModule",
    OAUTHBEARER: f"{_MODULES}oauthbearer.OAuthBearerLoginModule",
}
_NAME = re.compile(r"[^\s\"'=,;\\]+")
_BROKER = "pykafka-broker"
_ITERATIONS = 4096


class Security:
    """`users` are names, or names with their passwords; the others get one. `acls` are sentences (`acls.py`), None for
    a broker on which everybody may do everything. `host` is what clients dial.
    """

    def __init__(
        self,
        protocol: str | None,
        users: Mapping[str, str] | Iterable[str] = (),
        acls: Iterable[str] | None = None,
        mechanisms: Iterable[str] | None = None,
        client_auth: str | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.protocol = (protocol or PROTOCOLS[0]).lower()
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"security={protocol!r}: it must be one of {', '.join(PROTOCOLS)}")
        self.passwords = _passwords(users)
        self.mechanisms = self._mechanisms(mechanisms)
        self.client_auth = self._client_auth(client_auth)
        self._check()
        if isinstance(acls, str):
            raise ValueError(f"acls must be a list of sentences: acls=[{acls!r}]")
        self.acls = None if acls is None else tuple(acls)
        if self.acls is not None:
            from pykafka_broker.testing.security.acls import parse_acls

            parse_acls(self.acls, self.passwords)
        self._authority_pem = ""
        self._identities: dict[str, str] = {}  # key and certificates by user; the broker's too
        if self.has_tls:
            self._make_certificates(host)

    def __repr__(self) -> str:
        return f"<Security {self.protocol}, users {', '.join(self.passwords) or 'none'}>"

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("ssl")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("sasl")

    @property
    def listener(self) -> str:
        """The name of the listener, which is that of its protocol."""
        return self.protocol.upper()

    def _mechanisms(self, wanted: Iterable[str] | None) -> tuple[str, ...]:
        if not self.has_sasl:
            if wanted is not None:
                raise ValueError(f"mechanisms are for security='sasl_plaintext' or 'sasl_ssl', not {self.protocol!r}")
            return ()
        names = tuple((wanted,) if isinstance(wanted, str) else wanted or DEFAULT_MECHANISMS)
        for name in names:
            if name not in MECHANISMS:
                raise ValueError(f"mechanism {name} is not known; it must be one of {', '.join(MECHANISMS)}")
        return names

    def _client_auth(self, wanted: str | None) -> str:
        if wanted is None:
            return "required" if self.protocol == "ssl" and self.passwords else "none"
        if wanted not in CLIENT_AUTH:
            raise ValueError(f"client_auth={wanted!r}: it must be one of {', '.join(CLIENT_AUTH)}")
        if not self.has_tls:
            raise ValueError(f"client_auth is for security='ssl' or 'sasl_ssl', not {self.protocol!r}")
        return wanted

    def _check(self) -> None:
        if self.has_sasl and not self.passwords:
            raise ValueError(f"security={self.protocol!r} needs users, such as users={{'alice': 'secret'}}")
        if self.passwords and self.protocol == PROTOCOLS[0]:
            raise ValueError("users need security='sasl_ssl', 'sasl_plaintext' or 'ssl'")
        if self.passwords and self.protocol == "ssl" and self.client_auth == "none":
            raise ValueError("on a broker with security='ssl' users have certificates: leave out client_auth='none'")

    def _make_certificates(self, host: str) -> None:
        from pykafka_broker.testing.security.authority import Authority

        authority = Authority()
        self._authority_pem = authority.pem
        hosts = dict.fromkeys(["localhost", "127.0.0.1", "::1", socket.gethostname(), host])
        self._broker_pem = authority.issue(_BROKER, hosts)
        if self.client_auth != "none":
            self._identities = {name: authority.issue(name) for name in self.passwords}

    # -- the broker's side

    def write(self, folder: Path) -> dict[str, str]:
        """Put the certificates into that folder; returns the broker's configs that go with them."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        config = self._sasl_config()
        if self.has_tls:
            for name, pem in {"ca": self._authority_pem, "broker": self._broker_pem}.items():
                _write_secret(folder / f"{name}.pem", pem)
            for user, pem in self._identities.items():
                _write_secret(identity_file(folder, user), pem)
            config |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(folder / "broker.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(folder / "ca.pem"),
                "ssl.client.auth": self.client_auth,
                "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",  # older releases that it may pass for had older ones too
                "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
            }
        if self.acls is not None:
            config["authorizer.class.name"] = AUTHORIZER
            if super_users := self.super_users:
                config["super.users"] = ";".join(super_users)
        return config

    @property
    def super_users(self) -> list[str]:
        """The principals that may do everything."""
        from pykafka_broker.testing.security.acls import parse_acls

        return list(parse_acls(self.acls or (), self.passwords).super_users)

    def _sasl_config(self) -> dict[str, str]:
        if not self.has_sasl:
            return {}
        config = {"sasl.enabled.mechanisms": ",".join(self.mechanisms)}
        for mechanism in self.mechanisms:
            options = {}
            if mechanism == PLAIN:
                options = {f"user_{name}": password for name, password in self.passwords.items()}
            elif mechanism == OAUTHBEARER:
                options = {"unsecuredLoginStringClaim_sub": _BROKER}
            key = f"listener.name.{self.protocol}.{mechanism.lower()}.sasl.jaas.config"
            config[key] = jaas_line(mechanism, options)
        return config

    def write_first_records(self, directory: Path) -> None:
        """Users and ACLs, where a broker on that data directory begins with them: it has no metadata yet."""
        if (directory / "__cluster_metadata-0").exists():
            return
        from pykafka_broker.cluster.bootstrap import format_records
        from pykafka_broker.cluster.formatting import MECHANISMS as KINDS
        from pykafka_broker.cluster.records import ApiMessageAndVersion
        from pykafka_broker.cluster.scram import credential, salted_password
        from pykafka_broker.cluster.snapshot import BOOTSTRAP_FILE, write_snapshot
        from pykafka_broker.log.filesystem import OsFileSystem
        from pykafka_broker.testing.security.acls import parse_acls

        records = format_records()
        for mechanism in (each for each in self.mechanisms if each in KINDS):
            kind = KINDS[mechanism]
            for name, password in self.passwords.items():
                salt = secrets.token_bytes(16)
                salted = salted_password(kind, password, salt, _ITERATIONS)
                records.append(ApiMessageAndVersion(credential(name, kind, salt, salted, _ITERATIONS), 0))
        entries = parse_acls(self.acls or (), self.passwords).entries
        records += [ApiMessageAndVersion(entry, 0) for entry in entries]
        directory.mkdir(parents=True, exist_ok=True)
        now = int(time.time() * 1000)
        write_snapshot(OsFileSystem(), str(directory / BOOTSTRAP_FILE), records, now=now)

    # -- a client's side

    def user(self, wanted: str | None) -> str | None:
        """The user of that name, the first one where none is named."""
        if wanted is None:
            return next(iter(self.passwords), None)
        if wanted not in self.passwords:
            raise ValueError(f"there is no user {wanted}; there are {', '.join(self.passwords) or 'none'}")
        return wanted

    def mechanism(self, wanted: str | None) -> str:
        """That mechanism, the first of the broker's where none is named."""
        if wanted is None:
            return self.mechanisms[0]
        if wanted not in self.mechanisms:
            served = ", ".join(self.mechanisms) or "none"
            raise ValueError(f"mechanism {wanted} is not enabled on this broker; it has {served}")
        return wanted


def identity_file(folder: Path, user: str) -> Path:
    """The key and the certificate of a user."""
    return folder / f"user-{user.encode().hex()}.pem" if "/" in user else folder / f"user-{user}.pem"


def jaas_line(mechanism: str, options: Mapping[str, str]) -> str:
    """As `sasl.jaas.config` takes it, the broker's and a client's."""
    told = "".join(f" {name}={_quoted(value)}" for name, value in options.items())
    return f"{_LOGIN_MODULES[mechanism]} required{told};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _passwords(users: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    if isinstance(users, str):
        raise ValueError(f"users={users!r}: it must be a list of names, or names with passwords")
    found = dict(users) if isinstance(users, Mapping) else {name: secrets.token_urlsafe(12) for name in users}
    for name, password in found.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"a user's name has no blanks, quotes, commas, semicolons or equals signs: {name!r}")
        if not isinstance(password, str) or not password:
            raise ValueError(f"user {name} must have a password")
    return found


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
