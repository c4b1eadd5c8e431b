"""Addresses as text: `host:port`, with brackets around an IPv6 address, and IPv6 addresses in Kafka's own form.

Rule: the brackets belong to the text. A host in the program has none. The module imports nothing at its start, since
the tests' package, which starts in milliseconds, reads addresses too.
"""

from __future__ import annotations


def address_text(host: str, port: int) -> str:
    """Return an address as clients take it: "127.0.0.1:9092", "[::1]:9092" (Kafka: Utils.formatAddress)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(text: str) -> tuple[str, str]:
    """Return the host, and the text of the port behind the last colon."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), port


_IPV4_IN_IPV6 = bytes(10) + b"\xff\xff"


def java_address(packed: bytes) -> str:
    """Return an address of 4 or 16 bytes in the form of Kafka's ACLs, groups and logs: IPv6 without `::`.

    Raises:
        ValueError: another number of bytes.
    """
    if len(packed) not in (4, 16):
        raise ValueError(f"an address of {len(packed)} bytes")
    if packed.startswith(_IPV4_IN_IPV6):
        packed = packed[len(_IPV4_IN_IPV6) :]
    if len(packed) == 4:
        return ".".join(map(str, packed))
    return ":".join(f"{packed[at] << 8 | packed[at + 1]:x}" for at in range(0, 16, 2))


def as_java_writes(address: str) -> str:
    """Return an address in any form, or a name, in the form of Kafka's ACLs; what has no other form stays as it is."""
    plain, _, scope = address.partition("%")
    if ":" not in plain:
        return address
    from socket import AF_INET6, inet_pton

    try:
        written = java_address(inet_pton(AF_INET6, plain))
    except OSError:
        return address
    return f"{written}%{scope}" if scope else written
