"""DER, as far as a certificate needs it, and the name of a certificate's subject as text.

Rule: a length that does not fit into its enclosing element is an error, so a forged certificate can't make the reader
leave it; from certificates that OpenSSL has verified, only names are read here.

The text is RFC 2253 as Java writes it, since operators have that text in their ACLs and rules: a few attributes by name
and all others by object identifier with the hex of their DER, in reversed order, without blanks. Java's answers for
many subjects are in tests/security/tls/names.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

INTEGER, OCTETS, OID, UTF8_STRING, PRINTABLE_STRING = 0x02, 0x04, 0x06, 0x0C, 0x13
SEQUENCE, SET = 0x30, 0x31
_VERSION, _EXTENSIONS = 0xA0, 0xA3  # context tags of a TBSCertificate
SUBJECT_ALT_NAME = "2.5.29.17"


class Element(NamedTuple):
    """An element: tag, content, and all bytes."""

    tag: int
    content: bytes
    whole: bytes


def elements(data: bytes) -> Iterator[Element]:
    """Yield elements in sequence. Raises ValueError."""
    position = 0
    while position < len(data):
        element = _element_at(data, position)
        position += len(element.whole)
        yield element


def _element_at(data: bytes, begin: int) -> Element:
    position = begin + 2
    if position > len(data) or data[begin] & 0x1F == 0x1F:
        raise ValueError("no element of DER")
    size = data[begin + 1]
    if size & 0x80:
        count = size & 0x7F
        if not 1 <= count <= 4 or position + count > len(data):
            raise ValueError("no length of DER")
        size = int.from_bytes(data[position : position + count], "big")
        position += count
    if position + size > len(data):
        raise ValueError("an element of DER is longer than what encloses it")
    return Element(data[begin], data[position : position + size], data[begin : position + size])


def oid_text(content: bytes) -> str:
    """Return the dotted form of an object identifier."""
    numbers, number = [], 0
    for octet in content:
        number = number << 7 | octet & 0x7F
        if not octet & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("an empty object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


class CertificateNames(NamedTuple):
    """The names in a certificate.

    subject: the DER of its name; alternatives: the encoded names of the extension subjectAltName.
    """

    subject: bytes
    alternatives: tuple[bytes, ...]


def names_of(certificate: bytes) -> CertificateNames:
    """Return the names in a certificate in DER. Raises ValueError."""
    try:
        (outer,) = elements(certificate)
        to_be_signed = next(elements(outer.content))
        fields = [field for field in elements(to_be_signed.content) if field.tag != _VERSION]
        # serial number, algorithm, issuer, validity, subject, key, optional fields
        return CertificateNames(fields[4].whole, _alternatives(fields[6:]))
    except (IndexError, StopIteration) as error:
        raise ValueError("no certificate") from error


def _alternatives(fields: list[Element]) -> tuple[bytes, ...]:
    for field in fields:
        if field.tag != _EXTENSIONS:
            continue
        (extensions,) = elements(field.content)
        for extension in elements(extensions.content):
            parts = list(elements(extension.content))
            if oid_text(parts[0].content) == SUBJECT_ALT_NAME:
                (names,) = elements(parts[-1].content)
                return tuple(name.whole for name in elements(names.content))
    return ()


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
    """Return the text of a Name in DER. Raises ValueError."""
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
