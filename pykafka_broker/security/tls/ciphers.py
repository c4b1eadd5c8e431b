"""Cipher suites: Java and the RFCs name them one way, OpenSSL another.

Rule: a name that OpenSSL has no suite for is refused, as Java refuses it. The suites of TLS 1.3 can't be chosen among
with Python's `ssl`: one of them allows all, none of them forbids TLS 1.3.
"""

from __future__ import annotations

import re
import ssl

TLS_1_3 = frozenset(("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"))
_SUITE = re.compile(
    r"TLS_(?:(ECDHE_RSA|ECDHE_ECDSA|DHE_RSA|DHE_DSS)|RSA)_WITH_"
    r"(?:AES_(128|256)_(?:CBC|(GCM))_(SHA\d*)|(CHACHA20_POLY1305)_SHA256)"
)


def openssl_name(suite: str) -> str | None:
    """Of one of Java's suites before TLS 1.3; None for any other."""
    found = _SUITE.fullmatch(suite)
    if found is None:
        return None
    exchange, bits, mode, digest, chacha = found.groups()
    parts = (exchange, chacha or f"AES{bits}", mode, digest)
    return "-".join(part for part in parts if part).replace("_", "-")


def choose(context: ssl.SSLContext, suites: list[str]) -> str | None:
    """Allow these suites and no others. Returns the name that can't be used, if there is one."""
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
