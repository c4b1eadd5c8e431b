"""Key stores of type PKCS12.

Rule: `cryptography` reads them, and is asked for only where there is one.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Content(NamedTuple):
    """key: PKCS#8, not encrypted; certificates in DER, the key's own first."""

    key: bytes | None
    certificates: list[bytes]
    alias: str


def read_pkcs12(data: bytes, password: str | None) -> Content:
    """Raises ValueError."""
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise ValueError("stores of type PKCS12 need cryptography: pip install cryptography") from None
    try:
        store = load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise ValueError("its password is not the one that is set, or it is no store of type PKCS12") from None
    key = None
    if store.key is not None:
        key = store.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    own = [] if store.cert is None else [store.cert.certificate]
    others = [each.certificate for each in store.additional_certs]
    chain = _in_order(own, others) if key is not None else own + others
    alias = (store.cert.friendly_name or b"") if store.cert is not None else b""
    return Content(
        key, [certificate.public_bytes(Encoding.DER) for certificate in chain], alias.decode("utf-8", "replace")
    )


def _in_order(own: list[Any], others: list[Any]) -> list[Any]:
    """Each before the one that has issued it; what does not belong to the chain is left out."""
    chain = list(own)
    while chain:
        issuers = [each for each in others if each.subject == chain[-1].issuer and each not in chain]
        if not issuers:
            break
        chain.append(issuers[0])
    return chain
