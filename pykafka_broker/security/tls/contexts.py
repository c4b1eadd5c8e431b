"""OpenSSL's context for one listener, with its cipher suites.

Rule: everything is loaded and checked when a context is made; a connection keeps the context that it began with, so
that a new one concerns later connections only. Keys reach OpenSSL through a file that only this process can open.

Java and the RFCs name cipher suites one way, OpenSSL another. A name that OpenSSL has no suite for is refused, as Java
refuses it. The suites of TLS 1.3 can't be chosen among with Python's `ssl`: one of them allows all, none of them
forbids TLS 1.3.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from pykafka_broker.config.values import invalid
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.tls.stores import KeyStore, bad_store, key_store_of, name_of, trust_store_of

TLS_1_3 = frozenset(("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"))
_SUITE = re.compile(
    r"TLS_(?:(ECDHE_RSA|ECDHE_ECDSA|DHE_RSA|DHE_DSS)|RSA)_WITH_"
    r"(?:AES_(128|256)_(?:CBC|(GCM))_(SHA\d*)|(CHACHA20_POLY1305)_SHA256)"
)


def openssl_name(suite: str) -> str | None:
    """Return OpenSSL's name of a Java suite before TLS 1.3; None for any other name."""
    found = _SUITE.fullmatch(suite)
    if found is None:
        return None
    exchange, bits, mode, digest, chacha = found.groups()
    parts = (exchange, chacha or f"AES{bits}", mode, digest)
    return "-".join(part for part in parts if part).replace("_", "-")


def choose(context: ssl.SSLContext, suites: list[str]) -> str | None:
    """Allow the given suites only; return an unusable name, or None."""
    older = []
    for suite in suites:
        if suite in TLS_1_3:
            continue
        name = openssl_name(suite)
        if name is None or not _is_there(name):
            return suite
        older.append(name)
    if older:
        context.set_ciphers(":".join(older))
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if TLS_1_3.isdisjoint(suites):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    return None


def _is_there(name: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(name)
    except ssl.SSLError:
        return False
    return True


_VERSIONS = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,  # a certificate, if shown, must be good, as with Kafka
    "required": ssl.CERT_REQUIRED,
}


def server_context(settings: ListenerSettings) -> tuple[ssl.SSLContext, KeyStore]:
    """Return a listener's context, with the key in use.

    Raises ConfigError, which names the listener's setting that can't be used.
    """
    context = _new_context(ssl.PROTOCOL_TLS_SERVER, settings)
    store = key_store_of(settings)
    _load_key(context, settings, store)
    _trust(context, settings)
    return context, store


def client_context(settings: ListenerSettings) -> ssl.SSLContext:
    """Return the context for connections to a listener of another node.

    Raises ConfigError, as `server_context` does.
    """
    context = _new_context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = bool(settings.get("ssl.endpoint.identification.algorithm"))
    if any(settings.get(f"ssl.keystore.{each}") is not None for each in ("location", "key")):
        _load_key(context, settings, key_store_of(settings))
    trusted = trust_store_of(settings)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load_trusted(context, settings, trusted)
    return context


def _new_context(protocol: int, settings: ListenerSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _set_versions(context, settings)
    _set_suites(context, settings)
    return context


def _set_versions(context: ssl.SSLContext, settings: ListenerSettings) -> None:
    names = settings.get("ssl.enabled.protocols")
    if not names or not _VERSIONS.keys() >= {*names}:
        known = ", ".join(_VERSIONS)
        key = name_of(settings, "ssl.enabled.protocols")
        raise invalid(key, ",".join(names), f"{settings.before_error}the protocols are {known}")
    versions = [_VERSIONS[name] for name in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _set_suites(context: ssl.SSLContext, settings: ListenerSettings) -> None:
    suites = settings.get("ssl.cipher.suites")
    unknown = choose(context, suites) if suites else None
    if unknown is not None:
        key = name_of(settings, "ssl.cipher.suites")
        raise invalid(key, ",".join(suites), f"{settings.before_error}Unsupported CipherSuite: {unknown}")


def _load_key(context: ssl.SSLContext, settings: ListenerSettings, store: KeyStore) -> None:
    password = store.password
    try:
        with _private_file(store.pem.encode()) as path:
            # Without a password to return OpenSSL would ask at the terminal.
            context.load_cert_chain(path, password=lambda: password or "")
    except (ssl.SSLError, ValueError) as error:
        key = "ssl.keystore.location" if settings.get("ssl.keystore.key") is None else "ssl.keystore.key"
        raise bad_store(settings, key, _why_not(error, encrypted=password is not None)) from None


def _why_not(error: Exception, encrypted: bool) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "its private key does not belong to its first certificate"
    if encrypted:
        return "its private key can't be decrypted with the password that is set"
    return f"its private key or its certificates can't be read ({reason or type(error).__name__})"


def _trust(context: ssl.SSLContext, settings: ListenerSettings) -> None:
    context.verify_mode = _CLIENT_AUTH[settings.get("ssl.client.auth")]
    trusted = trust_store_of(settings)
    if trusted is None:
        if context.verify_mode is not ssl.CERT_NONE:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        return
    _load_trusted(context, settings, trusted)


def _load_trusted(context: ssl.SSLContext, settings: ListenerSettings, trusted: list[bytes]) -> None:
    # Every certificate in the store is trusted, whoever issued it, as in Java.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=b"".join(trusted))
    except (ssl.SSLError, ValueError) as error:
        inline = settings.get("ssl.truststore.certificates") is not None
        key = "ssl.truststore.certificates" if inline else "ssl.truststore.location"
        raise bad_store(settings, key, f"a certificate can't be read ({type(error).__name__})") from None


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """Provide bytes as a path, for readers of files; in memory, where the system has such files."""
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("key"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    descriptor, path = tempfile.mkstemp()  # readable by this user only
    try:
        with open(descriptor, "wb") as file:  # closed for its reader, as Windows wants it
            file.write(content)
        yield path
    finally:
        os.unlink(path)
