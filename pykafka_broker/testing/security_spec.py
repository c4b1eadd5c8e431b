"""TLS, users and ACLs of a broker for tests, from a few words; the logins of clients.

Rule: everything is made for one broker and ends with it: the authority that signs its certificates, random passwords,
users and ACLs in the first records of its metadata, so that they are there again after a reset. Passwords and keys are
in files that only their owner reads and in a client's settings, nowhere else. `cryptography` makes the keys; it is
imported when they are made, and an error names it if it is missing. Files are PEM, with the user's key and certificate
in one.

A right is a sentence such as "alice may read topic orders" or "bob may do anything"; `parse_acls` reads it.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import secrets
import socket
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pykafka_broker.cluster.authorizer import CLUSTER_NAME, OPERATIONS
from pykafka_broker.protocol.enums import (
    ACL_OPERATIONS,
    ACL_RESOURCE_TYPES,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pykafka_broker.protocol.stored.access_control_entry_record import AccessControlEntryRecord
from pykafka_broker.testing.client_settings import OAUTHBEARER, PLAIN, ClientLogin, jaas_line
from pykafka_broker.testing.control_client import told_to_the_test
from pykafka_broker.testing.data import BrokerError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from pykafka_broker.cluster.records import ApiMessageAndVersion

__tracebackhide__ = told_to_the_test

# -- the authority


_BEFORE = datetime.timedelta(days=1)
_AFTER = datetime.timedelta(days=3650)


class Authority:
    """A certificate authority. Raises BrokerError if the package for certificates is missing."""

    def __init__(self) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError:
            raise BrokerError("certificates are made with cryptography: pip install cryptography") from None
        self._curve = ec.SECP256R1()
        self._new_key = ec.generate_private_key
        self._key: EllipticCurvePrivateKey = self._new_key(self._curve)
        self._certificate = self._sign("pykafka-broker", self._key, None, ())
        self.pem = _pem(self._certificate)

    def issue(self, name: str, hosts: Iterable[str] = ()) -> str:
        """Return a new key with certificates for `CN=name`, as PEM. hosts: names and addresses of a server."""
        from cryptography.hazmat.primitives import serialization

        key = self._new_key(self._curve)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private.decode() + _pem(self._sign(name, key, self._certificate, hosts)) + self.pem

    def _sign(
        self, name: str, key: EllipticCurvePrivateKey, issuer: x509.Certificate | None, hosts: Iterable[str]
    ) -> x509.Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import NameOID

        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if issuer is None else issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BEFORE)
            .not_valid_after(now + _AFTER)
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if issuer is None:
            builder = builder.add_extension(signs_others(), critical=True)
        if names := [_general_name(host) for host in hosts]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def signs_others() -> x509.KeyUsage:
    """Return the key usage of the authority: strict clients, as Python from 3.13 on, require the extension."""
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


# -- ACLs


ANYONE = "anyone"
ANONYMOUS = "ANONYMOUS"
_GRAMMAR = "it must be like 'alice may read topic orders' or 'alice may not write topic orders from 10.0.0.1'"
_WORDS = re.compile(r"(?P<who>\S+) may (?P<no>not )?(?P<rest>.+?)(?: from (?P<host>\S+))?")
_ANYTHING = "do anything"
_ALL = "all"


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


_KINDS = {_word(kind.name): kind for kind in ACL_RESOURCE_TYPES}
_NAMES = {_word(operation.name): int(operation) for operation in ACL_OPERATIONS} | {_ALL: AclOperation.ALL}


class ParsedAcls(NamedTuple):
    """The entries and super users of ACL sentences."""

    super_users: list[str]
    entries: list[AccessControlEntryRecord]


def parse_acls(sentences: Iterable[str], users: Collection[str]) -> ParsedAcls:
    """Parse ACL sentences.

    Args:
        sentences: rights, such as "alice may read topic orders".
        users: the known users.

    Raises:
        ValueError: a sentence can't be understood.
    """
    rights = ParsedAcls([], [])
    for sentence in sentences:
        match = _WORDS.fullmatch(" ".join(sentence.split()))
        if match is None:
            raise _wrong(sentence, _GRAMMAR)
        who, rest = match["who"], match["rest"]
        if who not in (ANYONE, ANONYMOUS) and who not in users:
            raise _wrong(sentence, f"there is no user {who}; there are {', '.join(sorted(users)) or 'none'}")
        principal = "User:*" if who == ANYONE else f"User:{who}"
        if rest == _ANYTHING and not match["no"] and who != ANYONE:
            if match["host"]:
                raise _wrong(sentence, "a super user is one wherever the user comes from")
            rights.super_users.append(principal)
            continue
        rights.entries.extend(
            _entries(
                sentence,
                principal,
                rest,
                AclPermissionType.DENY if match["no"] else AclPermissionType.ALLOW,
                match["host"] or "*",
            )
        )
    return rights


def _entries(
    sentence: str, principal: str, text: str, permission: int, host: str
) -> Iterator[AccessControlEntryRecord]:
    words = text.replace(",", " , ").split(" ")
    place = next((number for number, word in enumerate(words) if word in _KINDS), None)
    if place is None:
        raise _wrong(sentence, f"it names none of {', '.join(_KINDS)}")
    kind, name = _KINDS[words[place]], " ".join(words[place + 1 :]).replace(" , ", ",")
    if kind is AclResourceType.CLUSTER:
        if name:
            raise _wrong(sentence, "the cluster takes no name")
        name = CLUSTER_NAME
    elif not name:
        raise _wrong(sentence, f"it names no {words[place]}")
    prefixed = name.endswith("*") and name != "*"
    for operation in _operations(sentence, words[:place], kind):
        yield AccessControlEntryRecord(
            os.urandom(16),
            kind,
            name.removesuffix("*") if prefixed else name,
            PatternType.PREFIXED if prefixed else PatternType.LITERAL,
            principal,
            host,
            operation,
            permission,
        )


def _operations(sentence: str, words: list[str], kind: AclResourceType) -> list[int]:
    named = [word for word in words if word not in ("", ",", "and")]
    possible = [*map(_word, (operation.name for operation in OPERATIONS[kind])), _ALL]
    for word in named:
        if word not in possible:
            raise _wrong(sentence, f"{word} is no operation of a {_word(kind.name)}; there are {', '.join(possible)}")
    if not named:
        raise _wrong(sentence, _GRAMMAR)
    return [_NAMES[word] for word in named]


def _wrong(sentence: str, reason: str) -> ValueError:
    return ValueError(f"{sentence!r} is no ACL: {reason}")


# -- the specification


PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MECHANISMS = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
DEFAULT_MECHANISMS = MECHANISMS[:3]
CLIENT_AUTH = ("none", "requested", "required")
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_NAME = re.compile(r"[^\s\"'=,;\\]+")
_BROKER = "pykafka-broker"
_ITERATIONS = 4096


class SecuritySpec:
    """The security of a broker: protocol, users, ACLs.

    Args:
        users: names, or names with passwords; other users get random passwords.
        acls: sentences for `parse_acls`; None lets everybody do everything.
        host: the host for clients.
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
        """The name of the listener, the protocol's name."""
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
        authority = Authority()
        self._authority_pem = authority.pem
        hosts = dict.fromkeys(["localhost", "127.0.0.1", "::1", socket.gethostname(), host])
        self._broker_pem = authority.issue(_BROKER, hosts)
        if self.client_auth != "none":
            self._identities = {name: authority.issue(name) for name in self.passwords}

    # -- the broker's side

    def write(self, folder: Path) -> dict[str, str]:
        """Write certificates into a folder; returns the broker configs for them."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        config = self.config()
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
                "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",  # emulated older releases had older protocols too
                "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
            }
        return config

    def config(self) -> dict[str, str]:
        """Return the broker configs for logins and rights, without certificates."""
        return self._sasl_config() | self.rights()

    def rights(self, *others: str) -> dict[str, str]:
        """Return the broker configs for rights. others: principals with all rights beside those of the ACLs."""
        if self.acls is None:
            return {}
        super_users = ";".join([*parse_acls(self.acls, self.passwords).super_users, *others])
        return {"authorizer.class.name": AUTHORIZER} | ({"super.users": super_users} if super_users else {})

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

    def write_first_records(self, directory: Path, emulate: str | None = None) -> None:
        """Write users and ACLs for the first start of a broker; not with metadata in the directory.

        Args:
            emulate: the release that the broker passes for.
        """
        if (directory / "__cluster_metadata-0").exists():
            return
        from pykafka_broker.cluster.snapshot import BOOTSTRAP_FILE, write_snapshot
        from pykafka_broker.log.filesystem import OsFileSystem

        directory.mkdir(parents=True, exist_ok=True)
        now = int(time.time() * 1000)
        write_snapshot(OsFileSystem(), str(directory / BOOTSTRAP_FILE), self.first_records(emulate), now=now)

    def first_records(self, emulate: str | None = None) -> list[ApiMessageAndVersion]:
        """Return the first records of a broker's metadata, with users and ACLs."""
        from pykafka_broker.cluster.bootstrap import format_records
        from pykafka_broker.cluster.features import first_levels
        from pykafka_broker.cluster.records import ApiMessageAndVersion
        from pykafka_broker.cluster.scram import SCRAM_MECHANISMS, credential, salted_password
        from pykafka_broker.config import BrokerConfig
        from pykafka_broker.config.extensions import EMULATE

        records = format_records(first_levels(BrokerConfig({EMULATE: emulate or ""})))
        for mechanism in (each for each in self.mechanisms if each in SCRAM_MECHANISMS):
            kind = SCRAM_MECHANISMS[mechanism]
            for name, password in self.passwords.items():
                salt = secrets.token_bytes(16)
                salted = salted_password(kind, password, salt, _ITERATIONS)
                records.append(ApiMessageAndVersion(credential(name, kind, salt, salted, _ITERATIONS), 0))
        entries = parse_acls(self.acls or (), self.passwords).entries
        return records + [ApiMessageAndVersion(entry, 0) for entry in entries]

    # -- a client's side

    def login(self, folder: Path, user: str | None, mechanism: str | None) -> ClientLogin:
        """Return the login of a client.

        Args:
            folder: the folder with the certificates (`write`).
            user: None for the first user.
            mechanism: None for the first mechanism.

        Raises:
            ValueError: the user or the mechanism is unknown.
        """
        if user is not None and user not in self.passwords:
            raise ValueError(f"there is no user {user}; there are {', '.join(self.passwords) or 'none'}")
        if mechanism is not None and mechanism not in self.mechanisms:
            served = ", ".join(self.mechanisms) or "none"
            raise ValueError(f"mechanism {mechanism} is not enabled on this broker; it has {served}")
        name = next(iter(self.passwords), None) if user is None else user
        return ClientLogin(
            self.listener,
            folder / "ca.pem" if self.has_tls else None,
            None if name is None or self.client_auth == "none" else identity_file(folder, name),
            (mechanism or self.mechanisms[0]) if self.has_sasl else None,
            name or "",
            "" if name is None else self.passwords[name],
        )


def identity_file(folder: Path, user: str) -> Path:
    """Return the file with the key and the certificate of a user."""
    return folder / f"user-{user.encode().hex()}.pem" if "/" in user else folder / f"user-{user}.pem"


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
    path.write_text(text, encoding="utf-8")
