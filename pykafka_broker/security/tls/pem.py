"""PEM: text with blocks of base64 between lines of dashes.

Rule: what stands between blocks is passed over, as every reader of PEM does; an armour that does not end or holds no
base64 is an error, so that half a file never passes for a whole one.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)(?:-----END \1-----|\Z)", re.DOTALL)
_END_OF_KEY = "PRIVATE KEY"


class Block(NamedTuple):
    """One block; `text` is the whole of it with its armour."""

    label: str
    text: str

    @property
    def is_key(self) -> bool:
        return self.label.endswith(_END_OF_KEY)

    @property
    def is_certificate(self) -> bool:
        return self.label in ("CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE")

    @property
    def is_encrypted(self) -> bool:
        return self.label.startswith("ENCRYPTED") or "Proc-Type: 4,ENCRYPTED" in self.text

    def read_der(self) -> bytes:
        """What it holds. ValueError if that is no base64."""
        body = "".join(self.text.split("\n", 1)[1].rsplit("-----END", 1)[0].split())
        try:
            return base64.b64decode(body, validate=True)
        except binascii.Error:
            raise ValueError(f"the base64 of a {self.label} can't be read") from None


def blocks_of(text: str) -> list[Block]:
    """Raises ValueError if a block has no end."""
    text = text.replace("\r\n", "\n")
    blocks = []
    for match in _BLOCK.finditer(text):
        if not match[0].endswith(f"-----END {match[1]}-----"):
            raise ValueError(f"a {match[1]} has no end")
        blocks.append(Block(match[1], _on_lines(match)))
    return blocks


def armoured(label: str, der: bytes) -> str:
    """DER as PEM."""
    return _lines(label, base64.b64encode(der).decode())


def _on_lines(match: re.Match[str]) -> str:
    """With the lines that OpenSSL wants, also if it stands on one, as values of a properties file may."""
    label, body = match[1], match[2]
    if ":" in body:  # there are headers before the base64, as in keys that were encrypted long ago
        return f"{match[0]}\n"
    return _lines(label, "".join(body.split()))


def _lines(label: str, body: str) -> str:
    lines = (body[start : start + 64] for start in range(0, len(body), 64))
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""))
