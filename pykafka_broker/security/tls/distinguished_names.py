"""The name of a client's certificate as text.

Rule: RFC 2253 as Java writes it, since that text is what operators have in their ACLs and rules: a few attributes by
name and all others by object identifier with the hex of their DER, in reversed order, without blanks. The answers of
Java for many subjects are in tests/security/tls/names.json.
"""

from __future__ import annotations

from pykafka_broker.security.tls.der import elements, oid_text

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_TEXTS = frozenset((12, 19, 20, 22, 27, 30))  # UTF8, printable, T61, IA5, general and BMP string: all read as UTF-8
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANKS = " \r"


def text_of(name: bytes) -> str:
    """Of the DER of a Name. Raises ValueError."""
    (outer,) = elements(name)
    relatives = [
        "+".join(_attribute(attribute.content) for attribute in elements(relative.content))
        for relative in elements(outer.content)
    ]
    return ",".join(reversed(relatives))


def _attribute(content: bytes) -> str:
    kind, value = elements(content)
    oid = oid_text(kind.content)
    keyword = _KEYWORDS.get(oid)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or oid}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    inner = text.strip(_BLANKS)
    leading = len(text) - len(text.lstrip(_BLANKS))
    trailing = len(text) - leading - len(inner)
    out = [f"\\{char}" for char in text[:leading]]
    out += [f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in inner]
    out += [f"\\{char}" for char in text[len(text) - trailing :]] if inner else []
    return "".join(out)
